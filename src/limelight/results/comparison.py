"""Several explanations of one text, side by side, and where they agree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.results.explanation import Explanation, feature_rows
from limelight.results.mixins import FigureMixin, HtmlMixin, JsonMixin, TableMixin, by_name
from limelight.results.table import Table
from limelight.results.values import EqualByFields
from limelight.shapes import Float
from limelight.text import one_line
from limelight.threads import cached_property

TOP = 3
_SINGLE = float(np.finfo(np.float32).eps)  # most models compute in single precision


# What a page of a comparison says once, for all methods.
_SHARED = (
    "model", "text", "target", "against", "scale", "asked", "features", "spans", "parts",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Pairwise comparisons, rows and columns in the order of ``methods``.

    Scores no larger than the rounding of the output count as 0 (:func:`known_scores`).
    ``rank_correlation`` is Spearman's, of the absolute scores: do the methods find the same
    features important? None where one of them gives every feature the same score.
    ``sign_conflicts`` counts features that one method pushes up and the other down; None where
    one of the two gives no signs. ``top3_overlap`` counts features shared by the two top threes.
    All three are None for a method whose scores are nothing but rounding.
    """

    methods: tuple[str, ...]
    rank_correlation: tuple[tuple[float | None, ...], ...]
    sign_conflicts: tuple[tuple[int | None, ...], ...]
    top3_overlap: tuple[tuple[int | None, ...], ...]

    @property
    def noise(self) -> tuple[str, ...]:
        """The methods whose scores are nothing but rounding: no agreement, even with itself."""
        several = enumerate(self.methods)
        return tuple(method for i, method in several if self.top3_overlap[i][i] is None)


def agreement(explanations: Sequence[Explanation]) -> Agreement:
    """Compare every pair of ``explanations``, which must score the same features."""
    known = np.array([known_scores(e) for e in explanations])
    noise = [bool(e.scores.any() and not k.any()) for k, e in zip(known, explanations, strict=True)]
    signed = [e.signed for e in explanations]
    # By size: a method without signs can then be compared with one that has them.
    ranks = [centred_ranks(scores) for scores in np.abs(known)]
    up, down = known > 0, known < 0
    # A score of 0 is for neither side, and contradicts nobody.
    conflicts = up.astype(int) @ down.T.astype(int)
    conflicts += conflicts.T.copy()
    tops = [_top(scores) for scores in known]

    def by_pairs(found: Callable[[int, int], Any]) -> tuple[tuple[Any, ...], ...]:
        several = range(len(noise))
        return tuple(
            tuple(None if noise[i] or noise[j] else found(i, j) for j in several) for i in several
        )

    return Agreement(
        methods=tuple(e.method for e in explanations),
        rank_correlation=by_pairs(lambda i, j: correlation(ranks[i], ranks[j])),
        sign_conflicts=by_pairs(
            lambda i, j: int(conflicts[i, j]) if signed[i] and signed[j] else None
        ),
        top3_overlap=by_pairs(lambda i, j: len(tops[i] & tops[j])),
    )


def known_scores(e: Explanation) -> Float[np.ndarray, " d"]:
    """Return the scores, with 0 for those no larger than the rounding of what is explained.

    That is the output times the spacing of single precision, or what the method itself found
    (``diagnostics["rounding"]``). An order of such scores is an order of rounding errors.
    """
    found = e.diagnostics.get("rounding")
    noise = float(found) if isinstance(found, int | float) else 0.0
    outputs = [*e.prediction.values(), e.base_value or 0.0]
    size = 1.0 if e.scale == "probability" else max(map(abs, outputs))
    return np.where(np.abs(e.scores) > max(noise, _SINGLE * size), e.scores, 0.0)


def rank_correlation(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Spearman's rank correlation, ties given their mean rank; None for a constant."""
    return correlation(centred_ranks(x), centred_ranks(y))


def centred_ranks(x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Return ranks less their mean, ties given their mean rank."""
    ranks = mean_ranks(x)
    return ranks - ranks.mean()


def correlation(a: Float[np.ndarray, " d"], b: Float[np.ndarray, " d"]) -> float | None:
    """Return the correlation of centered values; None where one of the two does not vary."""
    norm = np.sqrt((a @ a) * (b @ b))
    return float(np.clip((a @ b) / norm, -1, 1)) if norm else None


def mean_ranks(x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Return the rank of each value from 1, the smallest first; ties have the mean of theirs."""
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[group]


def _top(scores: Float[np.ndarray, " d"]) -> set[int]:
    """Return the strongest features; one that scores 0 is not among them."""
    order = np.argsort(-np.abs(scores), kind="stable")[:TOP]
    return {int(j) for j in order if scores[j]}


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(EqualByFields, HtmlMixin, FigureMixin, TableMixin, JsonMixin):
    """One explanation per method, of the same text, target and features.

    ``attention`` holds, where the model has them, the attention matrices of its heads ([cls]
    first); they belong to the figure and are not stored in JSON. ``notices`` says which methods
    were left out and why.
    """

    _terminal = "terminal.comparison_text"
    _page = "html.comparison_page"
    _fragment = "html.comparison_fragment"
    _figure = "figures.colored_sentence"
    _record = "codec.ComparisonRecord"

    explanations: tuple[Explanation, ...]
    attention: Float[np.ndarray, "K T T"] | None = None
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.explanations:
            raise InputError("a comparison needs at least one explanation; got none.")
        first = self.explanations[0]
        for other in self.explanations[1:]:
            for name in _SHARED:
                if getattr(other, name) != getattr(first, name):
                    what = "place" if name == "asked" else name
                    raise InputError(
                        f"a comparison needs explanations of the same {what}; "
                        f"{first.method!r} and {other.method!r} differ."
                    )

    @property
    def text(self) -> str:
        """The text that all methods explain."""
        return self.explanations[0].text

    @cached_property
    def agreement(self) -> Agreement:
        """How far the methods agree, pair by pair."""
        return agreement(self.explanations)

    def __hash__(self) -> int:
        return hash(self.explanations)

    def __len__(self) -> int:
        return len(self.explanations)

    def __repr__(self) -> str:
        first, methods = self.explanations[0], ", ".join(e.method for e in self)
        return (
            f"<Comparison for {one_line(first.aim, 40)!r} of {one_line(self.text, 40)!r}: "
            f"{one_line(methods, 90)}>"
        )

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.explanations)

    def __getitem__(self, method: str) -> Explanation:
        return by_name(self.explanations, method)

    def _table(self) -> Table:
        return feature_rows((0, e) for e in self)
