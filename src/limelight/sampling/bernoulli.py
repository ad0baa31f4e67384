"""Confidence bounds for the chance of success in repeated trials."""

__all__ = ["bernoulli_kl", "clopper_pearson", "kl_high", "kl_low"]

import numpy as np

from limelight.shapes import Float

_HALVINGS = 24  # to 6e-8, on the safe side


def kl_low(
    mean: Float[np.ndarray, " n"], level: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return the smallest q with KL(mean ‖ q) ≤ ``level``.

    With level = log(1/δ)/n it lies above the true chance with probability at most δ (Chernoff).
    """
    return _solved(mean, level, np.zeros_like(mean))


def kl_high(
    mean: Float[np.ndarray, " n"], level: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return the largest such q."""
    return _solved(mean, level, np.ones_like(mean))


def clopper_pearson(successes: int, trials: int, *, delta: float) -> tuple[float, float]:
    """Return the exact interval that misses the chance of success with probability at most δ."""
    from scipy.special import betaincinv  # 50 ms to import, and few callers need it

    low = betaincinv(successes, trials - successes + 1, delta / 2) if successes else 0.0
    high = betaincinv(successes + 1, trials - successes, 1 - delta / 2) if successes < trials else 1
    return float(low), float(high)


def bernoulli_kl(p: Float[np.ndarray, " n"], q: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return KL(p ‖ q) = p log(p/q) + (1 − p) log((1 − p)/(1 − q)), with q inside (0, 1)."""
    return _part(p, q) + _part(1 - p, 1 - q)


def _part(p: Float[np.ndarray, " n"], q: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0) / q), 0.0)


def _solved(
    mean: Float[np.ndarray, " n"], level: Float[np.ndarray, " n"], far: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Bisect between ``mean`` and ``far``; the returned end lies on the far, safe side."""
    near = mean.copy()
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        inside = bernoulli_kl(mean, np.clip(middle, 1e-15, 1 - 1e-15)) <= level
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return far
