"""Theorem 5.1 corrected: LIME to first order, centered as the gradient of Theorem 4.1 is.

For each head let f be its value on the full text, Γ = A − B, Δ = a − b, and D(1) the denominator
with all words present. Then

    f(Z) = f − Σ_j (1 − Z_j) h_j · D(1)/D(Z),    h_j = (Γ_j − f Δ_j)/D(1),

exactly. Where D(1)/D(Z) is near 1, f is nearly linear with coefficients h_j, and LIME without a
penalty returns the coefficients of a linear function.
"""

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame


def lime_first_order(game: RatioGame) -> Float[Array, "*batch C d"]:
    """Return h_j = (1/K) Σ_i [A_j − B_j − f_i (a_j − b_j)]/D_i(1), near LIME's coefficient β_j.

    f_i is the value of head i on the full text. A and a (word j present) have the same denominator
    D_i(1) as B and b (word j replaced): then the error is proportional to the h of the head, also
    where the effects of words cancel. With T of T_max positions scored and c ≤ g ≤ C, each head has
    Σ_j |β_j − h_j| = O(T/T_max) Σ_j |h_j|, whatever words repeat, if LIME has no penalty. Exact
    where the denominators do not move (a = b), for every bandwidth, and where f is constant.
    :func:`lime_distance_bound` bounds the error in any game.
    """
    xp = array_namespace(game.a)
    full = (game.D0 + xp.sum(game.a, axis=-1))[..., None, :, None]
    f = (game.N0 + xp.sum(game.A, axis=-1))[..., None] / full
    present = game.A - f * game.a[..., None, :, :]
    replaced = game.B - f * game.b[..., None, :, :]
    return xp.mean((present - replaced) / full, axis=-2)
