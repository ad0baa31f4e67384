"""Shapley values: Sh_j = ∫₀¹ (E_p[f | j kept] − E_p[f | j removed]) dp (Owen 1972)."""

from functools import lru_cache

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.banzhaf import mean_changes
from limelight.theory.per_document import sizes_of, stacked
from limelight.theory.ratio_game import RatioGame, Valued
from limelight.theory.reciprocal_sum import need_tolerance
from limelight.theory.removal_mixture import removal_mixture


def shapley(game: RatioGame, *, tolerance: float = 1e-6) -> Valued:
    """Shapley values of the words; ``tolerance`` is relative to the range of f. Any d ≥ 1.

    The integrand is a polynomial in p of degree d − 1. A fitted Gauss–Legendre mixture gives every
    number of removed others the weight 1/d; what it misses of that is in the bound.
    """
    # The plain rule with d/2 nodes would be exact. Fitted weights on 2.7 √d nodes miss 1e-6 only,
    # and each node costs a pass over all words.
    need_tolerance(tolerance)
    nodes = [_nodes(d, tolerance) for d in sizes_of(game)]
    p = stacked([p for p, _, _ in nodes], fill=0.5)
    omega = stacked([omega for _, omega, _ in nodes], fill=0.0)
    residual = np.asarray([missed for _, _, missed in nodes])
    # Two values of f enter: 2 half_range × (0.5 for 1/D + 0.4 for the mixture), 0.9 of the promise.
    return mean_changes(game, p, omega, residual, share=0.5 * tolerance)


@lru_cache(maxsize=4096)
def _nodes(d: int, tolerance: float) -> tuple[Float[Array, " M"], Float[Array, " M"], float]:
    mixture = removal_mixture(np.full(d, 1 / d), np.ones(d), tolerance=0.4 * tolerance)
    return mixture.p, mixture.omega, float(np.sum(mixture.residual))
