"""Statistics of one text, and their quartiles over many texts."""

__all__ = [
    "Spread",
    "adjusted_r2",
    "correlation",
    "quartiles",
    "rank_correlation",
    "summarize_spread",
    "wilson_interval",
]

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import binomtest, rankdata

from limelight.shapes import Float

Spread = tuple[float, float, float]


def summarize_spread(rows: Sequence[Mapping[str, float | None]]) -> dict[str, Spread]:
    """Return the lower quartile, median and upper quartile of every statistic.

    Each row has the statistics of one text. A statistic that is None for a text is left out.
    """
    return {key: quartiles([row[key] for row in rows]) for key in rows[0]}


def quartiles(values: Sequence[float | None]) -> Spread:
    """Return the lower quartile, median and upper quartile of the values that are not None."""
    numbers = [value for value in values if value is not None]
    low, median, high = np.percentile(numbers, [25, 50, 75]).tolist()
    return low, median, high


def correlation(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Pearson's correlation, or None if ``x`` or ``y`` is constant."""
    a, b = x - x.mean(), y - y.mean()
    norm = np.sqrt((a @ a) * (b @ b))
    return float(np.clip((a @ b) / norm, -1, 1)) if norm else None


def rank_correlation(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Spearman's correlation, or None if ``x`` or ``y`` is constant. Ties share a rank."""
    return correlation(rankdata(x), rankdata(y))


def adjusted_r2(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return the adjusted R² of a linear regression of ``y`` on the n rows of ``X``.

    It is adjusted for the n + 1 coefficients. It is None if there are too few points, or if ``y``
    is constant.
    """
    freedom = len(y) - len(X) - 1
    total = float(((y - y.mean()) ** 2).sum())
    if freedom < 1 or not total:
        return None
    design = np.column_stack([np.ones(len(y)), X.T])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return 1 - float(residual @ residual) / freedom / (total / (len(y) - 1))


def wilson_interval(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of the share ``hits / total``."""
    interval = binomtest(hits, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
