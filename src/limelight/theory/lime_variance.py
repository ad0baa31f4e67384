"""The standard error of sampled LIME, without sampling.

A regression on n random masks estimates the limit β with an error that is a mean of n independent
terms, ψ κ_j (f − ℓ): ℓ is the limit's linear model, κ_j the row of the inverse design that belongs
to word j, a function of Z_j and of the size s alone (`lime_weights.LimeDesign.coefficient`). So

    n · Var β̂_j → E[ψ² κ_j(Z_j, s)² (f − ℓ)²].

Heads enter in pairs, as in `lime_fit`, and ℓ is one more of them, with D = 1. With t and τ = 1 − t
the tilted probabilities that a word is kept and removed and Γ = A − B,

    E_p[Z_j N N'/(D D')] = ∬ P t_j [(R + τ_j Γ_j)(R' + τ_j Γ'_j) + Σ_{k≠j} t_k τ_k Γ_k Γ'_k].
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Float
from limelight.theory.conditionals import light_terms, product, rules_of
from limelight.theory.heavy_form import HeavyForm, heavy_form, state_factors, state_values
from limelight.theory.lime import ends, lime
from limelight.theory.lime_fit import MOST_SQUARED
from limelight.theory.lime_weights import Lime, LimeDesign, lime_design, size_weight
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame
from limelight.theory.reciprocal_sum import need_tolerance
from limelight.theory.removal_mixture import RemovalMixture, removal_mixture

_LOST = 1e-3  # of all weight: what a mixture may miss before the answer is refused


class _Head(NamedTuple):
    """One part of f − ℓ as a sum of exponentials: factors and values of kept and removed words."""

    weights: Float[Array, " Q"]
    keep: Float[Array, "Q d"]
    drop: Float[Array, "Q d"]
    A: Float[Array, "C d"]
    B: Float[Array, "C d"]
    n0: Float[Array, " C"]


def lime_variance(
    game: RatioGame, *, bandwidth: float = 0.25, power: float = 0.0, tolerance: float = 1e-6
) -> Float[Array, "C d"]:
    """n · Var β̂_j of LIME on n masks of one document, n → ∞, without penalty or selection.

    Sizes are drawn in proportion to ψ^``power`` (0: uniformly, as the `lime` package does).
    ``tolerance`` is the relative error allowed to 1/D and to the weights of the sizes. Domain:
    d ≥ 2. Cost O(K² Q² M d).
    """
    need_tolerance(tolerance)
    if game.batch:
        raise InputError(f"one document at a time has a variance; got a batch of {game.batch}.")
    xp = array_namespace(game.a)
    design = lime_design(game.d, bandwidth=bandwidth)
    if game.d == 2:  # three masks, three coefficients: nothing is left over
        return xp.zeros_like(game.A[0])
    limit = lime(game, bandwidth=bandwidth, tolerance=tolerance)
    form = heavy_form(game)
    if not bool(xp.all(form.ratio < MOST_SQUARED)):
        raise DomainError(
            f"the standard error of LIME needs denominators within a factor of {MOST_SQUARED:g} of "
            "each other; here one word outweighs all others."
        )
    kept, removed = _weights(design, bandwidth, power)
    with_word, without = _mixtures(kept, removed, tolerance)
    heads = list(_heads(form, limit, tolerance))
    total = xp.zeros_like(limit.scores)
    for i, one in enumerate(heads):
        for k, two in enumerate(heads[i:], start=i):
            total = total + (1 if i == k else 2) * _pair(one, two, with_word, without)
    full, empty = (xp.mean(x, axis=0) for x in ends(form))
    centre = xp.mean(form.c, axis=0) - limit.intercept
    full, empty = full + centre - xp.sum(limit.scores, axis=-1), empty + centre
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
    kept, removed = design.coefficient()
    return weight * kept**2, weight * removed**2


def _mixtures(
    kept: Float[np.ndarray, " sizes"], removed: Float[np.ndarray, " sizes"], tolerance: float
) -> tuple[RemovalMixture, RemovalMixture]:
    """Mixtures over the same nodes for both weights; every node is a pass over all pairs."""
    nodes = 1
    for _ in range(8):
        both = [
            removal_mixture(
                target,
                np.full(len(target), 1 / np.sum(target)),
                tolerance=tolerance,
                free_ends=True,
                least=nodes,
            )
            for target in (kept, removed)
        ]
        nodes = max(len(one.p) for one in both)
        if len(both[0].p) == len(both[1].p):
            break
    worst = max(
        float(np.sum(mixture.residual) / np.sum(target))
        for mixture, target in zip(both, (kept, removed), strict=True)
    )
    if worst > _LOST or len(both[0].p) != len(both[1].p):
        raise DomainError(
            f"the standard error of LIME needs a larger bandwidth for so few words as "
            f"{len(kept) - 1}: nearly all weight lies on one size."
        )
    return both[0], both[1]


def _heads(form: HeavyForm, limit: Lime, tolerance: float) -> Iterator[_Head]:
    """The heads of f − c, each over K, and then the linear model, which is taken off."""
    xp = array_namespace(form.delta)
    K = form.delta.shape[0]
    for i, rule in enumerate(rules_of(form, tolerance)):
        head = form.head(i)
        factors = state_factors(head, array_like(rule.nodes, form.delta))
        yield _Head(light_terms(head.base, rule) / K, *factors, *state_values(head), head.n0)
    one = xp.ones_like(form.delta[:1])
    yield _Head(
        weights=one[:, 0],
        keep=one,
        drop=one,
        A=-limit.scores,
        B=xp.zeros_like(limit.scores),
        n0=xp.mean(form.c, axis=0) - limit.intercept,
    )


def _pair(
    one: _Head, two: _Head, with_word: RemovalMixture, without: RemovalMixture
) -> Float[Array, "C d"]:
    """Σ_m E_p[(ω_m Z_j + ω'_m (1 − Z_j)) f f'] of two heads, for every word j."""
    xp = array_namespace(one.keep)
    d = one.keep.shape[-1]
    keep = xp.reshape(one.keep[:, None] * two.keep, (-1, d))
    drop = xp.reshape(one.drop[:, None] * two.drop, (-1, d))
    weight = xp.reshape(one.weights[:, None] * two.weights, (-1, 1))
    step, other = one.A - one.B, two.A - two.B
    base, base_other = one.n0 + xp.sum(one.B, axis=-1), two.n0 + xp.sum(two.B, axis=-1)
    total = xp.zeros_like(step)
    nodes = (with_word.p, with_word.omega, without.omega)
    for p, omega, rest in zip(*(x.tolist() for x in nodes), strict=True):
        t = (1 - p) * keep
        phi = t + p * drop
        P = weight * product(phi)[:, None]
        # Where both states underflow P is 0 as well, whatever t is.
        t = t / xp.where(phi > 0, phi, xp.ones_like(phi))
        spread = t * (1 - t)
        R = base + t @ xp.matrix_transpose(step)
        R_other = base_other + t @ xp.matrix_transpose(other)
        mean = P * (R * R_other + spread @ xp.matrix_transpose(step * other))
        kept = xp.matrix_transpose(xp.matrix_transpose(t) @ mean)
        pulls = xp.matrix_transpose(spread) @ xp.concat([P * R_other, P * R], axis=1)
        first, second = (
            xp.matrix_transpose(x) for x in (pulls[:, : len(step)], pulls[:, len(step) :])
        )
        skew = xp.sum(P * spread * (1 - 2 * t), axis=0)
        kept = kept + step * first + other * second + step * other * skew
        total = total + omega * kept + rest * (xp.sum(mean, axis=0)[:, None] - kept)
    return total
