"""Weights on set sizes as mixtures of independent removals.

Removing each of n words independently with probability p gives size s with probability
Binom(s; n, p). A mixture Σ_m ω_m Binom(s; n, p_m) of a few such laws reproduces any smooth weight
on the sizes s = 0..n.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.table_rounding import ROUNDING


class RemovalMixture(NamedTuple):
    """Nodes p and weights ω, the weight that they give to each size, and a bound on its error."""

    p: Float[Array, " M"]
    omega: Float[Array, " M"]
    attained: Float[Array, " sizes"]
    residual: Float[Array, " sizes"]

    @property
    def total_residual(self) -> float:
        """Return Σ_s|r_s|, the error of a mean of f − c where max|f − c| = 1."""
        return float(np.sum(self.residual))

    @property
    def mass(self) -> float:
        """Return Σ|ω|."""
        return float(np.sum(np.abs(self.omega)))

    @property
    def rounding_factor(self) -> float:
        """Return Σ|ω|/(p(1 − p)), the largest amplification of the rounding of a word's factor."""
        return float(np.sum(np.abs(self.omega) / (self.p * (1 - self.p))))


# Every word is removed with probability 1/2.
FAIR_COINS = RemovalMixture(np.full(1, 0.5), np.ones(1), np.ones(1), np.zeros(1))


def size_probabilities(n: int, p: Float[Array, " M"]) -> Float[Array, "sizes M"]:
    """Return Binom(s; n, p) for s = 0..n.

    The relative error of each is at most (8 + 4n) units of rounding.

    Domain: 0 < p < 1.
    """
    # In logarithms: binomial coefficients overflow from n = 1030 on, powers of p underflow. Sums
    # run from the nearer end, where they are shorter, and so give s and n − s the same coefficient.
    s = np.arange(n + 1)
    steps = np.log(np.arange(n, 0, -1)) - np.log(np.arange(1, n + 1))
    choose = np.concatenate([[0.0], np.cumsum(steps)])
    choose = np.where(2 * s <= n, choose, choose[::-1])
    return np.exp(choose[:, None] + np.outer(s, np.log(p)) + np.outer(n - s, np.log1p(-p)))


@lru_cache(maxsize=512)
def _legendre_rule(M: int) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    """Return the nodes and weights of the Gauss–Legendre rule with M nodes on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(M)
    return (1 + x) / 2, w / 2


def removal_mixture(
    target: Float[Array, " sizes"],
    amplification: Float[Array, " sizes"],
    *,
    tolerance: float,
    ignores_ends: bool = False,
) -> RemovalMixture:
    """Fit a mixture of removal probabilities, so that sets of each size get the wanted weight.

    A node of the mixture is a probability p. It removes every word independently.

    The condition is Σ_s amplification_s |residual_s| ≤ ``tolerance``. If no mixture of up to n + 9
    laws meets it, the best one is returned, so read ``residual``.

    Parameters
    ----------
    target
        The wanted weight of each size 0..n.
    amplification
        The cost of a unit error of the weight at each size.
    tolerance
        The largest allowed cost.
    ignores_ends
        Whether sizes 0 and n are not fitted. The caller knows the one set of each of these sizes
        and corrects them by ``attained``. Their residual then contains rounding only.

    Returns
    -------
    The mixture, with the weights that it attains and a bound on their error.
    """
    (mixture,) = fit_mixtures_with_shared_nodes(
        [(target, amplification)], tolerance, ignores_ends=ignores_ends
    )
    return mixture


def fit_mixtures_with_shared_nodes(
    weights: Sequence[tuple[Float[Array, " sizes"], Float[Array, " sizes"]]],
    tolerance: float,
    *,
    ignores_ends: bool,
) -> list[RemovalMixture]:
    """Fit several mixtures with the same removal probabilities, as `removal_mixture` fits one.

    Parameters
    ----------
    weights
        For each mixture, the wanted weight of each size, and the cost of a unit error there.
    tolerance
        The largest allowed cost of each mixture.
    ignores_ends
        Whether the weights of sizes 0 and n may have any value.

    Returns
    -------
    One mixture for each entry of ``weights``. All have the same nodes ``p``.
    """
    # Each node costs a pass over all words and nodes λ, a fit only once per (d, ν): so the search
    # is for few nodes. It begins where they may be enough, and goes in steps of 4 %. Gauss–Legendre
    # with n/2 nodes would be exact for Shapley; about 2.7 √n are enough for 1e-6 and 3.3 √n for
    # 1e-9. Nodes graded towards both ends, p = 1/(1 + e^{−2 sinh y}), with weights fitted to smooth
    # f needed half as many at n = 255, but their error could be estimated only, not proven.
    n = len(weights[0][0]) - 1
    best, least = list[RemovalMixture](), math.inf
    M = max(1, min(n, int((1.9 - 0.055 * math.log(tolerance)) * math.sqrt(n))))
    # n + 1 different laws span all weights: a few more can only help rounding
    while n + 9 >= M and least > tolerance:
        fits = [_fit_mixture(*weight, M, ignores_ends) for weight in weights]
        costs = (cost @ fit.residual for (_, cost), fit in zip(weights, fits, strict=True))
        worst = float(max(costs))
        if not best or worst < least:
            best, least = fits, worst
        M += 1 + M // 24
    return best


@lru_cache(maxsize=4096)
def uniform_mixture(sizes: int, *, weight: float, tolerance: float) -> RemovalMixture:
    """Return the mixture that gives the sizes 0, 1, …, ``sizes`` − 1 the same ``weight``."""
    return removal_mixture(np.full(sizes, weight), np.ones(sizes), tolerance=tolerance)


def _fit_mixture(
    target: Float[Array, " sizes"],
    amplification: Float[Array, " sizes"],
    M: int,
    ignores_ends: bool,
) -> RemovalMixture:
    """Fit the weights ω of M Gauss–Legendre nodes p to the target, and bound the residual."""
    n = len(target) - 1
    p = _legendre_rule(M)[0]
    laws = size_probabilities(n, p)
    scale = amplification.copy()
    if ignores_ends:
        scale[0] = scale[-1] = 0.0
    # Neighboring laws are nearly the same. Dropping their small singular values keeps Σ|ω| near
    # 1. Otherwise weights of both signs grew to Σ|ω| = 4 at n = 255, and rounding with them.
    omega = np.linalg.lstsq(laws * scale[:, None], target * scale, rcond=1e-14)[0]
    attained = laws @ omega
    error = np.abs(attained - target)
    if ignores_ends:
        error[0] = error[-1] = 0.0
    # The residual is that of the fitted weights as they are, with the roundings of the laws.
    rounding = (8 + 4 * n + M) * ROUNDING * (laws @ np.abs(omega))
    return RemovalMixture(p=p, omega=omega, attained=attained, residual=error + rounding)
