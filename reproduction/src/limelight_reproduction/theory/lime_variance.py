"""The standard error of sampled LIME, without sampling.

A regression on n random masks estimates the limit β with an error that is a mean of n independent
terms, ψ κ_j (f − ℓ): ℓ is the limit's linear model, κ_j the row of the inverse design that belongs
to word j, a function of Z_j and of the size s alone (`lime_weights.LimeDesign.coefficient_weights`). So

    n · Var β̂_j → E[ψ² κ_j(Z_j, s)² (f − ℓ)²].

Heads enter in pairs, as in `lime_fit`, and ℓ is one more of them, with D = 1. With t and τ = 1 − t
the tilted probabilities that a word is kept and removed and Γ = A − B,

    E_p[Z_j N N'/(D D')] = ∬ P t_j [(R + τ_j Γ_j)(R' + τ_j Γ'_j) + Σ_{k≠j} t_k τ_k Γ_k Γ'_k].
"""

import numpy as np

from limelight import DomainError, InputError
from limelight.shapes import Array, Float
from limelight.theory.conditionals import reciprocal_sums
from limelight.theory.heavy_form import full_and_empty_values, heavy_form
from limelight.theory.lime import lime
from limelight.theory.lime_fit import (
    MAX_SQUARED_RATIO,
    ExponentialSum,
    exponential_sums,
    tilted_moments,
    unordered_pairs,
)
from limelight.theory.lime_weights import LimeDesign, lime_design, size_weight
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame
from limelight.theory.reciprocal_sum import check_tolerance
from limelight.theory.removal_mixture import RemovalMixture, mixtures_with_shared_nodes

_LOST = 1e-3  # of all weight: what a mixture may miss before the answer is refused


def lime_variance(
    game: RatioGame, *, bandwidth: float = 0.25, power: float = 0.0, tolerance: float = 1e-6
) -> Float[Array, "C d"]:
    """n · Var β̂_j of LIME on n masks of one document, n → ∞, without penalty or selection.

    Sizes are drawn in proportion to ψ^``power`` (0: uniformly, as the `lime` package does).
    ``tolerance`` is the relative error allowed to 1/D and to the weights of the sizes. Domain:
    d ≥ 2. Cost O(K² Q² M d).
    """
    check_tolerance(tolerance)
    if game.batch:
        raise InputError(f"one document at a time has a variance; got a batch of {game.batch}.")
    xp = array_namespace(game.a)
    design = lime_design(game.d, bandwidth=bandwidth)
    if game.d == 2:  # three masks, three coefficients: nothing is left over
        return xp.zeros_like(game.A[0])
    limit = lime(game, bandwidth=bandwidth, tolerance=tolerance)
    form = heavy_form(game)
    if not bool(xp.all(form.ratio < MAX_SQUARED_RATIO)):
        raise DomainError(
            f"the standard error of LIME needs denominators within a factor of {MAX_SQUARED_RATIO:g} of "
            "each other; here one feature outweighs all others."
        )
    kept, removed = _weights(design, bandwidth, power)
    # On the same nodes: every one of them is a pass over all pairs.
    shares = [(x, np.full_like(x, 1 / np.sum(x))) for x in (kept, removed)]
    with_word, without = mixtures_with_shared_nodes(shares, tolerance, free_ends=True)
    if (
        max(with_word.total_residual / np.sum(kept), without.total_residual / np.sum(removed))
        > _LOST
    ):
        raise DomainError(
            "the standard error of LIME needs a larger bandwidth for so few features as "
            f"{game.d}: nearly all weight lies on one size."
        )
    # ℓ is taken off as one more part, whose denominator does not move.
    one = xp.ones_like(form.delta[:1])
    center = xp.mean(form.c, axis=0) - limit.intercept
    line = ExponentialSum(one[:, 0], one, one, -limit.scores, xp.zeros_like(limit.scores), center)
    total = xp.zeros_like(limit.scores)
    for times, first, second in unordered_pairs(
        [*exponential_sums(form, reciprocal_sums(form, tolerance)), line]
    ):
        total = total + times * _pair(first, second, with_word, without)
    full, empty = (xp.mean(x, axis=0) for x in full_and_empty_values(form))
    full, empty = full + center - xp.sum(limit.scores, axis=-1), empty + center
    # The whole text keeps every word and the empty one none: one set each, corrected by hand.
    first, last = -with_word.attained[0], removed[-1] - without.attained[-1]
    total = total + (first * full**2 + last * empty**2)[:, None]
    return xp.where(total > 0, total, xp.zeros_like(total))


def _weights(
    design: LimeDesign, bandwidth: float, power: float
) -> tuple[Float[np.ndarray, " sizes"], Float[np.ndarray, " sizes"]]:
    """What (f − ℓ)² counts at each size, where the word is kept and where it is removed."""
    drawn = size_weight(design.d, bandwidth) ** power
    drawn = drawn / np.sum(drawn[1:])
    # With sizes drawn by q a sample weighs ψ/(d q): Σ_s q (ψ/(d q))² κ² is left. No mask is whole.
    # Where ψ vanishes in double precision nothing is drawn, and nothing weighs.
    some = (np.arange(design.d + 1) > 0) & (drawn > 0)
    weight = np.where(some, design.weight**2 / np.where(some, drawn, 1.0), 0.0)
    kept, removed = design.coefficient_weights()
    return weight * kept**2, weight * removed**2


def _pair(
    one: ExponentialSum, two: ExponentialSum, with_word: RemovalMixture, without: RemovalMixture
) -> Float[Array, "C d"]:
    """Σ_m E_p[(ω_m Z_j + ω'_m (1 − Z_j)) f f'] of two parts, for every word j."""
    xp = array_namespace(one.keep)
    step, other = (xp.matrix_transpose(x.A - x.B) for x in (one, two))
    cross, C = step * other, step.shape[1]
    total = xp.zeros_like(cross)
    weights = with_word.omega.tolist(), without.omega.tolist()
    for at, omega, rest in zip(tilted_moments(one, two, with_word.p), *weights, strict=True):
        P, t, tau, R, R_other = at
        spread = t * tau
        mean = P * (R * R_other + spread @ cross)
        tau -= t
        skew = xp.matrix_transpose(xp.matrix_transpose(P) @ (spread * tau))
        pulls = xp.matrix_transpose(spread) @ xp.concat([P * R_other, P * R], axis=1)
        kept = xp.matrix_transpose(t) @ mean
        kept = kept + step * pulls[:, :C] + other * pulls[:, C:] + cross * skew
        total = total + omega * kept + rest * (xp.sum(mean, axis=0) - kept)
    return xp.matrix_transpose(total)
