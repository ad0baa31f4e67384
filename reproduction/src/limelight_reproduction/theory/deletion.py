"""LIME's limit when removed words are deleted and later words move up (`lime` with bow=True).

Exact when no word repeats: a kept word's position is then one more than the number of kept words
before it, and the chain of `subset_chain` over words and numbers kept knows both. With repeats the
position depends on which words were kept: sample instead.
"""

import sys
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from limelight import DomainError
from limelight.shapes import Float
from limelight.theory.lime_recurrence import chain_regression
from limelight.theory.lime_weights import LimeDesign, LimeLimit, RegressionSettings, lime_design
from limelight.theory.reciprocal_sum import check_tolerance, reciprocal_sum
from limelight.theory.subset_chain import ChainSteps


@dataclass(frozen=True, slots=True, eq=False)
class DeletionGame:
    """One document of d distinct words under deletion.

    ``g[i, t, k]`` and ``u[c, i, t, k]``: unnormalised attention and value of word t in head i when
    k of the words before it were kept (k ≤ t; other entries are not read). ``tail_g[i, m]`` and
    ``tail_gu[c, i, m]``: Σg and Σgu over all positions without a word ([cls], padding) when m words
    are kept. Domain: g, tail_g > 0. ``error`` is that of a `RatioGame`.
    """

    g: Float[np.ndarray, "K d d"]
    u: Float[np.ndarray, "C K d d"]
    tail_g: Float[np.ndarray, "K kept"]
    tail_gu: Float[np.ndarray, "C K kept"]
    error: Float[np.ndarray, "C K"] | None = None


def lime_under_deletion(
    game: DeletionGame, *, tolerance: float = 1e-6, **settings: Unpack[RegressionSettings]
) -> LimeLimit:
    """Return the limit of LIME with deletion, in O(d²) per node λ and head.

    Settings and result are those of `lime.lime`.
    """
    check_tolerance(tolerance)
    # Below the normal numbers 1/D is infinite, and D itself has lost its digits.
    if not np.all(game.tail_g >= sys.float_info.min):
        raise DomainError(
            "LIME under deletion needs positive weights without the words, but here they round "
            "to 0 in double precision."
        )
    design = lime_design(game.g.shape[1], **settings)
    ranges = enumerate(zip(*deletion_range(game), strict=True))
    heads = [_head(game, i, design, tolerance, *ends) for i, ends in ranges]
    return LimeLimit(*(sum(field[1:], field[0]) / len(heads) for field in zip(*heads, strict=True)))


def _head(
    game: DeletionGame, i: int, design: LimeDesign, tolerance: float, low: float, high: float
) -> LimeLimit:
    """Return the limit of head i, whose denominators lie between ``low`` and ``high``."""
    g, u, tail = game.g[i], game.u[:, i], game.tail_g[i]
    # f is an average of these u. Dinkelbach's narrower range (`heavy_form`) would need a chain of
    # its own for every θ. Entries that are not read must not widen the range.
    read = (slice(None), *np.tril_indices(design.d))
    values = np.concatenate([u[read], game.tail_gu[:, i] / tail], axis=-1)
    bottom, top = values.min(axis=-1), values.max(axis=-1)
    c, half = (bottom + top) / 2, (top - bottom) / 2

    def steps(nodes: Float[np.ndarray, " L"]) -> ChainSteps:
        """Return the factors of every word at the nodes."""
        # Factors e^{−λg} and values g(u − c)/D_min. No lighter state can be factored out as in
        # `heavy_form`: a word's weight depends on how many words are kept before it. The
        # computation is safe without it: for every D, nodes with λD near 1 carry 1/D, and where λD
        # passes 700 the factors underflow to 0, their correct value.
        rate = nodes / low
        return ChainSteps(
            keep_factor=np.exp(-rate[:, None, None] * g),
            keep_value=g * (u - c[:, None, None]) / low,
            drop_factor=np.ones((len(rate), design.d)),
            drop_value=np.zeros((len(c), design.d)),
            tail_factor=np.exp(-rate[:, None] * tail),
            tail_value=(game.tail_gu[:, i] - c[:, None] * tail) / low,
        )

    # This makes the bound tolerance × half the range of u, and rounding; the range of f, which is
    # narrower, is not known here.
    rule = reciprocal_sum(max(1.0, float(high / low)), tolerance / design.combined_error_factor())
    f_error = half * rule.error + (0.0 if game.error is None else game.error[:, i])
    size = half + np.abs(c)
    limit = chain_regression(design, rule, steps, rule.weights, f_error=f_error, magnitude=size)
    return limit._replace(intercept=limit.intercept + c)


def deletion_range(
    game: DeletionGame,
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Return D_min and D_max of each head over all sets of kept words, by dynamic programming."""
    # The sum of each word's smallest g is a wider bound, because words share the positions.
    ends = []
    for sign in (1, -1):
        g, tail = sign * game.g, sign * game.tail_g
        best = np.zeros((len(g), 1))
        unreachable = np.full_like(best, np.inf)
        for t in range(g.shape[1]):
            extended = best + g[:, t, : t + 1]
            best = np.minimum(
                np.append(best, unreachable, axis=-1), np.append(unreachable, extended, axis=-1)
            )
        ends.append(sign * np.min(best + tail, axis=-1))
    return ends[0], ends[1]
