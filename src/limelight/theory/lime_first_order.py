"""Theorem 5.1 corrected: LIME to first order, centred as the gradient of Theorem 4.1 is."""

__all__ = ["lime_first_order"]

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame


def lime_first_order(game: RatioGame) -> Float[Array, "*batch C d"]:
    """β_j ≈ (1/K) Σ_i Σ_{t: ξ_t = j} [α_t (u_t − f_i) − α_{h,t} (u_{h,t} − f_i)].

    f_i is the value of head i. Relative error O(T_max^{ε−1}) in the regime of Theorem 5.1
    (d = T = T_max^ε, c ≤ g ≤ C), O(1/T_max) for fixed T. Exact when the denominators do not move
    (a = b), whatever ν. No bound outside that regime.
    """
    xp = array_namespace(game.a)
    full = (game.D0 + xp.sum(game.a, axis=-1))[..., None, :, None]
    empty = (game.D0 + xp.sum(game.b, axis=-1))[..., None, :, None]
    f = (game.N0 + xp.sum(game.A, axis=-1))[..., None] / full
    kept = (game.A - f * game.a[..., None, :, :]) / full
    removed = (game.B - f * game.b[..., None, :, :]) / empty
    return xp.mean(kept - removed, axis=-2)
