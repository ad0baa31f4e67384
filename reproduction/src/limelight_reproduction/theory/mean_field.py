"""Mean-field LIME and Shapley: words act on the mean text of their size.

Let a share x of the words be kept. N and D are then, in the mean, N̄(x) and D̄(x), which are linear
in x, and word j moves the ratio by

    h_j(x) = (A_j − B_j)/D̄(x) − (a_j − b_j) N̄(x)/D̄(x)².

Shapley values weigh all x alike; LIME weighs them by ψ(x) x(1 − x), the weight of a sample times
the variance of its Z_j. Cost O(d): two integrals for each head serve all words. Their error
is bounded by the second order, which is exact in all but one term (`second_order.distance_bound`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight import DomainError, InputError
from limelight.shapes import Array, Float
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, rescale_extreme_heads, word_counts, word_mask

_NODES = 16  # on each panel. Halving panels keep every pole of 1/D̄ at least a panel's length away.
_PANELS = 52  # toward each end, down to the rounding unit of 1


class _Shares(NamedTuple):
    """Shares x of kept words, shares 1 − x of removed words, and weights for ∫₀¹ dx."""

    x: Float[np.ndarray, " n"]
    removed: Float[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]


@lru_cache(maxsize=1)
def _share_grid() -> _Shares:
    """Return the quadrature nodes for the share of kept words."""
    # ψ is smooth in z = √x, not in x. 1/D̄ has its pole as near to an end as D̄ is small there, up to
    # 1e-7 on trained weights: panels that halve toward both ends keep a distance from it.
    node, node_weight = np.polynomial.legendre.leggauss(_NODES)
    edges = np.concatenate([[0.0], 2.0 ** np.arange(-_PANELS, 0)])
    length, low = np.diff(edges), edges[:-1]
    distance = (low[:, None] + length[:, None] * (1 + node) / 2).ravel()  # to an end
    weight = (length[:, None] * node_weight / 2).ravel()
    z, complement = (
        np.concatenate([distance, 1 - distance]),
        np.concatenate([1 - distance, distance]),
    )
    return _Shares(
        x=z**2, removed=complement * (1 + z), weight=2 * z * np.concatenate([weight, weight])
    )


def shapley_mean_field(game: RatioGame) -> Float[Array, "*batch C d"]:
    """Return Sh_j ≈ (1/K) Σ_i ∫₀¹ h_j(x) dx, the mean-field Shapley values.

    They add up to f(all) − f(none) exactly, as Shapley values do. Exact where the denominators do
    not move (a = b). Any d ≥ 1.
    """
    xp = array_namespace(game.a)
    return xp.mean(_integrate_effects(rescale_extreme_heads(game), _share_grid().weight), axis=-2)


def lime_mean_field(game: RatioGame, *, bandwidth: float = 0.25) -> Float[Array, "*batch C d"]:
    """Return β_j ≈ (1/K) Σ_i [∫ κ(x) h_j(x) dx + shift], κ ∝ ψ(x) x(1 − x) with ∫ κ = 1.

    The shift is the same for all words: it makes Σ_j β_j the slope of f̄ = N̄/D̄ on the share kept,
    Cov_ψ(x, f̄)/Var_ψ(x), x uniform. It is 0 at ν = ∞. Exact where the denominators do not move
    (a = b), for every ν. Domain: d ≥ 2, ν > 0.
    """
    if not bandwidth > 0:
        raise InputError(f"bandwidth must be positive, not {bandwidth}.")
    if min(sizes := word_counts(game)) < 2:
        raise DomainError(f"'lime-mean-field' needs at least 2 features, not {min(sizes)}.")
    xp = array_namespace(game.a)
    x, removed, weight = _share_grid()
    # 1 − √x = (1 − x)/(1 + √x), which does not cancel where nearly all words stay.
    distance = removed / (1 + np.sqrt(x))
    psi = weight * np.exp(-((distance / min(max(bandwidth, 1e-150), 1e150)) ** 2) / 2)
    kernel = psi * x * removed
    if not np.sum(kernel) > 0:
        raise DomainError(
            f"with bandwidth {bandwidth}, no text has a weight. Use a larger bandwidth."
        )
    game = rescale_extreme_heads(game)
    scores = _integrate_effects(game, kernel / np.sum(kernel))
    slope = _slope(game, psi / np.sum(psi))
    is_word = xp.astype(word_mask(game), scores.dtype)[..., None, None, :]
    word_count = xp.sum(is_word, axis=-1)
    shift = (slope - xp.sum(scores, axis=-1)) / word_count
    return xp.mean(scores + shift[..., None] * is_word, axis=-2)


def _integrate_effects(
    game: RatioGame, kernel: Float[np.ndarray, " n"]
) -> Float[Array, "*batch C K d"]:
    """Return ∫ κ(x) h_j(x) dx of each head."""
    xp = array_namespace(game.a)
    D, f, weight = _means(game, kernel)
    inverse = xp.sum(weight / D, axis=-1)[..., None, :, None]
    denominator_effect = xp.sum(weight / D[..., None, :, :] * f, axis=-1)[..., None]
    return (game.A - game.B) * inverse - (game.a - game.b)[..., None, :, :] * denominator_effect


def _slope(game: RatioGame, psi: Float[np.ndarray, " n"]) -> Float[Array, "*batch C K"]:
    """Return Cov_ψ(x, f̄)/Var_ψ(x) of each head."""
    xp = array_namespace(game.a)
    _, f, weight = _means(game, psi)
    removed = _share_grid().removed
    # x minus its mean is computed as mean(1 − x) − (1 − x), because at small ν nearly all weight
    # lies where 1 − x is small.
    centered_share = psi @ removed - removed
    return xp.sum(weight * array_like(centered_share / (psi @ centered_share**2), f) * f, axis=-1)


def _means(
    game: RatioGame, kernel: Float[np.ndarray, " n"]
) -> tuple[Float[Array, "*batch K n"], Float[Array, "*batch C K n"], Float[Array, " n"]]:
    """Return D̄ and f̄ = N̄/D̄ at the shares x, and the weights of the shares."""
    xp = array_namespace(game.a)
    grid = _share_grid()
    x, removed, weight = (array_like(column, game.a) for column in (grid.x, grid.removed, kernel))

    def mean(fixed: Array, kept_terms: Array, removed_terms: Array) -> Array:
        """Return the mean of the sum at every share."""
        full = fixed + xp.sum(kept_terms, axis=-1)
        empty = fixed + xp.sum(removed_terms, axis=-1)
        return full[..., None] * x + empty[..., None] * removed

    D = mean(game.D0, game.a, game.b)
    return D, mean(game.N0, game.A, game.B) / D[..., None, :, :], weight
