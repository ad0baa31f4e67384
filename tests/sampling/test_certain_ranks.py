"""Certified top sets: against a second implementation in plain loops, and against exact values."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from limelight.sampling.anchors import clopper_pearson_interval
from limelight.sampling.orders import shapley_values_from_orders
from limelight.sampling.ranks import (
    certify_tops,
    certify_tops_by_errors,
    exact_tops,
    group_draws,
    look_level,
    t_quantile,
)
from limelight.sampling.regression import fit_sampled_lime
from limelight.sampling.sample import Sample, make_coin_sampler
from limelight.sampling.stopping import StoppingRule

D = 6


def exact_values(f, d):
    """Return Shapley values by their definition, over all subsets."""
    values = []
    for j in range(d):
        other_values, total = [i for i in range(d) if i != j], Fraction(0)
        for size in range(d):
            weight = Fraction(1, d * math.comb(d - 1, size))
            for subset in combinations(other_values, size):
                total += weight * Fraction(f(frozenset((*subset, j))) - f(frozenset(subset)))
        values.append(float(total))
    return np.array(values)


def mask_game(f):
    """Return a game of masks for a function of the set of features that are present."""
    return lambda keep: np.array([[f(frozenset(np.flatnonzero(row).tolist()))] for row in keep])


def order_by_size(scores):
    """Return the features by decreasing size, ties in their order."""
    return sorted(range(len(scores)), key=lambda j: -abs(scores[j]))


def passes(differences, level):
    """Return whether the mean of numbers is positive, by the rules of the page, with scipy's t."""
    n, mean = len(differences), sum(differences) / len(differences)
    u = [(x - mean) / n for x in differences]
    squares, fourths = sum(x**2 for x in u), sum(x**4 for x in u)
    degrees = min(2 * (squares**2 / fourths + 1), n - 1)
    error = math.sqrt(squares * n / (n - 1) + max(x**2 for x in u))
    return mean > stats.t.isf(level, degrees) * error


def brute_tops(draws, level):
    """Return the certified sizes, one pair after the other."""
    n, d = draws.shape
    cut = math.ceil(n / 3)
    chosen, test = draws[:cut].tolist(), draws[cut:].tolist()
    center = [sum(row[j] for row in chosen) / cut for j in range(d)]
    spread = [sum((row[j] - center[j]) ** 2 for row in chosen) / (cut - 1) for j in range(d)]
    spread = [(v + sum(spread) / d) / 2 for v in spread]
    order = order_by_size(center)
    gaps = {
        k: (abs(center[order[k - 1]]) - abs(center[order[k]]))
        / math.sqrt(spread[order[k - 1]] + spread[order[k]])
        for k in range(1, d)
    }
    reported = order_by_size(draws.mean(axis=0))
    certain = []
    for k in sorted(gaps, key=lambda k: -gaps[k]):
        pairs = [(i, j) for i in order[:k] for j in order[k:]]
        is_certain = set(order[:k]) == set(reported[:k]) and all(
            passes([math.copysign(1, center[i]) * row[i] - sign * row[j] for row in test], level)
            for i, j in pairs
            for sign in (1, -1)
        )
        if not is_certain:
            break
        certain.append(k)
    return tuple(sorted(certain))


@pytest.mark.parametrize("n", [10, 14, 25])
@pytest.mark.parametrize("seed", range(12))
def test_certificates_agree_with_a_second_implementation(seed, n):
    rng = np.random.default_rng([seed, n])
    d = int(rng.integers(2, 9))
    center = rng.standard_normal(d) * rng.choice([0.3, 3.0], d)
    draws = center + rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / 4
    # The quantile is interpolated, at most 0.1 % above the exact one.
    tops = certify_tops(draws, level=0.05)
    assert set(tops) <= set(brute_tops(draws, 0.05)) or tops == brute_tops(draws, 0.05)
    assert set(brute_tops(draws, 0.0495)) <= set(tops)


def test_the_games_of_the_second_implementation_certify_some_sets():
    rng = np.random.default_rng(0)
    draws = np.array([3.0, -2.0, 1.0, 0.0]) + rng.standard_normal((25, 4)) / 4
    assert brute_tops(draws, 0.05) == certify_tops(draws) == (1, 2, 3)


@pytest.mark.parametrize("level", [0.05, 0.025, 0.05 / 6, 1e-4])
def test_quantiles_are_those_of_scipy_and_never_smaller(level):
    degrees = np.array([1.0, 2.0, 3.0, 4.4, 7.9, 15.5, 29.0, 34.0, 77.0, 500.0, 1e7])
    ratio = t_quantile(level, degrees) / stats.t.isf(level, degrees)
    assert (ratio > 1 - 1e-9).all()
    assert (ratio[:3] < 1 + 1e-9).all()
    assert (ratio < 1.02).all()


def test_levels_of_all_looks_add_up_to_five_percent():
    total = sum(look_level(look) for look in range(1, 2000))
    assert 0.04997 < total < 0.05


def normal_draws(rng, center, n):
    """Return draws with unequal spreads that depend on each other."""
    d = len(center)
    mixing = np.eye(d) + 0.5 * rng.standard_normal((d, d))
    return center + rng.standard_normal((n, d)) @ mixing * rng.choice([0.2, 1.0, 3.0], d)


def is_wrong(tops, scores, exact):
    """Return whether a certified set is not that of the largest exact sizes."""
    order, sizes = order_by_size(scores), np.abs(exact)
    return any(sizes[order[:k]].min() <= sizes[order[k:]].max() for k in tops)


def allowed_count(runs, level=0.05):
    """Return the largest count of errors within five standard errors of the level."""
    return runs * level + 5 * math.sqrt(runs * level * (1 - level))


CENTERS = {
    "all equal": np.ones(D),
    "all zero": np.zeros(D),
    "opposite signs": np.array([1.0, -1.0, 0.5, 0.5, 0.0, 0.0]),
    "one tie": np.array([5.0, 2.0, -2.0, 0.5, 0.1, 0.0]),
}


@pytest.mark.parametrize("name", CENTERS)
def test_ties_are_certified_in_at_most_five_percent_of_runs(name):
    center, runs = CENTERS[name], 400
    wrong = 0
    for seed in range(runs):
        draws = normal_draws(np.random.default_rng(seed), center, 12)
        wrong += is_wrong(certify_tops(draws), draws.mean(axis=0), center)
    assert wrong <= allowed_count(runs)


def naive_tops(draws, *, paired=True):
    """Certify every gap between neighbors in the order of the same draws, at the whole level."""
    n, scores = len(draws), draws.mean(axis=0)
    order, signs = order_by_size(scores), np.sign(scores)
    tops = []
    for k in range(1, len(order)):
        i, j = order[k - 1], order[k]
        difference = signs[i] * draws[:, i] - signs[j] * draws[:, j]
        variance = difference.var(ddof=1)
        if not paired:
            variance = draws[:, i].var(ddof=1) + draws[:, j].var(ddof=1)
        if difference.mean() > stats.t.isf(0.05, n - 1) * math.sqrt(variance / n):
            tops.append(k)
    return tuple(tops)


@pytest.mark.parametrize("paired", [True, False])
def test_negative_control_tests_without_correction_are_wrong_too_often(paired):
    # Three ties with opposite errors: the variance of a difference is twice the sum of both.
    center = np.array([9.0, 9.0, 5.0, 5.0, 1.0, 1.0])
    runs, naive_wrong, wrong = 400, 0, 0
    for seed in range(runs):
        noise = np.random.default_rng(seed).standard_normal((12, 3))
        draws = center + 0.2 * np.repeat(noise, 2, axis=1) * np.tile([1, -1], 3)
        scores = draws.mean(axis=0)
        naive_wrong += is_wrong(naive_tops(draws, paired=paired), scores, center)
        wrong += is_wrong(certify_tops(draws), scores, center)
    assert naive_wrong > 2 * allowed_count(runs)
    assert wrong <= allowed_count(runs)


GAMES = {
    "AND": lambda s: float({0, 1, 2} <= s),
    "AND and sum": lambda s: float({0, 1} <= s) + 0.25 * (3 in s) - 0.125 * (4 in s),
    "parity": lambda s: float(len(s & {1, 3, 5}) % 2),
    "saturating": lambda s: math.tanh(len(s & {0, 1}) - 0.5 * len(s & {2, 3, 4})),
    "additive": lambda s: sum(0.5**j for j in s),
}


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("pairs", [10, 30])
def test_certified_sets_of_games_are_those_of_all_subsets(name, pairs):
    game, exact = mask_game(GAMES[name]), exact_values(GAMES[name], D)
    runs, wrong = 60, 0
    for seed in range(runs):
        sample = shapley_values_from_orders(game, D, np.random.default_rng(seed), pairs=pairs)
        wrong += is_wrong(sample.certify_tops(0.05), sample.values[0], np.round(exact, 12))
    assert wrong <= allowed_count(runs)


def test_looks_until_a_tie_is_certain_are_wrong_in_at_most_five_percent_of_runs():
    game = mask_game(GAMES["saturating"])  # features 0 and 1 have the same value
    exact, runs, wrong = exact_values(GAMES["saturating"], D), 60, 0
    stopping = StoppingRule(max_count=80, top=1)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        sample = shapley_values_from_orders(game, D, rng, pairs=1, stopping=stopping)
        tops = sample.certify_tops(stopping.level(sample.looks), first=1)
        wrong += is_wrong(tops, sample.values[0], np.round(exact, 12))
        # Without a certificate of the top 1, the sample grows to its limit.
        assert 1 in tops or (sample.pairs, sample.looks) == (80, 4)
    assert wrong <= allowed_count(runs)


def test_a_set_that_is_asked_for_is_tested_first():
    rng = np.random.default_rng(5)
    draws = np.array([9.0, 8.4, 1.0, 0.9, 0.0]) + rng.standard_normal((30, 5)) / 4
    assert 1 in certify_tops(draws, first=1)
    # If its test fails, a fifth of the level is left for the others.
    tied = np.array([9.0, 9.0, 1.0, 0.0, 0.0]) + rng.standard_normal((30, 5)) / 4
    assert 1 not in certify_tops(tied, first=1)
    assert 2 in certify_tops(tied, first=1)


def test_few_draws_one_feature_and_equal_features_certify_nothing():
    rng = np.random.default_rng(0)
    assert certify_tops(np.array([5.0, 0.0]) + 0.01 * rng.standard_normal((9, 2))) == ()
    assert certify_tops(np.array([5.0, 0.0]) + 0.01 * rng.standard_normal((10, 2))) == (1,)
    assert certify_tops(np.zeros((0, 3))) == ()
    assert certify_tops(rng.standard_normal((20, 1))) == ()
    assert certify_tops(np.zeros((0, 0))) == ()
    assert certify_tops(np.ones((50, 4))) == ()
    copies = np.repeat(rng.standard_normal((50, 1)), 4, axis=1)
    assert certify_tops(copies) == ()
    assert certify_tops(copies * [1, -1, 1, -1]) == ()


def test_draws_that_agree_allow_for_an_effect_that_none_of_them_shows():
    draws = np.tile([1.0, 0.5, 0.0], (12, 1))
    # log(20)/8 of the largest effect, which is 0.37 here.
    assert certify_tops(draws) == (1, 2)
    assert certify_tops(draws, allowed_effect=1.4) == ()
    assert certify_tops(np.repeat(draws, 10, axis=0), allowed_effect=1.4) == (1, 2)


def test_scores_that_rank_another_set_have_no_certificate():
    rng = np.random.default_rng(0)
    draws = np.array([3.0, 2.0, 0.0]) + 0.01 * rng.standard_normal((20, 3))
    assert certify_tops(draws) == (1, 2)
    assert certify_tops(draws, scores=np.array([2.0, 3.0, 0.0])) in ((), (2,))
    assert certify_tops(draws, slack=np.full(3, 0.6)) in ((), (2,))


def test_units_signs_and_the_order_of_features_do_not_matter():
    rng = np.random.default_rng(3)
    draws = np.array([3.0, -2.5, 1.0, -0.9, 0.0]) + rng.standard_normal((40, 5)) / 3
    expected, order = certify_tops(draws), rng.permutation(5)
    assert expected
    assert certify_tops(1e-6 * draws) == certify_tops(1e6 * draws) == expected
    assert certify_tops(draws * [1, -1, -1, 1, 1]) == expected
    assert certify_tops(draws[:, order]) == expected


def test_exact_scores_are_certain_if_gaps_exceed_both_bounds():
    scores = np.array([0.5, -3.0, 2.0, 1.99])
    assert exact_tops(scores, 0.0) == (1, 2, 3)
    assert exact_tops(scores, 0.004) == (1, 2, 3)
    assert exact_tops(scores, 0.006) == (1, 3)
    assert exact_tops(scores, math.inf) == ()
    assert exact_tops(np.array([1.0, -1.0, 0.0]), 0.0) == (2,)
    assert exact_tops(np.array([1.0, 1.0 - 1e-9, 0.0]), None) == (2,)  # equal but for rounding
    assert exact_tops(np.zeros(0), 0.0) == exact_tops(np.ones(1), 0.0) == ()


def test_errors_without_draws_need_intervals_that_do_not_overlap():
    scores, stderr = np.array([4.0, -2.0, 0.1]), np.full(3, 0.2)
    assert certify_tops_by_errors(scores, stderr) == (1, 2)
    assert certify_tops_by_errors(scores, 2 * stderr) == (1,)
    assert certify_tops_by_errors(scores, 3 * stderr) == ()
    rng, runs, wrong = np.random.default_rng(0), 2000, 0
    for _ in range(runs):  # one error for all, and a tie
        estimate = np.array([1.0, 1.0, 0.0]) + rng.standard_normal() * np.array([0.3, -0.3, 0.3])
        tops = certify_tops_by_errors(estimate, np.full(3, 0.3))
        wrong += is_wrong(tops, estimate, np.array([1.0, 1.0, 0.0]))
    assert clopper_pearson_interval(wrong, runs, delta=0.05)[0] < 0.05


def test_groups_of_draws_have_equal_sizes_and_keep_the_mean():
    draws = np.arange(600.0).reshape(300, 2)
    groups = group_draws(draws)
    assert groups.shape == (100, 2)
    np.testing.assert_allclose(groups.mean(axis=0), draws.mean(axis=0))
    assert np.array_equal(group_draws(draws[:128]), draws[:128])
    assert group_draws(draws[:129]).shape == (64, 2)


def test_draws_of_a_regression_have_its_slopes_as_means_and_its_errors_as_spread():
    rng = np.random.default_rng(0)
    slope = np.array([2.0, -1.0, 0.5, 0.0, 0.0, 0.0])

    def game(keep):
        return (keep @ slope + 2 * keep[:, 0] * keep[:, 1] * keep[:, 3])[:, None]

    sample = Sample(game, make_coin_sampler(D), rng, d=D, row0=False)
    sample.grow(2_000)
    fit = fit_sampled_lime(sample, ridge=0.0)
    assert fit.draws.shape == (125, D)
    np.testing.assert_allclose(fit.draws.mean(axis=0), fit.scores[0], atol=1e-12)
    spread = fit.draws.std(axis=0, ddof=1) / math.sqrt(len(fit.draws))
    np.testing.assert_allclose(spread, fit.stderr[0], rtol=0.35)
    assert 1 in fit.certify_tops(0.05)
    # A selection looks at all rows, so nothing is certified.
    assert fit_sampled_lime(sample, num_features=3).certify_tops(0.05) == ()
