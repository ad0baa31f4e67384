"""LIME's design: what its sampling and its weights alone say, before any model is asked.

A size s is drawn uniformly from 1..d, then a set of s words to remove; the sample weighs ψ(s).
Moments of this design:

    m_0 = E[ψ],  m_1 = E[ψ Z_1],  m_2 = E[ψ Z_1 Z_2],  V = m_1 − m_2,  χ = m_2 − m_1²/m_0.

Each coefficient is a functional β_j = E[ψ κ_j f], in which κ_j depends on Z_j and s alone.
"""

import math
from functools import lru_cache
from typing import NamedTuple, TypedDict

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Float

TOLERANCES = np.array([1.0, 100.0])  # of β and of the intercept, which may be off by more


class Regression(TypedDict, total=False):
    """What LIME's regression is told: keywords of all that is said about its limit.

    ``bandwidth`` ν > 0 (0.25; inf: no weights); ``penalty`` ρ ≥ 0 per sample (0; alpha = 1 of the
    `lime` package with n samples is ρ = 1/n); ``rows`` = n adds the untouched document, which that
    package has as row 0, beside n samples (None: n → ∞, where it vanishes).
    """

    bandwidth: float
    penalty: float
    rows: int | None


class Lime(NamedTuple):
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
        """χ = m_2 − m_1²/m_0, weighted: of two words being kept."""
        return (self.spread - self.V) / self.d

    @property
    def pull(self) -> float:
        """χ/(V + ρ + dχ), the share of Σ c_k that leaves each coefficient."""
        return self.covariance / (self.spread + self.penalty)

    def coefficient(self) -> tuple[Float[Array, " sizes"], Float[Array, " sizes"]]:
        """κ_j of β_j = E[ψ κ_j f], for s = 0..d: where Z_j = 1, and where Z_j = 0."""
        common = self.common()
        return (1 - common) / (self.V + self.penalty), -common / (self.V + self.penalty)

    def common(self) -> Float[Array, " sizes"]:
        """What β_j takes off Z_j at size s before it divides by V + ρ."""
        return self.m1 / self.m0 + self.pull * self.excess

    def intercept(self) -> Float[Array, " sizes"]:
        """κ_0 of the intercept E[ψ κ_0 f], for s = 0..d."""
        return (1 - self.m1 * self.excess / (self.spread + self.penalty)) / self.m0

    def reach(self) -> Float[np.ndarray, " 2"]:
        """Σ_S |c_S| of β_j = Σ_S c_S f(S), and of the intercept: what a unit error of f can do."""
        return np.stack([self.amplification(), np.abs(self.intercept())]) @ self.weight

    def demand(self) -> float:
        """What an error of 1/D counts: for β in full, for the intercept a hundredth."""
        # Under a penalty β hears next to nothing of f, and 1/D might be anything; the intercept,
        # which goes unpenalised, would be too.
        return float((self.reach() / TOLERANCES).max())

    def amplification(self) -> Float[Array, " sizes"]:
        """The mean of |κ_j| over the sets of size s: what a unit of weight there can do to β_j."""
        kept, removed = self.coefficient()
        s = np.arange(self.d + 1)
        return ((self.d - s) * np.abs(kept) + s * np.abs(removed)) / self.d


def size_weight(d: int, bandwidth: float) -> Float[Array, " sizes"]:
    """ψ(s) = exp(−(1 − √(1 − s/d))²/(2ν²)) for s = 0..d, LIME's weight; ν = ∞ gives 1.

    1 − √(1 − s/d) is the cosine distance of the mask to that of the whole text.
    """
    # ν = 0.25 is the kernel of the `lime` package, whose width is 25 on distances times 100. Its
    # weight is the square root of exp(−distance²/width²): hence the 2.
    s = np.arange(d + 1)
    # Past these ψ is 1 or 0 at every s > 0 already, and ν² would leave the range of the numbers.
    width = min(max(bandwidth, 1e-150), 1e150)
    return np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * width**2))


@lru_cache(maxsize=4096)
def lime_design(
    d: int, *, bandwidth: float = 0.25, penalty: float = 0.0, rows: int | None = None
) -> LimeDesign:
    """The design of LIME on d words; row 0, of weight 1 beside n samples, is 1/n at s = 0.

    Domain: d ≥ 2, ν > 0, ρ ≥ 0, n ≥ 1.
    """
    _check(d, bandwidth, penalty, rows)
    s = np.arange(d + 1)
    weight = size_weight(d, bandwidth) / d
    weight[0] = 0.0 if rows is None else 1.0 / rows
    m0 = float(np.sum(weight))
    # m_1 − m_2 = E[ψ Z_1 (1 − Z_2)], which has positive terms only. Below 1e-290 the smaller
    # weights are denormal numbers and have lost digits.
    V = float(weight @ (s * (d - s))) / (d * (d - 1))
    if V < 1e-290:
        raise DomainError(
            f"bandwidth {bandwidth} leaves no weight on any sample of {d} features; use a larger "
            "one."
        )
    excess = _centred(weight)
    # V + dχ is the variance of the number of kept words, over d. The difference form
    # m_1 − m_2 + d(m_2 − m_1²/m_0) cancels: at d = 3 and ν = 0.05 it leaves four digits of 3e-17.
    spread = float(weight @ excess**2) / d
    if spread + penalty < np.finfo(np.float64).tiny:
        raise DomainError(
            f"bandwidth {bandwidth} leaves weight on only one size of the samples of {d} features; "
            "use a larger one."
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


def _check(d: int, bandwidth: float, penalty: float, rows: int | None) -> None:
    if d < 2:
        raise DomainError(
            f"'lime' needs at least 2 features: with one, every sample is the same; got d = {d}."
        )
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive; got {bandwidth}.")
    if not 0 <= penalty < math.inf:
        raise InputError(f"penalty must be finite and not negative; got {penalty}.")
    if rows is not None and rows < 1:
        raise InputError(f"rows must be at least 1; got {rows}.")


def _centred(weight: Float[Array, " sizes"]) -> Float[Array, " sizes"]:
    """Mean size minus s."""
    # When d is small one size can hold all weight but 1e-20 of it. Its distance from the mean is
    # then 1e-20 too: sums over the larger and over the smaller sizes keep that, a difference from
    # the mean does not.
    share = weight / np.sum(weight)
    above, below = (np.cumsum(np.append(0.0, np.cumsum(x)[:-1])) for x in (share[::-1], share))
    return above[::-1] - below
