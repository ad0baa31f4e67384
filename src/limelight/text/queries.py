"""What is asked of a text beside the text itself: a place in it, or an answer to it."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, final

from limelight.errors import InputError
from limelight.text.characters import one_line
from limelight.text.tokens import Span
from limelight.text.units import sentence_spans

_OFFSETS = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_CELL = "\x1eanswer\x1e"  # with which no answer begins; JSON follows
_SHOWN = 8  # places or spans that a sentence names


@final
@dataclass(frozen=True, slots=True)
class Place:
    """Characters of a text that a model is asked about; stored as ``{"place": [start, end]}``.

    With ``first_pieces`` only the first piece of each word there is read. Of a span that the model
    finds, ``tag`` is what it says there, ``score`` how sure it is, and ``note`` what must be said
    about that; they are no part of the question.
    """

    start: int
    end: int
    first_pieces: bool = False
    tag: str | None = field(default=None, compare=False)
    score: float = field(default=0.0, compare=False)
    note: str = field(default="", compare=False)

    def stored(self) -> dict[str, Any]:
        """Return what a file holds."""
        pieces = {"first_pieces": True} if self.first_pieces else {}
        return {"place": [self.start, self.end], **pieces}

    def named(self, text: str) -> str:
        """Return the words there in quotes, with their offsets where the text has them again."""
        words = text[self.start : self.end]
        again = f" ({self.start}:{self.end})" if text.count(words) > 1 else ""
        return f"at “{one_line(words, 40)}”{again}"

    def check(self, text: str) -> None:
        """Refuse a place that does not lie in ``text``."""
        if not 0 <= self.start < self.end <= len(text):
            raise InputError(f"asked must be a place inside the text of {len(text)} characters.")

    def tokens(self, spans: Sequence[Span], text: str) -> list[int]:
        """Return the numbers of the tokens at this place, which must be whole."""
        found = [i for i, (a, b) in enumerate(spans) if a < self.end and b > self.start]
        cut = [spans[i] for i in found if not self.start <= spans[i][0] < spans[i][1] <= self.end]
        if cut or not found:
            a, b = cut[0] if cut else (0, 0)
            why = f"cuts {text[a:b]!r} ({a}:{b})" if cut else "holds none that the model reads"
            raise InputError(f"at must hold whole words; {self.start}:{self.end} {why}.")
        return found


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """What a language model may write after a text, of which the characters asked about count.

    Stored as ``{"answer": "…"}``, with ``"span": [start, end]`` where it is not about the whole:
    then about that part of it, given what comes before. ``written`` is whether the model wrote it.
    What is explained is log p, the sum over its tokens, or with ``per_token`` their mean.
    """

    text: str
    start: int = 0
    end: int = -1  # the whole
    written: bool = field(default=False, compare=False)
    note: str = field(default="", compare=False)
    length: int = field(default=1, compare=False)  # in tokens, once a model has read it
    per_token: bool = field(default=False, compare=False)  # whether the mean over these is meant

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError(f"an answer must be a text with words in it; got {self.text!r}.")
        if self.end < 0:
            object.__setattr__(self, "end", len(self.text))
        if not 0 <= self.start < self.end <= len(self.text):
            raise InputError(
                f"span must be (start, end) inside the answer of {len(self.text)} characters; "
                f"got ({self.start}, {self.end})."
            )

    @property
    def tag(self) -> None:
        """The class that is meant: there is only one."""

    @property
    def number(self) -> str:
        """What is explained, in words."""
        return "mean log-probability per token" if self.per_token else "log-probability"

    @property
    def part(self) -> str:
        """What is asked about: the answer, or one sentence of it."""
        return self.text[self.start : self.end].strip()

    def sentences(self) -> "tuple[Answer, ...]":
        """Return the same answer once for every sentence of it, with the space that follows it.

        So every token belongs to one of them, and their log-probabilities add up to the whole's.
        """
        edges = [0, *(start for start, _ in sentence_spans(self.text)[1:]), len(self.text)]
        return tuple(replace(self, start=start, end=end) for start, end in pairwise(edges))

    @property
    def cell(self) -> str:
        """What a cell of a table holds, where a plain text would be the whole answer."""
        return _CELL + json.dumps(asdict(self))

    @staticmethod
    def of(cell: str) -> "Answer":
        """Return what such a cell holds: an answer, or a part of one."""
        if not isinstance(cell, str) or not cell.startswith(_CELL):
            return Answer(cell)
        return Answer(**json.loads(cell.removeprefix(_CELL)))

    def stored(self) -> dict[str, Any]:
        """Return what a file holds."""
        found: dict[str, Any] = {"answer": self.text}
        if self.end - self.start < len(self.text):
            found["span"] = [self.start, self.end]
        said = {"written": self.written, "per_token": self.per_token}
        return found | {name: True for name, holds in said.items() if holds}

    def named(self, text: str) -> str:  # noqa: ARG002  (of a place, the text has the words)
        """Return what is asked about in quotes."""
        return f"“{one_line(self.part, 80)}”"

    def check(self, text: str) -> None:
        """An answer to any text will do."""

    def tokens(self, spans: Sequence[Span], text: str) -> list[int]:  # noqa: ARG002
        """Return the tokens of the text that are asked about: none, for it follows the text."""
        return []


Query = Place | Answer


def read_asked(stored: Any) -> Query:
    """Return what was asked, as a file holds it."""
    match stored:
        case {"place": [int(start), int(end)], **rest} if rest in ({}, {"first_pieces": True}):
            return Place(start, end, bool(rest))
        case {"answer": str(answer), **rest}:
            match rest.pop("span", [0, len(answer)]):
                case [int(start), int(end)] if end >= 0:
                    written, per_token = (rest.get(x) is True for x in ("written", "per_token"))
                    return Answer(answer, start, end, written=written, per_token=per_token)
    raise InputError(
        'asked must be {"place": [start, end]} or {"answer": "…"}, perhaps with "span": [start, '
        f"end]; got {one_line(repr(stored))}."
    )


@final
@dataclass(frozen=True, slots=True)
class QueriedText:
    """A text or pair with its queries, in the place of a plain text.

    Before a model has seen the text, ``selector`` may name the query: an answer, or a place as
    :func:`place_at` takes it. With ``first_pieces``, places that a model finds in the text are
    read by the first pieces of words.
    """

    text: Any
    queries: tuple[Query, ...] = ()
    selector: Any = None
    first_pieces: bool = False

    @staticmethod
    def of(text: Any, selector: Any = None, *, first_pieces: bool = False) -> "QueriedText":
        """Return a text whose query ``selector`` names, unless the text brings a query along."""
        queried = text if isinstance(text, QueriedText) else QueriedText(text)
        return QueriedText(
            queried.text,
            queried.queries,
            selector if queried.selector is None else queried.selector,
            first_pieces or queried.first_pieces,
        )

    @property
    def cell(self) -> str | None:
        """The cell of a table that names the first query; None if nothing names it.

        A place is "start:end", of a pair in its second text.
        """
        if not self.queries:
            return self.selector if isinstance(self.selector, str) else None
        if isinstance(query := self.queries[0], Answer):
            return query.cell
        before = 0 if isinstance(self.text, str) else len(self.text[0]) + 1
        return f"{query.start - before}:{query.end - before}"


def place_at(
    at: Any, text: str, region: Span, spans: Sequence[Place], *, first_pieces: bool
) -> Place:
    """Return the place of ``text`` that ``at`` means.

    A number is one of the ``spans`` that the model finds, by its place among all. A pair
    (start, end) or "start:end" are characters of the ``region`` that is searched (the second text
    of a pair), and any other string is words that stand there once.
    """
    if isinstance(at, int):
        if not 0 <= at < len(spans):
            raise InputError(which_place(spans, text))
        return spans[at]
    place = Place(*_span(at, text, region), first_pieces)
    matches = [span for span in spans if span == place]
    return max(matches, key=lambda span: span.score, default=place)


def which_place(spans: Sequence[Place], text: str) -> str:
    """Return a sentence that lists the spans of ``text`` and says how to choose a place."""
    return (
        f"the model finds {_listed(spans, text)}; say which place to explain with at "
        "(--at): the number of a span from 0, words, or (start, end). explain_spans "
        "(--each span) explains all that are found."
    )


def _span(at: Any, text: str, region: Span) -> Span:
    first, last = region
    if isinstance(at, str):
        if not (offsets := _OFFSETS.fullmatch(at)):
            return _of_words(at, text, region)
        at = tuple(map(int, offsets.groups()))
    start, end = at
    if not 0 <= start < end <= last - first or not text[first + start : first + end].strip():
        raise InputError(
            f"at must be (start, end) with a word between them, inside the {last - first} "
            f"characters of the text; got ({start}, {end})."
        )
    words = text[first + start : first + end]
    start += first + len(words) - len(words.lstrip())
    return start, start + len(words.strip())


def _of_words(at: str, text: str, region: Span) -> Span:
    """Return the only place of the words ``at``; elsewhere they may be a part of longer ones."""
    words, (first, last) = at.strip(), region
    edges = (r"(?<!\w)" * words[:1].isalnum(), r"(?!\w)" * words[-1:].isalnum())
    pattern = re.compile(edges[0] + re.escape(words) + edges[1])
    places = [match.span() for match in pattern.finditer(text, first, last)] if words else []
    if len(places) == 1:
        return places[0]
    if not places:
        raise InputError(f"there is no {one_line(at, 40)!r} in the text; at takes words of it.")
    offsets = [(a - first, b - first) for a, b in places]
    shown = ", ".join(f"{a}:{b}" for a, b in offsets[:_SHOWN]) + ", …" * (len(places) > _SHOWN)
    raise InputError(
        f"{one_line(words, 40)!r} stands at {len(places)} places of the text, {shown}; say which, "
        f"at={offsets[0]} (--at {offsets[0][0]}:{offsets[0][1]})."
    )


def _listed(found: Sequence[Place], text: str) -> str:
    if not found:
        return "no span in this text"
    each = [f"{one.tag} {text[one.start : one.end]!r}" for one in found[:_SHOWN]]
    more = ", …" * (len(found) > _SHOWN)
    return f"{len(found)} span{'s' * (len(found) > 1)} here ({', '.join(each)}{more})"
