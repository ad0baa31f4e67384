"""The LASSO of ContextCite against scikit-learn, and its standard errors against many draws."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

from limelight.sampling.regression import lasso_fit


def rows(rng, n=64, d=13):
    keep = rng.random((n, d)) < 0.5
    effects = np.array([3.0, -2.0, 1.0, *[0.0] * (d - 3)])
    return keep, keep @ effects + 4 * keep[:, 0] * keep[:, 3] + 0.3 * rng.normal(size=n) - 7


@pytest.mark.parametrize("penalty", [0.001, 0.01, 0.3, 20.0])
def test_it_is_scikit_learns_lasso_of_standardised_masks(penalty):
    keep, y = rows(np.random.default_rng(1))
    keep[:, 5] = True  # a column without spread
    found = lasso_fit(keep, y, penalty=penalty)
    scaler = StandardScaler()
    z = scaler.fit_transform(keep.astype(float))
    lasso = Lasso(alpha=penalty, tol=1e-12, max_iter=100_000).fit(z, y)
    weight = lasso.coef_ / scaler.scale_
    np.testing.assert_allclose(found.coefficients, weight, atol=1e-7)
    np.testing.assert_allclose(found.intercept, lasso.intercept_ - weight @ scaler.mean_, atol=1e-6)
    assert np.count_nonzero(found.coefficients) == {0.001: 12, 0.01: 12, 0.3: 4, 20.0: 0}[penalty]


def test_the_standard_errors_are_the_spread_over_draws():
    rng = np.random.default_rng(2)
    fits = [lasso_fit(*rows(rng), penalty=0.05) for _ in range(200)]
    spread = np.std([one.coefficients for one in fits], axis=0)[:4]
    told = np.mean([one.stderr for one in fits], axis=0)[:4]
    assert (told > 0.8 * spread).all()
    assert (told < 1.5 * spread).all()
