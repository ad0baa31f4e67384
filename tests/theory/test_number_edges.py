"""Where double precision ends: an infinite bound or a DomainError, never NaN, never a wrong one."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from test_rounding import two_word_scores

from limelight.theory import reciprocal_sum as module
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
    result = lime(game([1e5, 1.0], [1.0, 1.0], 1.0), penalty=1e6, tolerance=0.1)
    assert np.isfinite(result.bound).all()
    exact = lime(game([1e5, 1.0], [1.0, 1.0], 1.0), penalty=1e6, tolerance=1e-9)
    assert np.abs(result.scores - exact.scores).max() <= result.bound[0] + exact.bound[0]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_small_denominators_change_nothing(method):
    small, plain = (method(game([s, 2 * s], [s, s], s)) for s in (1e-300, 1.0))
    np.testing.assert_allclose(small.scores, plain.scores, atol=2e-6)
    assert np.isfinite(small.bound).all()


@pytest.mark.parametrize("tolerance", [0.5, 1e-4, 1e-9])
@pytest.mark.parametrize("R", [1e17, 1e153, 1e300])
def test_the_certificate_of_a_huge_interval_holds(R, tolerance):
    result = reciprocal_sum(R, tolerance)
    assert 0 < result.error <= tolerance
    worst = max(
        relative_error(result, mpmath.mpf(10) ** (share * math.log10(R)))
        for share in (0, 0.007, 0.31, 0.5, 0.77, 0.99, 0.997, 1)
    )
    assert result.error / 30 <= worst <= result.error


def relative_error(rule, x):
    with mpmath.workdps(40):
        total = mpmath.fsum(
            mpmath.mpf(w) * mpmath.exp(-mpmath.mpf(n) * x)
            for n, w in zip(rule.nodes.tolist(), rule.weights.tolist(), strict=True)
            if n * x < 200
        )
        return float(abs(x * total - 1))


def test_a_huge_interval_is_certified_without_a_search(monkeypatch):
    def search_result(*_, **__):
        raise AssertionError("a grid as long as log R was looked at")

    monkeypatch.setattr(module, "certified_error", search_result)
    module._find_certified_sum.cache_clear()
    assert module.reciprocal_sum(1e300, 1e-9).error <= 1e-9


def test_a_node_that_is_missing_breaks_the_certificate():
    result = reciprocal_sum(1e153, 1e-9)
    keep = np.arange(len(result.nodes)) != 300
    spoiled = result._replace(nodes=result.nodes[keep], weights=result.weights[keep])
    assert relative_error(spoiled, 1 / mpmath.mpf(result.nodes[300])) > 1e3 * result.error


@pytest.mark.parametrize("R", [1e17, 1e80, 1e160, 1e299])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_ratios_of_any_size_are_within_their_bound(method, R):
    value = game([R / 4, 1.0], [1.0, 2.0], 1.0)
    exact = two_word_scores(value, 0)[method]
    result = method(value)
    off = max(
        abs(float(Fraction(x) - y)) for x, y in zip(result.scores[0].tolist(), exact, strict=True)
    )
    assert off <= result.bound[0] <= 1e-5


@pytest.mark.parametrize(
    ("arguments", "same"), [(1e300, math.inf), (1e151, math.inf), (math.inf, 1e150)]
)
def test_a_bandwidth_of_any_size_is_one(arguments, same):
    np.testing.assert_array_equal(size_weight(7, arguments), size_weight(7, same))


def test_no_bandwidth_left_is_no_weight_left():
    np.testing.assert_array_equal(size_weight(4, 1e-300), [1, 0, 0, 0, 0])
