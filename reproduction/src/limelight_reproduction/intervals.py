"""Intervals: of a median or a mean over texts, and of a difference over texts and trainings."""

__all__ = ["Interval", "mean_interval", "median_interval", "over_trainings", "told"]

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import t

# The number and the two ends of its 95 % interval.
Interval = list[float]
_DRAWS = 2000


def median_interval(values: Sequence[float | None], *, seed: int) -> Interval:
    """Return the median of the values that are not None, and its interval: texts drawn again."""
    return _resampled(values, lambda drawn: np.median(drawn, axis=1), seed)


def mean_interval(values: Sequence[float | None], *, seed: int) -> Interval:
    """Return the mean of the values that are not None, and its interval: texts drawn again."""
    return _resampled(values, lambda drawn: np.mean(drawn, axis=1), seed)


def _resampled(
    values: Sequence[float | None], statistic: Callable[[np.ndarray], np.ndarray], seed: int
) -> Interval:
    known = np.array([value for value in values if value is not None], float)
    rows = np.random.default_rng([seed, 95]).integers(len(known), size=(_DRAWS, len(known)))
    low, high = np.quantile(statistic(known[rows]), [0.025, 0.975])
    return [float(statistic(known[None])[0]), float(low), float(high)]


def over_trainings(differences: Sequence[float], text_error: float) -> Interval:
    """Return the mean of the ``differences`` of n trainings, and its interval by Student's t.

    Its standard error is √(s²/n + e²), e the ``text_error``: the standard error over test texts of
    the difference, a mean over trainings. Other texts move all differences together, which their
    spread s does not show; a part of it is counted twice, on the safe side.
    """
    n = len(differences)
    error = math.sqrt(float(np.var(differences, ddof=1)) / n + text_error**2)
    half = float(t.ppf(0.975, n - 1)) * error
    middle = float(np.mean(differences))
    return [middle, middle - half, middle + half]


def told(interval: Sequence[float], digits: int = 2) -> str:
    """Return "0.87 (0.86 to 0.88)"."""
    middle, low, high = interval
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
