"""Queries: the span of a text, or the answer to it, to which an explanation belongs."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, final

from limelight.errors import InputError
from limelight.text.characters import truncate_line
from limelight.text.splitters import sentence_spans
from limelight.text.tokens import Span

_OFFSETS = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_CELL_PREFIX = "\x1eanswer\x1e"  # no answer begins with it; JSON follows
_CELL_NAMES = {"is_generated": "written"}  # the digests of data contain cells with these keys
_MAX_LISTED = 8  # spans that a message lists


@final
@dataclass(frozen=True, slots=True)
class SpanQuery:
    """Characters of a text to which the explained output belongs, as of a tagger.

    Parameters
    ----------
    start, end
        The first character, and the one after the last.
    first_subwords
        Whether the output is read at the first subword token of each word only.
    tag
        The tag that the model predicts, if the model found the span. ``tag``, ``score`` and
        ``note`` do not count when queries are compared.
    score
        The probability of the tag.
    note
        A warning about the span.
    """

    start: int
    end: int
    first_subwords: bool = False
    tag: str | None = field(default=None, compare=False)
    score: float = field(default=0.0, compare=False)
    note: str = field(default="", compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON value of the query, ``{"span": [start, end]}``."""
        options = {"first_subwords": True} if self.first_subwords else {}
        return {"span": [self.start, self.end], **options}

    def describe(self, text: str) -> str:
        """Return the words of the span in quotes, with offsets if they occur more than once."""
        words = text[self.start : self.end]
        offsets = f" ({self.start}:{self.end})" if text.count(words) > 1 else ""
        return f"at “{truncate_line(words, 40)}”{offsets}"

    def check(self, text: str) -> None:
        """Raise `InputError` if the span does not lie in ``text``."""
        if not 0 <= self.start < self.end <= len(text):
            raise InputError(f"query must be a span inside the text of {len(text)} characters.")

    def token_indices(self, spans: Sequence[Span], text: str) -> list[int]:
        """Return the indices of the tokens in the span.

        Parameters
        ----------
        spans
            The span of each token of the text.
        text
            The text.

        Raises
        ------
        InputError
            If the span contains no token, or a part of one.
        """
        indices = [i for i, (a, b) in enumerate(spans) if a < self.end and b > self.start]
        divided = [
            spans[i] for i in indices if not self.start <= spans[i][0] < spans[i][1] <= self.end
        ]
        if divided or not indices:
            a, b = divided[0] if divided else (0, 0)
            why = f"cuts {text[a:b]!r} ({a}:{b})" if divided else "has no word that the model reads"
            raise InputError(f"at must contain whole words, but {self.start}:{self.end} {why}.")
        return indices


@final
@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """An answer of a language model to a text, or a part of this answer.

    The explained output is log p of the characters from ``start`` to ``end``, given the text and
    the characters before them: the sum over their tokens, or the mean if ``per_token``.

    Parameters
    ----------
    text
        The complete answer.
    start, end
        The part of the answer. By default, it is the complete answer.
    is_generated
        Whether the model generated the answer.
    note
        A warning about the answer.
    length
        The number of tokens of the part, once a model has read it.
    per_token
        Whether the mean over the tokens is explained.
    prompt
        The characters that the model read before the answer, once a model has read them.
    question
        The last message of the user, if the prompt is a chat.
    agreement
        The rule that compares answers, if the explained output is not log p but the agreement of
        the model's answers with this one. Empty for log p.
    """

    text: str
    start: int = 0
    end: int = -1  # the end of the answer
    is_generated: bool = field(default=False, compare=False)
    note: str = field(default="", compare=False)
    length: int = field(default=1, compare=False)
    per_token: bool = field(default=False, compare=False)
    prompt: str = field(default="", compare=False, repr=False)
    question: str = field(default="", compare=False, repr=False)
    agreement: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError(f"an answer must be a text with words, not {self.text!r}.")
        if self.end < 0:
            object.__setattr__(self, "end", len(self.text))
        if not 0 <= self.start < self.end <= len(self.text):
            raise InputError(
                f"span must be (start, end) inside the answer of {len(self.text)} characters, not "
                f"({self.start}, {self.end})."
            )

    @property
    def tag(self) -> None:
        """Always None: an answer has no tag. Only spans have one."""

    @property
    def output_name(self) -> str:
        """The name of the explained number, such as "log-probability" or "agreement"."""
        if self.agreement:
            return "agreement"
        return "mean log-probability per token" if self.per_token else "log-probability"

    @property
    def part(self) -> str:
        """The text of the explained part, such as one sentence of the answer."""
        return self.text[self.start : self.end].strip()

    def select(self, part: str) -> "AnswerQuery":
        """Return the query for the only occurrence of ``part`` in the answer.

        Raises
        ------
        InputError
            If the answer does not contain it exactly once.
        """
        if (count := self.text.count(part.strip())) != 1:
            raise InputError(
                "answer must occur once in the last message of the assistant, but "
                f"{truncate_line(part, 40)!r} occurs {count} times. Leave that message out to "
                "explain another answer."
            )
        start = self.text.index(part.strip())
        return replace(self, start=start, end=start + len(part.strip()))

    def sentences(self) -> "tuple[AnswerQuery, ...]":
        """Return one query for each sentence of the answer, with the space that follows it.

        Every token belongs to exactly one of them. Their log-probabilities add up to that of the
        complete answer.
        """
        edges = [0, *(start for start, _ in sentence_spans(self.text)[1:]), len(self.text)]
        return tuple(replace(self, start=start, end=end) for start, end in pairwise(edges))

    @property
    def cell(self) -> str:
        """The query as a cell of a table. A plain text in such a cell is a complete answer."""
        values = {
            _CELL_NAMES.get(name, name): value
            for name, value in asdict(self).items()
            # The model writes these again.
            if name not in ("prompt", "question", "agreement")
        }
        return _CELL_PREFIX + json.dumps(values)

    @staticmethod
    def from_cell(cell: str) -> "AnswerQuery":
        """Read a query from a cell of a table: the result of `cell`, or a plain answer."""
        if not isinstance(cell, str) or not cell.startswith(_CELL_PREFIX):
            return AnswerQuery(cell)
        values = json.loads(cell.removeprefix(_CELL_PREFIX))
        field_names = {key: name for name, key in _CELL_NAMES.items()}
        return AnswerQuery(**{field_names.get(key, key): value for key, value in values.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON value of the query, ``{"answer": "…"}``.

        A part of an answer also has ``"span": [start, end]``.
        """
        value: dict[str, Any] = {"answer": self.text}
        if self.end - self.start < len(self.text):
            value["span"] = [self.start, self.end]
        flags = {"written": self.is_generated, "per_token": self.per_token}
        value |= {name: True for name, is_set in flags.items() if is_set}
        texts = {
            "prompt": self.prompt,
            "question": self.question,
            "agreement": self.agreement,
        }
        return value | {name: text for name, text in texts.items() if text}

    def describe(self, text: str) -> str:  # noqa: ARG002  (a span needs the text)
        """Return the explained part in quotes."""
        return f"“{truncate_line(self.part, 80)}”"

    def check(self, text: str) -> None:
        """Accept every text, because an answer is no part of it."""

    def token_indices(self, spans: Sequence[Span], text: str) -> list[int]:  # noqa: ARG002
        """Return an empty list, because no token of the text belongs to the answer."""
        return []


Query = SpanQuery | AnswerQuery


def parse_query(stored: Any) -> Query:
    """Read a query from the JSON value that its method ``to_dict`` returned.

    Raises
    ------
    InputError
        If ``stored`` is no such value.
    """
    match stored:
        case {"span": [int(start), int(end)], **options} if options in (
            {},
            {"first_subwords": True},
        ):
            return SpanQuery(start, end, bool(options))
        case {"answer": str(answer), **options}:
            match options.pop("span", [0, len(answer)]):
                case [int(start), int(end)] if end >= 0:
                    is_generated, per_token = (
                        options.get(name) is True for name in ("written", "per_token")
                    )
                    prompt, question, agreement = (
                        str(options.get(name, "")) for name in ("prompt", "question", "agreement")
                    )
                    return AnswerQuery(
                        answer,
                        start,
                        end,
                        is_generated=is_generated,
                        per_token=per_token,
                        prompt=prompt,
                        question=question,
                        agreement=agreement,
                    )
    raise InputError(
        'query must be {"span": [start, end]}, {"answer": "…"} or both, not '
        f"{truncate_line(repr(stored))}."
    )


@final
@dataclass(frozen=True, slots=True)
class QueriedText:
    """A text or pair with its queries, for functions that also take a plain text.

    Parameters
    ----------
    text
        The text or pair.
    queries
        The queries, if a model has read the text already.
    selector
        The user's description of the query for a model that has not read the text yet: an answer,
        or a span as `resolve_span` takes it.
    first_subwords
        Whether spans that a model finds in the text are read at the first subword tokens of words.
    """

    text: Any
    queries: tuple[Query, ...] = ()
    selector: Any = None
    first_subwords: bool = False

    @staticmethod
    def attach(text: Any, selector: Any = None, *, first_subwords: bool = False) -> "QueriedText":
        """Attach a selector to a text; a `QueriedText` with a selector keeps its own."""
        queried = text if isinstance(text, QueriedText) else QueriedText(text)
        return QueriedText(
            queried.text,
            queried.queries,
            selector if queried.selector is None else queried.selector,
            first_subwords or queried.first_subwords,
        )

    @property
    def cell(self) -> str | None:
        """The first query as a cell of a table; None without a query.

        A span is "start:end". For a pair, its offsets count from the start of the second text.
        """
        if not self.queries:
            return self.selector if isinstance(self.selector, str) else None
        if isinstance(query := self.queries[0], AnswerQuery):
            return query.cell
        offset = 0 if isinstance(self.text, str) else len(self.text[0]) + 1
        return f"{query.start - offset}:{query.end - offset}"


def resolve_span(
    selector: Any, text: str, region: Span, spans: Sequence[SpanQuery], *, first_subwords: bool
) -> SpanQuery:
    """Find the span that the argument ``at=`` of the user selects.

    Parameters
    ----------
    selector
        The index of one of ``spans``, a pair of offsets (start, end), the same as a string
        "start:end", or words that occur exactly once in ``region``.
    text
        The text as the model reads it.
    region
        The span of the text to which offsets and words refer: the second text of a pair.
    spans
        The spans that the model finds in the text.
    first_subwords
        Whether the output is read at the first subword token of each word only.

    Returns
    -------
    SpanQuery
        One of ``spans`` if its offsets are the selected ones, otherwise a new query without a tag.

    Raises
    ------
    InputError
        If there is no such span, or if the words occur more than once.
    """
    if isinstance(selector, int):
        if not 0 <= selector < len(spans):
            raise InputError(span_choice_message(spans, text))
        return spans[selector]
    query = SpanQuery(*_parse_span(selector, text, region), first_subwords)
    matches = [span for span in spans if span == query]
    return max(matches, key=lambda span: span.score, default=query)


def span_choice_message(spans: Sequence[SpanQuery], text: str) -> str:
    """Return a message that lists the spans of a text and says how to choose one."""
    return (
        f"the model finds {_list_spans(spans, text)}. Choose one with at (--at) by its number "
        "from 0, its words or (start, end), or explain all with explain_spans (--each span)."
    )


def _parse_span(selector: Any, text: str, region: Span) -> Span:
    """Return the span of ``text`` for offsets or words, without white space at its ends."""
    first, last = region
    if isinstance(selector, str):
        if not (offsets := _OFFSETS.fullmatch(selector)):
            return _find_words(selector, text, region)
        selector = tuple(map(int, offsets.groups()))
    start, end = selector
    if not 0 <= start < end <= last - first or not text[first + start : first + end].strip():
        raise InputError(
            f"at must be (start, end) around a word, inside the {last - first} characters of the "
            f"text, not ({start}, {end})."
        )
    words = text[first + start : first + end]
    start += first + len(words) - len(words.lstrip())
    return start, start + len(words.strip())


def _find_words(selector: str, text: str, region: Span) -> Span:
    """Return the span of the only occurrence of words; parts of longer words do not count."""
    words, (first, last) = selector.strip(), region
    edges = (r"(?<!\w)" * words[:1].isalnum(), r"(?!\w)" * words[-1:].isalnum())
    pattern = re.compile(edges[0] + re.escape(words) + edges[1])
    spans = [match.span() for match in pattern.finditer(text, first, last)] if words else []
    if len(spans) == 1:
        return spans[0]
    if not spans:
        raise InputError(
            f"the text does not contain {truncate_line(selector, 40)!r}. Give words of the text "
            "as at (--at)."
        )
    offsets = [(a - first, b - first) for a, b in spans]
    listed_offsets = ", ".join(f"{a}:{b}" for a, b in offsets[:_MAX_LISTED])
    listed_offsets += ", …" * (len(spans) > _MAX_LISTED)
    raise InputError(
        f"{truncate_line(words, 40)!r} occurs {len(spans)} times in the text ({listed_offsets}). "
        f"Choose one, such as at={offsets[0]} (--at {offsets[0][0]}:{offsets[0][1]})."
    )


def _list_spans(spans: Sequence[SpanQuery], text: str) -> str:
    """Return the number of spans and the first of them, each with its tag and its words."""
    if not spans:
        return "no span in this text"
    names = [f"{span.tag} {text[span.start : span.end]!r}" for span in spans[:_MAX_LISTED]]
    more = ", …" * (len(spans) > _MAX_LISTED)
    return f"{len(spans)} span{'s' * (len(spans) > 1)} here ({', '.join(names)}{more})"
