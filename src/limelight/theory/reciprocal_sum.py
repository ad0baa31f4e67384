"""Certified sums of exponentials for x^{−p}: Σ_i w_i e^{−λ_i x} ≈ x^{−p} on [1, R], 0 < p ≤ 1.

Nodes are evenly spaced in log λ, weights fitted by least squares to the relative error (known
ingredients: Braess & Hackbusch 2005, Beylkin & Monzón 2005). The fit itself proves no accuracy:
``error`` is a proven bound on |x^p Σ w_i e^{−λ_i x} − 1| over the whole interval, the points
between grid points included. Every constant in this module is for p = 1, the worst case.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Float

# Nodes run from e^low/R to e^high. (−1, 2.5) needed the fewest nodes in 45 of 48 cases, sometimes
# tied (R from 3 to 1e8, three tolerances). The other pairs save nodes in the other cases.
_ENDS = ((-0.5, 2.0), (-0.5, 2.5), (-1.0, 2.5), (-1.0, 3.0), (-1.5, 2.5))
_WORST_CONDITION = 64.0  # limit of the rounding errors of weights of both signs
_MAX_TERMS = 2**22
_MAX_FITS = 15  # numbers of nodes to try, each with all `_ENDS`
MAX_RATIO = 1e300  # beyond, the smallest nodes would be denormal numbers
_FOURTH = 3.2  # at least sup |(z d/dz)⁴ (z^p e^{−z})|, 3.194 at p = 1; a test checks it


class ReciprocalSum(NamedTuple):
    """Nodes λ, weights w and the certified relative error on [1, R]."""

    nodes: Float[Array, " Q"]
    weights: Float[Array, " Q"]
    error: float
    R: float
    power: float = 1.0

    @property
    def condition(self) -> float:
        """Return a bound on x^p Σ|w_i| e^{−λ_i x}, the absolute sum relative to x^{−p}."""
        # Σ|w| = Σw + 2 Σw⁻, the first sum being x^{−p} up to the error; x^p e^{−λx} ≤ (p/(eλ))^p.
        peak = (self.power / (math.e * self.nodes)) ** self.power
        return (
            1 + self.error + 2 * float(np.sum(np.where(self.weights < 0, -self.weights, 0) * peak))
        )


def check_tolerance(tolerance: float) -> None:
    """Raise InputError for a tolerance that is not between 0 and 1."""
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance must be between 0 and 1, not {tolerance}.")


def reciprocal_sum(R: float, tolerance: float, power: float = 1.0) -> ReciprocalSum:
    """Return a sum of exponentials for x^{−p} with a certified relative error on [1, R].

    The interval is [1, R'], where R' ≥ R is the next half-decade. R and ``tolerance`` are rounded
    to a coarse grid, so that the documents of a corpus share a few cached sums. Domain: 1 ≤ R ≤
    1e300, 0 < power ≤ 1. A tolerance outside 1e-13..½ is clipped.
    """
    if not 1 <= R <= MAX_RATIO:
        raise DomainError(f"1/x needs an interval [1, R] with 1 ≤ R ≤ {MAX_RATIO:g}, not R = {R}.")
    if not 0 < power <= 1:
        raise DomainError(f"a sum of exponentials for x^−p needs 0 < p ≤ 1, not p = {power}.")
    # Rounded up. But the log10 of an exact half-decade may be too large by a rounding error, which
    # must not add another half-decade.
    half_decades = max(1, math.ceil(2 * math.log10(R) - 1e-12))
    # Rounded down. A relative error above ½ is useless for 1/x. A huge penalty may allow it, and
    # then an empty sum would be accurate enough, but it has no certificate.
    eighths = math.floor(8 * math.log2(min(max(tolerance, 1e-13), 0.5)) + 1e-9)
    return _find_certified_sum(half_decades, eighths, power)


@lru_cache(maxsize=1024)
def _find_certified_sum(half_decades: int, eighths: int, power: float) -> ReciprocalSum:
    """Search a sum of exponentials for x^{−p} whose error on [1, R] is proven to be small.

    Fitted sums are tried first, then the trapezoid rule. ``half_decades`` is 2 log₁₀ R, and
    ``eighths`` is 8 log₂ of the tolerance. Both are whole numbers, so that sums can be cached.
    """
    R, tolerance = 10 ** (half_decades / 2), 2 ** (eighths / 8)
    # Both kinds of sums have a certificate. A fit needs 15 to 35 % fewer nodes than the trapezoid
    # rule, which needs no search.
    digits = -math.log(tolerance)
    # Two nodes below the smallest number that is usually enough. A search from 2 is 5 times slower.
    first = max(2, int(0.45 * digits - 0.7 + (0.32 + 0.118 * digits) * half_decades))
    # Beyond 16 decades or 12 digits the fit is limited by its rounding errors, and a long search
    # fails. The trapezoid rule has no such limit. A successful fit is among the first few numbers
    # of nodes: a longer search took up to 8 seconds to save a fifth of the nodes.
    fits_well = half_decades <= 32 and tolerance > 9e-13
    for Q in range(first, first + _MAX_FITS) if fits_well else ():
        fits = [_least_squares(R, Q, low, high, power) for low, high in _ENDS]
        near = [fit for fit in fits if fit[2] < tolerance]
        for nodes, weights, _ in sorted(near, key=lambda fit: fit[2]):
            error = certified_error(nodes, weights, R, slack=tolerance / 16, power=power)
            fit = ReciprocalSum(nodes=nodes, weights=weights, error=error, R=R, power=power)
            if error <= tolerance and fit.condition < _WORST_CONDITION:
                return fit
    return _trapezoid(R, tolerance, power)


def _trapezoid(R: float, tolerance: float, power: float) -> ReciprocalSum:
    r"""Return the trapezoid rule in y = log λ for Γ(p) x^{−p} = ∫ e^{py} e^{−x e^y} dy.

    With step h and all nodes, Poisson's summation formula gives the relative error exactly. It is
    at most 2 Σ_{m ≥ 1} |Γ(p + iη_m)|/Γ(p), η_m = 2πm/h, for every x. It grows with p, and
    |Γ(1 + iη)|² = πη/sinh(πη). Of the nodes, those below λ are merged into one with their mass and
    their mean, which costs at most x^{p+2}/2 times their second central moment, and those from
    Λ ≥ 1 on are dropped, which costs (hΛ + 1) e^{−Λ}. All weights are positive.
    """
    # A grid as in `certified_error` would be as fine at R = 1e300 as at 1e4, and as long as log R:
    # minutes for 1e-12. The formulas are fast for every R.
    h = math.pi**2 / (1.5 - math.log(tolerance))
    while _aliasing_error(h) > 0.6 * tolerance:
        h *= 0.97
    third, mass = power + 2, h / math.gamma(power)
    low = (0.4 * tolerance * -math.expm1(-third * h) / mass) ** (1 / third) / R
    high = 1.0
    while (h * high + 1) * math.exp(-high) > 0.2 * tolerance:
        high += 0.25
    y = math.log(low) + h * np.arange(1 + math.ceil((math.log(high) - math.log(low)) / h))
    nodes = np.exp(y)
    weights = mass * nodes**power
    # The first node replaces itself and all smaller nodes: geometric series of masses and moments.
    # In units of the lowest node, whose powers would be denormal at R = 1e300.
    below, mean = (
        mass / -math.expm1(-power * h),
        math.expm1(-power * h) / math.expm1(-(power + 1) * h),
    )
    weights[0], nodes[0] = below * low**power, low * mean
    merged = (mass / -math.expm1(-third * h) - below * mean**2) * (R * low) ** third
    dropped = float(np.exp(y[-1] + h))
    error = _aliasing_error(h) + merged / 2 + (h * dropped + 1) * math.exp(-dropped)
    # A node has an error of three roundings of y, up to 700. Its term changes by |1 − λx| times
    # that, and the sum by at most 2/e + 0.48 h times that: `docs/theorems/reciprocal-sum.md`.
    node_error = 2.0**-51 * max(1.0, h) * float(np.max(np.abs(y)))
    return ReciprocalSum(
        nodes, weights, error + node_error + _rounding_error(1.0, len(nodes)), R, power
    )


def _aliasing_error(h: float) -> float:
    """Return 2 Σ_{m ≥ 1} |Γ(1 + 2πim/h)|, the error of the trapezoid rule with step h in log λ."""
    # √(πη/sinh(πη)) < 2 √(πη) e^{−πη/2}, which does not overflow. Each term is at most e^{−π²/h}
    # times the previous one, so the last of 40 is far below rounding.
    eta = 2 * np.pi * np.arange(1, 41) / h
    return float(2 * np.sum(2 * np.sqrt(np.pi * eta) * np.exp(-np.pi * eta / 2)))


def _least_squares(
    R: float, Q: int, low: float, high: float, power: float
) -> tuple[Float[Array, " Q"], Float[Array, " Q"], float]:
    """Return nodes, weights and the error at the fitting points, which are dense at both ends.

    The error includes the rounding term of `certified_error`, so that a certificate rarely fails.
    """
    n = 8 * Q + 60
    y = math.log(R) * (1 - np.cos(np.pi * (np.arange(n) + 0.5) / n)) / 2
    x = np.exp(y)
    nodes = np.exp(np.linspace(low - math.log(R), high, Q))
    basis = x[:, None] ** power * np.exp(-np.outer(x, nodes))
    # Columns of unit length, so that the cutoff of singular values does not remove small columns.
    # Without this 60 nodes reach 1e-3 at R = 1e12, with it 1e-7.
    size = np.linalg.norm(basis, axis=0)
    weights = np.linalg.lstsq(basis / size, np.ones(n), rcond=1e-15)[0] / size
    rounding = _rounding_error(float(np.max(basis @ np.abs(weights))), Q)
    return nodes, weights, float(np.max(np.abs(basis @ weights - 1))) + rounding


def certified_error(
    nodes: Float[Array, " Q"],
    weights: Float[Array, " Q"],
    R: float,
    *,
    slack: float,
    power: float = 1.0,
) -> float:
    r"""Return a bound on the relative error |g| of a sum of exponentials over 1 ≤ x ≤ R.

    The relative error is g(log x) = x^p Σ w_i e^{−λ_i x} − 1.

    On a grid of step η in y = log x, twice the bound on linear interpolation gives

        max|g| ≤ max_grid|g| + η²/8 · (max_grid|g″| + η²/8 · max|g⁗|),

    where |g⁗| ≤ sup|(z d/dz)⁴ z^p e^{−z}| · Σ|w_i|/λ_i^p holds everywhere.

    Parameters
    ----------
    nodes, weights
        The λ_i and w_i.
    R
        The end of the interval.
    slack
        Twice the last term of the bound, which determines the step of the grid.
    power
        The p of x^{−p}.

    Returns
    -------
    The bound. It is infinite if the grid would need more than 2²² terms, a tenth of a second.
    """
    # With a bound on g″ from its formula, 1e-9 at R = 1e4 would need 1.5e6 points. But g″ is small
    # where g is small. So g″ is computed on the grid too, only g⁗ comes from a formula, and 4e3
    # points are enough.
    term_sizes = weights / nodes**power
    fourth = _FOURTH * float(np.sum(np.abs(term_sizes)))
    step = (32 * slack / fourth) ** 0.25
    n = 2 + math.ceil(math.log(R) / step)
    if n * len(nodes) > _MAX_TERMS:
        return math.inf
    worst = bend = sizes = 0.0
    grid = np.linspace(0, math.log(R), n)
    for y in np.array_split(grid, max(1, n * len(nodes) // 2**20)):
        # With z = λx a term is (w/λ^p) h(z), h = z^p e^{−z}; z d/dz twice gives h ((p − z)² − z).
        # Beyond 1,000 both are 0 in double precision, while z² may be infinite: 0 · ∞ is no number.
        z = np.minimum(np.exp(y)[:, None] * nodes, 1e3)
        terms = z**power * np.exp(-z) * term_sizes
        worst = max(worst, float(np.max(np.abs(np.sum(terms, axis=1) - 1))))
        bend = max(bend, float(np.max(np.abs(np.sum(terms * ((power - z) ** 2 - z), axis=1)))))
        # A relative error of z is z times as large in e^{−z}, hence 1 + z.
        sizes = max(sizes, float(np.max(np.sum(np.abs(terms) * (1 + z), axis=1))))
    eta = float((grid[1] - grid[0]) ** 2 / 8)
    # Terms of g″ and their rounding are at most 12 |w|/λ^p, below 4 times the bound of g⁗.
    bend += _rounding_error(4 * fourth, len(nodes))
    return worst + _rounding_error(sizes, len(nodes)) + eta * (bend + eta * fourth)


def _rounding_error(size: float, Q: int) -> float:
    """Return a bound on the rounding error of a sum of Q terms with the absolute sum ``size``."""
    # A term has an error of 12 half units, and a sum of Q terms of Q more. For Q ≥ 2, 4Q units are
    # larger than both, for every order of the sum.
    return 4 * Q * 2.0**-52 * size
