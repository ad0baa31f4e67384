"""LIME's limit by another road: dynamic programming over numbers of kept words.

Slower than `lime` (O(d²) per node λ and head) but exact in the sizes, without a mixture over p:
hence its oracle, and its stand-in where d and the bandwidth are so small that no mixture serves.
Weights of samples enter only at the end, so any ν, ρ and row 0 cost the same.
"""

from collections.abc import Callable
from typing import Unpack

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.conditionals import light_terms, rules_of
from limelight.theory.heavy_form import HeavyForm, heavy_form, state_factors, state_values
from limelight.theory.lime_weights import Lime, LimeDesign, Regression, lime_design
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, heads_mean, sizes_of
from limelight.theory.reciprocal_sum import ReciprocalSum, need_tolerance
from limelight.theory.subset_chain import Steps, chain_sums
from limelight.theory.table_rounding import ROUNDING

_CELLS = 2**22  # of (λ, word, number kept) in memory at a time


def lime_by_recurrence(
    game: RatioGame, *, tolerance: float = 1e-9, **told: Unpack[Regression]
) -> Lime:
    """LIME's limit as `lime.lime` has it; ``tolerance`` is relative to the range of f."""
    need_tolerance(tolerance)
    form = heavy_form(game)
    xp = array_namespace(game.a)
    designs = [lime_design(d, **told) for d in sizes_of(game)]
    by_head = [design for design in designs for _ in range(game.K)]
    # 1/D is all that errs, so it may take the whole promise: 2 tolerance × half_range.
    shares = [2 * tolerance / x.demand() for x in by_head]
    heads = enumerate(zip(by_head, rules_of(form, shares), strict=True))
    found = [_head(form.head(i), design, rule) for i, (design, rule) in heads]
    columns = zip(*found, strict=True)
    return Lime(*heads_mean(game, *(xp.stack(x, axis=0) for x in columns)))


def _head(form: HeavyForm, design: LimeDesign, rule: ReciprocalSum) -> Lime:
    xp = array_namespace(form.delta)
    words = form.of_words(slice(design.d))
    keep_value, drop_value = state_values(words)
    sizes = array_like(design.weight, form.delta)

    def steps(nodes: Float[Array, " L"]) -> Steps:
        keep_factor, drop_factor = state_factors(words, nodes)
        # The lighter state has factor 1 and value 0; n_0 and e^{−λ} hold its share of N and D.
        return Steps(
            keep_factor=keep_factor[:, :, None],
            keep_value=keep_value[:, :, None],
            drop_factor=drop_factor,
            drop_value=drop_value,
            tail_factor=xp.ones_like(nodes[:, None] * sizes),
            tail_value=form.n0[:, None] * xp.ones_like(sizes),
        )

    of_f = form.half_range * rule.error + form.error
    w = light_terms(form.base, rule)
    found = chain_regression(design, rule, steps, w, of_f=of_f, size=form.magnitude)
    padding = xp.zeros_like(form.step[:, design.d :])
    return found._replace(
        scores=xp.concat([found.scores, padding], axis=-1), intercept=found.intercept + form.c
    )


def chain_regression(
    design: LimeDesign,
    rule: ReciprocalSum,
    steps: Callable[[Float[Array, " L"]], Steps],
    w: Float[Array, " Q"],
    *,
    of_f: Float[Array, " C"],
    size: Float[Array, " C"],
) -> Lime:
    """The limit of one head from a chain over its words, whose ``steps`` depend on the nodes λ.

    ``w`` are the weights of the nodes, ``of_f`` bounds the error of f by 1/D and by the game,
    ``size`` what its terms add up to.
    """
    xp = array_namespace(w)
    # The chain counts kept words, the design removed ones.
    weight = array_like(design.weight[::-1].copy(), w)
    nodes = array_like(rule.nodes, w)
    # The forward sums of all words are kept until the backward ones meet them: d²/2 cells per node.
    at_once = max(1, _CELLS // design.d**2)
    blocks = [slice(i, i + at_once) for i in range(0, len(rule.nodes), at_once)]
    parts = [chain_sums(steps(nodes[some]), w[some], weight) for some in blocks]
    kept, by_count = (sum(x[1:], x[0]) for x in zip(*parts, strict=True))
    V, common = design.V + design.penalty, design.common()
    # What β_j takes off depends on the size alone, so one sum over sizes serves all words.
    fixed, base = (
        array_like((design.weight * x)[::-1].copy(), w) for x in (common, design.intercept())
    )
    beta = (kept - xp.sum(by_count * fixed, axis=-1)[:, None]) / V
    # An error of 1/D is one of f, so it counts by what reaches β; one of rounding by the two sums
    # before they are subtracted, which may be larger.
    slope, in_base = design.reach()
    rounding = ROUNDING * (6 * design.d + len(rule.nodes) + 64) * rule.condition * size
    terms = float(design.m1 + design.weight @ np.abs(common)) / V
    intercept = xp.sum(by_count * base, axis=-1)
    return Lime(beta, of_f * slope + rounding * terms, intercept, (of_f + rounding) * in_base)
