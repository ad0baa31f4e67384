"""Standard errors of sums of independent draws that allow for few draws and rare effects."""

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from limelight.shapes import Bool, Float

# If one draw makes up more than this share of a spread, it has seen a rare effect. The error of
# every feature then allows for another draw as far off. Above the second share, a warning is added.
RARE_EFFECT_SHARE, RARE_EFFECT_WARNING_SHARE = 0.5, 0.7
ROUNDING = 1e-9  # smaller shares of the effect of an unseen draw are rounding errors
# A sum over draws is far from normal if fewer outputs than this, or fewer than a tenth of them,
# carry the variance of all. Smooth, peaked and thresholded games have 90 of 1,000 or more, exp of a
# sum of standard deviation 1.5 or more has fewer than 50 (`benchmarks/coverage_study.py`).
_MIN_TAIL_CARRIERS = 50
_UNSEEN_DRAWS = 3.0
# Quantiles of Student's t by degrees of freedom: 97.5 % of draws lie below. As functions of 1/ν
# they are nearly linear between these points.
_QUANTILES = {
    1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 8: 2.3060, 10: 2.2281,
    15: 2.1314, 30: 2.0423, np.inf: 1.9600,
}  # fmt: skip


class PowerSums(NamedTuple):
    """Power sums over draws, where a draw contributes u to an estimate: Σu, Σu², Σu⁴ and max |u|.

    The sums of squares are the spread of the estimate.
    """

    first: Float[np.ndarray, "*k"]
    second: Float[np.ndarray, "*k"]
    fourth: Float[np.ndarray, "*k"]
    largest: Float[np.ndarray, "*k"]

    @staticmethod
    def zeros(*shape: int) -> "PowerSums":
        """Return the sums over no draws."""
        return PowerSums(*np.zeros((4, *shape)))

    @staticmethod
    def from_contributions(contributions: Float[np.ndarray, " n *k"]) -> "PowerSums":
        """Return the sums over draws, which are the rows of ``contributions``."""
        # Squares of squares: a general power costs ten times as much.
        squares = contributions**2
        first, second, fourth = (x.sum(axis=0) for x in (contributions, squares, squares**2))
        return PowerSums(first, second, fourth, np.abs(contributions).max(axis=0))

    def merge(self, other: "PowerSums") -> "PowerSums":
        """Add the sums over other draws."""
        return PowerSums(
            self.first + other.first,
            self.second + other.second,
            self.fourth + other.fourth,
            np.maximum(self.largest, other.largest),
        )

    def centered_squares(self, draws: int) -> Float[np.ndarray, "*k"]:
        """Return Σ(u − mean u)² over the draws."""
        return np.maximum(self.second - self.first**2 / max(draws, 1), 0.0)

    def effective_draws(self) -> Float[np.ndarray, "*k"]:
        """Return (Σu²)²/Σu⁴, the number of draws that carry the spread, or 0 without a spread."""
        varies = self.fourth > 0
        return np.where(varies, self.second**2 / np.where(varies, self.fourth, 1.0), 0.0)

    def largest_share(self) -> Float[np.ndarray, "*outputs"]:
        """Return the share of one draw in the spread of the number that moved farthest.

        Numbers are compared along the last axis. The share is 0 if no number moved.
        """
        farthest = np.argmax(self.largest, axis=-1)[..., None]
        squares = (self.largest**2, self.second)
        largest, total = (np.take_along_axis(x, farthest, axis=-1)[..., 0] for x in squares)
        return np.asarray(largest / np.where(total > 0, total, 1.0))

    def standard_error(self, draws: int, *, degrees: int) -> Float[np.ndarray, "*k"]:
        r"""Return standard errors: ±2 of them cover the truth in 95 % of samples.

        .. math:: \tfrac12 t_ν \sqrt{\textstyle\sum u^2 + \max u^2}, \qquad ν = 2 (κ + 1),

        where κ are the :meth:`effective_draws`, ν is at most ``degrees`` and ½ t is at least 1.
        With many draws of a well-behaved distribution it is the plain standard error √Σu².
        """
        # If k of n draws saw an effect and the others did not, the sum is a Poisson variable. One
        # more draw of the same size and 2 (k + 1) degrees of freedom give its upper limit of 95 %
        # within 4 % for k ≥ 1. √Σu² alone misses the truth too often, because a sample that saw too
        # little of an effect also saw too little of its spread.
        effective_degrees = np.minimum(2 * (self.effective_draws() + 1), max(degrees, 1))
        squares = self.centered_squares(draws) + self.largest**2
        return small_sample_factor(effective_degrees) * np.sqrt(squares)

    def standard_error_or_unseen(
        self, step: Float[np.ndarray, "*k"], draws: int, *, degrees: int
    ) -> tuple[Float[np.ndarray, "*k"], Bool[np.ndarray, "*outputs"]]:
        """Return standard errors, and a mask of the outputs that no draw moved.

        The errors of outputs that no draw moved allow for unseen draws.

        Parameters
        ----------
        step
            How far an unseen draw would move each number (:func:`unseen_effect_error`).
        draws
            Number of draws.
        degrees
            Degrees of freedom of the draws.
        """
        unseen = unseen_effect_error(step)
        no_spread = np.asarray(np.all(self.largest <= ROUNDING * unseen, axis=-1))
        errors = self.standard_error(draws, degrees=degrees)
        return np.where(no_spread[..., None], unseen, errors), no_spread


class VarianceComponents(NamedTuple):
    """The variance of random outputs, split into two parts (one-way random effects).

    Attributes
    ----------
    between
        Variance of the expected outputs of different masks.
    within
        Mean variance of the outputs for one mask.
    """

    between: float
    within: float

    def best_repeats(self, *, cost_ratio: float = 0.0) -> int:
        """Return the number of outputs for each mask that makes a mean most precise.

        n masks with k outputs each have the variance (between + within/k)/n and cost
        n (k + ``cost_ratio``). The best k is √(within/between · cost_ratio), but at least 1. Calls
        that all cost the same have the ratio 0, so a new mask is always as good as another output.

        Parameters
        ----------
        cost_ratio
            Cost of a new mask without its outputs, relative to the cost of an output.
        """
        if cost_ratio == 0 or self.within == 0:
            return 1
        if self.between == 0:
            return sys.maxsize
        return max(1, round(math.sqrt(self.within / self.between * cost_ratio)))


def estimate_variance_components(outputs: Float[np.ndarray, "n k"]) -> VarianceComponents:
    """Estimate the variance components of k ≥ 2 random outputs for each of n ≥ 2 masks.

    The estimates are those of a one-way analysis of variance, without bias except that a negative
    variance between masks becomes 0.
    """
    within = float(outputs.var(axis=1, ddof=1).mean())
    between = float(outputs.mean(axis=1).var(ddof=1)) - within / outputs.shape[1]
    return VarianceComponents(max(between, 0.0), within)


def count_tail_carriers(outputs: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " m"]:
    """Return how many outputs carry the variance of all if they are too few, or else 0.

    A small number means a heavy tail: a few outputs are much larger than the others.
    """
    deviation = outputs - outputs.mean(axis=0)
    largest = np.abs(deviation).max(axis=0)
    deviation = deviation / np.where(largest > 0, largest, 1.0)  # 1e80 to the fourth overflows
    carriers = PowerSums.from_contributions(deviation).effective_draws()
    return np.where(carriers < min(_MIN_TAIL_CARRIERS, len(deviation) / 10), carriers, 0.0)


def small_sample_factor(degrees: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """Return the factor on a standard error from few draws, so that ±2 of them cover 95 %.

    The factor is max(1, t/2) for the 0.975 quantile t of Student's distribution with ``degrees``
    degrees of freedom. Domain: degrees ≥ 1.
    """
    inverses, quantiles = (1 / np.array([*_QUANTILES]))[::-1], [*_QUANTILES.values()][::-1]
    return np.maximum(np.interp(1 / degrees, inverses, quantiles) / 2, 1.0)


def unseen_effect_error(step: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """Return the standard error of an estimate if all draws agree, by the rule of three.

    Twice the error covers the effect of three unseen draws, each of which moves the estimate by
    ``step``. In 5 % of samples, n draws miss an effect that 3/n of all masks have.
    """
    return _UNSEEN_DRAWS / 2 * step


def pooled_error(scores: Float[np.ndarray, " d"], *, known_range: float) -> Float[np.ndarray, " d"]:
    """Return the root mean square of the scores of a single pair of orders, as error of them all.

    A single draw has no spread. If it is unbiased with variance v, the expected mean square is the
    mean of φ² + v, and therefore at least the mean of v. For ten kinds of games with 12 and 40
    features, ±2 of these errors held 0.949 to 1 of the exact values. Single orders (0.917 to 1) and
    single masks for Banzhaf values (0.51 to 1) miss the 0.93 that is required. If all scores are 0,
    the error allows for unseen effects as large as ``known_range``.
    """
    error = math.sqrt(float(np.mean(np.square(scores))))
    return np.full(len(scores), error or float(unseen_effect_error(np.array(known_range))))


def r_squared(residual: Float[Any, "*k"], total: Float[Any, "*k"]) -> Float[np.ndarray, "*k"]:
    """Return R² = 1 − residual/total from sums of squares, or 1 if the total is 0."""
    return np.where(total > 0, 1 - residual / np.where(total > 0, total, 1.0), 1.0)
