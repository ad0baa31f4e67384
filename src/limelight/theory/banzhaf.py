"""Banzhaf values: the mean change of f when word j is added, over all sets of the others."""

from collections.abc import Sequence

import numpy as np

from limelight.theory.conditionals import expectations
from limelight.theory.heavy_form import heavy_form
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import (
    BoundedScores,
    RatioGame,
    is_additive,
    mean_over_heads,
    pad_rows,
    repeat_per_head,
    word_counts,
    word_mask,
)
from limelight.theory.reciprocal_sum import check_tolerance
from limelight.theory.removal_mixture import FAIR_COINS, RemovalMixture


def banzhaf(game: RatioGame, *, tolerance: float = 1e-6) -> BoundedScores:
    """Return the Banzhaf values E[f | j kept] − E[f | j removed] of all words j.

    Every other word is kept with probability 1/2.

    ``tolerance`` is relative to the range of f.
    """
    check_tolerance(tolerance)
    return mean_marginal_contributions(
        game, [FAIR_COINS for _ in word_counts(game)], share=0.9 * tolerance
    )


def mean_marginal_contributions(
    game: RatioGame, mixtures: Sequence[RemovalMixture], *, share: float
) -> BoundedScores:
    """Return Σ_m ω_m (E_p[f | j kept] − E_p[f | j removed]), the mean effect of adding word j.

    It is computed as ±(E_p[f X_j] − v_j E_p[f]) / (p (1 − p)), v_j the probability of the heavier
    state. The residual of a mixture costs at most 2 max|f − c| times its sum.

    Parameters
    ----------
    game
        The ratio games of a batch of documents.
    mixtures
        The nodes p and weights ω of each document.
    share
        The allowed relative error of 1/D.

    Returns
    -------
    One score per word and class, with a bound on its error.
    """
    xp = array_namespace(game.a)
    if is_additive(game):
        return leave_one_out(game)
    form = heavy_form(game)
    # Padding nodes have weight 0, so any p inside (0, 1) serves for them.
    p = pad_rows([mixture.p for mixture in mixtures], fill=0.5)
    omega = pad_rows([mixture.omega for mixture in mixtures], fill=0.0)
    # The difference E[f X] − v E[f] is p (1 − p) times the wanted number and cancels accordingly.
    # The weights carry that factor, so their absolute sum bounds the rounding errors
    # (``rounding_factor``).
    divided = omega / (p * (1 - p))
    table = np.asarray(
        [[x.total_residual, x.mass + x.total_residual, x.rounding_factor] for x in mixtures]
    )
    p, divided, table = repeat_per_head(game, p, divided, table)
    sums = expectations(form, p, divided, tolerance=share)
    heavy = form.kept_is_heavy[:, None, :]
    total, total_p = sums.total[..., None], sums.total_p[..., None]
    scores = xp.where(heavy, sums.heavy - (total - total_p), total_p - sums.heavy)
    if game.sizes is not None:
        is_word = xp.repeat(xp.reshape(word_mask(game), (-1, 1, game.d)), game.K, axis=0)
        scores = xp.where(is_word, scores, xp.zeros_like(scores))
    residual, mass, rounding_factor = (table[:, i : i + 1] for i in range(3))
    error = 2 * form.half_range * (residual + sums.error[:, None] * mass)
    error = error + 2 * form.magnitude * sums.rounding[:, None] * rounding_factor + 2 * form.error
    return BoundedScores(*mean_over_heads(game, scores, error))
