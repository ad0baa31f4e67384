"""How well LIME's linear model fits: the exact R² of the limit.

R² = 1 − E[ψ (f − b − β·Z)²] / E[ψ (f − E[ψf]/m_0)²] is quadratic in f, so heads enter in pairs and
1/(D D') is a double sum of exponentials. With t_j, τ_j the tilted probabilities that word j is kept
and removed and R, R' the tilted means of N, N',

    E_p[N N'/(D D')] = ∬ P [R R' + Σ_j t_j τ_j (A_j − B_j)(A'_j − B'_j)] dλ dλ'.

The regression's normal equations turn the rest into the numerator (V + 2ρ) Σβ² + χ (Σβ)².
"""

from typing import Any, NamedTuple, Unpack

from limelight.shapes import Array, Float
from limelight.theory.conditionals import light_terms, product
from limelight.theory.heavy_form import HeavyForm, heavy_form, state_factors, state_values
from limelight.theory.lime import ends, lime, lime_plan
from limelight.theory.lime_weights import Regression
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, of_documents, sizes_of
from limelight.theory.reciprocal_sum import ReciprocalSum, need_tolerance, reciprocal_sum
from limelight.theory.table_rounding import ROUNDING

MOST_SQUARED = 1e140  # of D_max/D_min, whose square double precision can hold with room to spare


class Fit(NamedTuple):
    """R² of the weighted regression, and a bound on its error (1 where f does not vary)."""

    r2: Float[Array, "*batch C"]
    bound: Float[Array, "*batch C"]


def lime_fit(game: RatioGame, *, tolerance: float = 1e-6, **told: Unpack[Regression]) -> Fit:
    """Exact R² of LIME's limit. Cost O(K² Q² M d); one document after another. Domain: d ≥ 2."""
    need_tolerance(tolerance)
    xp = array_namespace(game.a)
    # One after another: the arrays of a pair of heads are (Q, Q, d), and a batch of them is large.
    parts = [
        _document(of_documents(game, [i]), d, tolerance=tolerance, **told)
        for i, d in enumerate(sizes_of(game))
    ]
    r2, bound = (
        xp.reshape(xp.stack(x, axis=0), (*game.batch, game.C)) for x in zip(*parts, strict=True)
    )
    return Fit(r2=r2, bound=bound)


def _document(
    game: RatioGame, d: int, *, tolerance: float, **told: Unpack[Regression]
) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
    xp = array_namespace(game.a)
    plan = lime_plan(d, tolerance=tolerance, **told)
    design = plan.design
    fitted = lime(game, tolerance=tolerance, **told)
    form = heavy_form(game)
    square, error = _second_moment(form, plan, tolerance)
    # E[ψ (f − c)²] of the f that is meant: it lies within ``moved`` of ours, whatever is removed.
    moved = xp.mean(form.error, axis=0)
    error = error + design.m0 * moved * (2 * xp.mean(form.half_range, axis=0) + moved)
    beta, off = fitted.scores[0], fitted.bound[0]
    slope = xp.sum(beta, axis=-1)
    # E[ψ (f − c)]/m_0, read backwards from the intercept, whose bound is known.
    mean = fitted.intercept[0] - xp.mean(form.c, axis=0) + design.m1 / design.m0 * slope
    mean_off = fitted.intercept_bound[0] + d * design.m1 / design.m0 * off
    # This cancels where f hardly varies. The shift by c, the middle of the range, keeps both terms
    # within half_range², and `known` gives up where the error is half of what is left.
    spread = square - design.m0 * mean**2
    error = error + design.m0 * mean_off * (2 * xp.abs(mean) + mean_off)
    V, penalty = design.V, design.penalty
    # 2 β·c − βᵀGβ by the normal equations (G + ρ) β = c, G = V + χ 11ᵀ: c is not needed again.
    explained = (V + 2 * penalty) * xp.sum(beta**2, axis=-1) + design.covariance * slope**2
    size = xp.sum(xp.abs(beta), axis=-1)
    reach = V + 2 * penalty + d * abs(design.covariance)
    off = reach * off * (2 * size + d * off)
    known = spread > 2 * error
    safe = xp.where(known, spread - error, xp.ones_like(spread))
    # Unknown too where heads so peaked that their product overflows left no number.
    one = xp.ones_like(spread)
    r2 = xp.where(known, explained / xp.where(known, spread, one), one)
    bound = xp.where(known, (off + xp.abs(r2) * error) / safe, one)
    # R² lies between 0 and 1, so a value brought back there is no further from it.
    return xp.minimum(xp.maximum(r2, 0 * one), one), xp.minimum(bound, one)


def _second_moment(
    form: HeavyForm, plan: Any, tolerance: float
) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
    """E[ψ (f − c)²] of the mean f − c over the heads, and a bound on its error."""
    xp = array_namespace(form.delta)
    K = form.delta.shape[0]
    # One sum of exponentials for all pairs; a product of two has relative error ε (2 + ε).
    widest = max(1.0, float(xp.max(form.ratio)))
    rule = reciprocal_sum(widest, tolerance / 4, float(form.power[0]))
    total = xp.zeros_like(form.n0[0])
    for k in range(K):
        for other in range(k, K):
            pair = _pair(form.head(k), form.head(other), rule, plan.mixture)
            total = total + (1 if k == other else 2) * pair / K**2
    full, empty = (xp.mean(x, axis=0) for x in ends(form))
    first, last = plan.corrections
    total = total + first * full**2 + last * empty**2
    h = xp.mean(form.half_range, axis=0)
    size = xp.mean(form.magnitude, axis=0)
    mass, missed = plan.mixture.mass, plan.mixture.missed
    twice = rule.error * (2 + rule.error)
    steps = 8 * form.delta.shape[1] + len(rule.nodes) ** 2 * len(plan.mixture.p)
    rounding = ROUNDING * (steps + 64) * rule.condition**2
    error = h**2 * (twice * (mass + missed) + missed) + 4 * size**2 * rounding * (
        mass + abs(first) + abs(last)
    )
    # Products of two small nodes underflow where heads are more peaked than this.
    return total, error if widest < MOST_SQUARED else xp.inf + error


def _pair(one: HeavyForm, two: HeavyForm, rule: ReciprocalSum, mixture: Any) -> Float[Array, " C"]:
    """Σ_m ω_m E_p[f f'] of two heads."""
    xp = array_namespace(one.delta)
    nodes = array_like(rule.nodes, one.delta)
    w = light_terms(one.base, rule)[:, None] * light_terms(two.base, rule)
    (k1, r1), (k2, r2) = (state_factors(head, nodes) for head in (one, two))
    (A1, B1), (A2, B2) = (state_values(head) for head in (one, two))
    # One word can be heavier kept in one head and removed in the other, so neither state's factor
    # is 1 as in `conditionals`, and both are carried.
    keep, drop = k1[:, None] * k2, r1[:, None] * r2
    cross = (A1 - B1) * (A2 - B2)
    total = xp.zeros_like(one.n0)
    for p, omega in zip(mixture.p.tolist(), mixture.omega.tolist(), strict=True):
        phi = (1 - p) * keep + p * drop
        # Where both states underflow (heavy in one head each) P is 0 as well, whatever t and τ are.
        safe = xp.where(phi > 0, phi, xp.ones_like(phi))
        t, tau = (1 - p) * keep / safe, p * drop / safe
        P = omega * w * product(phi)
        R1 = t @ xp.matrix_transpose(A1) + tau @ xp.matrix_transpose(B1) + one.n0
        R2 = t @ xp.matrix_transpose(A2) + tau @ xp.matrix_transpose(B2) + two.n0
        values = R1 * R2 + (t * tau) @ xp.matrix_transpose(cross)
        total = total + xp.sum(P[..., None] * values, axis=(0, 1))
    return total
