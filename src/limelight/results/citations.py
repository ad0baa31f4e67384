"""Citations: the sources of each statement of an answer whose scores are certainly positive."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from limelight.errors import InputError, short_repr
from limelight.results.differences import LEARNED
from limelight.results.mixins import HtmlMixin, JsonMixin, TableMixin, import_member
from limelight.results.table import Table, plain_table
from limelight.results.values import EqualByFields
from limelight.sampling.ranks import exact_lower_limits, lower_limits, lower_limits_by_errors
from limelight.shapes import Float
from limelight.text import AnswerQuery, truncate_line

if TYPE_CHECKING:
    from limelight.results.explanation import Explanation

UNKNOWN_ERRORS = (
    "The errors of some scores are unknown, so they give no citation. Explain the text again with "
    "'banzhaf' or 'shapley' and a larger budget. Files do not contain what citations need."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Citations(EqualByFields, HtmlMixin, TableMixin, JsonMixin):
    """The sources of each statement of an answer, from ``explain_sentences(…).citations()``.

    A statement is a sentence of the answer. A source is a feature: a document, a message or a
    sentence. A statement cites a source if its score is certainly above ``threshold``. A statement
    without a source is a valid result.

    * ``explanations``: one explanation for each statement.
    * ``limits``: a lower limit of the score of each feature for each statement, −∞ if its error is
      unknown. With the probability ``confidence``, all limits hold together. Limits of exact scores
      hold without exception.
    * ``confidence``, ``threshold``: as in :meth:`SpanExplanations.citations`.
    """

    _terminal = "citations.citations_text"
    _page = "citations.citations_page"
    _fragment = "citations.citations_fragment"
    _record = "codec.CitationRecord"

    explanations: "tuple[Explanation, ...]"
    limits: Float[np.ndarray, "m d"]
    confidence: float = 0.95
    threshold: float = 0.0

    def __post_init__(self) -> None:
        check_confidence(self.confidence, self.threshold)
        _check_explanations(self.explanations)
        limits = np.array(self.limits, dtype=np.float64)
        scores = np.stack([e.scores for e in self.explanations])
        if limits.shape != scores.shape or not (limits <= scores).all():
            raise InputError(
                f"limits must have the shape {scores.shape} of the scores and be at most as large, "
                f"not {short_repr(self.limits)}."
            )
        limits.setflags(write=False)
        object.__setattr__(self, "limits", limits)

    def __len__(self) -> int:
        return len(self.explanations)

    def __repr__(self) -> str:
        counts = ", ".join(str(len(features)) for features in self.features)
        return f"<Citations of {truncate_line(self.answer, 40)!r}: {counts} sources>"

    @property
    def answer(self) -> str:
        """The complete answer."""
        return self._queries[0].text

    @property
    def statements(self) -> tuple[str, ...]:
        """The sentences of the answer, each without the spaces around it."""
        return tuple(query.part for query in self._queries)

    @property
    def features(self) -> tuple[tuple[int, ...], ...]:
        """The indices of the features that each statement cites, the highest score first."""
        return tuple(
            tuple(
                j for j in np.argsort(-e.scores, kind="stable").tolist() if row[j] > self.threshold
            )
            for e, row in zip(self.explanations, self.limits, strict=True)
        )

    @property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """The sources of each statement: ids of documents or messages, or else the features.

        If the features are the sentences of documents, a source is the document of a sentence.
        """
        names = self.source_names
        return tuple(tuple(dict.fromkeys(names[j] for j in features)) for features in self.features)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The source to which each feature belongs."""
        e = self.explanations[0]
        pairs = zip(e.part_names, e.features, strict=True)
        return tuple(part or feature for part, feature in pairs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that a reader must know, in addition to those of the explanations."""
        return (UNKNOWN_ERRORS,) if len(self.limits[0]) and np.isinf(self.limits).any() else ()

    def quote_feature(self, feature: int, length: int = 80) -> str:
        """Return the beginning of a feature on one line, as the text contains it."""
        e = self.explanations[0]
        start, end = e.spans[feature][0]
        return truncate_line(e.text[start:end], length)

    def to_markdown(self) -> str:
        """Return the answer as Markdown, with a footnote for each cited feature.

        A footnote has the id of the document or message, and the beginning of the feature. The
        characters of answer and sources that Markdown or HTML would interpret are escaped.
        """
        text: str = import_member("rendering", "citations.citations_markdown")(self)
        return text

    @property
    def _queries(self) -> tuple[AnswerQuery, ...]:
        """The part of the answer that each statement is."""
        return tuple(e.query for e in self.explanations if isinstance(e.query, AnswerQuery))

    def _table(self) -> Table:
        """Return a row per citation, and a row without a source for a statement without one."""
        names = self.source_names
        rows: list[tuple[Any, ...]] = []
        for number, (e, features) in enumerate(zip(self.explanations, self.features, strict=True)):
            statement = (number, self.statements[number])
            rows += [
                (
                    *statement,
                    names[j],
                    e.features[j],
                    float(e.scores[j]),
                    None if e.stderr is None else float(e.stderr[j]),
                    float(self.limits[number, j]),
                )
                for j in features
            ]
            rows += [(*statement, *[None] * 5)] * (not features)
        return plain_table(CITATION_COLUMNS, rows)


CITATION_COLUMNS = ("statement", "text", "source", "feature", "score", "stderr", "limit")


def find_citations(
    explanations: "tuple[Explanation, ...]", *, confidence: float, threshold: float
) -> Citations:
    """Return the citations of the statements that ``explanations`` explain.

    Raises
    ------
    InputError
        If no answer is explained, if scores have no sign, if the number of draws depends on the
        scores, or if a number is out of range.
    """
    check_confidence(confidence, threshold)
    _check_explanations(explanations)
    for name in ("until", "tolerance"):
        # Draws that stop at a good moment make every limit too high.
        if any(e.stderr is not None and e.settings.get(name) is not None for e in explanations):
            raise InputError(
                f"citations need a number of draws that does not depend on the scores, but {name}= "
                f"stops them. Explain the answer without {name}."
            )
    # Bonferroni: the errors of several statements come from the same masks, so they may depend on
    # each other in any way.
    level = (1 - confidence) / max(1, sum(len(e) for e in explanations))
    limits = np.stack([_score_limits(e, level) for e in explanations])
    return Citations(
        explanations=explanations, limits=limits, confidence=confidence, threshold=threshold
    )


def _score_limits(e: "Explanation", level: float) -> Float[np.ndarray, " d"]:
    """Return a lower limit of each score, −∞ if the error of the score is unknown."""
    outputs = [abs(value) for value in (e.explained_value, e.base_value) if value is not None]
    if e.stderr is None or not e.stderr.any():
        if e.bound is None and e.certain_tops is None:
            return np.full(len(e), -np.inf)
        return exact_lower_limits(e.scores, e.bound, largest_output=max(outputs, default=0.0))
    if e.method == LEARNED:
        return lower_limits_by_errors(e.scores, e.stderr, level=level)
    if e.draws is None:
        return np.full(len(e), -np.inf)
    return lower_limits(
        e.draws, e.scores, e.stderr, level=level, largest_output=max(outputs, default=0.0)
    )


def check_confidence(confidence: float, threshold: float) -> None:
    """Raise an InputError for a confidence or threshold that no citation can have."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise InputError(f"confidence must be a number, not {short_repr(confidence)}.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, not {confidence}.")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise InputError(f"threshold must be a number, not {short_repr(threshold)}.")
    if not math.isfinite(threshold):
        raise InputError(f"threshold must be finite, not {threshold}.")


def _check_explanations(explanations: "tuple[Explanation, ...]") -> None:
    """Raise an InputError unless the explanations are of the sentences of one answer."""
    first = explanations[0] if explanations else None
    if first is None or not isinstance(first.query, AnswerQuery):
        raise InputError(
            "citations need the sentences of an answer. Use them on a result of explain_sentences."
        )
    position = 0
    for e in explanations:
        if not isinstance(e.query, AnswerQuery) or (e.query.text, e.query.start) != (
            first.query.text,
            position,
        ):
            raise InputError("citations need one explanation for each sentence of one answer.")
        position = e.query.end
        if (e.text, e.features, e.spans, e.parts, e.method) != (
            first.text,
            first.features,
            first.spans,
            first.parts,
            first.method,
        ):
            raise InputError("citations need explanations with the same text, features and method.")
    if position != len(first.query.text):
        raise InputError("citations need one explanation for each sentence of one answer.")
    if not first.signed:
        raise InputError(
            f"citations need scores with a sign, which {first.method!r} does not have. Use "
            "'banzhaf' or 'shapley'."
        )
