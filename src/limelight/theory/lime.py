"""LIME without sampling: the coefficients to which it converges, with a proven bound.

Population weighted least squares with intercept. With m_0, m_1, V, χ the moments of the design
(`lime_weights`), ρ the ridge penalty and c_j = E[ψ Z_j f] − (m_1/m_0) E[ψ f],

    β_j = [c_j − χ/(V + ρ + dχ) · Σ_k c_k] / (V + ρ),    intercept = E[ψ f]/m_0 − (m_1/m_0) Σ_k β_k.

E[ψ f] and E[ψ Z_j f] are mixtures over p of expectations under independent removals
(`removal_mixture`), with the sets of size 0 and d, of which there is one each, corrected by hand.
Where no mixture serves (few words and a small bandwidth), the answer comes from `lime_recurrence`,
within the same tolerance.
"""

import math
from functools import lru_cache
from typing import NamedTuple, Unpack

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.conditionals import Expectations, expectations
from limelight.theory.heavy_form import HeavyForm, ends, heavy_form
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.lime_weights import (
    TOLERANCES,
    Lime,
    LimeDesign,
    Regression,
    lime_design,
)
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import (
    RatioGame,
    empty_value,
    heads_mean,
    is_additive,
    of_documents,
    of_each_head,
    sizes_of,
    stacked,
    word_mask,
)
from limelight.theory.reciprocal_sum import need_tolerance
from limelight.theory.removal_mixture import RemovalMixture, removal_mixture

# Sums over words and nodes are rounded differently in every batch; two words, which the recurrence
# costs nothing, would amplify that 3,000 times.
_AMPLIFIED = 100.0


class LimePlan(NamedTuple):
    """All that depends on d and the settings: nodes, and how errors of f reach β and intercept."""

    design: LimeDesign
    mixture: RemovalMixture
    by_size: Float[np.ndarray, " 2"]  # error of the mixture over max|f − c|
    by_reciprocal: Float[np.ndarray, " 2"]  # likewise of a unit relative error in 1/D
    by_rounding: Float[np.ndarray, " 2"]
    by_error: Float[np.ndarray, " 2"]  # likewise of a unit error of f itself

    @property
    def corrections(self) -> tuple[float, float]:
        """Weights to add at the one set of size 0 and the one of size d."""
        weight, attained = self.design.weight, self.mixture.attained
        return float(weight[0] - attained[0]), float(weight[-1] - attained[-1])

    def serves(self, tolerance: float) -> bool:
        """Whether the mixture meets the tolerance; with few words and small ν none does."""
        # There one size holds nearly all weight and β depends on the little that others have: at
        # d = 3 and ν = 0.05 an error of their weight moves β 2e16 times as far. 30 stands for the
        # number of nodes λ, which only the game will tell.
        steps = 4 * self.design.d + 30 * len(self.mixture.p)
        sizes, rounded = self.by_size / TOLERANCES, self.by_rounding / TOLERANCES
        return bool(
            sizes.max() <= tolerance
            and (self.by_reciprocal / TOLERANCES).max() < _AMPLIFIED
            and rounded.max() * steps * 2**-52 < tolerance / 64
        )


def lime(game: RatioGame, *, tolerance: float = 1e-6, **told: Unpack[Regression]) -> Lime:
    """The limit of LIME for n → ∞ samples; ``tolerance`` is relative to the range of f.

    Domain: d ≥ 2.
    """
    need_tolerance(tolerance)
    plans = [lime_plan(d, tolerance=tolerance, **told) for d in sizes_of(game)]
    if told.get("penalty", 0) == 0 and is_additive(game):  # a line is its own fit at any weights
        scores, bound = leave_one_out(game)
        return Lime(scores, bound, empty_value(game), bound)
    poor = [i for i, plan in enumerate(plans) if not plan.serves(tolerance)]
    if poor:
        return _by_two_roads(game, poor, tolerance=tolerance, **told)
    form = heavy_form(game)
    # Nodes that fill up a row have weight 0; any p inside (0, 1) does for them.
    p = stacked([plan.mixture.p for plan in plans], fill=0.5)
    omega = stacked([plan.mixture.omega for plan in plans], fill=0.0)
    # The promise is tolerance × range = 2 tolerance × half_range. The mixture may take 0.9 of these
    # 2 (`lime_plan`) and 1/D 1; rounding has the last 0.1.
    rungs = [_rung((plan.by_reciprocal / TOLERANCES).max()) for plan in plans]
    K = game.a.shape[-2]
    shares = [tolerance / rung for rung in rungs for _ in range(K)]
    moments = [(x.m0, x.m1, x.V + x.penalty, x.pull) for x in (plan.design for plan in plans)]
    errors = [
        np.concatenate([plan.by_size, plan.by_reciprocal, plan.by_rounding, plan.by_error])
        for plan in plans
    ]
    ends_off = [plan.corrections for plan in plans]
    numbers = np.concatenate([moments, ends_off, errors], axis=1)
    p, omega, table = of_each_head(game, p, omega, numbers)
    sums = expectations(form, p, omega, tolerance=shares)
    beta, intercept = _regression(game, form, sums, table)
    of_beta, of_intercept = _errors(form, sums, table)
    return Lime(*heads_mean(game, beta, of_beta, intercept, of_intercept))


@lru_cache(maxsize=4096)
def lime_plan(d: int, *, tolerance: float, **told: Unpack[Regression]) -> LimePlan:
    """Nodes and error factors for d words, cached."""
    design = lime_design(d, **told)
    reach = np.stack([design.amplification(), np.abs(design.intercept())])
    # Sizes 0 and d are one set each, whose f is known: left free, they cost the fit nothing, and
    # row 0 needs no node near p = 0. What stands here for size 0 is therefore not read.
    target = np.concatenate([[1 / d], design.weight[1:]])
    mixture = removal_mixture(target, reach[0], tolerance=0.9 * tolerance, free_ends=True)
    reached = np.abs(mixture.attained) + mixture.residual
    # Rounding grows with the terms before they cancel: both parts of c_j, and d of them in Σ c_k.
    mean = design.m1 / design.m0
    ends_weigh = design.weight[0] + design.weight[-1]
    at_stake = float(np.sum(np.abs(mixture.omega)) + reached[0] + reached[-1] + ends_weigh)
    summed = 1 + mean + 2 * d * abs(design.pull)
    in_beta = at_stake * summed / (design.V + design.penalty)
    in_base = at_stake * (1 + 2 * d * design.m1 / (design.spread + design.penalty)) / design.m0
    return LimePlan(
        design=design,
        mixture=mixture,
        by_size=reach @ mixture.residual,
        by_reciprocal=reach @ reached,
        by_rounding=np.array([in_beta, in_base]),
        by_error=design.reach(),
    )


def _rung(amplification: float) -> float:
    """Round up to 2.4 times a power of 2."""
    # Documents share nodes for 1/D where they can, but what one gets must not depend on the others:
    # a document has the same scores alone and in any batch. From eight words on at ν = 0.25 the
    # amplification is 2.0 to 2.4.
    return 2.4 * 2.0 ** math.ceil(math.log2(max(amplification, 1e-300) / 2.4))


def _by_two_roads(
    game: RatioGame, poor: list[int], *, tolerance: float, **told: Unpack[Regression]
) -> Lime:
    """The documents in ``poor`` by recurrence, the others by the mixture."""
    xp, good = array_namespace(game.a), sorted(set(range(len(sizes_of(game)))) - set(poor))
    parts = [lime_by_recurrence(of_documents(game, poor), tolerance=tolerance, **told)]
    if good:
        parts.append(lime(of_documents(game, good), tolerance=tolerance, **told))
    back = xp.asarray(np.argsort(poor + good), device=game.a.device)
    columns = (xp.take(xp.concat(x, axis=0), back, axis=0) for x in zip(*parts, strict=True))
    return Lime(*(xp.reshape(x, (*game.batch, *x.shape[1:])) for x in columns))


def _regression(
    game: RatioGame, form: HeavyForm, sums: Expectations, table: Float[Array, "G 14"]
) -> tuple[Float[Array, "G C d"], Float[Array, "G C"]]:
    """β and the intercept of each head."""
    xp = array_namespace(game.a)
    m0, m1, V, pull, first, last = (table[:, i : i + 1] for i in range(6))
    heavy = form.kept_is_heavy[:, None, :]
    kept = xp.where(heavy, sums.heavy, sums.total[..., None] - sums.heavy)
    full, empty = ends(form)
    # Nothing is kept in the empty text, so it corrects the total alone.
    kept = kept + (first * full)[..., None]
    total = sums.total + first * full + last * empty
    c = kept - (m1 / m0 * total)[..., None]
    if game.sizes is not None:
        # Padding changes no f, yet its c_k is not 0: it is kept with probability 1 − p, and f goes
        # with p.
        *_, K, d = game.a.shape
        real = xp.repeat(xp.reshape(word_mask(game), (-1, 1, d)), K, axis=0)
        c = xp.where(real, c, xp.zeros_like(c))
    beta = (c - (pull * xp.sum(c, axis=-1))[..., None]) / V[..., None]
    if game.sizes is not None:
        beta = xp.where(real, beta, xp.zeros_like(beta))
    # Shifting f by c shifts the intercept by c and nothing else: it is not penalised.
    return beta, total / m0 - m1 / m0 * xp.sum(beta, axis=-1) + form.c


def _errors(
    form: HeavyForm, sums: Expectations, table: Float[Array, "G 14"]
) -> tuple[Float[Array, "G C"], Float[Array, "G C"]]:
    """Bounds on the errors of β and of the intercept.

    |error| ≤ max|f − c| · (mixture + ε · reciprocal) + rounding + Σ|c_S| · error of the game.
    """
    epsilon, rounding = sums.error[:, None], sums.rounding[:, None]
    errors = []
    for i in (6, 7):  # columns of β's factors, each followed by the intercept's
        size, reciprocal, round_off, reach = (table[:, i + k : i + k + 1] for k in (0, 2, 4, 6))
        by_sums = form.half_range * (size + epsilon * reciprocal)
        errors.append(by_sums + form.magnitude * rounding * round_off + form.error * reach)
    return errors[0], errors[1]
