import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from limelight.errors import InputError
from limelight.sampling.anchors import (
    AnchorSearchSettings,
    bernoulli_kl,
    clopper_pearson_interval,
    find_anchor,
    kl_confidence_limit,
    positive_probability_bounds,
)


@settings(deadline=None)
@given(st.integers(1, 500), st.data(), st.sampled_from([0.1, 0.01]))
def test_clopper_pearson_is_the_beta_interval(trials, data, delta):
    successes = data.draw(st.integers(0, trials))
    low, high = clopper_pearson_interval(successes, trials, delta=delta)
    if successes:
        assert low == pytest.approx(beta.ppf(delta / 2, successes, trials - successes + 1))
    if successes < trials:
        assert high == pytest.approx(beta.ppf(1 - delta / 2, successes + 1, trials - successes))
    assert (low == 0) == (successes == 0)
    assert (high == 1) == (successes == trials)


@pytest.mark.parametrize("chance", [0.03, 0.5, 0.97])
def test_clopper_pearson_and_kl_bounds_miss_as_rarely_as_they_promise(chance):
    trials, delta = 60, 0.1
    missed = low_missed = high_missed = 0.0
    for successes in range(trials + 1):
        probability = binom.pmf(successes, trials, chance)
        low, high = clopper_pearson_interval(successes, trials, delta=delta)
        missed += probability * (not low <= chance <= high)
        mean, level = np.array([successes / trials]), np.array([math.log(1 / delta) / trials])
        low_missed += probability * (kl_confidence_limit(mean, level, 0)[0] > chance)
        high_missed += probability * (kl_confidence_limit(mean, level, 1)[0] < chance)
    assert max(missed, low_missed, high_missed) <= delta


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(1e-4, 3))
def test_kl_bounds_lie_where_the_divergence_is_the_level(mean, level):
    p, at = np.array([mean]), np.array([level])
    low, high = kl_confidence_limit(p, at, 0), kl_confidence_limit(p, at, 1)
    assert 0 <= low[0] <= mean <= high[0] <= 1
    for end in (low, high):
        if 1e-6 < end[0] < 1 - 1e-6:
            nearer = end + 2e-7 * np.sign(mean - end)
            assert bernoulli_kl(p, nearer)[0] <= level * (1 + 1e-9)
            assert bernoulli_kl(p, end)[0] >= level * (1 - 1e-9)


def all_sums(start, steps):
    bits = np.arange(2 ** len(steps))[:, None] >> np.arange(len(steps)) & 1
    return start + bits @ steps


@settings(max_examples=150, deadline=None)
@given(
    start=st.floats(-5, 5),
    steps=st.lists(st.floats(-3, 3), max_size=15),
    cells=st.sampled_from([2, 16, 1000, 2**14]),
)
def test_the_bracket_holds_the_enumerated_chance(start, steps, cells):
    steps = np.array(steps, dtype=float)
    low, high = positive_probability_bounds(start, steps, cells=cells)
    assert 0 <= low <= high <= 1
    sums = all_sums(start, steps)
    clear = np.abs(sums) > 1e-12  # sums that are zero up to rounding may fall on either side
    assert low <= (clear & (sums > 0)).mean() + (~clear).mean() + 1e-12
    assert (clear & (sums > 0)).mean() <= high + 1e-12


def test_the_bracket_narrows_with_the_grid_and_is_tight():
    rng = np.random.default_rng(0)
    steps = rng.standard_normal(20)
    start = -steps.sum() / 2 + 0.3
    truth = (all_sums(start, steps) > 0).mean()
    widths = []
    for cells in (2**4, 2**9, 2**14):
        low, high = positive_probability_bounds(start, steps, cells=cells)
        assert low <= truth <= high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 1e-3


def test_steps_of_very_different_size_are_distinguished():
    steps = np.array([1e8] * 3 + [1.0, -2.0, 3.0, 0.5] * 4)
    low, high = positive_probability_bounds(-1.25, steps)
    assert low <= (all_sums(-1.25, steps) > 0).mean() <= high
    assert high - low < 1e-3


def test_a_bracket_of_120_words_is_narrow():
    rng = np.random.default_rng(1)
    steps = rng.standard_normal(120) * np.exp(rng.standard_normal(120))
    low, high = positive_probability_bounds(-steps.sum() / 2, steps)
    assert 0 < high - low < 1e-3
    masks = rng.random((100_000, 120)) < 0.5
    contained = (masks @ steps - steps.sum() / 2 > 0).mean()
    assert low - 5 * 0.5 / np.sqrt(1e5) < contained < high + 5 * 0.5 / np.sqrt(1e5)


def test_a_bracket_around_the_wrong_chance_is_noticed():
    steps = np.array([1.0, 1.0, 1.0])
    assert positive_probability_bounds(-1.5, steps) == pytest.approx((0.5, 0.5))
    assert positive_probability_bounds(-2.5, steps)[1] < 0.2
    with pytest.raises(InputError, match=r"cells must be at least 2, not 1\."):
        positive_probability_bounds(0.0, steps, cells=1)


def precision(holds, d, words):
    bits = (np.arange(2**d)[:, None] >> np.arange(d) & 1).astype(bool)
    return holds(bits[bits[:, list(words)].all(axis=1)]).mean()


def search_result(holds, d, seed=0, **settings):
    return find_anchor(
        holds, d, rng=np.random.default_rng(seed), settings=AnchorSearchSettings(**settings)
    )


def test_two_words_that_hold_only_together_are_found():
    def holds(keep):
        return keep[:, 3] & keep[:, 5] | (keep.sum(axis=1) > 7)

    result = search_result(holds, 9)
    assert result.features == (3, 5)
    assert result.reaches_threshold


@pytest.mark.parametrize("seed", range(12))
def test_anchors_reach_the_threshold_and_are_as_short_as_can_be(seed):
    d = 8
    slope = np.random.default_rng(seed).standard_normal(d)
    slope *= np.sign(slope.sum())

    def holds(keep):
        return keep @ slope > 0.4 * slope.sum()

    result = search_result(holds, d, seed)
    assert result.reaches_threshold
    assert precision(holds, d, result.features) >= 0.95 - 0.01
    one_shorter = [
        precision(holds, d, [j for j in range(d) if bits >> j & 1])
        for bits in range(2**d)
        if bits.bit_count() == len(result.features) - 1
    ]
    assert max(one_shorter, default=0) < 0.95 + 0.01


def test_a_prediction_that_always_holds_needs_no_anchor():
    result = search_result(lambda keep: np.ones(len(keep), bool), 6)
    assert (result.features, result.reaches_threshold) == ((), True)


def test_too_small_a_size_is_not_called_reached():
    result = search_result(lambda keep: keep.all(axis=1), 6, max_size=2)
    assert len(result.features) == 2
    assert not result.reaches_threshold


@pytest.mark.parametrize("limit", [1, 7, 300, 3000])
def test_the_search_spends_no_more_than_it_may(limit):
    samples = []

    def holds(keep):
        samples.append(len(keep))
        return keep.sum(axis=1) > 10

    result = search_result(holds, 20, max_samples=limit)
    assert result.sample_count == sum(samples) <= limit
    # No anchor at all has the precision 15/16: masks double until that is known, or the limit.
    result = search_result(
        lambda keep: keep[:, :4].any(axis=1), 20, threshold=15 / 16, max_samples=limit
    )
    assert result.sample_count <= limit


def test_features_that_are_not_needed_are_left_out():
    # Feature 0 looks best at first. With 1 and 2 it is not needed.
    def holds(keep):
        return keep[:, 1] & keep[:, 2] | keep[:, 0] & (keep[:, 3:].sum(axis=1) > 4)

    for seed in range(5):
        result = search_result(holds, 12, seed, max_samples=20_000)
        assert result.features == (1, 2)
