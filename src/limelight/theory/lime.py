"""LIME without sampling: the coefficients to which it converges, with a proven bound.

LIME's limit for n → ∞ samples is weighted least squares with intercept. With m_0, m_1, V, χ the
moments of the design (`lime_weights`), ρ the ridge penalty and
c_j = E[ψ Z_j f] − (m_1/m_0) E[ψ f],

    β_j = [c_j − χ/(V + ρ + dχ) · Σ_k c_k] / (V + ρ),    intercept = E[ψ f]/m_0 − (m_1/m_0) Σ_k β_k.

E[ψ f] and E[ψ Z_j f] are mixtures over p of expectations under independent removals
(`removal_mixture`), with a correction for the one set of size 0 and the one of size d. If no
mixture is accurate enough (few words and a small bandwidth), `lime_recurrence` computes the result
within the same tolerance.
"""

import math
from functools import lru_cache
from typing import NamedTuple, Unpack

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.conditionals import Expectations, expectations
from limelight.theory.heavy_form import HeavyForm, full_and_empty_values, heavy_form
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.lime_weights import (
    TOLERANCES,
    LimeDesign,
    LimeLimit,
    RegressionSettings,
    lime_design,
)
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import (
    RatioGame,
    empty_value,
    is_additive,
    mean_over_heads,
    pad_rows,
    repeat_per_head,
    select_documents,
    word_counts,
    word_mask,
)
from limelight.theory.reciprocal_sum import check_tolerance
from limelight.theory.removal_mixture import RemovalMixture, removal_mixture

# Sums over words and nodes are rounded differently in every batch. With two words, for which the
# recurrence is cheap, the mixture would amplify that 3,000 times.
_MAX_AMPLIFICATION = 100.0


class LimePlan(NamedTuple):
    """The nodes for d words and given settings, and the effects of errors on β and the intercept.

    Each array of factors has one number for β and one for the intercept.
    """

    design: LimeDesign
    mixture: RemovalMixture
    mixture_factor: Float[np.ndarray, " 2"]  # effect of the mixture's residual if max|f − c| = 1
    reciprocal_factor: Float[np.ndarray, " 2"]  # effect of a unit relative error of 1/D
    rounding_factor: Float[np.ndarray, " 2"]  # effect of a unit rounding error
    game_factor: Float[np.ndarray, " 2"]  # effect of a unit error of f

    @property
    def corrections(self) -> tuple[float, float]:
        """Return the weights to add at the one set of size 0 and at the one of size d."""
        weight, attained = self.design.weight, self.mixture.attained
        return float(weight[0] - attained[0]), float(weight[-1] - attained[-1])

    def meets(self, tolerance: float) -> bool:
        """Return whether the mixture meets the tolerance.

        With few words and small ν no mixture does.
        """
        # In that case one size has nearly all the weight, and β depends on the small weight of the
        # other sizes: at d = 3 and ν = 0.05 β changes by 2e16 times an error of their weight. 30 is
        # an estimate for the number of nodes λ, which depends on the game.
        steps = 4 * self.design.d + 30 * len(self.mixture.p)
        residual = self.mixture_factor / TOLERANCES
        rounding = self.rounding_factor / TOLERANCES
        return bool(
            residual.max() <= tolerance
            and (self.reciprocal_factor / TOLERANCES).max() < _MAX_AMPLIFICATION
            and rounding.max() * steps * 2**-52 < tolerance / 64
        )


def lime(
    game: RatioGame, *, tolerance: float = 1e-6, **settings: Unpack[RegressionSettings]
) -> LimeLimit:
    """Return the limit of LIME for n → ∞ samples.

    ``tolerance`` is relative to the range of f, and the keywords are `RegressionSettings`.
    Domain: d ≥ 2.
    """
    check_tolerance(tolerance)
    plans = [lime_plan(d, tolerance=tolerance, **settings) for d in word_counts(game)]
    if settings.get("penalty", 0) == 0 and is_additive(
        game
    ):  # the fit of a linear function is the function itself
        scores, bound = leave_one_out(game)
        return LimeLimit(scores, bound, empty_value(game), bound)
    by_recurrence = [i for i, plan in enumerate(plans) if not plan.meets(tolerance)]
    if by_recurrence:
        return _split_by_algorithm(game, by_recurrence, tolerance=tolerance, **settings)
    form = heavy_form(game)
    # Padding nodes have weight 0, so any p inside (0, 1) serves for them.
    p = pad_rows([plan.mixture.p for plan in plans], fill=0.5)
    omega = pad_rows([plan.mixture.omega for plan in plans], fill=0.0)
    # The allowed error is tolerance × range = 2 tolerance × half_range. Of this 2, the mixture may
    # use 0.9 (`lime_plan`) and 1/D 1. The last 0.1 is for rounding.
    amplifications = [
        _round_amplification((plan.reciprocal_factor / TOLERANCES).max()) for plan in plans
    ]
    K = game.a.shape[-2]
    shares = [tolerance / x for x in amplifications for _ in range(K)]
    moments = [(x.m0, x.m1, x.V + x.penalty, x.pull) for x in (plan.design for plan in plans)]
    errors = [
        np.concatenate(
            [plan.mixture_factor, plan.reciprocal_factor, plan.rounding_factor, plan.game_factor]
        )
        for plan in plans
    ]
    corrections = [plan.corrections for plan in plans]
    numbers = np.concatenate([moments, corrections, errors], axis=1)
    p, omega, table = repeat_per_head(game, p, omega, numbers)
    sums = expectations(form, p, omega, tolerance=shares)
    beta, intercept = _regression(game, form, sums, table)
    beta_error, intercept_error = _error_bounds(form, sums, table)
    return LimeLimit(*mean_over_heads(game, beta, beta_error, intercept, intercept_error))


@lru_cache(maxsize=4096)
def lime_plan(d: int, *, tolerance: float, **settings: Unpack[RegressionSettings]) -> LimePlan:
    """Return the nodes and the error factors for d words. Results are cached."""
    design = lime_design(d, **settings)
    amplification = np.stack([design.amplification(), np.abs(design.intercept_weights())])
    # Sizes 0 and d are one set each, whose f is computed directly. They are not fitted, so the fit
    # is better, and row 0 needs no node near p = 0. The target at size 0 is therefore not used.
    target = np.concatenate([[1 / d], design.weight[1:]])
    mixture = removal_mixture(
        target, amplification[0], tolerance=0.9 * tolerance, ignores_ends=True
    )
    weight_bound = np.abs(mixture.attained) + mixture.residual
    # Rounding grows with the terms before they cancel: both parts of c_j, and d of them in Σ c_k.
    mean = design.m1 / design.m0
    end_weights = design.weight[0] + design.weight[-1]
    total_weight = float(
        np.sum(np.abs(mixture.omega)) + weight_bound[0] + weight_bound[-1] + end_weights
    )
    term_count = 1 + mean + 2 * d * abs(design.pull)
    beta_rounding = total_weight * term_count / (design.V + design.penalty)
    intercept_rounding = (
        total_weight * (1 + 2 * d * design.m1 / (design.spread + design.penalty)) / design.m0
    )
    return LimePlan(
        design=design,
        mixture=mixture,
        mixture_factor=amplification @ mixture.residual,
        reciprocal_factor=amplification @ weight_bound,
        rounding_factor=np.array([beta_rounding, intercept_rounding]),
        game_factor=design.error_factors(),
    )


def _round_amplification(amplification: float) -> float:
    """Round up to 2.4 times a power of 2."""
    # Documents share nodes for 1/D if possible, but a document must have the same scores alone and
    # in any batch. From eight words on at ν = 0.25 the
    # amplification is 2.0 to 2.4.
    return 2.4 * 2.0 ** math.ceil(math.log2(max(amplification, 1e-300) / 2.4))


def _split_by_algorithm(
    game: RatioGame,
    by_recurrence: list[int],
    *,
    tolerance: float,
    **settings: Unpack[RegressionSettings],
) -> LimeLimit:
    """Compute the documents ``by_recurrence`` with `lime_recurrence`, the others by the mixture."""
    xp = array_namespace(game.a)
    by_mixture = sorted(set(range(len(word_counts(game)))) - set(by_recurrence))
    parts = [
        lime_by_recurrence(select_documents(game, by_recurrence), tolerance=tolerance, **settings)
    ]
    if by_mixture:
        parts.append(lime(select_documents(game, by_mixture), tolerance=tolerance, **settings))
    order = xp.asarray(np.argsort(by_recurrence + by_mixture), device=game.a.device)
    columns = (xp.take(xp.concat(x, axis=0), order, axis=0) for x in zip(*parts, strict=True))
    return LimeLimit(*(xp.reshape(x, (*game.batch, *x.shape[1:])) for x in columns))


def _regression(
    game: RatioGame, form: HeavyForm, sums: Expectations, table: Float[Array, "G 14"]
) -> tuple[Float[Array, "G C d"], Float[Array, "G C"]]:
    """Return β and the intercept of each head."""
    xp = array_namespace(game.a)
    m0, m1, V, pull, first, last = (table[:, i : i + 1] for i in range(6))
    heavy = form.kept_is_heavy[:, None, :]
    kept_sums = xp.where(heavy, sums.heavy, sums.total[..., None] - sums.heavy)
    full, empty = full_and_empty_values(form)
    # No word is kept in the empty text, so only the total is corrected for it.
    kept_sums = kept_sums + (first * full)[..., None]
    total = sums.total + first * full + last * empty
    c = kept_sums - (m1 / m0 * total)[..., None]
    if game.sizes is not None:
        # Padding changes no f, but its c_k is not 0: it is kept with probability 1 − p, and f
        # depends on p.
        *_, K, d = game.a.shape
        is_word = xp.repeat(xp.reshape(word_mask(game), (-1, 1, d)), K, axis=0)
        c = xp.where(is_word, c, xp.zeros_like(c))
    beta = (c - (pull * xp.sum(c, axis=-1))[..., None]) / V[..., None]
    if game.sizes is not None:
        beta = xp.where(is_word, beta, xp.zeros_like(beta))
    # Shifting f by c shifts only the intercept, by c, since it is not penalized.
    return beta, total / m0 - m1 / m0 * xp.sum(beta, axis=-1) + form.c


def _error_bounds(
    form: HeavyForm, sums: Expectations, table: Float[Array, "G 14"]
) -> tuple[Float[Array, "G C"], Float[Array, "G C"]]:
    """Return bounds on the errors of β and of the intercept.

    |error| ≤ max|f − c| · (mixture + ε · reciprocal) + rounding + Σ|c_S| · error of the game.
    """
    epsilon, rounding = sums.error[:, None], sums.rounding[:, None]
    errors = []
    for i in (6, 7):  # columns of β's factors, each followed by the intercept's
        mixture, reciprocal, round_off, game = (table[:, i + k : i + k + 1] for k in (0, 2, 4, 6))
        sum_error = form.half_range * (mixture + epsilon * reciprocal)
        errors.append(sum_error + form.magnitude * rounding * round_off + form.error * game)
    return errors[0], errors[1]
