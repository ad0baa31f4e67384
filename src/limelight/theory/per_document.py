"""From documents to heads and back: numbers of words, node tables, means over heads."""

__all__ = ["heads_mean", "of_each_head", "sizes_of", "stacked"]

from collections.abc import Sequence

import numpy as np
from array_api_compat import array_namespace, device

from limelight.shapes import Array, Float
from limelight.theory.ratio_game import RatioGame


def sizes_of(game: RatioGame) -> list[int]:
    """The number d of real words of each document, in the order of the flattened batch."""
    if game.sizes is None:
        return [game.d] * int(np.prod(game.batch, dtype=int))
    xp = array_namespace(game.a)
    return [int(d) for d in xp.reshape(game.sizes, (-1,)).tolist()]


def stacked(rows: Sequence[Float[Array, " n"]], *, fill: float) -> Float[Array, "B n"]:
    """Rows of different lengths as one array, ``fill`` at their ends."""
    out = np.full((len(rows), max(len(row) for row in rows)), fill)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def of_each_head(game: RatioGame, table: Float[Array, "B *n"]) -> Float[Array, "G *n"]:
    """A NumPy table with one row per document as an array like the game's, with one row per head."""
    xp = array_namespace(game.a)
    if len(table) > 1:
        table = np.repeat(table, game.K, axis=0)
    else:
        table = np.broadcast_to(table, (game.K, *table.shape[1:]))
    return xp.asarray(np.ascontiguousarray(table), device=device(game.a))


def heads_mean(game: RatioGame, x: Float[Array, "G *n"]) -> Float[Array, "*batch *n"]:
    """The mean over the heads of each document."""
    xp = array_namespace(game.a)
    return xp.mean(xp.reshape(x, (*game.batch, game.K, *x.shape[1:])), axis=len(game.batch))
