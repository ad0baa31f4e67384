"""Pair interactions: the joint effect of two words beyond their separate effects.

The four-term difference f(j, k) − f(j) − f(k) + f(∅) of two words, averaged over sets of the other
words: uniformly over the sets (Banzhaf), or over their sizes (Shapley interaction index). With

    ζ_j = ∓(1 − e^{−λδ_j})/φ_j,    θ_j = ±Δ_j e^{−λδ_j}/φ_j²

(upper sign where keeping is the heavier state) and P, R of `conditionals`, the expectation of the
difference under independent removals is

    ∫ P [R ζ_j ζ_k + θ_j ζ_k + ζ_j θ_k] dλ.
"""

from collections.abc import Sequence

import numpy as np

from limelight.errors import TooFewFeaturesError
from limelight.shapes import Array, Float
from limelight.theory.conditionals import block_size, light_terms, product, solve_heads
from limelight.theory.heavy_form import HeavyForm, heavy_form
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import (
    BoundedScores,
    RatioGame,
    mean_over_heads,
    pad_rows,
    repeat_per_head,
    word_counts,
    word_mask,
)
from limelight.theory.reciprocal_sum import ReciprocalSum, check_tolerance
from limelight.theory.removal_mixture import FAIR_COINS, RemovalMixture, uniform_mixture


def banzhaf_interactions(game: RatioGame, *, tolerance: float = 1e-6) -> BoundedScores:
    """Return the Banzhaf interactions of all pairs of words.

    ``tolerance`` is relative to the range of f. Domain: d ≥ 2.
    """
    check_tolerance(tolerance)
    # Four values of f enter, so an error ε of 1/D costs 4 ε half_range = 2 ε range; a tenth of the
    # tolerance remains for rounding.
    return _interactions(game, [FAIR_COINS for _ in word_counts(game)], share=0.45 * tolerance)


def shapley_interactions(game: RatioGame, *, tolerance: float = 1e-6) -> BoundedScores:
    """Return the Shapley interaction index of all pairs of words.

    ``tolerance`` is relative to the range of f. Domain: d ≥ 2.
    """
    check_tolerance(tolerance)
    # As above, shared by 1/D (0.25) and by the mixture over p (0.2). The sizes 0..d − 2 of the set
    # of the other words have the same weight.
    size_counts = [max(d - 1, 1) for d in word_counts(game)]
    mixtures = [uniform_mixture(n, weight=1 / n, tolerance=0.2 * tolerance) for n in size_counts]
    return _interactions(game, mixtures, share=0.25 * tolerance)


def _interactions(
    game: RatioGame, mixtures: Sequence[RemovalMixture], *, share: float
) -> BoundedScores:
    """Return the differences of pairs of words, averaged over each document's mixture."""
    if min(word_counts(game)) < 2:
        raise TooFewFeaturesError("interactions need at least 2 features, but this text has 1.")
    xp = array_namespace(game.a)
    form = heavy_form(game)
    node_rows, weight_rows = [x.p for x in mixtures], [x.omega for x in mixtures]
    p, omega = repeat_per_head(game, pad_rows(node_rows, fill=0.5), pad_rows(weight_rows, fill=0.0))

    # Pairs of words are d² numbers, so the heads are computed one at a time.
    def solve_head(i: int, head: HeavyForm, rule: ReciprocalSum) -> Float[Array, "C d d"]:
        """Return the interactions of one head, summed over the nodes p."""
        block = max(1, block_size(head.delta) // (len(rule.nodes) * game.d))
        blocks = (slice(m, m + block) for m in range(0, p.shape[1], block))
        halves = sum(_half_interactions(head, rule, p[i, m], omega[i, m]) for m in blocks)
        return halves + xp.matrix_transpose(halves)

    scores, epsilon, rounding = solve_heads(form, share, solve_head, nodes=p.shape[1])
    # On the diagonal the formula gives a number without a meaning.
    is_word = xp.astype(word_mask(game), form.delta.dtype)[..., None, :]
    off_diagonal = 1 - xp.eye(game.d, dtype=form.delta.dtype, device=form.delta.device)
    # φ may be as small as p or 1 − p, which makes ζ and θ larger than their sum. So rounding errors
    # are counted with 1/(p (1 − p)).
    table = np.asarray([[x.total_residual, x.mass, x.rounding_factor] for x in mixtures])
    residual, mass, rounding_factor = repeat_per_head(game, *np.split(table, 3, axis=1))
    error = 4 * form.half_range * (residual + epsilon * (mass + residual))
    error = error + 4 * form.magnitude * rounding * rounding_factor + 4 * form.error
    pairs, bound = mean_over_heads(game, scores, error)
    return BoundedScores(
        scores=pairs * off_diagonal * is_word[..., None] * is_word[..., None, :], bound=bound
    )


def _half_interactions(
    form: HeavyForm, rule: ReciprocalSum, p: Float[Array, " M"], omega: Float[Array, " M"]
) -> Float[Array, "C d d"]:
    """Return the sum of ∫ P [R/2 ζ_j + θ_j] ζ_k dλ over some p of one head, with weights ω.

    Its sum with its transpose is the formula of this module's docstring.
    """
    xp = array_namespace(form.delta)
    nodes = array_like(rule.nodes, form.delta)
    # expm1: 1 − e^{−λδ} cancels for words with nearly the same weight kept and removed.
    exponent = -nodes[:, None] * form.delta
    E, minus_F = xp.exp(exponent), xp.expm1(exponent)
    p = p[:, None, None]
    v = xp.where(form.kept_is_heavy, 1 - p, p)
    phi = (1 - v) + v * E
    sign = xp.where(form.kept_is_heavy, xp.ones_like(form.delta), -xp.ones_like(form.delta))
    P = omega[:, None] * light_terms(form.base, rule) * product(phi)
    d = form.delta.shape[-1]
    zeta = xp.reshape(sign * minus_F / phi, (-1, d))
    z = xp.reshape(v * E / phi, (-1, d))
    half_R = (form.n0[:, None] + form.step @ xp.matrix_transpose(z)) / 2
    theta = xp.reshape(sign * E / phi**2, (-1, d)) * form.step[:, None, :]
    P = xp.reshape(P, (1, -1, 1))
    # One product of a (d, M Q) and a (M Q, d) matrix: no array of (Q, d, d) numbers is formed. Its
    # inner size is that of several p, because adding d² numbers for each took half of the time.
    return xp.matrix_transpose(P * (half_R[..., None] * zeta + theta)) @ zeta
