"""Where explanations of the same text agree and where they do not."""

__all__ = ["TOP", "Agreement", "agreement", "mean_ranks", "rank_correlation"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.results.explanation import Explanation
from limelight.shapes import Float

TOP = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Pairwise comparisons, rows and columns in the order of ``methods``.

    ``rank_correlation`` is Spearman's, of the absolute scores: do the methods find the same
    features important? None where one of them gives every feature the same score.
    ``sign_conflicts`` counts features that one method pushes up and the other down; None where
    one of the two gives no signs. ``top3_overlap`` counts features shared by the two top threes.
    """

    methods: tuple[str, ...]
    rank_correlation: tuple[tuple[float | None, ...], ...]
    sign_conflicts: tuple[tuple[int | None, ...], ...]
    top3_overlap: tuple[tuple[int, ...], ...]


def agreement(explanations: Sequence[Explanation]) -> Agreement:
    """Compare every pair of ``explanations``, which must score the same features."""
    pairs = [[(a, b) for b in explanations] for a in explanations]
    return Agreement(
        methods=tuple(e.method for e in explanations),
        rank_correlation=tuple(
            tuple(rank_correlation(np.abs(a.scores), np.abs(b.scores)) for a, b in row)
            for row in pairs
        ),
        sign_conflicts=tuple(tuple(_sign_conflicts(a, b) for a, b in row) for row in pairs),
        top3_overlap=tuple(tuple(_top_overlap(a, b) for a, b in row) for row in pairs),
    )


def rank_correlation(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Spearman's rank correlation, ties given their mean rank; None for a constant."""
    a, b = mean_ranks(x), mean_ranks(y)
    a, b = a - a.mean(), b - b.mean()
    norm = np.sqrt((a @ a) * (b @ b))
    return float(np.clip((a @ b) / norm, -1, 1)) if norm else None


def mean_ranks(x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Return the rank of each value from 1, the smallest first; ties have the mean of theirs."""
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[group]


def _sign_conflicts(a: Explanation, b: Explanation) -> int | None:
    if not (a.signed and b.signed):
        return None
    return int(np.count_nonzero(a.scores * b.scores < 0))


def _top_overlap(a: Explanation, b: Explanation) -> int:
    top = [set(np.argsort(-np.abs(e.scores), kind="stable")[:TOP].tolist()) for e in (a, b)]
    return len(top[0] & top[1])
