"""Banzhaf values: the mean change of f when word j comes in, over all sets of the others."""

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.conditionals import expectations
from limelight.theory.heavy_form import heavy_form
from limelight.theory.namespace import array_namespace
from limelight.theory.per_document import heads_mean, of_each_head
from limelight.theory.ratio_game import RatioGame, Valued, word_mask
from limelight.theory.reciprocal_sum import need_tolerance


def banzhaf(game: RatioGame, *, tolerance: float = 1e-6) -> Valued:
    """E[f | j kept] − E[f | j removed], every other word kept with probability 1/2.

    ``tolerance`` is relative to the range of f.
    """
    need_tolerance(tolerance)
    half, one = np.full((1, 1), 0.5), np.ones((1, 1))
    return mean_changes(game, half, one, 0.0 * one[0], share=0.9 * tolerance)


def mean_changes(
    game: RatioGame,
    p: Float[Array, "B M"],
    omega: Float[Array, "B M"],
    residual: Float[Array, " _"],
    *,
    share: float,
) -> Valued:
    """Σ_m ω_m (E_p[f | j kept] − E_p[f | j removed]) with 1/D within ``share``.

    From E_p[f X_j] this is ±(E_p[f X_j] − v_j E_p[f]) / (p (1 − p)), v_j the probability of the
    heavier state. ``residual`` is Σ_s|r_s|, what the weights of the sizes miss their target by; it
    costs at most 2 max|f − c| times itself.
    """
    xp = array_namespace(game.a)
    form = heavy_form(game)
    documents = max(1, int(np.prod(game.batch, dtype=int)))
    p, omega = (np.broadcast_to(x, (documents, x.shape[1])) for x in (p, omega))
    residual = np.broadcast_to(residual, (documents,))
    # The difference E[f X] − v E[f] is p (1 − p) times what is wanted and cancels accordingly. The
    # weights carry that factor, so their absolute sum says what rounding can do (``terms``).
    spread = omega / (p * (1 - p))
    weights = np.sum(np.abs(omega), axis=1) + residual
    table = np.stack([residual, weights, np.sum(np.abs(spread), axis=1)], axis=-1)
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
