"""Banzhaf values: the mean change of f when word j comes in, over all sets of the others."""

from collections.abc import Sequence

import numpy as np

from limelight.theory.conditionals import expectations
from limelight.theory.heavy_form import heavy_form
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import (
    RatioGame,
    Valued,
    heads_mean,
    is_additive,
    of_each_head,
    sizes_of,
    stacked,
    word_mask,
)
from limelight.theory.reciprocal_sum import need_tolerance
from limelight.theory.removal_mixture import FAIR_COINS, RemovalMixture


def banzhaf(game: RatioGame, *, tolerance: float = 1e-6) -> Valued:
    """E[f | j kept] − E[f | j removed], every other word kept with probability 1/2.

    ``tolerance`` is relative to the range of f.
    """
    need_tolerance(tolerance)
    return mean_changes(game, [FAIR_COINS for _ in sizes_of(game)], share=0.9 * tolerance)


def mean_changes(game: RatioGame, mixtures: Sequence[RemovalMixture], *, share: float) -> Valued:
    """Σ_m ω_m (E_p[f | j kept] − E_p[f | j removed]) with 1/D within ``share``.

    From E_p[f X_j] this is ±(E_p[f X_j] − v_j E_p[f]) / (p (1 − p)), v_j the probability of the
    heavier state. What the weights of the sizes miss their target by costs at most 2 max|f − c|
    times itself. Each document has its own mixture.
    """
    xp = array_namespace(game.a)
    if is_additive(game):
        return leave_one_out(game)
    form = heavy_form(game)
    # Nodes that fill up a row have weight 0; any p inside (0, 1) does for them.
    p = stacked([one.p for one in mixtures], fill=0.5)
    omega = stacked([one.omega for one in mixtures], fill=0.0)
    # The difference E[f X] − v E[f] is p (1 − p) times what is wanted and cancels accordingly. The
    # weights carry that factor, so their absolute sum says what rounding can do (``terms``).
    spread = omega / (p * (1 - p))
    table = np.asarray([[one.missed, one.mass + one.missed, one.terms] for one in mixtures])
    p, spread, table = of_each_head(game, p, spread, table)
    sums = expectations(form, p, spread, tolerance=share)
    heavy = form.kept_is_heavy[:, None, :]
    total, total_p = sums.total[..., None], sums.total_p[..., None]
    scores = xp.where(heavy, sums.heavy - (total - total_p), total_p - sums.heavy)
    if game.sizes is not None:
        real = xp.repeat(xp.reshape(word_mask(game), (-1, 1, game.d)), game.K, axis=0)
        scores = xp.where(real, scores, xp.zeros_like(scores))
    missed, mass, terms = (table[:, i : i + 1] for i in range(3))
    error = 2 * form.half_range * (missed + sums.error[:, None] * mass)
    error = error + 2 * form.magnitude * sums.rounding[:, None] * terms + 2 * form.error
    return Valued(*heads_mean(game, scores, error))
