"""Shapley values: Sh_j = ∫₀¹ (E_p[f | j kept] − E_p[f | j removed]) dp (Owen 1972)."""

from limelight.theory.banzhaf import mean_marginal_contributions
from limelight.theory.ratio_game import BoundedScores, RatioGame, word_counts
from limelight.theory.reciprocal_sum import check_tolerance
from limelight.theory.removal_mixture import uniform_mixture


def shapley(game: RatioGame, *, tolerance: float = 1e-6) -> BoundedScores:
    """Return the Shapley values ∫₀¹ (E_p[f | j kept] − E_p[f | j removed]) dp of all words j.

    The integrand is a polynomial in p of degree d − 1. A fitted Gauss–Legendre mixture gives every
    number of removed words the weight 1/d. The bound includes the residual of that fit.
    ``tolerance`` is relative to the range of f. Domain: d ≥ 1.
    """
    # The plain rule with d/2 nodes would be exact. Fitted weights on 2.7 √d nodes err by 1e-6 only,
    # and each node costs a pass over all words.
    check_tolerance(tolerance)
    mixtures = [
        uniform_mixture(d, weight=1 / d, tolerance=0.4 * tolerance) for d in word_counts(game)
    ]
    # Two values of f enter: 2 half_range × (0.5 for 1/D + 0.4 for the mixture), 0.9 of the promise.
    return mean_marginal_contributions(game, mixtures, share=0.5 * tolerance)
