"""What errors of logits and values do to an average, and roundings to a product."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ratio_games import quick

from limelight.theory.table_rounding import average_error, product_error

T, K, C = 7, 1, 1


def head(seed, spread=2.0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=T), rng.normal(size=T) + rng.normal()


def average(logit, u):
    g = np.exp(logit - logit.max())
    return g @ u / g.sum()


def bound(u, epsilon, eta):
    return average_error(
        logit_error=np.array([epsilon]),
        value_error=np.array([[eta]]),
        low=np.array([[u.min()]]),
        high=np.array([[u.max()]]),
        terms=T,
        smallest=np.array([1.0]),
    )[0, 0]


def worst_change(logit, u, epsilon, eta):
    """Oracle: logits above a threshold of u go up by ε, the others down, for every threshold."""
    changes = [
        abs(
            average(logit + sign * epsilon * np.where(u > c, 1, -1), u + sign * eta)
            - average(logit, u)
        )
        for c in u
        for sign in (1, -1)
    ]
    return max(changes)


@given(st.integers(0, 2**32 - 1), st.floats(-9, 1.5), st.floats(-9, 1))
@quick
def test_no_change_of_logits_and_values_moves_an_average_further(seed, decades, more):
    logit, u = head(seed)
    epsilon, eta = 10**decades, 10**more
    assert worst_change(logit, u, epsilon, eta) <= bound(u, epsilon, eta)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.floats(-6, 1))
@quick
def test_nor_does_a_random_one(seed, noise, decades):
    logit, u = head(seed)
    epsilon = 10**decades
    rng = np.random.default_rng(noise)
    moved = average(logit + rng.uniform(-epsilon, epsilon, T), u)
    assert abs(moved - average(logit, u)) <= bound(u, epsilon, 0.0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 2.0])
def test_the_bound_is_reached(epsilon):
    """Two values, and weights that make the upward half as heavy as the theorem's extreme."""
    u = np.array([1.0, *[-1.0] * (T - 1)])
    logit = np.array([np.log(T - 1), *[0.0] * (T - 1)]) + epsilon * np.where(u > 0, -1, 1)
    change = average(logit + 2 * epsilon * np.where(u > 0, 1, -1), u) - average(logit, u)
    assert change == pytest.approx(bound(u, 2 * epsilon, 0.0), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "eta"), [(np.nan, 0.0), (0.0, np.nan), (0.0, np.inf)])
def test_what_is_not_known_is_infinite(epsilon, eta):
    assert bound(np.array([1.0, 2.0]), epsilon, eta) == np.inf


def test_unknown_logits_leave_the_range_of_the_values():
    assert bound(np.array([1.0, 3.0]), np.inf, 0.0) == pytest.approx(2.0)


@pytest.mark.parametrize("smallest", [0.0, 1e-310])
def test_lost_denominators_leave_nothing(smallest):
    result = average_error(
        logit_error=np.zeros(1),
        value_error=np.zeros((1, 1)),
        low=np.zeros((1, 1)),
        high=np.ones((1, 1)),
        terms=T,
        smallest=np.array([smallest]),
    )
    assert result[0, 0] == np.inf


@given(st.integers(0, 2**32 - 1), st.integers(-300, 140), st.booleans())
@quick
def test_a_product_is_within_its_bound(seed, decades, cancels):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 5)), rng.normal(size=(5, 3)) * 10.0**decades
    x_error, y_error = np.abs(x) * 1e-12, np.abs(y) * 1e-13
    if cancels:
        x[:, 1], y[1] = -x[:, 0], y[0] * (1 + 1e-15)
    X = x + x_error * rng.uniform(-1, 1, x.shape)
    Y = y + y_error * rng.uniform(-1, 1, y.shape)
    error, result = product_error(x, y, x_error=x_error, y_error=y_error), x @ y
    for i in range(2):
        for j in range(3):
            exact = sum(Fraction(X[i, k]) * Fraction(Y[k, j]) for k in range(5))
            assert abs(Fraction(result[i, j]) - exact) <= Fraction(error[i, j])


def test_without_the_errors_of_its_factors_it_would_not_be():
    x, y = np.ones((1, 5)), np.ones((5, 1))
    result = (x * (1 + 1e-12)) @ y
    assert abs(result - 5)[0, 0] > product_error(x, y)[0, 0]
    assert abs(result - 5)[0, 0] <= product_error(x, y, x_error=1e-12 * x)[0, 0]
