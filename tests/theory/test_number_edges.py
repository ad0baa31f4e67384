"""Where double precision ends: an infinite bound or a DomainError, never NaN, never a wrong one."""

import math
import time

import mpmath
import numpy as np
import pytest

from limelight.errors import DomainError
from limelight.theory.banzhaf import banzhaf
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_weights import size_weight
from limelight.theory.ratio_game import RatioGame
from limelight.theory.reciprocal_sum import reciprocal_sum
from limelight.theory.shapley import shapley

METHODS = (leave_one_out, shapley, banzhaf, lime)


def game(a, b, D0):
    a, b = np.array([a], dtype=float), np.array([b], dtype=float)
    A = np.arange(1.0, a.shape[1] + 1)[None, None] * a
    return RatioGame(np.array([D0]), a, b, np.array([[D0 / 2]]), A, np.zeros_like(A))


def test_a_huge_penalty_leaves_scores_near_zero():
    found = lime(game([1e5, 1.0], [1.0, 1.0], 1.0), penalty=1e6, tolerance=0.1)
    assert np.isfinite(found.bound).all()
    exact = lime(game([1e5, 1.0], [1.0, 1.0], 1.0), penalty=1e6, tolerance=1e-9)
    assert np.abs(found.scores - exact.scores).max() <= found.bound[0] + exact.bound[0]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
@pytest.mark.parametrize("scale", [5e-324, 1e-310, 7e-309])
def test_denominators_that_lost_their_digits_are_refused(method, scale):
    with pytest.raises(DomainError, match="double precision cannot tell one from 0"):
        method(game([scale, 2 * scale], [scale, scale], 0.0))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_small_denominators_change_nothing(method):
    small, plain = (method(game([s, 2 * s], [s, s], s)) for s in (1e-300, 1.0))
    np.testing.assert_allclose(small.scores, plain.scores, atol=2e-6)
    assert np.isfinite(small.bound).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
@pytest.mark.slow
def test_ratios_of_any_size_have_a_bound_that_is_a_number(method):
    found = method(game([1e160, 1.0], [1.0, 1.0], 1.0))
    assert np.isfinite(found.scores).all()
    assert not np.isnan(found.bound).any()


@pytest.mark.parametrize("R", [1e153, 1e200])
def test_the_certificate_of_a_huge_interval_holds(R):
    found = reciprocal_sum(R, 1e-4)
    assert 0 < found.error <= 1e-4
    for exponent in np.linspace(0, math.log10(R), 40):
        x = mpmath.mpf(10) ** exponent
        if x > R:
            continue
        total = mpmath.fsum(w * mpmath.exp(-n * x) for n, w in zip(*found[:2], strict=True))
        assert abs(x * total - 1) <= found.error


def test_the_curvature_is_not_dropped_where_squares_overflow():
    assert reciprocal_sum(1e160, 1e-4).error == pytest.approx(
        reciprocal_sum(1e140, 1e-4).error, rel=0.9
    )


def test_a_certificate_that_costs_too_much_is_not_given():
    started = time.process_time()
    assert reciprocal_sum(1e300, 1e-9).error == math.inf
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    ("given", "same"), [(1e300, math.inf), (1e151, math.inf), (math.inf, 1e150)]
)
def test_a_bandwidth_of_any_size_is_one(given, same):
    np.testing.assert_array_equal(size_weight(7, given), size_weight(7, same))


def test_no_bandwidth_left_is_no_weight_left():
    np.testing.assert_array_equal(size_weight(4, 1e-300), [1, 0, 0, 0, 0])
