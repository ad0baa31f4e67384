"""LIME's design: the distribution and the weights of its samples, before any model call.

A size s is drawn uniformly from 1..d, then a set of s words to remove. The sample has weight ψ(s).
Moments of this design:

    m_0 = E[ψ],  m_1 = E[ψ Z_1],  m_2 = E[ψ Z_1 Z_2],  V = m_1 − m_2,  χ = m_2 − m_1²/m_0.

Each coefficient is a functional β_j = E[ψ κ_j f], in which κ_j depends on Z_j and s alone.
"""

import math
from functools import lru_cache
from typing import NamedTuple, TypedDict

import numpy as np

from limelight.errors import DomainError, InputError, TooFewFeaturesError
from limelight.shapes import Array, Float

TOLERANCES = np.array([1.0, 100.0])  # of β and of the intercept, whose error may be larger


class RegressionSettings(TypedDict, total=False):
    """Settings of LIME's regression, as keywords.

    * ``bandwidth`` ν > 0. The default is 0.25. With inf all samples have the same weight.
    * ``penalty`` ρ ≥ 0 per sample. The default is 0. With n samples, alpha = 1 of the `lime`
      package is ρ = 1/n.
    * ``rows`` = n adds row 0 of that package, the unchanged document, to n samples. The default
      None means n → ∞, where row 0 has no effect.
    """

    bandwidth: float
    penalty: float
    rows: int | None


class LimeLimit(NamedTuple):
    """Coefficients and intercept of the limit, with bounds on their numerical errors."""

    scores: Float[Array, "*batch C d"]
    bound: Float[Array, "*batch C"]
    intercept: Float[Array, "*batch C"]
    intercept_bound: Float[Array, "*batch C"]


class LimeDesign(NamedTuple):
    """Weight of each size 0..d, and the moments of the kept indicators Z under it."""

    d: int
    weight: Float[Array, " sizes"]  # ψ(s)/d; at s = 0 the weight of row 0
    m0: float
    m1: float
    V: float
    excess: Float[Array, " sizes"]  # d − s minus the mean number of kept words
    spread: float  # V + dχ
    penalty: float

    @property
    def covariance(self) -> float:
        """Return χ = m_2 − m_1²/m_0, the weighted covariance of two kept indicators."""
        return (self.spread - self.V) / self.d

    @property
    def pull(self) -> float:
        """Return χ/(V + ρ + dχ), the share of Σ c_k that is subtracted from each coefficient."""
        return self.covariance / (self.spread + self.penalty)

    def coefficient_weights(self) -> tuple[Float[Array, " sizes"], Float[Array, " sizes"]]:
        """Return κ_j of β_j = E[ψ κ_j f] for s = 0..d, first for Z_j = 1, then for Z_j = 0."""
        common = self.common_weights()
        return (1 - common) / (self.V + self.penalty), -common / (self.V + self.penalty)

    def common_weights(self) -> Float[Array, " sizes"]:
        """Return Z_j − (V + ρ) κ_j for s = 0..d, the part of κ_j that all words share."""
        return self.m1 / self.m0 + self.pull * self.excess

    def intercept_weights(self) -> Float[Array, " sizes"]:
        """Return κ_0 of the intercept E[ψ κ_0 f], for s = 0..d."""
        return (1 - self.m1 * self.excess / (self.spread + self.penalty)) / self.m0

    def error_factors(self) -> Float[np.ndarray, " 2"]:
        """Return the effect of a unit error of f on β_j and on the intercept.

        It is Σ_S |c_S| of β_j = Σ_S c_S f(S), and the same for the intercept.
        """
        return np.stack([self.amplification(), np.abs(self.intercept_weights())]) @ self.weight

    def combined_error_factor(self) -> float:
        """Return the effect of a unit error of 1/D: full for β, one hundredth for the intercept."""
        # With a large penalty β hardly depends on f, and 1/D could be arbitrary. Then the
        # intercept, which is not penalized, would be arbitrary too.
        return float((self.error_factors() / TOLERANCES).max())

    def amplification(self) -> Float[Array, " sizes"]:
        """Return the mean of |κ_j| over the sets of size s, the effect of unit weight on β_j."""
        if_kept, if_removed = self.coefficient_weights()
        s = np.arange(self.d + 1)
        return ((self.d - s) * np.abs(if_kept) + s * np.abs(if_removed)) / self.d


def size_weight(d: int, bandwidth: float) -> Float[Array, " sizes"]:
    """Return LIME's weights ψ(s) = exp(−(1 − √(1 − s/d))²/(2ν²)) for s = 0..d.

    1 − √(1 − s/d) is the cosine distance of a mask to the mask of the full text. ν = ∞ gives 1.
    """
    # ν = 0.25 is the kernel of the `lime` package, whose width is 25 on distances times 100. Its
    # weight is the square root of exp(−distance²/width²), which gives the factor 2.
    s = np.arange(d + 1)
    # Beyond these ψ is 1 or 0 at every s > 0, and ν² would overflow or underflow.
    width = min(max(bandwidth, 1e-150), 1e150)
    return np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * width**2))


@lru_cache(maxsize=4096)
def lime_design(
    d: int, *, bandwidth: float = 0.25, penalty: float = 0.0, rows: int | None = None
) -> LimeDesign:
    """Return the weights that turn outputs into coefficients of LIME, for d words and n → ∞.

    Row 0 has weight 1 next to n samples, so the weight at s = 0 is 1/n.

    Domain: d ≥ 2, ν > 0, ρ ≥ 0, n ≥ 1.

    Parameters
    ----------
    d
        Number of words.
    bandwidth
        ν, the width of the kernel.
    penalty
        ρ, the ridge penalty divided by the number of samples.
    rows
        n, the number of samples beside row 0. None leaves out row 0.

    Returns
    -------
    The design.

    Raises
    ------
    DomainError
        If d is below 2, or if no mask has a weight that counts.
    InputError
        If another value is outside the domain.
    """
    _check_settings(d, bandwidth, penalty, rows)
    s = np.arange(d + 1)
    weight = size_weight(d, bandwidth) / d
    weight[0] = 0.0 if rows is None else 1.0 / rows
    m0 = float(np.sum(weight))
    # m_1 − m_2 = E[ψ Z_1 (1 − Z_2)], which has positive terms only. Below 1e-290 the smaller
    # weights are denormal numbers and have lost digits.
    V = float(weight @ (s * (d - s))) / (d * (d - 1))
    if V < 1e-290:
        raise DomainError(
            f"with bandwidth {bandwidth}, all samples of {d} features have the weight 0. Use a "
            "larger bandwidth."
        )
    excess = _mean_size_minus_size(weight)
    # V + dχ is the variance of the number of kept words, over d. The difference form
    # m_1 − m_2 + d(m_2 − m_1²/m_0) cancels: at d = 3 and ν = 0.05 it leaves four digits of 3e-17.
    spread = float(weight @ excess**2) / d
    if spread + penalty < np.finfo(np.float64).tiny:
        raise DomainError(
            f"with bandwidth {bandwidth}, only samples of one size have a weight ({d} features). "
            "Use a larger bandwidth."
        )
    return LimeDesign(
        d=d,
        weight=weight,
        m0=m0,
        m1=float(weight @ (d - s)) / d,
        V=V,
        excess=excess,
        spread=spread,
        penalty=penalty,
    )


def _check_settings(d: int, bandwidth: float, penalty: float, rows: int | None) -> None:
    """Raise an error for settings outside the domain of LIME's limit."""
    if d < 2:
        raise TooFewFeaturesError(f"LIME needs at least 2 features, but this text has {d}.")
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive, not {bandwidth}.")
    if not 0 <= penalty < math.inf:
        raise InputError(f"penalty must be finite and at least 0, not {penalty}.")
    if rows is not None and rows < 1:
        raise InputError(f"rows must be at least 1, not {rows}.")


def _mean_size_minus_size(weight: Float[Array, " sizes"]) -> Float[Array, " sizes"]:
    """Return the mean size minus s, for s = 0..d."""
    # With small d one size can have all the weight but 1e-20 of it. Its distance from the mean is
    # then 1e-20 too. Separate sums over larger and smaller sizes keep that. A difference from the
    # mean does not.
    share = weight / np.sum(weight)
    above, below = (np.cumsum(np.append(0.0, np.cumsum(x)[:-1])) for x in (share[::-1], share))
    return above[::-1] - below
