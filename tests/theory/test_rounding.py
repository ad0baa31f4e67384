"""The rounding part of every bound: two words, values that share a huge offset, exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from ratio_games import random_game

from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.ratio_game import shifted
from limelight.theory.shapley import shapley

# tight sums, and tolerances at which LIME takes its usual road, the mixture
CASES = [(1e8, 1e-12), (1e12, 1e-6)]


def exact_value(game, c, keep):
    """f(Z) of class c as a fraction."""
    total = Fraction(0)
    for i in range(game.K):
        N, D = Fraction(game.N0[c, i].item()), Fraction(game.D0[i].item())
        for j, kept in enumerate(keep):
            N += Fraction((game.A if kept else game.B)[c, i, j].item())
            D += Fraction((game.a if kept else game.b)[i, j].item())
        total += N / D / game.K
    return total


def of_two_words(game, c):
    """Scores of two words from the four values of f, by definition."""
    one, two, both, none = (exact_value(game, c, Z) for Z in [(1, 0), (0, 1), (1, 1), (0, 0)])
    change = [(one - none + both - two) / 2, (two - none + both - one) / 2]
    together = both - one - two + none
    return {
        shapley: change,
        banzhaf: change,
        leave_one_out: [both - two, both - one],
        # without row 0, LIME's three sets determine its three numbers
        lime: [one - none, two - none],
        lime_by_recurrence: [one - none, two - none],
        shapley_interactions: [0, together, together, 0],
        banzhaf_interactions: [0, together, together, 0],
    }


@pytest.mark.parametrize(("offset", "tolerance"), CASES)
@pytest.mark.parametrize("ratio", [10.0, 1e7])
@pytest.mark.parametrize("seed", range(5))
def test_a_huge_offset_costs_digits_and_the_bound_says_so(seed, ratio, offset, tolerance):
    game = random_game(seed, d=2, ratio=ratio)
    game = shifted(game, np.full_like(game.N0, -offset))
    seen = {}
    for c in range(game.C):
        for method, exact in of_two_words(game, c).items():
            settings = {} if method is leave_one_out else {"tolerance": tolerance}
            scores, bound = method(game, **settings)[:2]
            error = max(
                abs(float(Fraction(x) - y))
                for x, y in zip(scores[c].ravel().tolist(), exact, strict=True)
            )
            assert error <= bound[c]
            assert bound[c] <= 1e-6 * offset
            seen[method] = max(seen.get(method, 0.0), error)
    # Without its rounding part the bound would be near the tolerance: there is something to see.
    assert sum(error > 10 * tolerance for error in seen.values()) >= 5
