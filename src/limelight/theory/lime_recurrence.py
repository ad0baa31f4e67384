"""LIME's limit by a second algorithm: dynamic programming over numbers of kept words.

It is slower than `lime` (O(d²) per node λ and head) but exact in the sizes, without a mixture over
p. So it is the reference implementation of `lime`, and it replaces `lime` if d and the bandwidth
are so small that no mixture is accurate. Weights of samples enter only at the end, so the cost does
not depend on ν, ρ and row 0.
"""

from collections.abc import Callable
from typing import Unpack

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.conditionals import light_terms, reciprocal_sums
from limelight.theory.heavy_form import (
    HeavyForm,
    heavy_form,
    kept_and_removed_factors,
    kept_and_removed_values,
)
from limelight.theory.lime_weights import LimeDesign, LimeLimit, RegressionSettings, lime_design
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, mean_over_heads, word_counts
from limelight.theory.reciprocal_sum import ReciprocalSum, check_tolerance
from limelight.theory.subset_chain import ChainSteps, chain_sums
from limelight.theory.table_rounding import ROUNDING

_CELLS = 2**22  # (λ, word, number of kept words) in memory at a time


def lime_by_recurrence(
    game: RatioGame, *, tolerance: float = 1e-9, **settings: Unpack[RegressionSettings]
) -> LimeLimit:
    """Return LIME's limit, like `lime.lime`. ``tolerance`` is relative to the range of f."""
    check_tolerance(tolerance)
    form = heavy_form(game)
    xp = array_namespace(game.a)
    designs = [lime_design(d, **settings) for d in word_counts(game)]
    head_designs = [design for design in designs for _ in range(game.K)]
    # Only 1/D has an error, so it may use the full tolerance: 2 tolerance × half_range.
    shares = [2 * tolerance / x.combined_error_factor() for x in head_designs]
    heads = enumerate(zip(head_designs, reciprocal_sums(form, shares), strict=True))
    limits = [_head_limit(form.head(i), design, rule) for i, (design, rule) in heads]
    columns = zip(*limits, strict=True)
    return LimeLimit(*mean_over_heads(game, *(xp.stack(x, axis=0) for x in columns)))


def _head_limit(form: HeavyForm, design: LimeDesign, rule: ReciprocalSum) -> LimeLimit:
    """Return the limit of one head."""
    xp = array_namespace(form.delta)
    words = form.select_words(slice(design.d))
    keep_value, drop_value = kept_and_removed_values(words)
    sizes = array_like(design.weight, form.delta)

    def chain_steps(nodes: Float[Array, " L"]) -> ChainSteps:
        """Return the steps of the chain at these nodes λ."""
        keep_factor, drop_factor = kept_and_removed_factors(words, nodes)
        # The lighter state has factor 1 and value 0. Its part of N and D is in n_0 and e^{−λ}.
        return ChainSteps(
            keep_factor=keep_factor[:, :, None],
            keep_value=keep_value[:, :, None],
            drop_factor=drop_factor,
            drop_value=drop_value,
            tail_factor=xp.ones_like(nodes[:, None] * sizes),
            tail_value=form.n0[:, None] * xp.ones_like(sizes),
        )

    f_error = form.half_range * rule.error + form.error
    w = light_terms(form.base, rule)
    limit = chain_regression(
        design, rule, chain_steps, w, f_error=f_error, magnitude=form.magnitude
    )
    padding = xp.zeros_like(form.step[:, design.d :])
    return limit._replace(
        scores=xp.concat([limit.scores, padding], axis=-1), intercept=limit.intercept + form.c
    )


def chain_regression(
    design: LimeDesign,
    rule: ReciprocalSum,
    chain_steps: Callable[[Float[Array, " L"]], ChainSteps],
    w: Float[Array, " Q"],
    *,
    f_error: Float[Array, " C"],
    magnitude: Float[Array, " C"],
) -> LimeLimit:
    """Return the limit of one head by dynamic programming over its words.

    Parameters
    ----------
    design
        LIME's weights by size.
    rule
        The sum of exponentials for 1/D.
    chain_steps
        Function that returns the steps of the chain for some nodes λ.
    w
        The weights of the nodes.
    f_error
        A bound on the error of f from 1/D and from the game.
    magnitude
        A bound on the absolute sum of the terms of f.

    Returns
    -------
    Coefficients and intercept, with bounds on their errors.
    """
    xp = array_namespace(w)
    # The chain counts kept words, the design removed ones.
    weight = array_like(design.weight[::-1].copy(), w)
    nodes = array_like(rule.nodes, w)
    # The forward sums of all words are stored for the backward pass: d²/2 cells per node.
    block_size = max(1, _CELLS // design.d**2)
    blocks = [slice(i, i + block_size) for i in range(0, len(rule.nodes), block_size)]
    parts = [chain_sums(chain_steps(nodes[block]), w[block], weight) for block in blocks]
    word_sums, count_sums = (sum(x[1:], x[0]) for x in zip(*parts, strict=True))
    V, common = design.V + design.penalty, design.common_weights()
    # The common weights depend only on the size, so one sum over sizes is used for all words.
    common_weight, intercept_weight = (
        array_like((design.weight * x)[::-1].copy(), w)
        for x in (common, design.intercept_weights())
    )
    beta = (word_sums - xp.sum(count_sums * common_weight, axis=-1)[:, None]) / V
    # An error of 1/D is an error of f and has its factors. A rounding error is relative to the two
    # sums before they are subtracted, which may be larger.
    beta_factor, intercept_factor = design.error_factors()
    rounding = ROUNDING * (6 * design.d + len(rule.nodes) + 64) * rule.condition * magnitude
    terms = float(design.m1 + design.weight @ np.abs(common)) / V
    intercept = xp.sum(count_sums * intercept_weight, axis=-1)
    return LimeLimit(
        beta,
        f_error * beta_factor + rounding * terms,
        intercept,
        (f_error + rounding) * intercept_factor,
    )
