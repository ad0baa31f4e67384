"""Ratio games: what a one-layer attention classifier is to every perturbation method.

Words are kept (Z_j = 1) or removed (Z_j = 0). For each head

    f(Z) = N(Z)/D(Z) = (N_0 + Σ_j [Z_j A_j + (1 − Z_j) B_j]) / (D_0 + Σ_j [Z_j a_j + (1 − Z_j) b_j])

and the value of the game is the mean over the heads. The C classes share the denominators.

With a power p in (0, 1) it is a power game, f(Z) = N(Z)/D(Z)^p + offset: a linear classifier of
TF-IDF vectors of length 1 has p = ½ (`docs/theorems/power-game.md`).

At the end, from documents to heads and back: numbers of words, node tables, means over heads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Bool, Float, Int
from limelight.theory.namespace import array_namespace

_LEAST, _MOST = 1e-100, 1e100  # of values


@dataclass(frozen=True, slots=True, eq=False)
class RatioGame:
    """K ratios over the same d words, for C classes, with any leading batch dimensions.

    Domain: a, b, D_0 ≥ 0 and, for every Z, D(Z) > 0 or N(Z) = D(Z) = 0: that counts as 0, as a text
    without words does. ``sizes`` gives the number of real words of each item of a padded batch; the
    padding words come last and have a = b = A = B = 0.
    ``error`` bounds how far f_i(Z) of the numbers here lies from the f_i(Z) that is meant, for
    every Z (`table_rounding`); None where these numbers are what is meant.
    """

    D0: Float[Array, "*batch K"]
    a: Float[Array, "*batch K d"]
    b: Float[Array, "*batch K d"]
    N0: Float[Array, "*batch C K"]
    A: Float[Array, "*batch C K d"]
    B: Float[Array, "*batch C K d"]
    sizes: Int[Array, "*batch"] | None = None
    error: Float[Array, "*batch C K"] | None = None
    offset: Float[Array, "*batch C"] | None = None
    power: float = 1.0

    def __post_init__(self) -> None:
        K, d = self.a.shape[-2:]
        C = self.N0.shape[-2]
        batch = tuple(self.a.shape[:-2])
        wanted = {
            "D0": (*batch, K),
            "b": (*batch, K, d),
            "N0": (*batch, C, K),
            "A": (*batch, C, K, d),
            "B": (*batch, C, K, d),
        }
        if self.error is not None:
            wanted["error"] = (*batch, C, K)
        if self.offset is not None:
            wanted["offset"] = (*batch, C)
        if not 0 < self.power <= 1:
            raise InputError(f"the power of a game must lie in (0, 1]; got {self.power}.")
        for name, shape in wanted.items():
            if (came := tuple(getattr(self, name).shape)) != shape:
                raise InputError(f"{name} must have shape {shape} beside a; got {came}.")
        if d == 0 or K == 0:
            raise InputError(f"a ratio game needs features and heads; got d = {d}, K = {K}.")
        # Bounds count rounding errors of 2⁻⁵²; single precision would break them unseen.
        for kind in {getattr(self, name).dtype for name in ("a", *wanted)}:  # to spell one is slow
            if not str(kind).endswith("float64"):
                raise InputError(f"a ratio game needs float64 arrays; got {kind}.")

    @property
    def d(self) -> int:
        """Number of words, padding included."""
        return int(self.a.shape[-1])

    @property
    def K(self) -> int:
        """Number of heads."""
        return int(self.a.shape[-2])

    @property
    def C(self) -> int:
        """Number of classes."""
        return int(self.N0.shape[-2])

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading dimensions."""
        return tuple(self.a.shape[:-2])


class Valued(NamedTuple):
    """One score per word and class, and a proven bound on the error of each of them.

    Of pairs of words they are symmetric, and 0 on the diagonal.
    """

    scores: Float[Array, "*batch C d"] | Float[Array, "*batch C d d"]
    bound: Float[Array, "*batch C"]


def head_values(game: RatioGame, keep: Bool[Array, "... n d"]) -> Float[Array, "... C K n"]:
    """f_i(Z) of every head i for each row Z of ``keep`` (True: the word stays)."""
    xp = array_namespace(game.a)
    kept = xp.matrix_transpose(xp.astype(keep, game.a.dtype))
    gone = 1 - kept
    # Kept and removed apart: D(all) + (b − a)·(1 − Z) would cancel when one word holds nearly
    # everything.
    D = game.D0[..., None] + game.a @ kept + game.b @ gone
    N = game.N0[..., None] + game.A @ kept[..., None, :, :] + game.B @ gone[..., None, :, :]
    f = quotient(N, D[..., None, :, :], game.power)
    return f if game.offset is None else f + game.offset[..., None, None]


def quotient(
    N: Float[Array, "..."], D: Float[Array, "..."], power: float | Float[Array, "..."]
) -> Float[Array, "..."]:
    """N/D^p, and 0 where D = 0, which the domain of a game allows with N = 0 only."""
    xp = array_namespace(D)
    safe = xp.where(D > 0, D, xp.ones_like(D))
    return xp.where(D > 0, N / safe**power, xp.zeros_like(N))


def mapped(game: RatioGame, change: Callable[[Array], Array]) -> RatioGame:
    """The game with every array that it holds changed in the same way."""
    arrays = {one.name: getattr(game, one.name) for one in fields(game) if one.name != "power"}
    return replace(game, **{name: change(x) for name, x in arrays.items() if x is not None})


def value(game: RatioGame, keep: Bool[Array, "... n d"]) -> Float[Array, "... C n"]:
    """f(Z), the mean over the heads, for each row Z of ``keep`` (True: the word stays)."""
    xp = array_namespace(game.a)
    return xp.mean(head_values(game, keep), axis=-2)


def full_value(game: RatioGame) -> Float[Array, "*batch C"]:
    """f with every word kept: the model's own answer."""
    xp = array_namespace(game.a)
    return value(game, xp.ones_like(game.a[..., :1, :], dtype=xp.bool))[..., 0]


def empty_value(game: RatioGame) -> Float[Array, "*batch C"]:
    """f with every word removed: the base value."""
    xp = array_namespace(game.a)
    return value(game, xp.zeros_like(game.a[..., :1, :], dtype=xp.bool))[..., 0]


def denominator_range(game: RatioGame) -> tuple[Float[Array, "*batch K"], Float[Array, "*batch K"]]:
    """D_min = D_0 + Σ min(a, b) and D_max = D_0 + Σ max(a, b) of each head."""
    xp = array_namespace(game.a)
    low = game.D0 + xp.sum(xp.minimum(game.a, game.b), axis=-1)
    high = game.D0 + xp.sum(xp.maximum(game.a, game.b), axis=-1)
    return low, high


def in_own_units(game: RatioGame) -> RatioGame:
    """The same game with the weights of a head in units of its largest D, if that is far from 1.

    1/D² would overflow, or underflow.
    """
    xp = array_namespace(game.a)
    _, high = denominator_range(game)
    far = (high < 1e-100) | (high > 1e100)
    if not bool(xp.any(far)):
        return game
    unit = xp.where(far, high, xp.ones_like(high))
    heads, words = unit[..., None, :], unit[..., None]
    return replace(
        game,
        D0=game.D0 / unit,
        a=game.a / words,
        b=game.b / words,
        N0=game.N0 / heads,
        A=game.A / heads[..., None],
        B=game.B / heads[..., None],
    )


def need_values(size: Float[Array, "*n K"]) -> None:
    """Refuse values whose products with small weights, or whose squares, would lose their digits.

    ``size`` is the largest value of each head; the largest of all heads counts.
    """
    xp = array_namespace(size)
    most = xp.max(size, axis=-1)
    if not bool(xp.all((most == 0) | (most >= _LEAST) & (most <= _MOST))):
        raise DomainError(
            f"a ratio game needs values that are 0 or between {_LEAST:g} and {_MOST:g} in size; "
            "multiply them by a number, and the scores are multiplied by it too."
        )


def shifted(game: RatioGame, c: Float[Array, "*batch C K"]) -> RatioGame:
    """The game f − c, by N ← N − cD in each head. Domain: power 1, and D > 0."""
    D0 = game.D0[..., None, :]
    a, b = game.a[..., None, :, :], game.b[..., None, :, :]
    return replace(
        game, N0=game.N0 - c * D0, A=game.A - c[..., None] * a, B=game.B - c[..., None] * b
    )


def of_heads(game: RatioGame, heads: slice) -> RatioGame:
    """The game of some heads only; ``slice(i, i + 1)`` gives the values of head i alone."""
    return replace(
        game,
        D0=game.D0[..., heads],
        a=game.a[..., heads, :],
        b=game.b[..., heads, :],
        N0=game.N0[..., heads],
        A=game.A[..., heads, :],
        B=game.B[..., heads, :],
        error=None if game.error is None else game.error[..., heads],
    )


def of_outputs(game: RatioGame, weights: Float[Array, "*batch C"]) -> RatioGame:
    """The game Σ_c w_c f_c of one number made of the outputs, as a single class."""
    xp, axis = array_namespace(game.a), weights.ndim - 1
    heads, words = weights[..., None], weights[..., None, None]
    error, offset = game.error, game.offset
    if error is not None:
        error = xp.sum(xp.abs(heads) * error, axis=axis, keepdims=True)
    if offset is not None:
        offset = xp.sum(weights * offset, axis=axis, keepdims=True)
    return replace(
        game,
        N0=xp.sum(heads * game.N0, axis=axis, keepdims=True),
        A=xp.sum(words * game.A, axis=axis, keepdims=True),
        B=xp.sum(words * game.B, axis=axis, keepdims=True),
        error=error,
        offset=offset,
    )


def is_additive(game: RatioGame) -> bool:
    """Whether no denominator moves: a word then changes f by the same, whatever else is there."""
    return bool((game.a == game.b).all())


def value_range(game: RatioGame) -> tuple[Float[Array, "*batch C K"], Float[Array, "*batch C K"]]:
    """Bounds min u ≤ f_i(Z) ≤ max u of each head, u over A_j/a_j, B_j/b_j and N_0/D_0.

    Each f_i(Z) is an average of these u with weights a_j, b_j, D_0; terms of weight 0 take no part.
    With a value but no weight (a_j = 0, A_j ≠ 0) f_i is not an average: the range is then infinite.
    """
    xp = array_namespace(game.a)
    N0, D0 = game.N0[..., None], game.D0[..., None]
    D0 = xp.broadcast_to(D0[..., None, :, :], N0.shape)
    a = xp.broadcast_to(game.a[..., None, :, :], game.A.shape)
    b = xp.broadcast_to(game.b[..., None, :, :], game.B.shape)
    N = xp.concat([N0, game.A, game.B], axis=-1)
    g = xp.concat([D0, a, b], axis=-1)
    u = N / xp.where(g > 0, g, xp.ones_like(g))
    lost = (g == 0) & (N != 0)
    low = xp.where(g > 0, u, xp.where(lost, -xp.inf, xp.inf))
    high = xp.where(g > 0, u, xp.where(lost, xp.inf, -xp.inf))
    return xp.min(low, axis=-1), xp.max(high, axis=-1)


def word_mask(game: RatioGame) -> Bool[Array, "*batch d"]:
    """True at real words, False at the padding of a batch of documents of different d."""
    xp = array_namespace(game.a)
    if game.sizes is None:
        return xp.ones_like(game.a[..., 0, :], dtype=xp.bool)
    index = xp.cumulative_sum(xp.ones_like(game.a[..., 0, :]), axis=-1)
    return index <= xp.astype(game.sizes, game.a.dtype)[..., None]


def sizes_of(game: RatioGame) -> list[int]:
    """The number d of real words of each document, in the order of the flattened batch."""
    if game.sizes is None:
        return [game.d] * int(np.prod(game.batch, dtype=int))
    most, sizes = game.a.shape[-1], [int(d) for d in game.sizes.reshape(-1).tolist()]
    if not 1 <= min(sizes) <= max(sizes) <= most:
        raise InputError(f"sizes must lie in 1..{most}; got {min(sizes)}..{max(sizes)}.")
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
    xp, K, here = array_namespace(game.a), game.a.shape[-2], game.a.device
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
    index = xp.asarray(rows, dtype=xp.int64, device=game.a.device)
    depth = len(game.batch)
    return mapped(game, lambda x: xp.take(xp.reshape(x, (-1, *x.shape[depth:])), index, axis=0))


def one_document(game: RatioGame, i: int) -> RatioGame:
    """Document ``i`` of a batch as a game of its own, without the padding of the batch."""
    d = sizes_of(game)[i]
    own = mapped(replace(game, sizes=None), lambda x: x[i])
    return replace(own, **{name: getattr(own, name)[..., :d] for name in ("a", "b", "A", "B")})
