import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import Ridge

from limelight.sampling.regression import fit_sampled_lime, forward_selection
from limelight.sampling.sample import Sample, fit_until_stopped, make_lime_sampler
from limelight.sampling.stopping import StoppingRule


def make_sample(game, d, n, *, seed=0, row0=True, **settings):
    rng = np.random.default_rng(seed)
    sample = Sample(game, make_lime_sampler(d, **settings), rng, d=d, row0=row0)
    sample.grow(n)
    return sample


def random_game(seed, d, m=1, *, bend=1.0, offset=0.0):
    A, B = np.random.default_rng(seed).standard_normal((2, d, m))
    return lambda keep: keep @ A + bend * np.sin(keep @ B) + offset


def all_rows(sample):
    chunks = list(sample.chunks())
    return [np.concatenate(parts) for parts in zip(*chunks, strict=True)]


@settings(max_examples=30, deadline=None)
@given(
    d=st.integers(2, 17),
    seed=st.integers(0, 999),
    ridge=st.sampled_from([0.0, 0.01, 1.0, 100.0]),
    row0=st.booleans(),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_the_fit_is_sklearns_ridge(d, seed, ridge, row0, offset):
    sample = make_sample(random_game(seed, d, 2, offset=offset), d, 1500, seed=seed, row0=row0)
    keep, weight, outputs, _ = all_rows(sample)
    fit = fit_sampled_lime(sample, ridge=ridge)
    for column in range(2):
        target = Ridge(alpha=ridge).fit(keep, outputs[:, column], sample_weight=weight)
        np.testing.assert_allclose(fit.scores[column], target.coef_, rtol=1e-8, atol=1e-8)
        intercept = target.intercept_ + sample.reference_output[column]
        np.testing.assert_allclose(fit.intercept[column], intercept, rtol=1e-8, atol=1e-8)
        r2 = target.score(keep, outputs[:, column], sample_weight=weight)
        np.testing.assert_allclose(fit.r2[column], r2, rtol=1e-7)


@pytest.mark.parametrize("row0", [False, True])
def test_standard_errors_are_the_sandwich_written_out(row0):
    d, n = 5, 31
    sample = make_sample(random_game(2, d), d, n, row0=row0)
    keep, weight, outputs, _ = all_rows(sample)
    X = np.column_stack([np.ones(n), keep])
    bread = np.linalg.inv(X.T @ (weight[:, None] * X))
    residual = outputs[:, 0] - X @ bread @ X.T @ (weight * outputs[:, 0])
    leverage = weight * ((X @ bread) * X).sum(axis=1)
    rows = (weight * residual / (1 - leverage))[:, None] * X @ bread
    fit = fit_sampled_lime(sample, ridge=0.0)
    rows = rows[row0:]  # the untouched document is the same in every sample
    variance = (rows**2).sum(axis=0) - rows.sum(axis=0) ** 2 / len(rows) + (rows**2).max(axis=0)
    carriers = (rows**2).sum(axis=0) ** 2 / (rows**4).sum(axis=0)
    quantile = stats.t.ppf(0.975, np.minimum(2 * (carriers + 1), len(rows) - d - 1))
    content = np.maximum(quantile / 2, 1) * np.sqrt(variance)
    np.testing.assert_allclose(fit.stderr[0], content[1:], rtol=3e-3)
    np.testing.assert_allclose(fit.intercept_stderr[0], content[0], rtol=3e-3)


def test_a_linear_model_is_recovered_and_a_rare_effect_not_excluded():
    """Three unseen masks that are off by the range of f, 6, would shift β by at most 2 stderr."""
    slope, d, n = np.array([3.0, -1.0, 0.0, 2.0]), 4, 500
    sample = make_sample(lambda keep: (keep @ slope)[:, None] + 7, d, n)
    fit = fit_sampled_lime(sample, ridge=0.0)
    np.testing.assert_allclose(fit.scores[0], slope, atol=1e-12)
    np.testing.assert_allclose([fit.intercept[0], fit.r2[0]], [7, 1])
    assert fit.has_no_spread.all()
    keep, weight, outputs, _ = all_rows(sample)
    X = np.column_stack([np.ones(n), keep])
    bread = np.linalg.inv(X.T @ (weight[:, None] * X))
    leverage = weight * ((X @ bread) * X).sum(axis=1)
    reach = np.abs((weight / (1 - leverage))[1:, None] * (X @ bread)[1:]).max(axis=0)
    np.testing.assert_allclose(fit.stderr[0], 1.5 * np.ptp(outputs) * reach[1:], rtol=1e-9)
    wide = fit_sampled_lime(sample, ridge=0.0, known_range=60.0)
    np.testing.assert_allclose(wide.stderr[0], 1.5 * 60 * reach[1:], rtol=1e-9)


def test_a_model_that_never_moves_has_zero_scores_and_errors():
    fit = fit_sampled_lime(make_sample(lambda keep: np.full((len(keep), 1), 1 / 3), 3, 50))
    np.testing.assert_array_equal(fit.scores, 0)
    np.testing.assert_array_equal(fit.stderr, 0)
    assert (fit.intercept[0], fit.r2[0]) == (1 / 3, 1.0)
    assert fit.has_no_spread.all()


def test_a_fit_through_its_own_samples_claims_no_precision():
    """20 slopes and an intercept pass through 9 rows; with a penalty there are residuals."""
    subset = make_sample(random_game(0, 20), 20, 9)
    for ridge, reference in ((0.0, False), (1e-12, False), (1.0, True)):
        fit = fit_sampled_lime(subset, ridge=ridge)
        assert np.isfinite(fit.scores).all()
        assert np.isfinite([*fit.stderr[0], *fit.intercept_stderr]).all() == reference
        assert np.isposinf(fit.stderr).all() != reference


def test_one_row_that_alone_decides_a_slope_claims_no_precision():
    """The last word is removed in one row only: that row fits whatever the model says there."""
    keep = np.random.default_rng(1).random((30, 4)) < 0.5
    keep[:, 3] = np.arange(30) > 0

    def fit(rows):
        sampler = lambda n, rng: (rows[:n], np.ones(n))  # noqa: E731, ARG005
        sample = Sample(random_game(1, 4), sampler, np.random.default_rng(0), d=4, row0=False)
        sample.grow(len(rows))
        return fit_sampled_lime(sample, ridge=0.0)

    assert np.isposinf(fit(keep).stderr).all()
    keep[:, 3] = True  # never removed: nothing is known about it
    assert np.isposinf(fit(keep).stderr).all()
    keep[:5, 3] = False
    assert np.isfinite(fit(keep).stderr).all()


def test_a_tolerance_is_not_met_by_a_fit_through_its_own_samples():
    rng, game = np.random.default_rng(0), random_game(0, 20)
    sample = Sample(game, make_lime_sampler(20), rng, d=20, row0=False)
    stopping = StoppingRule(tolerance=0.1, max_count=10**6)
    fit, _ = fit_until_stopped(
        sample, partial(fit_sampled_lime, ridge=0.0), initial_rows=9, stopping=stopping
    )
    assert fit.samples > 21
    assert 0 < fit.stderr.max() <= 0.1


def test_all_outputs_share_one_sample_and_each_is_as_if_alone():
    pair = random_game(4, 8, 2)
    together = fit_sampled_lime(make_sample(pair, 8, 900), num_features=3)
    for column in range(2):
        single = fit_sampled_lime(
            make_sample(lambda k, c=column: pair(k)[:, [c]], 8, 900), num_features=3
        )
        np.testing.assert_allclose(together.scores[column], single.scores[0], atol=1e-12)
        np.testing.assert_allclose(together.stderr[column], single.stderr[0], atol=1e-12)


def test_forward_selection_passes_over_a_copy_of_a_chosen_word():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4))
    x[:, 1] = x[:, 0]
    x -= x.mean(axis=0)
    y = 5 * x[:, 0] + x[:, 2] + 0.1 * x[:, 3]
    assert forward_selection(x.T @ x, x.T @ y, 3) == (0, 2, 3)


def test_sampling_stops_when_the_tolerance_is_met():
    sample = make_sample(random_game(1, 6), 6, 1)
    stopping = StoppingRule(tolerance=0.01, max_count=10**6)
    fit, _ = fit_until_stopped(sample, fit_sampled_lime, initial_rows=200, stopping=stopping)
    assert fit.stderr.max() <= 0.01
    smaller = make_sample(random_game(1, 6), 6, fit.samples // 3)
    assert fit_sampled_lime(smaller).stderr.max() > 0.01  # it did not draw three times too many


def test_sampling_stops_at_the_most_it_may_draw():
    sample = make_sample(random_game(1, 6), 6, 1)
    stopping = StoppingRule(tolerance=1e-9, max_count=1234)
    fit, _ = fit_until_stopped(sample, fit_sampled_lime, initial_rows=100, stopping=stopping)
    assert fit.samples == 1234
    assert fit_until_stopped(sample, fit_sampled_lime, initial_rows=1300)[0].samples == 1300


def test_memory_does_not_hold_the_masks_as_numbers():
    d, n = 120, 60_000
    tracemalloc.start()
    fit_sampled_lime(make_sample(lambda keep: keep[:, :1] * 1.0, d, n))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6  # the masks as floats would take 58 MB
