"""Theorem 5.1 as the paper prints it (Eq. 19); `lime_first_order` is the corrected form."""

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame


def lime_theorem(game: RatioGame) -> Float[Array, "*batch C d"]:
    """Return β_j ≈ (3/2K) Σ_i Σ_{t: ξ_t = j} (α_t u_t − α_{h,t} u_{h,t}).

    In a ratio game this is (3/2K) Σ_i (A_j/D(all) − B_j/D(none)). α_h is the attention of the
    document with every word replaced by UNK ([cls] stays). This is the printed formula. Neither the
    factor 3/2 nor the missing centering can be right; `lime_first_order` is the corrected form.
    :func:`lime_distance_bound` bounds its distance to LIME.
    """
    xp = array_namespace(game.a)
    full = (game.D0 + xp.sum(game.a, axis=-1))[..., None, :, None]
    empty = (game.D0 + xp.sum(game.b, axis=-1))[..., None, :, None]
    return 1.5 * xp.mean(game.A / full - game.B / empty, axis=-2)
