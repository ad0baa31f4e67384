"""The rounding part of every bound: two words, values that share a huge offset, exact fractions."""

from fractions import Fraction
from functools import cache
from itertools import product
from math import comb

import mpmath as mp
import numpy as np
import pytest
from ratio_games import random_game

from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.ratio_game import RatioGame, subtract_constants
from limelight.theory.shapley import shapley

# tight sums, and tolerances at which LIME takes its usual road, the mixture
CASES = [(1e8, 1e-12), (1e12, 1e-6)]


def exact_value(game, c, keep):
    """f(Z) of class c as a fraction."""
    total = Fraction(0)
    for i in range(game.K):
        N, D = Fraction(game.N0[c, i].item()), Fraction(game.D0[i].item())
        for j, kept_words in enumerate(keep):
            N += Fraction((game.A if kept_words else game.B)[c, i, j].item())
            D += Fraction((game.a if kept_words else game.b)[i, j].item())
        total += N / D / game.K
    return total


def two_word_scores(game, c):
    """Scores of two words from the four values of f, by definition."""
    value, two, pair, none = (exact_value(game, c, Z) for Z in [(1, 0), (0, 1), (1, 1), (0, 0)])
    change = [(value - none + pair - two) / 2, (two - none + pair - value) / 2]
    together = pair - value - two + none
    return {
        shapley: change,
        banzhaf: change,
        leave_one_out: [pair - two, pair - value],
        # without row 0, LIME's three sets determine its three numbers
        lime: [value - none, two - none],
        lime_by_recurrence: [value - none, two - none],
        shapley_interactions: [0, together, together, 0],
        banzhaf_interactions: [0, together, together, 0],
    }


@pytest.mark.parametrize(("offset", "tolerance"), CASES)
@pytest.mark.parametrize("ratio", [10.0, 1e7])
@pytest.mark.parametrize("seed", range(2))
def test_a_huge_offset_costs_digits_and_the_bound_covers_them(seed, ratio, offset, tolerance):
    game = random_game(seed, d=2, ratio=ratio)
    game = subtract_constants(game, np.full_like(game.N0, -offset))
    seen = {}
    for c in range(game.C):
        for method, exact in two_word_scores(game, c).items():
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


# --- Texts of two kinds of words: exact for any number of them ---------------------------------

SIZES = [(2, 1), (3, 4), (12, 9)]


def game_of_two_kinds(seed, many, few, *, ratio, offset):
    """A game of one head whose words have one of two weights and values each."""
    rng = np.random.default_rng(seed)
    weight, u = ratio ** -rng.random(5), rng.normal(size=5) + offset
    kind = np.repeat([0, 2], [many, few])
    a, b = weight[kind], weight[kind + 1]
    return RatioGame(
        D0=weight[4:],
        a=a[None],
        b=b[None],
        N0=weight[None, 4:] * u[4],
        A=(a * u[kind])[None, None],
        B=(b * u[kind + 1])[None, None],
    )


def values_by_counts(game, many, few):
    """f − f(none) when i words of the first kind and j of the second are kept, to 60 digits."""
    words = [slice(None, many), slice(many, None)]
    keep = [[Fraction(x[0, ..., k].item()) for x in (game.a, game.A[0])] for k in (0, -1)]
    gone = [[Fraction(x[0, ..., k].item()) for x in (game.b, game.B[0])] for k in (0, -1)]
    assert all(np.ptp(game.a[0, word]) == 0 for word in words)
    f = {}
    for i, j in product(range(many + 1), range(few + 1)):
        D, N = Fraction(game.D0.item()), Fraction(game.N0.item())
        for k, (stay, go) in enumerate([(i, many - i), (j, few - j)]):
            D, N = D + stay * keep[k][0] + go * gone[k][0], N + stay * keep[k][1] + go * gone[k][1]
        f[i, j] = N / D
    return {
        key: mp.mpf((x - f[0, 0]).numerator) / (x - f[0, 0]).denominator for key, x in f.items()
    }


def first_word(f, many, few, *, bandwidth):
    """What each method says of the first word, and of the first two, by counting sets."""
    d = many + few
    result = dict.fromkeys(
        [shapley, banzhaf, shapley_interactions, banzhaf_interactions], mp.mpf(0)
    )
    for i, j in product(range(many), range(few + 1)):
        change, sets = f[i + 1, j] - f[i, j], comb(many - 1, i) * comb(few, j)
        result[shapley] += change * sets / (d * comb(d - 1, i + j))
        result[banzhaf] += change * sets / mp.mpf(2) ** (d - 1)
    for i, j in product(range(many - 1), range(few + 1)):
        mixed = f[i + 2, j] - 2 * f[i + 1, j] + f[i, j]
        sets = comb(many - 2, i) * comb(few, j)
        result[shapley_interactions] += mixed * sets / ((d - 1) * comb(d - 2, i + j))
        result[banzhaf_interactions] += mixed * sets / mp.mpf(2) ** (d - 2)
    slope = least_squares(f, many, few, bandwidth)
    last = f[many, few] - f[many - 1, few]
    return result | {leave_one_out: last, lime: slope, lime_by_recurrence: slope}


@cache
def weights_by_counts(many, few, bandwidth):
    """LIME's weight of the sets with i and j words of the two kinds, all words left out."""
    d, nu, result = many + few, mp.mpf(bandwidth), {}
    for i, j in product(range(many + 1), range(few + 1)):
        if i + j < d:
            weight = mp.exp(-((1 - mp.sqrt(mp.mpf(i + j) / d)) ** 2) / (2 * nu**2))
            result[i, j] = weight * mp.mpf(comb(many, i) * comb(few, j)) / comb(d, i + j)
    return result


def least_squares(f, many, few, bandwidth):
    """LIME's coefficient of the first word: three unknowns, as words of a kind have the same."""
    gram, right = [[mp.mpf(0)] * 3 for _ in range(3)], [mp.mpf(0)] * 3
    for (i, j), weight in weights_by_counts(many, few, bandwidth).items():
        row = (1, i, j)
        for k, m in product(range(3), range(3)):
            gram[k][m] += weight * (row[k] * row[m])
        for k in range(3):
            right[k] += weight * f[i, j] * row[k]
    return mp.lu_solve(mp.matrix(gram), mp.matrix(right))[1]


@pytest.mark.parametrize(("offset", "tolerance"), [(0.0, 1e-13), (1e10, 1e-6), (1e13, 1e-6)])
@pytest.mark.parametrize(
    ("large_sample", "subset", "ratio"),
    [*((*size, ratio) for size in SIZES for ratio in (1.5, 1e6, 1e12)), (60, 41, 1e6)],
)
def test_where_rounding_is_the_bound_no_error_takes_a_tenth_of_it(
    large_sample, subset, ratio, offset, tolerance
):
    game = game_of_two_kinds(large_sample, large_sample, subset, ratio=ratio, offset=offset)
    errors = []
    room = 50 if offset else 10  # without an offset the quadrature has a share of the bound
    with mp.workdps(60):
        f = values_by_counts(game, large_sample, subset)
        exact = first_word(f, large_sample, subset, bandwidth=0.25)
        for method, value in exact.items():
            settings = {} if method is leave_one_out else {"tolerance": tolerance}
            scores, bound = method(game, **settings)[:2]
            # the first word, or the first pair
            score = scores[0, 0, 1] if scores.ndim == 3 else scores[0, 0]
            errors.append(abs(float(mp.mpf(score.item()) - value)))
            assert errors[-1] < bound.item() / room
    assert max(errors) > 1e-19 * (1 + offset)  # there is something to see
