import mpmath
import numpy as np
import pytest

from limelight.errors import DomainError
from limelight.theory import reciprocal_sum as module
from limelight.theory.reciprocal_sum import certified_error, reciprocal_sum


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-9, 1e-11])
@pytest.mark.parametrize("R", [1.0, 2.0, 30.0, 1.4e3, 1e7, 1e18])
def test_the_certificate_holds_at_points_no_grid_saw(R, tolerance):
    rule = reciprocal_sum(R, tolerance)
    assert rule.R >= R
    assert rule.error <= tolerance
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(0, np.log(rule.R), 20_000))
    off = np.abs(x * (np.exp(-np.outer(x, rule.nodes)) @ rule.weights) - 1)
    assert off.max() <= rule.error
    assert off.max() >= rule.error / 30  # the certificate is not wasteful
    terms = x * (np.exp(-np.outer(x, rule.nodes)) @ np.abs(rule.weights))
    assert terms.max() <= rule.condition


def test_the_fourth_derivative_is_bounded_as_claimed():
    z = np.exp(np.linspace(-20, 6, 200_001))
    fourth = z * np.exp(-z) * (1 - 15 * z + 25 * z**2 - 10 * z**3 + z**4)
    assert np.abs(fourth).max() <= module._FOURTH
    assert np.abs(fourth).max() >= 0.9 * module._FOURTH
    x = 0.7
    by_mpmath = mpmath.diff(lambda y: mpmath.exp(y) * mpmath.exp(-mpmath.exp(y)), mpmath.log(x), 4)
    z = x
    np.testing.assert_allclose(
        float(by_mpmath), z * np.exp(-z) * (1 - 15 * z + 25 * z**2 - 10 * z**3 + z**4), rtol=1e-6
    )


def test_a_spoiled_sum_is_not_certified():
    rule = reciprocal_sum(100.0, 1e-9)
    spoiled = rule.weights * np.where(np.arange(len(rule.weights)) == 5, 1 + 1e-6, 1)
    assert certified_error(rule.nodes, spoiled, 100.0, slack=1e-10) > 1e-8


def test_neighbouring_documents_share_a_sum():
    assert reciprocal_sum(1200.0, 1e-6) is reciprocal_sum(2500.0, 1.01e-6)


def test_an_interval_must_begin_at_one():
    with pytest.raises(DomainError, match="1 ≤ R"):
        reciprocal_sum(0.5, 1e-6)


@pytest.mark.parametrize("tolerance", [1e-3, 4e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("R", [2.0, 1e3, 1e7, 1e13])
def test_a_sum_takes_few_fits_to_find(R, tolerance, monkeypatch):
    # The first explanation of a process pays for them.
    seen = []

    def counted(*problem):
        seen.append(problem)
        return fit(*problem)

    fit = module._least_squares
    monkeypatch.setattr(module, "_least_squares", counted)
    module._fitted.__wrapped__(*module._bucket(R, tolerance))
    assert 5 <= len(seen) <= 75
