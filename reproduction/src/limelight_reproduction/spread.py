"""Statistics of one document, and their spread over many."""

__all__ = [
    "Spread",
    "adjusted_r2",
    "correlation",
    "quartiles",
    "rank_correlation",
    "spread",
    "wilson",
]

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import binomtest, rankdata

from limelight.shapes import Float

Spread = tuple[float, float, float]


def spread(inputs: Sequence[Mapping[str, float | None]]) -> dict[str, Spread]:
    """Return lower quartile, median and upper quartile of every statistic over ``documents``.

    Documents where a statistic is not defined (None) do not count for it.
    """
    return {key: quartiles([one[key] for one in inputs]) for key in inputs[0]}


def quartiles(values: Sequence[float | None]) -> Spread:
    """Return lower quartile, median and upper quartile of those values that are not None."""
    known = [value for value in values if value is not None]
    low, middle, high = np.percentile(known, [25, 50, 75]).tolist()
    return low, middle, high


def correlation(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Pearson's correlation; None where one of the two is constant."""
    a, b = x - x.mean(), y - y.mean()
    norm = np.sqrt((a @ a) * (b @ b))
    return float(np.clip((a @ b) / norm, -1, 1)) if norm else None


def rank_correlation(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Spearman's correlation, ties given their mean rank; None where one is constant."""
    return correlation(rankdata(x), rankdata(y))


def adjusted_r2(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return the share of the variance of y that the best affine map of the n rows of X explains.

    Adjusted for the n + 1 coefficients; None with too few points, or where y is constant.
    """
    free = len(y) - len(X) - 1
    total = float(((y - y.mean()) ** 2).sum())
    if free < 1 or not total:
        return None
    design = np.column_stack([np.ones(len(y)), X.T])
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return 1 - float(left @ left) / free / (total / (len(y) - 1))


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share."""
    found = binomtest(hits, total).proportion_ci(method="wilson")
    return float(found.low), float(found.high)
