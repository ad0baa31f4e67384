"""The exact R² of LIME's limit: the goodness of fit of its linear model.

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
from limelight.theory.conditionals import light_terms, product, reciprocal_sums
from limelight.theory.heavy_form import (
    HeavyForm,
    full_and_empty_values,
    heavy_form,
    kept_and_removed_factors,
    kept_and_removed_values,
)
from limelight.theory.lime import LimePlan, lime, lime_plan
from limelight.theory.lime_weights import RegressionSettings
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, select_documents, word_counts
from limelight.theory.reciprocal_sum import ReciprocalSum, check_tolerance
from limelight.theory.table_rounding import ROUNDING

MAX_SQUARED_RATIO = 1e140  # of D_max/D_min, so that its square does not overflow


class LimeRSquared(NamedTuple):
    """R² of the weighted regression (1 if f is constant), and a bound on its error."""

    r2: Float[Array, "*batch C"]
    bound: Float[Array, "*batch C"]


def lime_fit(
    game: RatioGame, *, tolerance: float = 1e-6, **settings: Unpack[RegressionSettings]
) -> LimeRSquared:
    """Return the exact R² of LIME's limit for each document. Domain: d ≥ 2.

    The keywords are `RegressionSettings`. The cost is O(K² Q² M d) per document.
    """
    check_tolerance(tolerance)
    xp = array_namespace(game.a)
    # One document at a time: the arrays of a pair of heads are (Q, Q, d), too large for a batch.
    parts = [
        _document_fit(select_documents(game, [i]), d, tolerance=tolerance, **settings)
        for i, d in enumerate(word_counts(game))
    ]
    r2, bound = (
        xp.reshape(xp.stack(x, axis=0), (*game.batch, game.C)) for x in zip(*parts, strict=True)
    )
    return LimeRSquared(r2=r2, bound=bound)


def _document_fit(
    game: RatioGame, d: int, *, tolerance: float, **settings: Unpack[RegressionSettings]
) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
    """Return R² and a bound on its error for one document."""
    xp = array_namespace(game.a)
    plan = lime_plan(d, tolerance=tolerance, **settings)
    design = plan.design
    limit = lime(game, tolerance=tolerance, **settings)
    form = heavy_form(game)
    square, error = _second_moment(form, plan, tolerance)
    # E[ψ (f − c)²] of the exact f, which differs from the f of the game by ``f_error`` at most.
    f_error = xp.mean(form.error, axis=0)
    error = error + design.m0 * f_error * (2 * xp.mean(form.half_range, axis=0) + f_error)
    beta, beta_error = limit.scores[0], limit.bound[0]
    slope = xp.sum(beta, axis=-1)
    # E[ψ (f − c)]/m_0, computed from the intercept, which has a bound.
    mean = limit.intercept[0] - xp.mean(form.c, axis=0) + design.m1 / design.m0 * slope
    mean_error = limit.intercept_bound[0] + d * design.m1 / design.m0 * beta_error
    # This cancels if f hardly varies. The shift by c, the middle of the range, keeps both terms
    # within half_range². R² has no bound below 1 if the error is more than half of the spread.
    spread = square - design.m0 * mean**2
    error = error + design.m0 * mean_error * (2 * xp.abs(mean) + mean_error)
    V, penalty = design.V, design.penalty
    # 2 β·c − βᵀGβ by the normal equations (G + ρ) β = c, G = V + χ 11ᵀ: c is not needed.
    explained = (V + 2 * penalty) * xp.sum(beta**2, axis=-1) + design.covariance * slope**2
    size = xp.sum(xp.abs(beta), axis=-1)
    factor = V + 2 * penalty + d * abs(design.covariance)
    explained_error = factor * beta_error * (2 * size + d * beta_error)
    # False for NaN too, which comes from heads so peaked that their product overflows.
    is_bounded = spread > 2 * error
    unit = xp.ones_like(spread)
    min_spread = xp.where(is_bounded, spread - error, unit)
    r2 = xp.where(is_bounded, explained / xp.where(is_bounded, spread, unit), unit)
    bound = xp.where(is_bounded, (explained_error + xp.abs(r2) * error) / min_spread, unit)
    # R² lies between 0 and 1, so clipping to that interval does not increase the error.
    return xp.minimum(xp.maximum(r2, 0 * unit), unit), xp.minimum(bound, unit)


def _second_moment(
    form: HeavyForm, plan: LimePlan, tolerance: float
) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
    """Return E[ψ (f − c)²] of the mean of f − c over the heads, and a bound on its error."""
    xp, mixture, rules = (
        array_namespace(form.delta),
        plan.mixture,
        reciprocal_sums(form, tolerance / 4),
    )
    total = xp.zeros_like(form.n0[0])
    for count, first, second in unordered_pairs(exponential_sums(form, rules)):
        cross = xp.matrix_transpose((first.A - first.B) * (second.A - second.B))
        for omega, moments in zip(
            mixture.omega.tolist(), tilted_moments(first, second, mixture.p), strict=True
        ):
            values = moments.R * moments.R_other + (moments.t * moments.tau) @ cross
            total = total + count * omega * xp.sum(moments.P * values, axis=0)
    full, empty = (xp.mean(x, axis=0) for x in full_and_empty_values(form))
    full_weight, empty_weight = plan.corrections
    total = total + full_weight * full**2 + empty_weight * empty**2
    h, size = xp.mean(form.half_range, axis=0), xp.mean(form.magnitude, axis=0)
    # A product of two sums of exponentials has the relative error ε (2 + ε).
    epsilon, condition = max(rule.error for rule in rules), max(rule.condition for rule in rules)
    mass, residual = mixture.mass, mixture.total_residual
    steps = 8 * form.delta.shape[1] + max(len(x.nodes) for x in rules) ** 2 * len(mixture.p)
    rounding = ROUNDING * (steps + 64) * condition**2
    error = h**2 * (epsilon * (2 + epsilon) * (mass + residual) + residual)
    error = error + 4 * size**2 * rounding * (mass + abs(full_weight) + abs(empty_weight))
    # Products of two small nodes underflow if heads are more peaked than this.
    return total, error if bool(xp.all(form.ratio < MAX_SQUARED_RATIO)) else xp.inf + error


class ExponentialSum(NamedTuple):
    """A part of f as a sum of exponentials, with factors and values of kept and removed words."""

    weights: Float[Array, " Q"]
    keep: Float[Array, "Q d"]
    drop: Float[Array, "Q d"]
    A: Float[Array, "C d"]
    B: Float[Array, "C d"]
    n0: Float[Array, " C"]


def exponential_sums(form: HeavyForm, rules: Sequence[ReciprocalSum]) -> list[ExponentialSum]:
    """Return the heads of f − c as sums of exponentials, each divided by the number of heads."""
    sums = []
    for i, rule in enumerate(rules):
        head = form.head(i)
        factors = kept_and_removed_factors(head, array_like(rule.nodes, form.delta))
        weights = light_terms(head.base, rule) / len(rules)
        sums.append(ExponentialSum(weights, *factors, *kept_and_removed_values(head), head.n0))
    return sums


def unordered_pairs(
    parts: Sequence[ExponentialSum],
) -> Iterator[tuple[int, ExponentialSum, ExponentialSum]]:
    """Yield each unordered pair of the parts of a sum, with its count in the square of the sum."""
    for i, first in enumerate(parts):
        for k, second in enumerate(parts[i:], start=i):
            yield 1 if i == k else 2, first, second


class TiltedMoments(NamedTuple):
    """Tilted probabilities and means of two parts at all n = Q Q' pairs of their nodes λ."""

    P: Float[Array, "n 1"]
    t: Float[Array, "n d"]
    tau: Float[Array, "n d"]
    R: Float[Array, "n C"]
    R_other: Float[Array, "n C"]


def tilted_moments(
    first: ExponentialSum, second: ExponentialSum, p_nodes: Float[Array, " M"]
) -> Iterator[TiltedMoments]:
    """Yield the tilted moments for one removal probability p after another, to limit the memory."""
    xp, d = array_namespace(first.keep), first.keep.shape[-1]
    # A word can be heavier kept in one head and heavier removed in the other. So no state has the
    # factor 1 as in `conditionals`, and both factors are stored.
    keep = xp.reshape(first.keep[:, None] * second.keep, (-1, d))
    drop = xp.reshape(first.drop[:, None] * second.drop, (-1, d))
    weight = xp.reshape(first.weights[:, None] * second.weights, (-1, 1))
    A, B = (
        xp.matrix_transpose(xp.concat(x, axis=0))
        for x in ((first.A, second.A), (first.B, second.B))
    )
    n0, C = xp.concat([first.n0, second.n0], axis=0), first.n0.shape[0]
    for p in p_nodes.tolist():
        t, tau = (1 - p) * keep, p * drop
        phi = t + tau
        P = weight * product(phi)[:, None]
        # If both states underflow (each heavy in one head), P is 0 too, for any t and τ.
        phi = xp.clip(phi, min=sys.float_info.min)
        # τ is not computed as 1 − t, which loses its digits when t is nearly 1.
        t /= phi
        tau /= phi
        R = t @ A + tau @ B + n0
        yield TiltedMoments(P, t, tau, R[:, :C], R[:, C:])
