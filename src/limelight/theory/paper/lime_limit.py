"""Eq. 17 of the paper, its exact form at finite d, and Proposition B.1; ν = ∞, no penalty."""

__all__ = [
    "approximate_conditionals",
    "conditional_weights",
    "limit_at_finite_d",
    "limit_of_many_words",
]

import numpy as np

from limelight.errors import DomainError
from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame


def limit_of_many_words(m: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """β_j = 3 m_j − (3/d) Σ_k m_k with m_j = E[f | j ∉ S] (Eq. 17), leading terms for large d.

    It is (d+1)/(d−1) (β_j − mean β) of the exact β: its scores sum to 0, whatever the game.
    """
    xp = array_namespace(m)
    return 3 * (m - xp.mean(m, axis=-1, keepdims=True))


def limit_at_finite_d(
    m: Float[Array, "*batch d"], mean: Float[Array, "*batch"]
) -> Float[Array, "*batch d"]:
    """β_j = 3(d−1)/(d+1) · [m_j − (d−3)/(d(d−1)) Σ_k m_k − 2/(d−1) E f], exact for every d ≥ 2.

    m_j = E[f | j ∉ S], E f = ``mean``, sizes uniform on 1..d.
    """
    xp = array_namespace(m)
    d = int(m.shape[-1])
    if d < 2:
        raise DomainError(f"LIME needs at least 2 words; got {d}.")
    total = xp.sum(m, axis=-1, keepdims=True)
    common = (d - 3) / (d * (d - 1)) * total + 2 / (d - 1) * mean[..., None]
    return 3 * (d - 1) / (d + 1) * (m - common)


def conditional_weights(d: int, *, printed: bool = True) -> Float[Array, " sizes"]:
    """Weights of s = 0..d−1 given ℓ ∉ S: as printed in Proposition B.1, or P(s | ℓ ∉ S).

    Printed is 1/d for s ≥ 1, the slip that becomes the factor 3/2 in Eq. 19. "Size uniform on 1..d"
    implies weights in proportion to d − s, s ≥ 1.
    """
    s = np.arange(d)
    if printed:
        return np.where(s >= 1, 1 / d, 0.0)
    return np.where(s >= 1, 2 * (d - s) / (d * (d - 1)), 0.0)


def approximate_conditionals(
    game: RatioGame, *, printed: bool = True
) -> tuple[Float[Array, "*batch C d"], Float[Array, "*batch C d"]]:
    """Proposition B.1: E[A_t V_t | ℓ ∉ S] for every word t, being ℓ (Eq. 29) or not (Eq. 30).

    Each is Σ_s weight_s N_t(s)/D(s), D(s) = (1−x) D(all) + x D(none), x = s/(d−1), mean over heads.
    Domain: d ≥ 2, one game. Error O(T_max^{−3/2}) in the regime of Theorem 5.1 (with
    ``printed=False``; the printed weights do not sum to 1).
    """
    xp = array_namespace(game.a)
    d = game.d
    if d < 2:
        raise DomainError(f"Proposition B.1 needs at least 2 words; got {d}.")
    full = game.D0 + xp.sum(game.a, axis=-1)
    empty = game.D0 + xp.sum(game.b, axis=-1)
    same, other = xp.zeros_like(game.A), xp.zeros_like(game.A)
    for s, weight in enumerate(conditional_weights(d, printed=printed).tolist()):
        x = s / (d - 1)
        D = ((1 - x) * full + x * empty)[..., None, :, None]
        same = same + weight * game.A / D
        other = other + weight * ((1 - x) * game.A + x * game.B) / D
    return xp.mean(same, axis=-2), xp.mean(other, axis=-2)
