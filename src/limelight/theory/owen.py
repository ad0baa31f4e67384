"""Owen values: words inside groups, as in sentences (Owen 1977).

Groups come in random order, and the words of each group in random order inside it. So another group
is there as a whole or not at all, with probability 1 − p, the other words of one's own group each
with probability 1 − q, and

    Ow_j = ∫₀¹ ∫₀¹ (E_{p,q}[f | j kept] − E_{p,q}[f | j removed]) dq dp.

With 1/D = ∫ e^{−λD} dλ these are three quadratures. A whole group H contributes the factor
(1 − p) e^{−λ Σ_H a} + p e^{−λ Σ_H b}; since p occurs outside the own group only, and q inside, the
sum over p is taken first and serves all nodes q.
"""

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Array, Float, Int
from limelight.theory.conditionals import light_terms, of_single_heads
from limelight.theory.heavy_form import HeavyForm, heavy_form
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, Valued, heads_mean
from limelight.theory.reciprocal_sum import ReciprocalSum, need_tolerance
from limelight.theory.removal_mixture import RemovalMixture, even_mixture


def owen(game: RatioGame, groups: Int[np.ndarray, " d"], *, tolerance: float = 1e-6) -> Valued:
    """Owen values of the words of one document; ``groups`` gives the group 0, 1, … of each word.

    ``tolerance`` is relative to the range of f. Any d ≥ 1 and any groups: with one group, and with
    groups of one word each, these are the Shapley values. Those of a group add up to the Shapley
    value of the group as one word.
    """
    need_tolerance(tolerance)
    members = _members(game, groups)
    form = heavy_form(game)
    # Every number of removed others has the same weight.
    between, *within = (
        even_mixture(n, weight=1 / n, tolerance=0.2 * tolerance)
        for n in (len(members), *map(len, members))
    )

    def of_head(_: int, head: HeavyForm, rule: ReciprocalSum) -> Float[Array, "C d"]:
        return _head(head, rule, members, between, within)

    # Two values of f enter: 2 half_range × (0.5 for 1/D + 2 × 0.2 for the mixtures).
    longest = max(len(one.p) for one in within) + len(between.p)
    scores, epsilon, rounding = of_single_heads(form, 0.5 * tolerance, of_head, nodes=longest)
    # The weight of a pair of sizes is the product of two; so is what the mixtures attain.
    missed = max(between.missed + one.missed * (1 + between.missed) for one in within)
    mass = max(between.mass * one.mass for one in within) + missed
    terms = max(between.mass * one.terms for one in within)
    error = 2 * form.half_range * (missed + epsilon * mass)
    error = error + 2 * form.magnitude * rounding * terms + 2 * form.error
    return Valued(*heads_mean(game, scores, error))


def _members(game: RatioGame, groups: Int[np.ndarray, " d"]) -> list[Int[np.ndarray, " _"]]:
    """The words of every group."""
    if game.batch:
        raise InputError(f"owen takes one document at a time; got a batch of shape {game.batch}.")
    if len(groups) != game.d:
        raise InputError(f"groups must name one group per feature ({game.d}); got {len(groups)}.")
    return [np.flatnonzero(groups == name) for name in np.unique(groups)]


def _head(
    form: HeavyForm,
    rule: ReciprocalSum,
    members: list[Int[np.ndarray, " _"]],
    between: RemovalMixture,
    within: list[RemovalMixture],
) -> Float[Array, "C d"]:
    """Owen values of one head."""
    xp = array_namespace(form.delta)
    nodes = array_like(rule.nodes, form.delta)
    index = [xp.asarray(words, device=form.delta.device) for words in members]
    parts = [form.of_words(words) for words in index]
    outside = _outside(form, parts, nodes, light_terms(form.base, rule), between)
    found = [
        _inside(part, nodes, *sums, one)
        for part, sums, one in zip(parts, outside, within, strict=True)
    ]
    back = xp.argsort(xp.concat(index, axis=0))
    return xp.take(xp.concat(found, axis=-1), back, axis=-1)


def _outside(
    form: HeavyForm,
    parts: list[HeavyForm],
    nodes: Float[Array, " Q"],
    w: Float[Array, " Q"],
    between: RemovalMixture,
) -> list[tuple[Float[Array, " Q"], Float[Array, "C Q"]]]:
    """For every group what the others say, summed over p: Σ ω P and Σ ω P R at each λ."""
    xp = array_namespace(form.delta)
    p, omega = (array_like(x, form.delta)[:, None] for x in (between.p, between.omega))
    sides = []
    for part in parts:
        heavy = xp.astype(part.kept_is_heavy, form.delta.dtype)
        kept = (1 - p) * xp.exp(-nodes * xp.sum(heavy * part.delta))
        gone = p * xp.exp(-nodes * xp.sum((1 - heavy) * part.delta))
        phi = kept + gone
        # Both underflow where λD is large; the product below is then 0, whatever the quotient.
        share = kept / xp.where(phi > 0, phi, xp.ones_like(phi))
        with_it = xp.sum(part.step * heavy, axis=-1)[:, None, None]
        without = xp.sum(part.step * (1 - heavy), axis=-1)[:, None, None]
        sides.append((phi, share * with_it + (1 - share) * without))
    # Products of all but one from both sides: a quotient by a φ near 0 would lose its digits.
    one, nothing = xp.ones_like(sides[0][0]), xp.zeros_like(sides[0][1])
    before, after = [(one, nothing)], [(one, nothing)]
    for phi, mean in sides[:-1]:
        before.append((before[-1][0] * phi, before[-1][1] + mean))
    for phi, mean in sides[:0:-1]:
        after.append((after[-1][0] * phi, after[-1][1] + mean))
    out = []
    for (left, first), (right, second) in zip(before, after[::-1], strict=True):
        P = omega * w * left * right
        R = form.n0[:, None, None] + first + second
        out.append((xp.sum(P, axis=0), xp.sum(P * R, axis=1)))
    return out


def _inside(
    part: HeavyForm,
    nodes: Float[Array, " Q"],
    P: Float[Array, " Q"],
    PR: Float[Array, "C Q"],
    within: RemovalMixture,
) -> Float[Array, "C n"]:
    """The change of f by each word of a group, summed over q and λ."""
    xp = array_namespace(part.delta)
    heavy = xp.astype(part.kept_is_heavy, part.delta.dtype)
    # expm1: 1 − e^{−λδ} cancels for words that weigh nearly the same kept and removed.
    exponent = -nodes[:, None] * part.delta
    E, minus_F = xp.exp(exponent), xp.expm1(exponent)
    total = xp.zeros_like(part.step)
    for q, omega in zip(within.p.tolist(), within.omega.tolist(), strict=True):
        v = heavy * (1 - q) + (1 - heavy) * q
        phi = (1 - v) + v * E
        z = v * E / phi
        others = omega * xp.prod(phi, axis=-1)[:, None] / phi
        own = z[None] * part.step[:, None, :]  # (C, Q, n)
        R = xp.sum(own, axis=-1, keepdims=True) - own
        # kept − removed: e^{−λδ}(R + Δ) − R = (e^{−λδ} − 1) R + e^{−λδ} Δ in the heavier state.
        change = minus_F * (PR[..., None] + P[:, None] * R)
        change = change + (E * P[:, None])[None] * part.step[:, None, :]
        total = total + xp.sum(others * change, axis=1)
    return total * (2 * heavy - 1)
