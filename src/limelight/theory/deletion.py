"""LIME's limit when removed words are deleted and later words move up (`lime` with bow=True).

Exact when no word repeats: a kept word's position is then one more than the number of kept words
before it, and the chain of `subset_chain` over words and numbers kept knows both. With repeats the
position depends on which words were kept: sample instead.
"""

import sys
from dataclasses import dataclass

from limelight.errors import DomainError
from limelight.shapes import Array, Float
from limelight.theory.lime_recurrence import chain_regression
from limelight.theory.lime_weights import Lime, LimeDesign, lime_design
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.reciprocal_sum import need_tolerance, reciprocal_sum
from limelight.theory.subset_chain import Steps


@dataclass(frozen=True, slots=True, eq=False)
class DeletionGame:
    """One document of d distinct words under deletion.

    ``g[i, t, k]`` and ``u[c, i, t, k]``: unnormalised attention and value of word t in head i when
    k of the words before it were kept (k ≤ t; the rest is not read).
    ``tail_g[i, m]`` and ``tail_gu[c, i, m]``: Σg and Σgu over all that is not a word ([cls],
    padding) when m words are kept. Domain: g, tail_g > 0. ``error`` is that of a `RatioGame`.
    """

    g: Float[Array, "K d d"]
    u: Float[Array, "C K d d"]
    tail_g: Float[Array, "K kept"]
    tail_gu: Float[Array, "C K kept"]
    error: Float[Array, "C K"] | None = None


def lime_under_deletion(
    game: DeletionGame,
    *,
    bandwidth: float = 0.25,
    penalty: float = 0.0,
    rows: int | None = None,
    tolerance: float = 1e-6,
) -> Lime:
    """Limit of LIME with deletion, in O(d²) per node λ and head.

    Settings and result are those of `lime.lime`.
    """
    need_tolerance(tolerance)
    # Below the normal numbers 1/D is infinite, and what is left of D has lost its digits.
    if not bool(array_namespace(game.g).all(game.tail_g >= sys.float_info.min)):
        raise DomainError(
            "LIME under deletion needs weights beside the words that double precision can tell "
            "from 0."
        )
    design = lime_design(game.g.shape[1], bandwidth=bandwidth, penalty=penalty, rows=rows)
    heads = [_head(game, i, design, tolerance) for i in range(game.g.shape[0])]
    return Lime(*(sum(x[1:], x[0]) / len(heads) for x in zip(*heads, strict=True)))


def _head(game: DeletionGame, i: int, design: LimeDesign, tolerance: float) -> Lime:
    xp = array_namespace(game.g)
    low, high, c, half = _extent(game, i)
    # This makes the bound tolerance × half the range of u, and rounding; the range of f, which is
    # narrower, is not known here.
    rule = reciprocal_sum(max(1.0, float(high / low)), tolerance / design.demand())
    of_f = half * rule.error + (0.0 if game.error is None else game.error[:, i])
    found = chain_regression(
        design,
        rule,
        lambda nodes: _steps(game, i, nodes / low, c, low),
        array_like(rule.weights, game.g),
        of_f=of_f,
        size=half + xp.abs(c),
    )
    return found._replace(intercept=found.intercept + c)


def _steps(
    game: DeletionGame, i: int, rate: Float[Array, " L"], c: Float[Array, " C"], low: Array
) -> Steps:
    """Factors e^{−λg} and values g(u − c)/D_min of head i."""
    xp = array_namespace(game.g)
    # No lighter state can be factored out as in `heavy_form`: what a word weighs depends on how
    # many are kept before it. It is safe without: whatever D is, nodes with λD near 1 carry 1/D,
    # and where λD passes 700 the factors underflow to the 0 that they are worth.
    C, d = game.u.shape[0], game.g.shape[1]
    g, tail = game.g[i], game.tail_g[i]
    centred = game.u[:, i] - c[:, None, None]
    return Steps(
        keep_factor=xp.exp(-rate[:, None, None] * g),
        keep_value=g * centred / low,
        drop_factor=xp.ones_like(rate[:, None] * g[:, 0]),
        drop_value=xp.zeros((C, d), dtype=g.dtype, device=g.device),
        tail_factor=xp.exp(-rate[:, None] * tail),
        tail_value=(game.tail_gu[:, i] - c[:, None] * tail) / low,
    )


def deletion_range(game: DeletionGame) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """D_min and D_max of each head over all sets of kept words, by dynamic programming."""
    # Σ of each word's smallest g would be a bound too, but a wider one: words share the positions.
    xp = array_namespace(game.g)
    d = game.g.shape[1]
    ends = []
    for sign in (1, -1):
        g, tail = sign * game.g, sign * game.tail_g
        best = xp.zeros_like(tail[:, :1])
        for t in range(d):
            far = xp.full_like(best[:, :1], xp.inf)
            up = best + g[:, t, : t + 1]
            best = xp.minimum(xp.concat([best, far], axis=-1), xp.concat([far, up], axis=-1))
        ends.append(sign * xp.min(best + tail, axis=-1))
    return ends[0], ends[1]


def _extent(game: DeletionGame, i: int) -> tuple[Array, Array, Array, Array]:
    """D_min, D_max, and the middle c and half-width of the range of u in head i."""
    xp = array_namespace(game.g)
    low, high = deletion_range(game)
    d = game.g.shape[1]
    # f is an average of these u. Dinkelbach's narrower range (`heavy_form`) would need a chain of
    # its own for every θ.
    tail = game.tail_gu[:, i] / game.tail_g[i]
    read = xp.tril(xp.ones((d, d), dtype=game.g.dtype, device=game.g.device)) > 0
    u = game.u[:, i]
    inside = xp.where(read, u, u[:, :1, :1])  # what is not read must not widen the range
    inside = xp.concat([xp.reshape(inside, (inside.shape[0], -1)), tail], axis=-1)
    bottom, top = xp.min(inside, axis=-1), xp.max(inside, axis=-1)
    return low[i], high[i], (bottom + top) / 2, (top - bottom) / 2
