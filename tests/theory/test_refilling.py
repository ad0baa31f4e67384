"""Values under random refilling against all sets of words and all refills."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refilled_games import RandomRefills, lime_slopes, mean_effects, shapley_weight

from limelight.theory.refilling import (
    compress_words,
    refilled_banzhaf,
    refilled_leave_one_out,
    refilled_lime,
    refilled_shapley,
    tilted_means,
)

TOLERANCES = (1e-3, 1e-6, 1e-9)
EFFECTS = {
    "shapley": (refilled_shapley, shapley_weight),
    "banzhaf": (refilled_banzhaf, lambda d: lambda _: 0.5 ** (d - 1)),
    "leave-one-out": (refilled_leave_one_out, lambda d: lambda s: float(s == d - 1)),
}
small_games = st.builds(
    lambda seed, d, further, n, K, C, spread: RandomRefills(
        seed, d=d, T=d + further, n=n, K=K, C=C, spread=spread
    ),
    st.integers(0, 2**32),
    st.integers(1, 3),
    st.integers(0, 1),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 2),
    st.floats(0, 5),
)


def mean_over_heads(results, name="scores"):
    return np.mean([getattr(head, name) for head in results], axis=0)


def assert_within_bound(results, expected):
    scores, bound = mean_over_heads(results), mean_over_heads(results, "bound")
    assert (np.abs(scores - expected) <= bound[:, None] + 1e-13).all()


@given(small_games, st.sampled_from(TOLERANCES))
def test_values_match_all_sets_and_all_refills_within_their_bounds(refills, tolerance):
    game, v = refills.game(), refills.values()
    values, bound = game.value(refills.masks(), tolerance=tolerance)
    assert (np.abs(values - v) <= bound + 1e-13).all()
    for compute, weight in EFFECTS.values():
        expected = mean_effects(v, refills.d, weight(refills.d))
        assert_within_bound(compute(game, tolerance=tolerance), expected)


@given(small_games, st.sampled_from([0.05, 0.25, 1.0, math.inf]), st.sampled_from(TOLERANCES))
def test_lime_matches_least_squares_on_all_sets_and_all_refills(refills, bandwidth, tolerance):
    if refills.d == 1 or (refills.d == 2 and bandwidth < 0.25):  # outside LIME's domain
        return
    expected = lime_slopes(refills.values(), refills.masks(), bandwidth)
    results = refilled_lime(refills.game(), tolerance=tolerance, bandwidth=bandwidth)
    scores, bound = mean_over_heads(results), mean_over_heads(results, "bound")
    # At ν = 0.05 the reference loses digits too.
    reference_error = 1e-6 if bandwidth < 0.25 else 1e-11
    assert (np.abs(scores - expected) <= bound[:, None] + reference_error).all()


@pytest.mark.parametrize("name", EFFECTS)
def test_errors_shrink_with_the_tolerance(name):
    refills = RandomRefills(4, d=3, T=4, n=5, K=2, spread=2.0)
    compute, weight = EFFECTS[name]
    expected = mean_effects(refills.values(), 3, weight(3))
    for tolerance, allowed in ((1e-3, 2e-2), (1e-6, 2e-5), (1e-9, 2e-8)):
        results = compute(refills.game(), tolerance=tolerance)
        assert np.abs(mean_over_heads(results) - expected).max() < allowed
        assert mean_over_heads(results, "bound").max() < allowed


def test_the_comparison_can_fail():
    refills = RandomRefills(5, d=3, T=4, n=4)
    expected = mean_effects(refills.values(), 3, shapley_weight(3))
    # The mean word instead of the mean over words: the value of f at E W, which is not E f(W).
    mean_logit = np.log(np.exp(refills.word_logit) @ refills.probability)[:, None]
    mean_value = refills.word_value @ refills.probability
    nodes = [
        compress_words(x, v[:, None], np.ones(1), order=8)
        for x, v in zip(mean_logit, mean_value, strict=True)
    ]
    scale = np.exp(refills.position_logit + mean_logit)
    wrong = replace(refills.game(), words=lambda _: nodes, scale=scale, _forms={})
    with pytest.raises(AssertionError):
        assert_within_bound(refilled_shapley(wrong), expected)


@given(st.integers(0, 2**32), st.floats(0, 4))
def test_shapley_values_add_up_to_the_change_of_the_mean_output(seed, spread):
    game = RandomRefills(seed, d=23, T=29, n=400, K=2, spread=spread).game()
    ends = np.array([[True] * 23, [False] * 23])
    (full, empty), _ = game.value(ends, tolerance=1e-8)
    results = refilled_shapley(game, tolerance=1e-8)
    total = mean_over_heads(results).sum(axis=-1)
    assert np.abs(total - (full - empty)).max() <= 23 * mean_over_heads(results, "bound").max()


def test_a_background_of_one_word_is_a_replacement_by_that_word():
    from limelight.theory.ratio_game import RatioGame
    from limelight.theory.shapley import shapley

    refills = RandomRefills(8, d=7, T=11, n=1, K=3, C=2, spread=2.0)
    game = refills.game()
    g, u = refills.weights(np.zeros(11, int))
    member = (refills.group[:, None] == np.arange(7)).astype(float)
    # The text must differ from its refill.
    a = game.a * np.exp(np.random.default_rng(0).standard_normal(game.a.shape))
    game = replace(game, a=a, _forms={})
    ratio = RatioGame(D0=game.D0, a=a, b=g @ member, N0=game.N0, A=game.A, B=(g * u) @ member)
    expected = shapley(ratio, tolerance=1e-10)
    assert_within_bound(refilled_shapley(game, tolerance=1e-9), expected.scores)


@given(st.integers(0, 2**32), st.sampled_from([8, 12, 24]), st.floats(0.1, 8))
def test_nodes_reproduce_the_means_over_all_words_within_their_errors(seed, order, spread):
    rng = np.random.default_rng(seed)
    logit, value = spread * rng.standard_normal(3000), rng.standard_normal((1, 3000))
    probability = rng.dirichlet(np.ones(3000))
    nodes = compress_words(logit, value, probability, order=order)
    g = np.exp(logit - logit.max())
    mu = np.exp(rng.uniform(-5, np.log(10 / g.min()), 40))
    moments = tilted_means(nodes, mu)
    tilt = probability * np.exp(-mu[:, None] * (g - g.min()))
    factor, mean_g = tilt.sum(axis=1), tilt @ g
    half = np.ptp(value) / 2
    mean_x = tilt @ (g * (value[0] - nodes.center[0]))
    computed_g = moments.mean_g * moments.factor
    computed_x = moments.mean_value[0] * moments.factor
    slack = 1e-12
    assert (np.abs(moments.factor - factor) <= (moments.factor_error + slack) * factor).all()
    assert (np.abs(computed_g - mean_g) <= (moments.mean_error + slack) * mean_g).all()
    assert (np.abs(computed_x - mean_x) <= (moments.mean_error + slack) * half * mean_g).all()


def test_a_long_text_matches_a_quadrature_over_all_words_in_many_digits():
    refills = RandomRefills(3, d=6, T=8, n=60, K=1, spread=3.0)
    # v(no word) = ∫ (N' E[…]) dλ by the adaptive quadrature of mpmath, on all words.
    logit = refills.word_logit[0][:, None] + refills.position_logit[0]
    b, q = np.exp(logit), refills.probability
    u = refills.word_value[0, 0][:, None] + refills.position_value[0, 0]

    def integrand(x):
        lam = float(mpmath.exp(x))
        tilt = q[:, None] * np.exp(-lam * b)
        factors, means = tilt.sum(axis=0), (tilt * b * u).sum(axis=0)
        total = refills.fixed_value[0, 0] + (means / factors).sum()
        return lam * np.exp(-lam * refills.fixed[0]) * factors.prod() * total

    expected = float(mpmath.quad(integrand, list(range(-40, 8, 2))))
    empty = np.zeros((1, 6), bool)
    values, bound = refills.game().value(empty, tolerance=1e-9)
    assert abs(values[0, 0] - expected) <= bound[0] + 1e-9
