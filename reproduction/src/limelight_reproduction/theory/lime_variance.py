"""The standard error of sampled LIME, without sampling.

A regression on n random masks estimates the limit β with an error that is a mean of n independent
terms, ψ κ_j (f − ℓ): ℓ is the limit's linear model, κ_j the row of the inverse design that belongs
to word j, a function of Z_j and of the size s alone
(`lime_weights.LimeDesign.coefficient_weights`). So

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
from limelight.theory.removal_mixture import RemovalMixture, fit_mixtures_with_shared_nodes

_MAX_LOST_WEIGHT = 1e-3  # share of all weight that a mixture may miss without an error


def lime_variance(
    game: RatioGame, *, bandwidth: float = 0.25, power: float = 0.0, tolerance: float = 1e-6
) -> Float[Array, "C d"]:
    """Return n · Var β̂_j of LIME on n masks of one document, n → ∞, without penalty or selection.

    Domain: d ≥ 2. Cost O(K² Q² M d).

    Parameters
    ----------
    game
        The game of the document.
    bandwidth
        ν, the width of the kernel.
    power
        Sizes are drawn in proportion to ψ^power. With 0 they are uniform, as in the `lime` package.
    tolerance
        The relative error allowed to 1/D and to the weights of the sizes.

    Returns
    -------
    The variance of each coefficient, for each class.

    Raises
    ------
    DomainError
        If the document has fewer than two words.
    """
    check_tolerance(tolerance)
    if game.batch:
        raise InputError(f"the variance of LIME needs one document, not a batch of {game.batch}.")
    xp = array_namespace(game.a)
    design = lime_design(game.d, bandwidth=bandwidth)
    if game.d == 2:  # three masks, three coefficients: nothing is left over
        return xp.zeros_like(game.A[0])
    limit = lime(game, bandwidth=bandwidth, tolerance=tolerance)
    form = heavy_form(game)
    if not bool(xp.all(form.ratio < MAX_SQUARED_RATIO)):
        raise DomainError(
            "the standard error of LIME needs denominators within a factor of "
            f"{MAX_SQUARED_RATIO:g} of each other, but one feature outweighs all others."
        )
    kept_weight, removed_weight = _weights(design, bandwidth, power)
    # Both mixtures use the same nodes, because every node is a pass over all pairs.
    shares = [(x, np.full_like(x, 1 / np.sum(x))) for x in (kept_weight, removed_weight)]
    with_word, without = fit_mixtures_with_shared_nodes(shares, tolerance, ignores_ends=True)
    if (
        max(
            with_word.total_residual / np.sum(kept_weight),
            without.total_residual / np.sum(removed_weight),
        )
        > _MAX_LOST_WEIGHT
    ):
        raise DomainError(
            f"nearly all weight lies on one size of the samples of {game.d} features. The "
            "standard error of LIME needs a larger bandwidth."
        )
    # ℓ is subtracted as one more exponential sum, whose denominator does not move.
    unit = xp.ones_like(form.delta[:1])
    center = xp.mean(form.c, axis=0) - limit.intercept
    line = ExponentialSum(
        unit[:, 0], unit, unit, -limit.scores, xp.zeros_like(limit.scores), center
    )
    total = xp.zeros_like(limit.scores)
    for times, first, second in unordered_pairs(
        [*exponential_sums(form, reciprocal_sums(form, tolerance)), line]
    ):
        total = total + times * _pair(first, second, with_word, without)
    full, empty = (xp.mean(x, axis=0) for x in full_and_empty_values(form))
    full, empty = full + center - xp.sum(limit.scores, axis=-1), empty + center
    # The full text and the empty text are one mask each. Their weights are corrected by hand.
    first, last = -with_word.attained[0], removed_weight[-1] - without.attained[-1]
    total = total + (first * full**2 + last * empty**2)[:, None]
    return xp.where(total > 0, total, xp.zeros_like(total))


def _weights(
    design: LimeDesign, bandwidth: float, power: float
) -> tuple[Float[np.ndarray, " sizes"], Float[np.ndarray, " sizes"]]:
    """Return the weight of (f − ℓ)² at each size, with the word kept and with it removed."""
    size_probability = size_weight(design.d, bandwidth) ** power
    size_probability = size_probability / np.sum(size_probability[1:])
    # With sizes drawn by q a sample weighs ψ/(d q), which gives Σ_s q (ψ/(d q))² κ². No mask keeps
    # all words. Where ψ vanishes in double precision, no size is drawn and the weight is 0.
    positive = (np.arange(design.d + 1) > 0) & (size_probability > 0)
    weight = np.where(positive, design.weight**2 / np.where(positive, size_probability, 1.0), 0.0)
    kept_coefficient, removed_coefficient = design.coefficient_weights()
    return weight * kept_coefficient**2, weight * removed_coefficient**2


def _pair(
    first: ExponentialSum,
    second: ExponentialSum,
    with_word: RemovalMixture,
    without: RemovalMixture,
) -> Float[Array, "C d"]:
    """Return Σ_m E_p[(ω_m Z_j + ω'_m (1 − Z_j)) f f'] of two parts, for every word j."""
    xp = array_namespace(first.keep)
    step, second_step = (xp.matrix_transpose(part.A - part.B) for part in (first, second))
    cross, C = step * second_step, step.shape[1]
    total = xp.zeros_like(cross)
    weights = with_word.omega.tolist(), without.omega.tolist()
    for moments, omega, omega_without in zip(
        tilted_moments(first, second, with_word.p), *weights, strict=True
    ):
        P, t, tau, R, R_second = moments
        spread = t * tau
        mean = P * (R * R_second + spread @ cross)
        tau -= t
        skew = xp.matrix_transpose(xp.matrix_transpose(P) @ (spread * tau))
        pulls = xp.matrix_transpose(spread) @ xp.concat([P * R_second, P * R], axis=1)
        kept_sum = xp.matrix_transpose(t) @ mean
        kept_sum = kept_sum + step * pulls[:, :C] + second_step * pulls[:, C:] + cross * skew
        total = total + omega * kept_sum + omega_without * (xp.sum(mean, axis=0) - kept_sum)
    return xp.matrix_transpose(total)
