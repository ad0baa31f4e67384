"""Certified sums of exponentials for x^{−p}: Σ_i w_i e^{−λ_i x} ≈ x^{−p} on [1, R], 0 < p ≤ 1.

The trapezoid rule in y = log λ for Γ(p) x^{−p} = ∫ e^{py} e^{−x e^y} dy, whose infinitely many
lowest nodes are replaced by a few of Gauss's. ``error`` is a proven bound on
|x^p Σ w_i e^{−λ_i x} − 1| over the whole interval, by formulas alone, and all weights are positive.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Float
from limelight.theory.table_rounding import ROUNDING

MOST_RATIO = 1e300  # beyond, the smallest nodes would be denormal numbers


class ReciprocalSum(NamedTuple):
    """Nodes λ, weights w and the certified relative error on [1, R]."""

    nodes: Float[Array, " Q"]
    weights: Float[Array, " Q"]
    error: float
    R: float
    power: float = 1.0


def need_tolerance(tolerance: float) -> None:
    """Refuse a tolerance that is not a share of the range of f."""
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance must lie between 0 and 1; got {tolerance}.")


def reciprocal_sum(R: float, tolerance: float, power: float = 1.0) -> ReciprocalSum:
    """A sum with certified relative error ≤ ``tolerance`` on [1, R'], for the half-decade R' ≥ R.

    Domain: 1 ≤ R ≤ 1e300, 0 < power ≤ 1, tolerance from 1e-13 to ½ (others are moved there). R and
    tolerance are rounded to a coarse grid, so that the documents of a corpus share a few cached
    sums.
    """
    if not 1 <= R <= MOST_RATIO:
        raise DomainError(f"1/x needs an interval [1, R] with 1 ≤ R ≤ {MOST_RATIO:g}; got R = {R}.")
    if not 0 < power <= 1:
        raise DomainError(f"a sum of exponentials for x^−p needs 0 < p ≤ 1; got p = {power}.")
    # Rounded up; but log10 of a whole half-decade may come out too large by a rounding, which must
    # not cost another.
    half_decades = max(1, math.ceil(2 * math.log10(R) - 1e-12))
    # Rounded down. A share above a half says nothing of 1/x: what is asked of it may be next to
    # nothing, as under a huge penalty, and a sum of no terms would do, which has no certificate.
    eighths = math.floor(8 * math.log2(min(max(tolerance, 1e-13), 0.5)) + 1e-9)
    return _trapezoid(half_decades, eighths, power)


@lru_cache(maxsize=1024)
def _trapezoid(half_decades: int, eighths: int, power: float) -> ReciprocalSum:
    r"""The rule whose parts are within three quarters, a tenth and a tenth of ε.

    With step h and all nodes the relative error is `_alias` at most. The nodes up to λ_0 become n
    of Gauss's, which costs at most x^{p+2n}/(2n)! times the squared norm of a polynomial; those
    from Λ ≥ 1 on are dropped, which costs (hΛ + 1) e^{−Λ}.
    """
    # Weights fitted by least squares and certified on a grid needed 5 % fewer nodes, in a search of
    # up to 75 fits, and only up to 16 decades and 12 digits.
    R, tolerance = 10 ** (half_decades / 2), 2 ** (eighths / 8)
    digits = -math.log(tolerance)
    h = math.pi**2 / digits
    while _alias(h, power) > 0.75 * tolerance:
        h *= 0.99
    # Each node of Gauss's stands for more than one of the rule's up to about this many.
    n, mass = 1 + int(0.3 * digits), h / math.gamma(power)
    share, below, cost = _gauss(n, h, power)
    order = power + 2 * n
    reach = (0.1 * tolerance / (mass * cost)) ** (1 / order)  # λ_0 R
    high = 1.0
    while (h * high + 1) * math.exp(-high) > 0.1 * tolerance:
        high += 0.25
    first = math.log(reach) - math.log(R)
    y = first + h * np.arange(1 + max(0, math.ceil((math.log(high) - first) / h)))
    nodes = np.concatenate([reach / R * share, np.exp(y[1:])])
    weights = mass * np.concatenate([(reach / R) ** power * below, np.exp(y[1:]) ** power])
    dropped = float(np.exp(y[-1] + h))
    error = _alias(h, power) + mass * cost * reach**order + (h * dropped + 1) * math.exp(-dropped)
    # A node is off by three roundings of y, up to 700. Its term moves by |1 − λx| as much, and all
    # terms by 2/e + 0.48 h as much at most: `docs/theorems/reciprocal-sum.md`.
    moved = 2 * ROUNDING * max(1.0, h) * float(np.max(np.abs(y)))
    # Gauss's are those of a matrix that is off by some roundings of its norm, which is at most 1.
    moved += 8 * ROUNDING * mass * float(np.sum(below)) * reach**power * (1 + reach)
    return ReciprocalSum(nodes, weights, error + moved + 4 * ROUNDING * len(nodes), R, power)


def _alias(h: float, power: float) -> float:
    """At least 2 Σ_{m ≥ 1} |Γ(p + iη)|/Γ(p), η = 2πm/h: what even steps h cost the sum."""
    # It grows with p. At p = 1 a term is √(πη/sinh πη) < 2 √(πη) e^{−πη/2}, in which nothing
    # overflows, at ½ it is 1/√cosh πη < √2 e^{−πη/2}. Terms fall by e^{−π²/h} at least, the last of
    # 40 by far below rounding.
    eta = 2 * np.pi * np.arange(1, 41) / h
    size = 2 * np.sqrt(np.pi * eta) if power > 0.5 else math.sqrt(2)
    return float(2 * np.sum(size * np.exp(-np.pi * eta / 2)))


def _gauss(n: int, h: float, power: float) -> tuple[Array, Array, float]:
    """Gauss's n nodes and weights for masses q^{pk} at q^k, k ≥ 0, q = e^{−h}, and ‖π_n‖²/(2n)!.

    π_n, the monic polynomial whose zeros the nodes are, is little q-Jacobi's with a = q^{p−1},
    b = 1, for which x π_k = π_{k+1} + (up_k + down_k) π_k + up_{k−1} down_k π_{k−1}.
    """
    k = np.arange(n + 1.0)

    def gap(exponent: Float[Array, "*k"]) -> Float[Array, "*k"]:
        return -np.expm1(-h * exponent)  # 1 − q^·

    up = np.exp(-h * k) * gap(power + k) ** 2 / (gap(power + 2 * k) * gap(power + 2 * k + 1))
    down = np.exp(-h * (power - 1 + k)) * gap(k) ** 2 / gap(power + 2 * k)
    down[1:] /= gap(power - 1 + 2 * k[1:])  # down_0 is 0
    beside = up[:-1] * down[1:]
    matrix = np.diag((up + down)[:-1]) + np.diag(np.sqrt(beside[:-1]), 1)
    nodes, vectors = np.linalg.eigh(matrix, UPLO="U")
    total = 1 / -math.expm1(-h * power)
    return nodes, total * vectors[0] ** 2, total * float(np.prod(beside)) / math.factorial(2 * n)
