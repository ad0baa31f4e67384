"""95 % intervals of medians and means over texts, and of differences over trainings."""

__all__ = ["Interval", "format_interval", "mean_interval", "median_interval", "training_interval"]

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import t

# The number, and the lower and the upper end of its 95 % interval.
Interval = list[float]
_RESAMPLES = 2000


def median_interval(values: Sequence[float | None], *, seed: int) -> Interval:
    """Return the median of the values that are not None, and its bootstrap interval over texts."""
    return _bootstrap_interval(values, lambda samples: np.median(samples, axis=1), seed)


def mean_interval(values: Sequence[float | None], *, seed: int) -> Interval:
    """Return the mean of the values that are not None, and its bootstrap interval over texts."""
    return _bootstrap_interval(values, lambda samples: np.mean(samples, axis=1), seed)


def _bootstrap_interval(
    values: Sequence[float | None], statistic: Callable[[np.ndarray], np.ndarray], seed: int
) -> Interval:
    numbers = np.array([value for value in values if value is not None], float)
    rows = np.random.default_rng([seed, 95]).integers(len(numbers), size=(_RESAMPLES, len(numbers)))
    low, high = np.quantile(statistic(numbers[rows]), [0.025, 0.975])
    return [float(statistic(numbers[None])[0]), float(low), float(high)]


def training_interval(differences: Sequence[float], text_error: float) -> Interval:
    """Return the mean of the ``differences`` of n trainings, and its interval by Student's t.

    The standard error is √(s²/n + e²). Here s is the spread of the differences over trainings, and
    e is the ``text_error``: the standard error of the mean difference over test texts. Other texts
    would change all differences together, which s does not show. A part of the error is counted
    twice, so the interval is rather too wide than too narrow.
    """
    n = len(differences)
    error = math.sqrt(float(np.var(differences, ddof=1)) / n + text_error**2)
    half_width = float(t.ppf(0.975, n - 1)) * error
    mean = float(np.mean(differences))
    return [mean, mean - half_width, mean + half_width]


def format_interval(interval: Sequence[float], digits: int = 2) -> str:
    """Format a number and its interval as "0.87 (0.86 to 0.88)"."""
    center, low, high = interval
    return f"{center:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
