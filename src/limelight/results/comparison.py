"""Comparisons: explanations of one text by several methods, and how far they agree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.results.explanation import Explanation, feature_table
from limelight.results.mixins import FigureMixin, HtmlMixin, JsonMixin, TableMixin, find_by_name
from limelight.results.table import Table
from limelight.results.values import EqualByFields
from limelight.shapes import Float
from limelight.text import truncate_line
from limelight.threads import cached_property

TOP = 3
_SINGLE_PRECISION = float(np.finfo(np.float32).eps)  # most models compute in single precision


# Fields that all explanations of a comparison have in common.
_SHARED_FIELDS = (
    "model", "text", "target", "against", "scale", "query", "features", "spans", "parts",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Pairwise agreement of methods, with rows and columns in the order of ``methods``.

    * ``rank_correlation``: Spearman's correlation of the absolute scores. It says whether two
      methods find the same features important. It is None if one of them gives every feature the
      same score.
    * ``sign_conflicts``: number of features with a positive score by one method and a negative
      score by the other. It is None if one of the two gives no signs.
    * ``top3_overlap``: number of features that are among the three strongest of both.

    Scores no larger than the rounding of the output count as 0 (:func:`scores_above_rounding`).
    All three are None for a method whose scores are nothing but rounding.
    """

    methods: tuple[str, ...]
    rank_correlation: tuple[tuple[float | None, ...], ...]
    sign_conflicts: tuple[tuple[int | None, ...], ...]
    top3_overlap: tuple[tuple[int | None, ...], ...]

    @property
    def noise_methods(self) -> tuple[str, ...]:
        """The methods whose scores are nothing but rounding, so that they agree with no method."""
        methods = enumerate(self.methods)
        return tuple(method for i, method in methods if self.top3_overlap[i][i] is None)


def measure_agreement(explanations: Sequence[Explanation]) -> Agreement:
    """Compare every pair of ``explanations``, which must score the same features."""
    scores = np.array([scores_above_rounding(e) for e in explanations])
    is_noise = [
        bool(e.scores.any() and not row.any()) for row, e in zip(scores, explanations, strict=True)
    ]
    signed = [e.signed for e in explanations]
    # By size: a method without signs can then be compared with one that has them.
    ranks = [centered_ranks(row) for row in np.abs(scores)]
    up, down = scores > 0, scores < 0
    # A score of 0 has no sign, so it conflicts with no other score.
    conflicts = up.astype(int) @ down.T.astype(int)
    conflicts += conflicts.T.copy()
    tops = [_top_features(row) for row in scores]

    def compare_pairs(measure: Callable[[int, int], Any]) -> tuple[tuple[Any, ...], ...]:
        """Return the measure of every pair of methods, None for scores that are only rounding."""
        indices = range(len(is_noise))
        return tuple(
            tuple(None if is_noise[i] or is_noise[j] else measure(i, j) for j in indices)
            for i in indices
        )

    return Agreement(
        methods=tuple(e.method for e in explanations),
        rank_correlation=compare_pairs(lambda i, j: correlation(ranks[i], ranks[j])),
        sign_conflicts=compare_pairs(
            lambda i, j: int(conflicts[i, j]) if signed[i] and signed[j] else None
        ),
        top3_overlap=compare_pairs(lambda i, j: len(tops[i] & tops[j])),
    )


def scores_above_rounding(e: Explanation) -> Float[np.ndarray, " d"]:
    """Return the scores, with 0 for those no larger than the rounding of the explained number.

    The rounding is the output times the spacing of single precision, or the number that the method
    itself reports (``diagnostics["rounding"]``). An order of such scores is an order of rounding
    errors.
    """
    rounding = e.diagnostics.get("rounding")
    noise = float(rounding) if isinstance(rounding, int | float) else 0.0
    outputs = [*e.prediction.values(), e.base_value or 0.0]
    size = 1.0 if e.scale == "probability" else max(map(abs, outputs))
    return np.where(np.abs(e.scores) > max(noise, _SINGLE_PRECISION * size), e.scores, 0.0)


def rank_correlation(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Spearman's rank correlation, or None if ``x`` or ``y`` is constant.

    Tied values get the mean of their ranks.
    """
    return correlation(centered_ranks(x), centered_ranks(y))


def centered_ranks(x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Return the ranks minus their mean. Tied values get the mean of their ranks."""
    ranks = mean_ranks(x)
    return ranks - ranks.mean()


def correlation(a: Float[np.ndarray, " d"], b: Float[np.ndarray, " d"]) -> float | None:
    """Return the correlation of centered values, or None if ``a`` or ``b`` does not vary."""
    norm = np.sqrt((a @ a) * (b @ b))
    return float(np.clip((a @ b) / norm, -1, 1)) if norm else None


def mean_ranks(x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Return the rank of each value, 1 for the smallest. Tied values get their mean rank."""
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[group]


def _top_features(scores: Float[np.ndarray, " d"]) -> set[int]:
    """Return the three strongest features, without features of score 0."""
    order = np.argsort(-np.abs(scores), kind="stable")[:TOP]
    return {int(j) for j in order if scores[j]}


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(EqualByFields, HtmlMixin, FigureMixin, TableMixin, JsonMixin):
    """One explanation per method, of the same text, target and features.

    ``attention`` has the attention matrices of the model's heads ([cls] first), if the model has
    any. They are for the figure and are not stored in JSON. ``warnings`` says which methods were
    left out and why.
    """

    _terminal = "terminal.comparison_text"
    _page = "html.comparison_page"
    _fragment = "html.comparison_fragment"
    _figure = "figures.colored_sentence"
    _record = "codec.ComparisonRecord"

    explanations: tuple[Explanation, ...]
    attention: Float[np.ndarray, "K T T"] | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.explanations:
            raise InputError("a comparison needs at least one explanation.")
        first = self.explanations[0]
        for other in self.explanations[1:]:
            for name in _SHARED_FIELDS:
                if getattr(other, name) != getattr(first, name):
                    noun = "place" if name == "query" else name
                    raise InputError(
                        f"a comparison needs explanations of the same {noun}, but those of "
                        f"{first.method!r} and {other.method!r} differ."
                    )

    @property
    def text(self) -> str:
        """The text that all methods explain."""
        return self.explanations[0].text

    @cached_property
    def agreement(self) -> Agreement:
        """The rank correlation, sign agreement and shared top features of every two methods."""
        return measure_agreement(self.explanations)

    def __hash__(self) -> int:
        return hash(self.explanations)

    def __len__(self) -> int:
        return len(self.explanations)

    def __repr__(self) -> str:
        first, methods = self.explanations[0], ", ".join(e.method for e in self)
        return (
            f"<Comparison for {truncate_line(first.target_phrase, 40)!r} of "
            f"{truncate_line(self.text, 40)!r}: {truncate_line(methods, 90)}>"
        )

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    def __getitem__(self, method: str) -> Explanation:
        return find_by_name(self.explanations, method)

    def _table(self) -> Table:
        return feature_table((0, e) for e in self)
