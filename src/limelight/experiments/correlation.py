"""How alike two explanations of a text are, and how that spreads over texts."""

__all__ = ["pearson", "quartiles", "spearman"]

from collections.abc import Sequence

import numpy as np

from limelight.explanation.agreement import rank_correlation
from limelight.shapes import Float


def pearson(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float:
    """Return Pearson's correlation; NaN where one of the two is constant."""
    a, b = x - x.mean(), y - y.mean()
    norm = np.sqrt((a @ a) * (b @ b))
    return float((a @ b) / norm) if norm else float("nan")


def spearman(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float:
    """Return Spearman's rank correlation; NaN where one of the two is constant."""
    found = rank_correlation(x, y)
    return float("nan") if found is None else found


def quartiles(values: Sequence[float]) -> list[float]:
    """Return the lower quartile, the median and the upper quartile; NaN does not count."""
    known = np.asarray(values, dtype=float)
    return np.nanquantile(known, [0.25, 0.5, 0.75]).tolist()
