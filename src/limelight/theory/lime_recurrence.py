"""LIME's limit by another road: dynamic programming over numbers of kept words.

Slower than `lime` (O(d²) per node λ and head) but exact in the sizes, without a mixture over p:
hence its oracle, and its stand-in where d and the bandwidth are so small that no mixture serves.
Weights of samples enter only at the end, so any ν, ρ and row 0 cost the same.
"""

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.conditionals import grouped_by_rule, light_terms
from limelight.theory.heavy_form import HeavyForm, heavy_form
from limelight.theory.lime_weights import LimeDesign, lime_design
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, heads_mean, sizes_of
from limelight.theory.reciprocal_sum import ReciprocalSum, need_tolerance
from limelight.theory.subset_chain import ChainSums, Steps, chain_sums

_CELLS = 2**22  # of (λ, word, number kept) in memory at a time
_ROUNDING = 2.0**-52


def lime_by_recurrence(
    game: RatioGame,
    *,
    bandwidth: float = 0.25,
    penalty: float = 0.0,
    rows: int | None = None,
    tolerance: float = 1e-9,
) -> tuple[
    Float[Array, "*batch C d"],
    Float[Array, "*batch C"],
    Float[Array, "*batch C"],
    Float[Array, "*batch C"],
]:
    """Scores, bound, intercept and its bound, as `lime.lime` has them.

    ``tolerance`` is relative to the range of f.
    """
    need_tolerance(tolerance)
    form = heavy_form(game)
    xp = array_namespace(game.a)
    designs = [
        lime_design(d, bandwidth=bandwidth, penalty=penalty, rows=rows) for d in sizes_of(game)
    ]
    by_head = [design for design in designs for _ in range(game.K)]
    # 1/D is all that errs, so it may take the whole promise: 2 tolerance × half_range.
    shares = [2 * tolerance / x.demand() for x in by_head]
    results: dict[int, tuple[Array, ...]] = {}
    for rule, heads in grouped_by_rule(form, shares):
        for i in heads:
            results[i] = _head(HeavyForm(*(x[i] for x in form)), by_head[i], rule)
    columns = zip(*(results[i] for i in sorted(results)), strict=True)
    scores, bound, base, base_bound = heads_mean(game, *(xp.stack(x, axis=0) for x in columns))
    return scores, bound, base, base_bound


def _head(
    form: HeavyForm, design: LimeDesign, rule: ReciprocalSum
) -> tuple[Float[Array, "C d"], Float[Array, " C"], Float[Array, " C"], Float[Array, " C"]]:
    xp = array_namespace(form.delta)
    sums = _sums(form, design, rule)
    of_f = form.half_range * rule.error + form.error
    beta, *others = regression(sums, design, rule, of_f=of_f, size=form.magnitude)
    beta = xp.concat([beta, xp.zeros_like(form.step[:, design.d :])], axis=-1)
    bound, intercept, base_bound = others
    return beta, bound, intercept + form.c, base_bound


def regression(
    sums: ChainSums,
    design: LimeDesign,
    rule: ReciprocalSum,
    *,
    of_f: Float[Array, " C"],
    size: Float[Array, " C"],
) -> tuple[Float[Array, "C d"], Float[Array, " C"], Float[Array, " C"], Float[Array, " C"]]:
    """β, its bound, the intercept and its bound from the sums of a chain.

    ``of_f`` bounds the error of f by 1/D and by the game, ``size`` what its terms add up to.
    """
    xp = array_namespace(sums.kept)
    V, common = design.V + design.penalty, design.common()
    # by_count and weight run over the number kept, the design over the number removed. What β_j
    # takes off depends on the size alone, so one sum over sizes serves all words.
    fixed, base = (
        array_like((design.weight * x)[::-1].copy(), sums.kept)
        for x in (common, design.intercept())
    )
    beta = (sums.kept - xp.sum(sums.by_count * fixed, axis=-1)[:, None]) / V
    # An error of 1/D is one of f, so it counts by what reaches β; one of rounding by the two sums
    # before they are subtracted, which may be larger.
    slope, in_base = design.reach()
    rounding = _ROUNDING * (6 * design.d + len(rule.nodes) + 64) * rule.condition * size
    terms = float(design.m1 + design.weight @ np.abs(common)) / V
    intercept = xp.sum(sums.by_count * base, axis=-1)
    return beta, of_f * slope + rounding * terms, intercept, (of_f + rounding) * in_base


def _sums(form: HeavyForm, design: LimeDesign, rule: ReciprocalSum) -> ChainSums:
    xp = array_namespace(form.delta)
    d = design.d
    heavy, delta, step = form.kept_is_heavy[:d], form.delta[:d], form.step[:, :d]
    zero = xp.zeros_like(step)
    weight = array_like(design.weight[::-1].copy(), form.delta)
    parts = []
    # The forward sums of all words are kept until the backward ones meet them: d²/2 cells per node.
    at_once = max(1, _CELLS // (d * d))
    for i in range(0, len(rule.nodes), at_once):
        some = slice(i, i + at_once)
        nodes, w = array_like(rule.nodes[some], form.delta), light_terms(form.base, rule)[some]
        E = xp.exp(-nodes[:, None] * delta)
        # The lighter state has factor 1 and value 0; n_0 and e^{−λ} hold its share of N and D.
        steps = Steps(
            keep_factor=xp.where(heavy, E, xp.ones_like(E))[:, :, None],
            keep_value=xp.where(heavy, step, zero)[:, :, None],
            drop_factor=xp.where(heavy, xp.ones_like(E), E),
            drop_value=xp.where(heavy, zero, step),
            tail_factor=xp.ones_like(nodes[:, None] * weight),
            tail_value=form.n0[:, None] * xp.ones_like(weight),
        )
        parts.append(chain_sums(steps, w, weight))
    kept, by_count = (sum(x[1:], x[0]) for x in zip(*parts, strict=True))
    return ChainSums(kept=kept, by_count=by_count)
