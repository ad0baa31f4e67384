"""How well LIME's linear model fits: the exact R² of the limit.

R² = 1 − E[ψ (f − b − β·Z)²] / E[ψ (f − E[ψf]/m_0)²] is quadratic in f, so heads enter in pairs and
1/(D D') is a double sum of exponentials. With t_j, τ_j the tilted probabilities that word j is kept
and removed and R, R' the tilted means of N, N',

    E_p[N N'/(D D')] = ∬ P [R R' + Σ_j t_j τ_j (A_j − B_j)(A'_j − B'_j)] dλ dλ'.

The regression's normal equations turn the rest into the numerator (V + 2ρ) Σβ² + χ (Σβ)².
"""

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Unpack

from limelight.shapes import Array, Float
from limelight.theory.conditionals import light_terms, product, rules_of
from limelight.theory.heavy_form import HeavyForm, ends, heavy_form, state_factors, state_values
from limelight.theory.lime import LimePlan, lime, lime_plan
from limelight.theory.lime_weights import Regression
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, of_documents, sizes_of
from limelight.theory.reciprocal_sum import ReciprocalSum, need_tolerance
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
    form: HeavyForm, plan: LimePlan, tolerance: float
) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
    """E[ψ (f − c)²] of the mean f − c over the heads, and a bound on its error."""
    xp, mixture, rules = array_namespace(form.delta), plan.mixture, rules_of(form, tolerance / 4)
    total = xp.zeros_like(form.n0[0])
    for times, one, two in pairs(head_sums(form, rules)):
        cross = xp.matrix_transpose((one.A - one.B) * (two.A - two.B))
        for omega, at in zip(mixture.omega.tolist(), tilted(one, two, mixture.p), strict=True):
            values = at.R * at.R_other + (at.t * at.tau) @ cross
            total = total + times * omega * xp.sum(at.P * values, axis=0)
    full, empty = (xp.mean(x, axis=0) for x in ends(form))
    first, last = plan.corrections
    total = total + first * full**2 + last * empty**2
    h, size = xp.mean(form.half_range, axis=0), xp.mean(form.magnitude, axis=0)
    # A product of two sums of exponentials has the relative error ε (2 + ε).
    epsilon, condition = max(rule.error for rule in rules), max(rule.condition for rule in rules)
    mass, missed = mixture.mass, mixture.missed
    steps = 8 * form.delta.shape[1] + max(len(x.nodes) for x in rules) ** 2 * len(mixture.p)
    rounding = ROUNDING * (steps + 64) * condition**2
    error = h**2 * (epsilon * (2 + epsilon) * (mass + missed) + missed)
    error = error + 4 * size**2 * rounding * (mass + abs(first) + abs(last))
    # Products of two small nodes underflow where heads are more peaked than this.
    return total, error if bool(xp.all(form.ratio < MOST_SQUARED)) else xp.inf + error


class HeadSum(NamedTuple):
    """A part of f as a sum of exponentials: factors and values of kept and removed words."""

    weights: Float[Array, " Q"]
    keep: Float[Array, "Q d"]
    drop: Float[Array, "Q d"]
    A: Float[Array, "C d"]
    B: Float[Array, "C d"]
    n0: Float[Array, " C"]


def head_sums(form: HeavyForm, rules: Sequence[ReciprocalSum]) -> list[HeadSum]:
    """The heads of f − c, each over their number."""
    found = []
    for i, rule in enumerate(rules):
        head = form.head(i)
        factors = state_factors(head, array_like(rule.nodes, form.delta))
        weights = light_terms(head.base, rule) / len(rules)
        found.append(HeadSum(weights, *factors, *state_values(head), head.n0))
    return found


def pairs(parts: Sequence[HeadSum]) -> Iterator[tuple[int, HeadSum, HeadSum]]:
    """Every pair of parts of a squared sum, and how often it is in there."""
    for i, one in enumerate(parts):
        for k, two in enumerate(parts[i:], start=i):
            yield 1 if i == k else 2, one, two


class Tilted(NamedTuple):
    """What independent removals make of two parts at all n = Q Q' pairs of their nodes λ."""

    P: Float[Array, "n 1"]
    t: Float[Array, "n d"]
    tau: Float[Array, "n d"]
    R: Float[Array, "n C"]
    R_other: Float[Array, "n C"]


def tilted(one: HeadSum, two: HeadSum, at: Float[Array, " M"]) -> Iterator[Tilted]:
    """For one p after another: an array of pairs of nodes and words is large already."""
    xp, d = array_namespace(one.keep), one.keep.shape[-1]
    # One word can be heavier kept in one head and removed in the other, so neither state's factor
    # is 1 as in `conditionals`, and both are carried.
    keep = xp.reshape(one.keep[:, None] * two.keep, (-1, d))
    drop = xp.reshape(one.drop[:, None] * two.drop, (-1, d))
    weight = xp.reshape(one.weights[:, None] * two.weights, (-1, 1))
    A, B = (xp.matrix_transpose(xp.concat(x, axis=0)) for x in ((one.A, two.A), (one.B, two.B)))
    n0, C = xp.concat([one.n0, two.n0], axis=0), one.n0.shape[0]
    for p in at.tolist():
        t, tau = (1 - p) * keep, p * drop
        phi = t + tau
        P = weight * product(phi)[:, None]
        # Where both states underflow (heavy in one head each) P is 0 as well, whatever t and τ are.
        phi = xp.clip(phi, min=sys.float_info.min)
        # Not 1 − t for τ: what is removed may weigh 1e14 times the rest, and t is then nearly 1.
        t /= phi
        tau /= phi
        R = t @ A + tau @ B + n0
        yield Tilted(P, t, tau, R[:, :C], R[:, C:])
