"""Theorem 5.1 corrected: LIME to first order, centred as the gradient of Theorem 4.1 is.

With f the value of a head on the whole text, Γ = A − B, Δ = a − b and D(1) the whole denominator,

    f(Z) = f − Σ_j (1 − Z_j) h_j · D(1)/D(Z),    h_j = (Γ_j − f Δ_j)/D(1),

exactly. Where D(1)/D(Z) is near 1, f is nearly linear with coefficients h_j, and LIME without a
penalty returns the coefficients of a linear function.
"""

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame


def lime_first_order(game: RatioGame) -> Float[Array, "*batch C d"]:
    """β_j ≈ (1/K) Σ_i Σ_{t: ξ_t = j} [α_t (u_t − f_i) − α_{h,t} (u_{h,t} − f_i)].

    f_i is the value of head i. Error O(T_max^{ε−2}) in the regime of Theorem 5.1 (d = T = T_max^ε,
    c ≤ g ≤ C), O(T_max⁻²) for fixed T, where β_j is O(1/T_max). Exact when the denominators do not
    move (a = b), whatever ν. :func:`lime_distance_bound` bounds its error in any game, which is of
    the order T_max^{ε−1} beside β in that regime, as the error itself is, without a penalty.
    """
    xp = array_namespace(game.a)
    full = (game.D0 + xp.sum(game.a, axis=-1))[..., None, :, None]
    empty = (game.D0 + xp.sum(game.b, axis=-1))[..., None, :, None]
    f = (game.N0 + xp.sum(game.A, axis=-1))[..., None] / full
    kept = (game.A - f * game.a[..., None, :, :]) / full
    removed = (game.B - f * game.b[..., None, :, :]) / empty
    return xp.mean(kept - removed, axis=-2)
