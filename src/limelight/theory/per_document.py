"""From documents to heads and back: numbers of words, node tables, means over heads."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from array_api_compat import device

from limelight.errors import InputError
from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame, mapped


def sizes_of(game: RatioGame) -> list[int]:
    """The number d of real words of each document, in the order of the flattened batch."""
    if game.sizes is None:
        return [game.d] * int(np.prod(game.batch, dtype=int))
    xp = array_namespace(game.a)
    sizes = [int(d) for d in xp.reshape(game.sizes, (-1,)).tolist()]
    if not 1 <= min(sizes) <= max(sizes) <= game.d:
        raise InputError(f"sizes must lie in 1..{game.d}; got {min(sizes)}..{max(sizes)}.")
    return sizes


def stacked(rows: Sequence[Float[Array, " _"]], *, fill: float) -> Float[Array, "B n"]:
    """Rows of different lengths as one array, ``fill`` at their ends."""
    # Documents of one batch need different numbers of nodes; one array of them is one computation.
    out = np.full((len(rows), max(len(row) for row in rows)), fill)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def of_each_head(game: RatioGame, *tables: Float[Array, "B _"]) -> list[Float[Array, "G _"]]:
    """NumPy tables with a row per document as arrays like the game's, with a row per head."""
    xp, K, here = array_namespace(game.a), game.K, device(game.a)
    rows = (
        np.repeat(x, K, axis=0) if len(x) > 1 else np.broadcast_to(x, (K, *x.shape[1:]))
        for x in tables
    )
    return [xp.asarray(np.ascontiguousarray(x), device=here) for x in rows]


def heads_mean(game: RatioGame, *parts: Float[Array, "..."]) -> list[Float[Array, "..."]]:
    """The mean of each part, with a row per head, over the heads of each document."""
    xp, shape = array_namespace(game.a), game.D0.shape
    return [xp.mean(xp.reshape(x, (*shape, *x.shape[1:])), axis=len(shape) - 1) for x in parts]


def of_documents(game: RatioGame, rows: list[int]) -> RatioGame:
    """Some documents of the flattened batch, as a batch of their own."""
    xp = array_namespace(game.a)
    index = xp.asarray(rows, dtype=xp.int64, device=device(game.a))
    depth = len(game.batch)
    return mapped(game, lambda x: xp.take(xp.reshape(x, (-1, *x.shape[depth:])), index, axis=0))


def one_document(game: RatioGame, i: int) -> RatioGame:
    """Document ``i`` of a batch as a game of its own, without the padding of the batch."""
    d = sizes_of(game)[i]
    own = mapped(replace(game, sizes=None), lambda x: x[i])
    return replace(own, **{name: getattr(own, name)[..., :d] for name in ("a", "b", "A", "B")})


def in_order(game: RatioGame, parts: Sequence[Sequence[Array]], rows: list[int]) -> Iterator[Array]:
    """Results of several ``of_documents`` put back in the batch.

    ``rows`` are their documents, one part after another.
    """
    xp = array_namespace(game.a)
    back = sorted(range(len(rows)), key=rows.__getitem__)
    index = xp.asarray(back, dtype=xp.int64, device=device(game.a))
    for column in zip(*parts, strict=True):
        x = xp.take(xp.concat(list(column), axis=0), index, axis=0)
        yield xp.reshape(x, (*game.batch, *x.shape[1:]))
