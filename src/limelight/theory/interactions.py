"""Pair interactions: what two words do together beyond what each does alone.

The four-term difference f(j, k) − f(j) − f(k) + f(∅) of two words, averaged over sets of the
others: all sets alike (Banzhaf), or their size uniform (Shapley interaction index). With

    ζ_j = ∓(1 − e^{−λδ_j})/φ_j,    θ_j = ±Δ_j e^{−λδ_j}/φ_j²

(upper sign where keeping is the heavier state) and P, R of `conditionals`, the expectation of the
difference under independent removals is

    ∫ P [R ζ_j ζ_k + θ_j ζ_k + ζ_j θ_k] dλ.
"""

from collections.abc import Sequence

import numpy as np

from limelight.errors import DomainError
from limelight.shapes import Array, Float
from limelight.theory.conditionals import light_terms, of_single_heads, product
from limelight.theory.heavy_form import HeavyForm, heavy_form
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import (
    RatioGame,
    Valued,
    heads_mean,
    of_each_head,
    sizes_of,
    stacked,
    word_mask,
)
from limelight.theory.reciprocal_sum import ReciprocalSum, need_tolerance
from limelight.theory.removal_mixture import FAIR_COINS, RemovalMixture, even_mixture


def banzhaf_interactions(game: RatioGame, *, tolerance: float = 1e-6) -> Valued:
    """Pairwise Banzhaf interactions; ``tolerance`` is relative to the range of f. Domain: d ≥ 2."""
    need_tolerance(tolerance)
    # Four values of f enter, so an error ε of 1/D costs 4 ε half_range = 2 ε range; a tenth of the
    # promise is left for rounding.
    return _interactions(game, [FAIR_COINS for _ in sizes_of(game)], share=0.45 * tolerance)


def shapley_interactions(game: RatioGame, *, tolerance: float = 1e-6) -> Valued:
    """Shapley interaction index of pairs; ``tolerance`` is relative to the range of f.

    Domain: d ≥ 2.
    """
    need_tolerance(tolerance)
    # As above, shared by 1/D (0.25) and by the mixture over p (0.2). Sizes 0..d − 2 of the set of
    # the other words are all alike.
    others = [max(d - 1, 1) for d in sizes_of(game)]
    mixtures = [even_mixture(n, weight=1 / n, tolerance=0.2 * tolerance) for n in others]
    return _interactions(game, mixtures, share=0.25 * tolerance)


def _interactions(game: RatioGame, mixtures: Sequence[RemovalMixture], *, share: float) -> Valued:
    if min(sizes_of(game)) < 2:
        raise DomainError("interactions need at least 2 features; this text has 1.")
    xp = array_namespace(game.a)
    form = heavy_form(game)
    at, weights = [one.p for one in mixtures], [one.omega for one in mixtures]
    p, omega = of_each_head(game, stacked(at, fill=0.5), stacked(weights, fill=0.0))

    # A pair of words makes d² numbers already, so heads and p come one at a time.
    def of_head(i: int, head: HeavyForm, rule: ReciprocalSum) -> Float[Array, "C d d"]:
        return sum(_node(head, rule, p[i, m], omega[i, m]) for m in range(p.shape[1]))

    scores, epsilon, rounding = of_single_heads(form, share, of_head, nodes=p.shape[1])
    # On the diagonal the formula gives a number without a meaning.
    real = xp.astype(word_mask(game), form.delta.dtype)[..., None, :]
    apart = 1 - xp.eye(game.d, dtype=form.delta.dtype, device=form.delta.device)
    # φ may be as small as p or 1 − p, which makes ζ and θ larger than what they add up to: rounding
    # errors are counted with 1/(p (1 − p)).
    table = np.asarray([[one.missed, one.mass, one.terms] for one in mixtures])
    missed, mass, terms = of_each_head(game, *np.split(table, 3, axis=1))
    error = 4 * form.half_range * (missed + epsilon * (mass + missed))
    error = error + 4 * form.magnitude * rounding * terms + 4 * form.error
    pairs, bound = heads_mean(game, scores, error)
    return Valued(scores=pairs * apart * real[..., None] * real[..., None, :], bound=bound)


def _node(form: HeavyForm, rule: ReciprocalSum, p: Array, omega: Array) -> Float[Array, "C d d"]:
    """One head, one p: the formula of this module's docstring, times ω."""
    xp = array_namespace(form.delta)
    nodes = array_like(rule.nodes, form.delta)
    # expm1: 1 − e^{−λδ} cancels for words that weigh nearly the same kept and removed.
    exponent = -nodes[:, None] * form.delta
    E, minus_F = xp.exp(exponent), xp.expm1(exponent)
    v = xp.where(form.kept_is_heavy, 1 - p, p)
    phi = (1 - v) + v * E
    sign = xp.where(form.kept_is_heavy, xp.ones_like(v), -xp.ones_like(v))
    P = omega * light_terms(form.base, rule) * product(phi)
    zeta = sign * minus_F / phi
    R = form.n0[:, None] + form.step @ xp.matrix_transpose(v * E / phi)
    theta = sign * (E / phi**2) * form.step[:, None, :]
    # Both sums over λ are products of (d, Q) and (Q, d) matrices: no (Q, d, d) array is formed.
    left = xp.matrix_transpose((P * R)[..., None] * zeta)
    cross = xp.matrix_transpose(P[:, None] * theta) @ zeta
    return left @ zeta + cross + xp.matrix_transpose(cross)
