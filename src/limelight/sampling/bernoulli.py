"""Confidence bounds for the chance of success in repeated trials."""

__all__ = ["bernoulli_kl", "clopper_pearson", "kl_high", "kl_low"]

import math

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float

_HALVINGS = 24  # to 6e-8, on the safe side
# Against 40 digits an end of the interval is off by less than (4 + |log(δ/2)|) 2⁻⁵² of itself, up
# to a million trials; four times as much is added outwards.
_ROUNDING = 2.0**-50


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
    """Return the exact interval that misses the chance of success with probability at most δ.

    At its lower end so many successes or more, at its upper end so many or fewer, have probability
    δ/2; both ends are rounded outwards. Domain: 0 ≤ successes ≤ trials, 0 < δ < 1.
    """
    if not 0 <= successes <= trials:
        raise InputError(f"successes must lie between 0 and the {trials} trials; got {successes}.")
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1; got {delta}.")
    failures = trials - successes
    log_tail = math.log(delta) - math.log(2)
    margin = _ROUNDING * (4 - log_tail)
    low, high = 0.0, 1.0
    if successes:
        low = successes / trials * math.exp(_log_shrinkage(successes, trials, log_tail))
    if failures:
        # Of failures this is the lower end. Written as 1 − that, a chance of 1e-6 would lose six
        # digits; expm1 is negative, so here two positive numbers are added.
        shrunk = -math.expm1(_log_shrinkage(failures, trials, log_tail))
        high = (successes + failures * shrunk) / trials
    return low * (1 - margin), min(high * (1 + margin), 1.0)


def _log_shrinkage(k: int, n: int, log_tail: float) -> float:
    """Return t with log P(k or more of n succeed | chance e^t k/n) = ``log_tail`` < −log 2.

    A Beta quantile, without the 110 MB of SciPy (whose ``betaincinv`` is 15 % off at k = 62,
    n = 100, δ = 1e-300).
    """
    rest = n - k
    if rest == 0:
        return log_tail / n
    # P(k succeed) where the chance is k/n, from all terms relative to it. The difference of three
    # log n!, each 1e7 at n = 1e6, would be off by 1e-9, and so would the limit of k = 1.
    log_mode = -math.log(_sum_from(k, n, k / rest) + _sum_from(rest, n, rest / k) - 1)

    def improved(t: float) -> float:
        lost = -k * math.expm1(t)  # of k expected successes
        terms = _sum_from(k, n, k * math.exp(t) / (rest + lost))
        # Relative to the mean both logarithms are of the size np − k, not n: with the factor below
        # their rounding errors move log p by about 2⁻⁵².
        log_reached = log_mode + k * t + rest * math.log1p(lost / rest) + math.log(terms)
        return t + (log_tail - log_reached) * terms / k

    # As a function of log p the tail is the distribution function of a log-concave density, that
    # of the logarithm of a Beta variable, so its logarithm is concave: after one step Newton's
    # method approaches t from below, the safe side, until rounding no longer lets it rise. It
    # starts at the mean, where the tail is 1/2 or more.
    t = improved(0.0)
    while (further := improved(t)) > t:
        t = further
    return t


def _sum_from(k: int, n: int, odds: float) -> float:
    """Return P(k or more of n succeed)/P(k succeed) for a chance up to k/n, given by its odds.

    Terms are positive and fall, by ratios below 1, from 1.
    """
    # Ten standard deviations on they are below e⁻⁵⁰; the 64 are for small k, where the law is
    # skewed and its upper tail longer.
    count = min(n - k, 64 + int(10 * math.sqrt(k * (n - k) / n)))
    i = np.arange(count)
    return 1 + float(np.cumprod((n - k - i) / (k + 1 + i) * odds).sum())


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
        # The clip matters only where mean and far are both 0 or both 1: any answer then does.
        inside = bernoulli_kl(mean, np.clip(middle, 1e-15, 1 - 1e-15)) <= level
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return far
