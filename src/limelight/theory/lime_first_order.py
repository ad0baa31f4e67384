"""Theorem 5.1 corrected: LIME to first order, centred as the gradient of Theorem 4.1 is.

With f the value of a head on the whole text, Γ = A − B, Δ = a − b and D(1) the whole denominator,

    f(Z) = f − Σ_j (1 − Z_j) h_j · D(1)/D(Z),    h_j = (Γ_j − f Δ_j)/D(1),

exactly. Where D(1)/D(Z) is near 1, f is nearly linear with coefficients h_j, and LIME without a
penalty returns the coefficients of a linear function: hence a bound.
"""

__all__ = ["first_order_bound", "lime_first_order"]

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.lime_weights import lime_design
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.per_document import sizes_of
from limelight.theory.ratio_game import RatioGame, denominator_range

_ROUNDING = 2.0**-52


def lime_first_order(game: RatioGame) -> Float[Array, "*batch C d"]:
    """β_j ≈ (1/K) Σ_i Σ_{t: ξ_t = j} [α_t (u_t − f_i) − α_{h,t} (u_{h,t} − f_i)].

    f_i is the value of head i. Relative error O(T_max^{ε−1}) in the regime of Theorem 5.1
    (d = T = T_max^ε, c ≤ g ≤ C), O(1/T_max) for fixed T. Exact when the denominators do not move
    (a = b), whatever ν. :func:`first_order_bound` bounds its error in any game.
    """
    xp = array_namespace(game.a)
    kept, removed = _deviations(game)
    return xp.mean(kept - removed, axis=-2)


def first_order_bound(
    game: RatioGame, *, bandwidth: float = 0.25, rows: int | None = None
) -> Float[Array, "*batch C"]:
    """A bound on |β_j − first order| for every word, β the limit of LIME without a penalty.

    Per head, with δ = max_Z |D(1)/D(Z) − 1| and Σ|c_S| of LIME's functional β_j = Σ_S c_S f(S),

        Σ|c_S| · δ · max(Σ h⁺, Σ h⁻) + max_j |B_j − f b_j| · |1/D(0) − 1/D(1)|,

    the second term for UNK's own denominator D(0). Any multiplicities of words. Domain: d ≥ 2.
    """
    xp = array_namespace(game.a)
    full, empty = (xp.sum(x, axis=-1) + game.D0 for x in (game.a, game.b))
    kept, removed = _deviations(game)
    # B_j − f b_j over D(0) in the formula, over D(1) in h_j.
    ratio = (empty / full)[..., None, :, None]
    steps = kept - removed * ratio
    zero = xp.zeros_like(steps)
    rise = xp.sum(xp.where(steps > 0, steps, zero), axis=-1)
    fall = xp.sum(xp.where(steps < 0, -steps, zero), axis=-1)
    low, high = denominator_range(game)
    delta = xp.maximum(full / low - 1, 1 - full / high)[..., None, :]
    moved = xp.max(xp.abs(removed * (1 - ratio)), axis=-1)
    designs = [lime_design(d, bandwidth=bandwidth, rows=rows) for d in sizes_of(game)]
    reach = np.reshape([design.reach()[0] for design in designs], (*game.batch, 1, 1))
    reach = array_like(reach, game.a)
    error = reach * delta * xp.maximum(rise, fall) + moved
    # Rounding of f, of h and of the sums here, and what f itself is off by.
    size = xp.sum(xp.abs(kept) + xp.abs(removed), axis=-1)
    error = error + 8 * _ROUNDING * (game.d + 8) * reach * (1 + delta) * size
    if game.error is not None:
        error = error + reach * game.error
    return xp.mean(error, axis=-1)


def _deviations(
    game: RatioGame,
) -> tuple[Float[Array, "*batch C K d"], Float[Array, "*batch C K d"]]:
    """Σ α_t (u_t − f_i) and Σ α_{h,t} (u_{h,t} − f_i) over the positions of every word."""
    xp = array_namespace(game.a)
    full = (game.D0 + xp.sum(game.a, axis=-1))[..., None, :, None]
    empty = (game.D0 + xp.sum(game.b, axis=-1))[..., None, :, None]
    f = (game.N0 + xp.sum(game.A, axis=-1))[..., None] / full
    kept = (game.A - f * game.a[..., None, :, :]) / full
    return kept, (game.B - f * game.b[..., None, :, :]) / empty
