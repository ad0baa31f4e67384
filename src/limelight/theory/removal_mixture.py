"""Weights on set sizes as mixtures of independent removals.

Removing each of n words independently with probability p gives size s with probability Binom(s; n,
p). A mixture Σ_m ω_m Binom(s; n, p_m) of a few such laws reproduces any smooth weight on the sizes
s = 0..n.
"""

__all__ = ["RemovalMixture", "removal_mixture", "size_probabilities"]

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.shapes import Array, Float

_ROUNDING = 2.0**-52


class RemovalMixture(NamedTuple):
    """Nodes p, weights ω, the weight they give each size, and a bound on its distance from the
    target.
    """

    p: Float[Array, " M"]
    omega: Float[Array, " M"]
    attained: Float[Array, " sizes"]
    residual: Float[Array, " sizes"]


def size_probabilities(n: int, p: Float[Array, " M"]) -> Float[Array, "sizes M"]:
    """Binom(s; n, p) for s = 0..n, each to a relative error of (8 + 4n) units of rounding. Domain:
    0 < p < 1.
    """
    s = np.arange(n + 1)
    steps = np.log(np.arange(n, 0, -1)) - np.log(np.arange(1, n + 1))
    choose = np.concatenate([[0.0], np.cumsum(steps)])
    choose = np.where(2 * s <= n, choose, choose[::-1])
    return np.exp(choose[:, None] + np.outer(s, np.log(p)) + np.outer(n - s, np.log1p(-p)))


@lru_cache(maxsize=512)
def _legendre(M: int) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    x, w = np.polynomial.legendre.leggauss(M)
    return (1 + x) / 2, w / 2


def removal_mixture(
    target: Float[Array, " sizes"],
    amplification: Float[Array, " sizes"],
    *,
    tolerance: float,
    free_ends: bool = False,
) -> RemovalMixture:
    """The smallest Gauss–Legendre mixture with Σ_s amplification_s |residual_s| ≤ ``tolerance``.

    ``amplification`` says what an error at size s costs. With ``free_ends`` sizes 0 and n are not
    fitted: the caller knows the one set of each of these sizes and corrects them by ``attained``;
    their residual then holds rounding only. Where no mixture of up to n + 9 laws serves, the best
    one is returned: look at ``residual``.
    """
    n = len(target) - 1
    best: tuple[float, RemovalMixture] | None = None
    M = max(1, min(n, int((1.9 - 0.055 * math.log(tolerance)) * math.sqrt(n))))
    while n + 9 >= M:
        mixture = _fitted(target, amplification, M, free_ends)
        cost = float(amplification @ mixture.residual)
        if best is None or cost < best[0]:
            best = cost, mixture
        if cost <= tolerance:
            break
        M += 1 + M // 24
    assert best is not None  # noqa: S101 (the loop runs at least once)
    return best[1]


def _fitted(
    target: Float[Array, " sizes"],
    amplification: Float[Array, " sizes"],
    M: int,
    free_ends: bool,
) -> RemovalMixture:
    n = len(target) - 1
    p = _legendre(M)[0]
    laws = size_probabilities(n, p)
    scale = amplification.copy()
    if free_ends:
        scale[0] = scale[-1] = 0.0
    omega = np.linalg.lstsq(laws * scale[:, None], target * scale, rcond=1e-14)[0]
    attained = laws @ omega
    off = np.abs(attained - target)
    if free_ends:
        off[0] = off[-1] = 0.0
    rounding = (8 + 4 * n + M) * _ROUNDING * (laws @ np.abs(omega))
    return RemovalMixture(p=p, omega=omega, attained=attained, residual=off + rounding)
