"""Mean-field LIME and Shapley: words act on the mean text of their size.

Let a share x of the words be kept. N and D are then, in the mean, N̄(x) and D̄(x), which are linear
in x, and word j moves the ratio by

    h_j(x) = (A_j − B_j)/D̄(x) − (a_j − b_j) N̄(x)/D̄(x)².

Shapley values weigh all x alike; LIME weighs them by ψ(x) x(1 − x), the weight of a sample times
the variance of its Z_j. Cost O(d): two integrals for each head serve all words. What bounds their
error is the second order, which is exact in all but one term (`second_order.distance_bound`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight import DomainError, InputError
from limelight.shapes import Array, Float
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, rescale_extreme_heads, word_counts, word_mask

_NODES = 16  # on each panel; halving panels keep every pole of 1/D̄ a panel's length away
_PANELS = 52  # towards each end: down to the roundings of 1


class _Shares(NamedTuple):
    """Shares of kept words x, what is left to 1, and weights for ∫₀¹ dx."""

    x: Float[np.ndarray, " n"]
    rest: Float[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]


@lru_cache(maxsize=1)
def _shares() -> _Shares:
    # ψ is smooth in z = √x, not in x. 1/D̄ has its pole as near to an end as D̄ is small there, up to
    # 1e-7 on trained weights: panels that halve towards both ends have it at a distance anyway.
    at, w = np.polynomial.legendre.leggauss(_NODES)
    edges = np.concatenate([[0.0], 2.0 ** np.arange(-_PANELS, 0)])
    length, low = np.diff(edges), edges[:-1]
    near = (low[:, None] + length[:, None] * (1 + at) / 2).ravel()  # the distance to an end
    weight = (length[:, None] * w / 2).ravel()
    z, to_one = np.concatenate([near, 1 - near]), np.concatenate([1 - near, near])
    return _Shares(x=z**2, rest=to_one * (1 + z), weight=2 * z * np.concatenate([weight, weight]))


def shapley_mean_field(game: RatioGame) -> Float[Array, "*batch C d"]:
    """Sh_j ≈ (1/K) Σ_i ∫₀¹ h_j(x) dx: adds up to f(all) − f(none) exactly, as Shapley values do.

    Exact where the denominators do not move (a = b). Any d ≥ 1.
    """
    xp = array_namespace(game.a)
    return xp.mean(_weighed(rescale_extreme_heads(game), _shares().weight), axis=-2)


def lime_mean_field(game: RatioGame, *, bandwidth: float = 0.25) -> Float[Array, "*batch C d"]:
    """β_j ≈ (1/K) Σ_i [∫ κ(x) h_j(x) dx + shift], κ ∝ ψ(x) x(1 − x) with ∫ κ = 1.

    The shift is the same for all words: it makes Σ_j β_j the slope of f̄ = N̄/D̄ on the share kept,
    Cov_ψ(x, f̄)/Var_ψ(x), x uniform. It is 0 at ν = ∞. Exact where the denominators do not move
    (a = b), for every ν. Domain: d ≥ 2, ν > 0.
    """
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive; got {bandwidth}.")
    if min(sizes := word_counts(game)) < 2:
        raise DomainError(f"'lime-mean-field' needs at least 2 features; got d = {min(sizes)}.")
    xp = array_namespace(game.a)
    x, rest, weight = _shares()
    # 1 − √x = (1 − x)/(1 + √x), which does not cancel where nearly all words stay.
    distance = rest / (1 + np.sqrt(x))
    psi = weight * np.exp(-((distance / min(max(bandwidth, 1e-150), 1e150)) ** 2) / 2)
    kernel = psi * x * rest
    if not np.sum(kernel) > 0:
        raise DomainError(f"bandwidth {bandwidth} leaves no weight on any text; use a larger one.")
    game = rescale_extreme_heads(game)
    scores = _weighed(game, kernel / np.sum(kernel))
    slope = _slope(game, psi / np.sum(psi))
    real = xp.astype(word_mask(game), scores.dtype)[..., None, None, :]
    words = xp.sum(real, axis=-1)
    shift = (slope - xp.sum(scores, axis=-1)) / words
    return xp.mean(scores + shift[..., None] * real, axis=-2)


def _weighed(game: RatioGame, kernel: Float[np.ndarray, " n"]) -> Float[Array, "*batch C K d"]:
    """∫ κ(x) h_j(x) dx of each head."""
    xp = array_namespace(game.a)
    D, f, weight = _means(game, kernel)
    inverse = xp.sum(weight / D, axis=-1)[..., None, :, None]
    pulled = xp.sum(weight / D[..., None, :, :] * f, axis=-1)[..., None]
    return (game.A - game.B) * inverse - (game.a - game.b)[..., None, :, :] * pulled


def _slope(game: RatioGame, psi: Float[np.ndarray, " n"]) -> Float[Array, "*batch C K"]:
    """Cov_ψ(x, f̄)/Var_ψ(x) of each head."""
    xp = array_namespace(game.a)
    _, f, weight = _means(game, psi)
    rest = _shares().rest
    # x − mean as mean(1 − x) − (1 − x): at small ν nearly all weight lies where 1 − x is small.
    left = psi @ rest - rest
    return xp.sum(weight * array_like(left / (psi @ left**2), f) * f, axis=-1)


def _means(
    game: RatioGame, kernel: Float[np.ndarray, " n"]
) -> tuple[Float[Array, "*batch K n"], Float[Array, "*batch C K n"], Float[Array, " n"]]:
    """D̄ and f̄ = N̄/D̄ at the shares x, and the weights of the shares."""
    xp = array_namespace(game.a)
    shares = _shares()
    x, rest, weight = (array_like(y, game.a) for y in (shares.x, shares.rest, kernel))

    def mean(fixed: Array, kept: Array, removed: Array) -> Array:
        full, empty = fixed + xp.sum(kept, axis=-1), fixed + xp.sum(removed, axis=-1)
        return full[..., None] * x + empty[..., None] * rest

    D = mean(game.D0, game.a, game.b)
    return D, mean(game.N0, game.A, game.B) / D[..., None, :, :], weight
