"""The LASSO of ContextCite against scikit-learn, and its standard errors against many draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso, LassoCV
from sklearn.preprocessing import StandardScaler

from limelight.sampling.regression import fit_cross_validated_lasso, fit_lasso


def rows(rng, n=64, d=13):
    keep = rng.random((n, d)) < 0.5
    effects = np.array([3.0, -2.0, 1.0, *[0.0] * (d - 3)])
    return keep, keep @ effects + 4 * keep[:, 0] * keep[:, 3] + 0.3 * rng.normal(size=n) - 7


@pytest.mark.parametrize("penalty", [0.001, 0.01, 0.3, 20.0])
def test_it_is_scikit_learns_lasso_of_standardised_masks(penalty):
    keep, y = rows(np.random.default_rng(1))
    keep[:, 5] = True  # a column without spread
    result = fit_lasso(keep, y, penalty=penalty)
    scaler = StandardScaler()
    z = scaler.fit_transform(keep.astype(float))
    lasso = Lasso(alpha=penalty, tol=1e-12, max_iter=100_000).fit(z, y)
    weight = lasso.coef_ / scaler.scale_
    np.testing.assert_allclose(result.coefficients, weight, atol=1e-7)
    np.testing.assert_allclose(
        result.intercept, lasso.intercept_ - weight @ scaler.mean_, atol=1e-6
    )
    assert np.count_nonzero(result.coefficients) == {0.001: 12, 0.01: 12, 0.3: 4, 20.0: 0}[penalty]


def test_the_standard_errors_are_the_spread_over_draws():
    rng = np.random.default_rng(2)
    fits = [fit_lasso(*rows(rng), penalty=0.05) for _ in range(200)]
    spread = np.std([fit.coefficients for fit in fits], axis=0)[:4]
    output = np.mean([value.stderr for value in fits], axis=0)[:4]
    assert (output > 0.8 * spread).all()
    assert (output < 1.5 * spread).all()


def jackknife(keep, y, penalty):
    """Return coefficients without each of 32 parts, by scikit-learn, and their jackknife errors."""
    parts = np.arange(len(y)) % 32
    fits = []
    for part in range(32):
        rows = parts != part
        scaler = StandardScaler()
        z = scaler.fit_transform(keep[rows].astype(float))
        lasso = Lasso(alpha=penalty, tol=1e-10, max_iter=100_000).fit(z, y[rows])
        fits.append(lasso.coef_ / scaler.scale_)
    moved = np.array(fits) - np.mean(fits, axis=0)
    return np.array(fits), np.sqrt(31 / 32 * (moved**2).sum(axis=0))


@pytest.mark.parametrize("penalty", [0.01, 0.2, 1.0])
def test_errors_are_those_of_the_jackknife_where_a_feature_is_always_in(penalty):
    keep, y = rows(np.random.default_rng(4))
    fits, plain = jackknife(keep, y, penalty)
    result = fit_lasso(keep, y, penalty=penalty)
    always = (fits != 0).all(axis=0)
    assert always.any()
    # Wider by at most half, for 31 degrees of freedom and for parts that weigh much.
    assert (result.stderr[always] >= 0.999 * plain[always]).all()
    assert (result.stderr[always] <= 1.5 * plain[always]).all()
    # Of other features the jackknife knows too little; errors are never below it.
    assert (result.stderr >= 0.999 * plain).all()
    never = (fits == 0).all(axis=0)
    assert (plain[never] == 0).all()
    assert (result.stderr[never] > 0.1 * result.stderr[always].max()).all()


@pytest.mark.parametrize("penalty", [0.01, 0.3, 1.0])
def test_errors_hold_for_features_that_come_and_go(penalty):
    rng = np.random.default_rng(5)
    fits = [fit_lasso(*rows(rng), penalty=penalty) for _ in range(60)]
    scores = np.array([fit.coefficients for fit in fits])
    # The mean over the other draws: a mean that contains a draw itself is too near to it.
    off = np.abs(scores - scores.mean(axis=0)) * len(scores) / (len(scores) - 1)
    keep = (scores != 0).mean(axis=0)
    sometimes = (keep > 0.05) & (keep < 0.98)
    assert sometimes.any()
    contained = off <= 2 * np.array([fit.stderr for fit in fits])
    assert contained[:, sometimes].mean() >= 0.95
    assert contained.mean(axis=0).min() >= 0.85  # of each feature, 60 draws


@settings(deadline=None, max_examples=60)
@given(
    st.integers(4, 70),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.001, 0.1, 10.0]),
    st.sampled_from(["line", "rare", "threshold", "random"]),
    st.integers(0, 2**32),
)
def test_no_error_is_zero_where_the_output_varies(n, d, penalty, kind, seed):
    rng = np.random.default_rng(seed)
    keep = rng.random((n, d)) < 0.5
    y = {
        "line": keep @ rng.normal(size=d),
        "rare": keep[:, :4].all(axis=1).astype(float),
        "threshold": (keep.sum(axis=1) > 0.7 * d).astype(float),
        "random": rng.normal(size=n),
    }[kind]
    result = fit_lasso(keep, y, penalty=penalty)
    assert np.isfinite(result.stderr).all()
    if np.ptp(y):
        assert (result.stderr > 0).all()
    else:
        assert (result.stderr == 0).all()
        assert result.has_no_spread
    assert (fit_lasso(keep, y, penalty=penalty, known_range=1.0).stderr > 0).all()


def test_rows_that_all_agree_allow_for_three_that_do_not():
    keep = np.random.default_rng(0).random((64, 5)) < 0.5
    result = fit_lasso(keep, np.full(64, 1.1), penalty=0.01, known_range=2.0)
    assert result.has_no_spread
    # Three rows of 64 that are off by 2 move the mean of either half by at most 2 · 3/32.
    np.testing.assert_allclose(2 * result.stderr, 2 * 3 / 32, rtol=0.2)
    assert result.intercept == 1.1


def test_a_feature_that_no_row_removes_may_be_worth_all_that_is_known():
    keep, y = rows(np.random.default_rng(1))
    keep[:, 5] = True
    assert 2 * fit_lasso(keep, y, penalty=0.01).stderr[5] == np.ptp(y)


@pytest.mark.parametrize(("n", "d"), [(60, 12), (64, 40), (128, 60)])
def test_the_cross_validated_penalty_is_scikit_learns(n, d):
    rng = np.random.default_rng(n)
    keep = rng.random((n, d)) < 0.5
    effects = np.zeros(d)
    effects[:3] = 4.0, -2.0, 1.0
    y = keep @ effects + 0.5 * rng.normal(size=n)
    x, centered = keep - keep.mean(axis=0), y - y.mean()
    fold = np.arange(n) % 8
    alphas = np.abs(x.T @ centered).max() / n * np.logspace(0, -2.5, 16)
    folds = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(8)]
    theirs = LassoCV(alphas=alphas, cv=folds, fit_intercept=False, tol=1e-10, max_iter=100_000)
    theirs.fit(x, centered)
    scores = fit_cross_validated_lasso(keep, y)
    np.testing.assert_allclose(scores, theirs.coef_, atol=0.01)
    # The negative control: without a penalty the coefficients are others.
    assert np.abs(np.linalg.lstsq(x, centered)[0] - theirs.coef_).max() > 0.05


def test_a_constant_output_has_the_scores_0():
    keep = np.random.default_rng(0).random((8, 5)) < 0.5
    np.testing.assert_array_equal(fit_cross_validated_lasso(keep, np.full(8, 3.0)), 0.0)
