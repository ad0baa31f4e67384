"""Ratio games: the output of a one-layer attention classifier as a function of the kept words.

Words are kept (Z_j = 1) or removed (Z_j = 0). For each head

    f(Z) = N(Z)/D(Z) = (N_0 + Σ_j [Z_j A_j + (1 − Z_j) B_j]) / (D_0 + Σ_j [Z_j a_j + (1 − Z_j) b_j])

and the value of the game is the mean over the heads. The C classes share the denominators.

With a power p in (0, 1) it is a power game, f(Z) = N(Z)/D(Z)^p + offset: a linear classifier of
TF-IDF vectors of length 1 has p = ½ (`docs/theorems/power-game.md`).

The last functions convert between documents and heads: word counts, node tables, means over heads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Bool, Float, Int
from limelight.theory.namespace import array_namespace

_MIN_VALUE, _MAX_VALUE = 1e-100, 1e100


@dataclass(frozen=True, slots=True, eq=False)
class RatioGame:
    """K ratios over the same d words, for C classes, with any leading batch dimensions.

    Domain: a, b, D_0 ≥ 0 and, for every Z, D(Z) > 0 or N(Z) = D(Z) = 0. The quotient 0/0 counts as
    0, like a text without words. ``sizes`` has the number of real words of each document of a
    padded batch. The padding words come last and have a = b = A = B = 0. ``error`` bounds the
    distance of f_i(Z) of the stored numbers from the exact f_i(Z), for every Z (`table_rounding`).
    None means that the stored numbers are exact.
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
        shapes = {
            "D0": (*batch, K),
            "b": (*batch, K, d),
            "N0": (*batch, C, K),
            "A": (*batch, C, K, d),
            "B": (*batch, C, K, d),
        }
        if self.error is not None:
            shapes["error"] = (*batch, C, K)
        if self.offset is not None:
            shapes["offset"] = (*batch, C)
        if not 0 < self.power <= 1:
            raise InputError(f"the power of a game must be in (0, 1], not {self.power}.")
        for name, shape in shapes.items():
            if (actual := tuple(getattr(self, name).shape)) != shape:
                raise InputError(f"{name} must have the shape {shape} to fit a, not {actual}.")
        if d == 0 or K == 0:
            raise InputError(f"a ratio game needs features and heads, not d = {d} and K = {K}.")
        # Bounds assume rounding errors of 2⁻⁵². With single precision they would be wrong.
        # A set, since str(dtype) is slow.
        for dtype in {getattr(self, name).dtype for name in ("a", *shapes)}:
            if not str(dtype).endswith("float64"):
                raise InputError(f"a ratio game needs float64 arrays, not {dtype}.")

    @property
    def d(self) -> int:
        """Return the number of words, padding included."""
        return int(self.a.shape[-1])

    @property
    def K(self) -> int:
        """Return the number of heads."""
        return int(self.a.shape[-2])

    @property
    def C(self) -> int:
        """Return the number of classes."""
        return int(self.N0.shape[-2])

    @property
    def batch(self) -> tuple[int, ...]:
        """Return the leading dimensions."""
        return tuple(self.a.shape[:-2])


class BoundedScores(NamedTuple):
    """One score per word (or pair of words) and class, and a proven bound on their errors.

    Scores of pairs are symmetric, and 0 on the diagonal.
    """

    scores: Float[Array, "*batch C d"] | Float[Array, "*batch C d d"]
    bound: Float[Array, "*batch C"]


def head_values(game: RatioGame, keep: Bool[Array, "... n d"]) -> Float[Array, "... C K n"]:
    """Return f_i(Z) of every head i for each row Z of ``keep`` (True: the word is kept)."""
    xp = array_namespace(game.a)
    kept_mask = xp.matrix_transpose(xp.astype(keep, game.a.dtype))
    removed_mask = 1 - kept_mask
    # Kept and removed words are summed separately: D(all) + (b − a)·(1 − Z) would cancel when one
    # word has nearly all the weight.
    D = game.D0[..., None] + game.a @ kept_mask + game.b @ removed_mask
    kept_effects = game.A @ kept_mask[..., None, :, :]
    N = game.N0[..., None] + kept_effects + game.B @ removed_mask[..., None, :, :]
    f = quotient(N, D[..., None, :, :], game.power)
    return f if game.offset is None else f + game.offset[..., None, None]


def quotient(
    N: Float[Array, "..."], D: Float[Array, "..."], power: float | Float[Array, "..."]
) -> Float[Array, "..."]:
    """Return N/D^p, and 0 where D = 0. The domain of a game allows D = 0 only with N = 0."""
    xp = array_namespace(D)
    safe_D = xp.where(D > 0, D, xp.ones_like(D))
    return xp.where(D > 0, N / safe_D**power, xp.zeros_like(N))


def map_arrays(game: RatioGame, function: Callable[[Array], Array]) -> RatioGame:
    """Apply a function to every array of a game, and return the new game."""
    names = [field.name for field in fields(game) if field.name != "power"]
    arrays = {name: getattr(game, name) for name in names}
    return replace(game, **{name: function(x) for name, x in arrays.items() if x is not None})


def value(game: RatioGame, keep: Bool[Array, "... n d"]) -> Float[Array, "... C n"]:
    """Return f(Z), the mean over the heads, for each row Z of ``keep`` (True: the word is kept)."""
    xp = array_namespace(game.a)
    return xp.mean(head_values(game, keep), axis=-2)


def full_value(game: RatioGame) -> Float[Array, "*batch C"]:
    """Return f with every word kept: the model's output for the unchanged document."""
    xp = array_namespace(game.a)
    return value(game, xp.ones_like(game.a[..., :1, :], dtype=xp.bool))[..., 0]


def empty_value(game: RatioGame) -> Float[Array, "*batch C"]:
    """Return f with every word removed: the base value."""
    xp = array_namespace(game.a)
    return value(game, xp.zeros_like(game.a[..., :1, :], dtype=xp.bool))[..., 0]


def denominator_range(game: RatioGame) -> tuple[Float[Array, "*batch K"], Float[Array, "*batch K"]]:
    """Return D_min = D_0 + Σ min(a, b) and D_max = D_0 + Σ max(a, b) of each head."""
    xp = array_namespace(game.a)
    low = game.D0 + xp.sum(xp.minimum(game.a, game.b), axis=-1)
    high = game.D0 + xp.sum(xp.maximum(game.a, game.b), axis=-1)
    return low, high


def rescale_extreme_heads(game: RatioGame) -> RatioGame:
    """Divide a head by its largest D if that is far from 1, which does not change its values.

    Otherwise 1/D² would overflow or underflow.
    """
    xp = array_namespace(game.a)
    _, high = denominator_range(game)
    is_extreme = (high < 1e-100) | (high > 1e100)
    if not bool(xp.any(is_extreme)):
        return game
    unit = xp.where(is_extreme, high, xp.ones_like(high))
    head_unit, word_unit = unit[..., None, :], unit[..., None]
    return replace(
        game,
        D0=game.D0 / unit,
        a=game.a / word_unit,
        b=game.b / word_unit,
        N0=game.N0 / head_unit,
        A=game.A / head_unit[..., None],
        B=game.B / head_unit[..., None],
    )


def check_values(size: Float[Array, "*n K"]) -> None:
    """Raise DomainError for values so large or so small that products with them lose digits.

    ``size`` is the largest absolute value of each head. The largest of all heads counts.
    """
    xp = array_namespace(size)
    largest = xp.max(size, axis=-1)
    if not bool(xp.all((largest == 0) | (largest >= _MIN_VALUE) & (largest <= _MAX_VALUE))):
        raise DomainError(
            f"the values of a ratio game must be 0 or between {_MIN_VALUE:g} and {_MAX_VALUE:g} in "
            "absolute value. Multiply all values by a constant, which also multiplies the scores."
        )


def subtract_constants(game: RatioGame, c: Float[Array, "*batch C K"]) -> RatioGame:
    """Return the game f − c, by N ← N − cD in each head. Domain: power 1, and D > 0."""
    D0 = game.D0[..., None, :]
    a, b = game.a[..., None, :, :], game.b[..., None, :, :]
    return replace(
        game, N0=game.N0 - c * D0, A=game.A - c[..., None] * a, B=game.B - c[..., None] * b
    )


def select_heads(game: RatioGame, heads: slice) -> RatioGame:
    """Return the game of a slice of the heads, such as ``slice(i, i + 1)`` for head i."""
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


def combine_outputs(game: RatioGame, weights: Float[Array, "*batch C"]) -> RatioGame:
    """Return the game Σ_c w_c f_c with a single class, a weighted sum of the outputs."""
    xp, axis = array_namespace(game.a), weights.ndim - 1
    head_weights, word_weights = weights[..., None], weights[..., None, None]
    error, offset = game.error, game.offset
    if error is not None:
        error = xp.sum(xp.abs(head_weights) * error, axis=axis, keepdims=True)
    if offset is not None:
        offset = xp.sum(weights * offset, axis=axis, keepdims=True)
    return replace(
        game,
        N0=xp.sum(head_weights * game.N0, axis=axis, keepdims=True),
        A=xp.sum(word_weights * game.A, axis=axis, keepdims=True),
        B=xp.sum(word_weights * game.B, axis=axis, keepdims=True),
        error=error,
        offset=offset,
    )


def is_additive(game: RatioGame) -> bool:
    """Return whether a = b: then D is constant, and a word always changes f by the same amount."""
    return bool((game.a == game.b).all())


def value_range(game: RatioGame) -> tuple[Float[Array, "*batch C K"], Float[Array, "*batch C K"]]:
    """Return bounds min u ≤ f_i(Z) ≤ max u of each head, u over A_j/a_j, B_j/b_j and N_0/D_0.

    Each f_i(Z) is an average of these u with weights a_j, b_j, D_0. Terms of weight 0 are ignored.
    If a term has a value but no weight (a_j = 0, A_j ≠ 0), f_i is not an average, and the range is
    infinite.
    """
    xp = array_namespace(game.a)
    N0, D0 = game.N0[..., None], game.D0[..., None]
    D0 = xp.broadcast_to(D0[..., None, :, :], N0.shape)
    a = xp.broadcast_to(game.a[..., None, :, :], game.A.shape)
    b = xp.broadcast_to(game.b[..., None, :, :], game.B.shape)
    N = xp.concat([N0, game.A, game.B], axis=-1)
    g = xp.concat([D0, a, b], axis=-1)
    u = N / xp.where(g > 0, g, xp.ones_like(g))
    is_weightless = (g == 0) & (N != 0)
    low = xp.where(g > 0, u, xp.where(is_weightless, -xp.inf, xp.inf))
    high = xp.where(g > 0, u, xp.where(is_weightless, xp.inf, -xp.inf))
    return xp.min(low, axis=-1), xp.max(high, axis=-1)


def word_mask(game: RatioGame) -> Bool[Array, "*batch d"]:
    """Return True at real words, and False at the padding of a batch of documents."""
    xp = array_namespace(game.a)
    if game.sizes is None:
        return xp.ones_like(game.a[..., 0, :], dtype=xp.bool)
    index = xp.cumulative_sum(xp.ones_like(game.a[..., 0, :]), axis=-1)
    return index <= xp.astype(game.sizes, game.a.dtype)[..., None]


def word_counts(game: RatioGame) -> list[int]:
    """Return the number d of real words of each document, in the order of the flattened batch."""
    if game.sizes is None:
        return [game.d] * int(np.prod(game.batch, dtype=int))
    padded_d, sizes = game.a.shape[-1], [int(d) for d in game.sizes.reshape(-1).tolist()]
    if not 1 <= min(sizes) <= max(sizes) <= padded_d:
        raise InputError(f"sizes must be in 1..{padded_d}, not {min(sizes)}..{max(sizes)}.")
    return sizes


def pad_rows(rows: Sequence[Float[Array, " _"]], *, fill: float) -> Float[Array, "B n"]:
    """Return rows of different lengths as one array, padded at their ends with ``fill``."""
    # Documents of one batch need different numbers of nodes, and are computed together.
    padded = np.full((len(rows), max(len(row) for row in rows)), fill)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def repeat_per_head(game: RatioGame, *tables: Float[Array, "B _"]) -> list[Float[Array, "G _"]]:
    """Repeat the rows of NumPy tables, one per document, to one per head, on the game's device."""
    xp, K = array_namespace(game.a), game.a.shape[-2]
    rows = (
        np.repeat(x, K, axis=0) if len(x) > 1 else np.broadcast_to(x, (K, *x.shape[1:]))
        for x in tables
    )
    return [xp.asarray(np.ascontiguousarray(x), device=game.a.device) for x in rows]


def mean_over_heads(game: RatioGame, *arrays: Float[Array, "..."]) -> list[Float[Array, "..."]]:
    """Average arrays over the heads of each input of a game; they have a row for each head."""
    xp, shape = array_namespace(game.a), game.D0.shape
    return [xp.mean(xp.reshape(x, (*shape, *x.shape[1:])), axis=len(shape) - 1) for x in arrays]


def select_documents(game: RatioGame, rows: list[int]) -> RatioGame:
    """Return the documents with these indices of the flattened batch as a batch."""
    xp = array_namespace(game.a)
    index = xp.asarray(rows, dtype=xp.int64, device=game.a.device)
    depth = len(game.batch)
    return map_arrays(game, lambda x: xp.take(xp.reshape(x, (-1, *x.shape[depth:])), index, axis=0))


def extract_document(game: RatioGame, i: int) -> RatioGame:
    """Return document ``i`` of a batch as a single game, without the padding of the batch."""
    d = word_counts(game)[i]
    padded = map_arrays(replace(game, sizes=None), lambda x: x[i])
    return replace(
        padded, **{name: getattr(padded, name)[..., :d] for name in ("a", "b", "A", "B")}
    )
