import math

import mpmath
import numpy as np
import pytest

from limelight.theory import reciprocal_sum as module
from limelight.theory.reciprocal_sum import certified_error, reciprocal_sum


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-9, 1e-11])
@pytest.mark.parametrize(
    ("R", "power"),
    [(R, 1.0) for R in (1.0, 2.0, 30.0, 1.4e3, 1e7, 1e18)]
    + [(30.0, 0.5), (1e5, 0.5), (1e18, 0.5), (1e3, 0.2), (1e3, 0.85)],
)
def test_the_certificate_holds_at_points_no_grid_saw(R, power, tolerance):
    rule = reciprocal_sum(R, tolerance, power)
    assert rule.R >= R
    assert rule.error <= tolerance
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(0, np.log(rule.R), 20_000))
    off = np.abs(x**power * (np.exp(-np.outer(x, rule.nodes)) @ rule.weights) - 1)
    assert off.max() <= rule.error
    assert off.max() >= rule.error / 30  # the certificate is not wasteful
    terms = x**power * (np.exp(-np.outer(x, rule.nodes)) @ np.abs(rule.weights))
    assert terms.max() <= rule.condition


def fourth(z, p):
    """(z d/dz)⁴ (z^p e^{−z})."""
    ends = p**4 - (4 * p**3 + 6 * p**2 + 4 * p + 1) * z
    middle = (6 * p**2 + 12 * p + 7) * z**2 - (4 * p + 6) * z**3 + z**4
    return z**p * np.exp(-z) * (ends + middle)


def test_the_fourth_derivative_is_bounded_as_claimed():
    z = np.exp(np.linspace(-20, 6, 200_001))
    worst = [np.abs(fourth(z, p)).max() for p in np.linspace(0.02, 1, 50)]
    assert max(worst) <= module._FOURTH
    assert worst[-1] == max(worst) >= 0.9 * module._FOURTH  # p = 1 is the worst
    for x, p in ((0.7, 1.0), (0.7, 0.5), (2.3, 0.3)):
        by_mpmath = mpmath.diff(
            lambda y, p=p: mpmath.exp(p * y) * mpmath.exp(-mpmath.exp(y)), mpmath.log(x), 4
        )
        np.testing.assert_allclose(float(by_mpmath), fourth(x, p), rtol=1e-6)


def test_a_spoiled_sum_is_not_certified():
    rule = reciprocal_sum(100.0, 1e-9)
    spoiled = rule.weights * np.where(np.arange(len(rule.weights)) == 5, 1 + 1e-6, 1)
    assert certified_error(rule.nodes, spoiled, 100.0, slack=1e-10) > 1e-8


def test_neighboring_documents_share_a_sum():
    assert reciprocal_sum(1200.0, 1e-6) is reciprocal_sum(2500.0, 1.01e-6)


@pytest.mark.parametrize("tolerance", [1e-3, 4e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("R", [2.0, 1e3, 1e7, 1e13])
def test_a_sum_takes_few_fits_to_find(R, tolerance, monkeypatch):
    # The first explanation of a process pays for them.
    seen = []

    def count_call(*problem):
        seen.append(problem)
        return fit(*problem)

    fit = module._least_squares
    monkeypatch.setattr(module, "_least_squares", count_call)
    module._find_certified_sum.cache_clear()
    module.reciprocal_sum(R, tolerance)
    assert 5 <= len(seen) <= 75


@pytest.mark.parametrize("h", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("x", [1.0, 7.3, 1e4])
@pytest.mark.parametrize("p", [1.0, 0.3])
def test_each_part_of_the_trapezoid_rule_is_within_its_term(p, h, x):
    """All nodes, those merged at the lower end and those dropped at the upper one, in 30 digits."""
    with mpmath.workdps(30):
        R, low, first = 1e4, mpmath.mpf(3e-6), mpmath.mpf(1.5)

        def terms(start, step):
            nodes = [start * mpmath.exp(k * mpmath.mpf(step)) for k in range(int(90 / (p * h)))]
            return [(h * node**p / mpmath.gamma(p), node) for node in nodes]

        def sum_terms(pairs):
            return mpmath.mpf(x) ** p * sum(w * mpmath.exp(-node * x) for w, node in pairs)

        below, above = terms(low, -h), terms(low, h)[1:]
        aliased = abs(sum_terms(below + above) - 1)
        if p == 1:  # the worst power: below it the bound is not sharp
            assert module._aliasing_error(h) * 1e-6 < aliased + 1e-25
        assert aliased <= module._aliasing_error(h) * (1 + 1e-12) + 1e-25
        mass = sum(w for w, _ in below)
        mean = sum(w * node for w, node in below) / mass
        spread = sum(w * (node - mean) ** 2 for w, node in below)
        merged = sum_terms(below) - sum_terms([(mass, mean)])
        assert 0 <= merged <= R ** (p + 2) / 2 * spread
        assert sum_terms(terms(first, h)) <= (h * first + 1) * mpmath.exp(-first)


def test_the_constants_of_the_rounding_of_a_certificate():
    z = np.linspace(0, 60, 600_001)
    assert (z * np.exp(-z) * (1 + 3 * z + z * z) * (1 + z)).max() < 12 < 4 * module._FOURTH
    for h in (0.1, 0.34, 1.0, 4.5):
        for shift in np.linspace(0, 1, 7):
            y = h * (np.arange(-400, 65) + shift)
            at = np.exp(y[y < 6.5])  # beyond, e^{−z} is 0
            for p in (1.0, 0.5, 0.2):
                terms = at**p * np.abs(p - at) * np.exp(-at) / math.gamma(p)
                assert 3 * h * np.sum(terms) <= 3 * (2 / np.e + 0.48 * h) <= 4 * max(1, h)
