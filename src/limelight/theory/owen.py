"""Owen values: words inside groups, as in sentences (Owen 1977).

The groups are added in random order, and the words of each group in random order inside it. So
another group is kept or removed as a whole: it is kept with probability 1 − p. Each other word of
the same group is kept with probability 1 − q, and

    Ow_j = ∫₀¹ ∫₀¹ (E_{p,q}[f | j kept] − E_{p,q}[f | j removed]) dq dp.

With 1/D = ∫ e^{−λD} dλ these are three quadratures. A whole group H contributes the factor
(1 − p) e^{−λ Σ_H a} + p e^{−λ Σ_H b}; p occurs only outside the group of word j and q only
inside, so the sum over p is taken first and serves all nodes q.
"""

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Array, Float, Int
from limelight.theory.conditionals import light_terms, solve_heads
from limelight.theory.heavy_form import HeavyForm, heavy_form
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import BoundedScores, RatioGame, mean_over_heads
from limelight.theory.reciprocal_sum import ReciprocalSum, check_tolerance
from limelight.theory.removal_mixture import RemovalMixture, uniform_mixture


def owen(
    game: RatioGame, groups: Int[np.ndarray, " d"], *, tolerance: float = 1e-6
) -> BoundedScores:
    """Return the Owen values of the words of one document.

    ``groups`` has the number of the group of each word. With one group, and with groups of one word
    each, the Owen values are the Shapley values. The Owen values of a group add up to the Shapley
    value of the group as one word. ``tolerance`` is relative to the range of f. Domain: d ≥ 1.
    """
    check_tolerance(tolerance)
    members = _members(game, groups)
    form = heavy_form(game)
    # Every number of other removed words, or groups, has the same weight.
    between, *within = (
        uniform_mixture(n, weight=1 / n, tolerance=0.2 * tolerance)
        for n in (len(members), *map(len, members))
    )

    def solve_head(_: int, head: HeavyForm, rule: ReciprocalSum) -> Float[Array, "C d"]:
        """Return the Owen values of one head."""
        return _head_owen_values(head, rule, members, between, within)

    # Two values of f enter: 2 half_range × (0.5 for 1/D + 2 × 0.2 for the mixtures).
    longest = max(len(mixture.p) for mixture in within) + len(between.p)
    scores, epsilon, rounding = solve_heads(form, 0.5 * tolerance, solve_head, nodes=longest)
    # The weight of a pair of sizes is a product of two weights, and so is the attained weight.
    outer = between.total_residual
    residual = max(outer + x.total_residual * (1 + outer) for x in within)
    mass = max(between.mass * x.mass for x in within) + residual
    rounding_factor = max(between.mass * x.rounding_factor for x in within)
    error = 2 * form.half_range * (residual + epsilon * mass)
    error = error + 2 * form.magnitude * rounding * rounding_factor + 2 * form.error
    return BoundedScores(*mean_over_heads(game, scores, error))


def _members(game: RatioGame, groups: Int[np.ndarray, " d"]) -> list[Int[np.ndarray, " _"]]:
    """Return the indices of the words of every group."""
    if game.batch:
        raise InputError(f"owen needs a single document, not a batch of shape {game.batch}.")
    if len(groups) != game.d:
        raise InputError(f"groups must have one entry per feature ({game.d}), not {len(groups)}.")
    return [np.flatnonzero(groups == name) for name in np.unique(groups)]


def _head_owen_values(
    form: HeavyForm,
    rule: ReciprocalSum,
    members: list[Int[np.ndarray, " _"]],
    between: RemovalMixture,
    within: list[RemovalMixture],
) -> Float[Array, "C d"]:
    """Return the Owen values of one head."""
    xp = array_namespace(form.delta)
    nodes = array_like(rule.nodes, form.delta)
    index = [xp.asarray(words, device=form.delta.device) for words in members]
    parts = [form.select_words(words) for words in index]
    outside = _sums_over_other_groups(form, parts, nodes, light_terms(form.base, rule), between)
    scores = [
        _group_scores(part, nodes, *sums, mixture)
        for part, sums, mixture in zip(parts, outside, within, strict=True)
    ]
    back = xp.argsort(xp.concat(index, axis=0))
    return xp.take(xp.concat(scores, axis=-1), back, axis=-1)


def _sums_over_other_groups(
    form: HeavyForm,
    parts: list[HeavyForm],
    nodes: Float[Array, " Q"],
    w: Float[Array, " Q"],
    between: RemovalMixture,
) -> list[tuple[Float[Array, " Q"], Float[Array, "C Q"]]]:
    """Return Σ ω P and Σ ω P R at each λ for every group: the sums over p for the other groups."""
    xp = array_namespace(form.delta)
    p, omega = (array_like(x, form.delta)[:, None] for x in (between.p, between.omega))
    sides = []
    for part in parts:
        heavy = xp.astype(part.kept_is_heavy, form.delta.dtype)
        if_kept = (1 - p) * xp.exp(-nodes * xp.sum(heavy * part.delta))
        if_removed = p * xp.exp(-nodes * xp.sum((1 - heavy) * part.delta))
        phi = if_kept + if_removed
        # Both underflow where λD is large; the product below is then 0 for any quotient.
        share = if_kept / xp.where(phi > 0, phi, xp.ones_like(phi))
        kept_value = xp.sum(part.step * heavy, axis=-1)[:, None, None]
        removed_value = xp.sum(part.step * (1 - heavy), axis=-1)[:, None, None]
        sides.append((phi, share * kept_value + (1 - share) * removed_value))
    # Products of all factors but one, from both ends: a quotient by a φ near 0 would lose its
    # digits.
    ones, zeros = xp.ones_like(sides[0][0]), xp.zeros_like(sides[0][1])
    before, after = [(ones, zeros)], [(ones, zeros)]
    for phi, mean in sides[:-1]:
        before.append((before[-1][0] * phi, before[-1][1] + mean))
    for phi, mean in sides[:0:-1]:
        after.append((after[-1][0] * phi, after[-1][1] + mean))
    sums = []
    for (left_product, first), (right_product, second) in zip(before, after[::-1], strict=True):
        P = omega * w * left_product * right_product
        R = form.n0[:, None, None] + first + second
        sums.append((xp.sum(P, axis=0), xp.sum(P * R, axis=1)))
    return sums


def _group_scores(
    part: HeavyForm,
    nodes: Float[Array, " Q"],
    P: Float[Array, " Q"],
    PR: Float[Array, "C Q"],
    within: RemovalMixture,
) -> Float[Array, "C n"]:
    """Return the change of f by each word of a group, summed over q and λ."""
    xp = array_namespace(part.delta)
    heavy = xp.astype(part.kept_is_heavy, part.delta.dtype)
    # expm1: 1 − e^{−λδ} cancels for words with nearly the same weight kept and removed.
    exponent = -nodes[:, None] * part.delta
    E, minus_F = xp.exp(exponent), xp.expm1(exponent)
    total = xp.zeros_like(part.step)
    for q, omega in zip(within.p.tolist(), within.omega.tolist(), strict=True):
        v = heavy * (1 - q) + (1 - heavy) * q
        phi = (1 - v) + v * E
        z = v * E / phi
        other_factors = omega * xp.prod(phi, axis=-1)[:, None] / phi
        word_means = z[None] * part.step[:, None, :]  # (C, Q, n)
        R = xp.sum(word_means, axis=-1, keepdims=True) - word_means
        # kept − removed: e^{−λδ}(R + Δ) − R = (e^{−λδ} − 1) R + e^{−λδ} Δ in the heavier state.
        change = minus_F * (PR[..., None] + P[:, None] * R)
        change = change + (E * P[:, None])[None] * part.step[:, None, :]
        total = total + xp.sum(other_factors * change, axis=1)
    return total * (2 * heavy - 1)
