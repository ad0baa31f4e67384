import math

import mpmath
import numpy as np
import pytest

from limelight.errors import DomainError
from limelight.theory import reciprocal_sum as module
from limelight.theory.reciprocal_sum import reciprocal_sum


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
    assert (rule.weights > 0).all()  # so that no term is larger than what they add up to


def test_a_spoiled_sum_would_be_noticed():
    rule = reciprocal_sum(100.0, 1e-9)
    x = np.geomspace(1, 100, 1000)
    spoiled = rule.weights * np.where(np.arange(len(rule.weights)) == 5, 1 + 1e-6, 1)
    assert np.abs(x * (np.exp(-np.outer(x, rule.nodes)) @ spoiled) - 1).max() > 1e-8


def test_neighbouring_documents_share_a_sum():
    assert reciprocal_sum(1200.0, 1e-6) is reciprocal_sum(2500.0, 1.01e-6)


def test_an_interval_must_begin_at_one():
    with pytest.raises(DomainError, match="1 ≤ R"):
        reciprocal_sum(0.5, 1e-6)


@pytest.mark.parametrize(
    ("R", "tolerance", "power", "terms"),
    [(1e4, 1e-6, 1.0, 25), (1e4, 1e-9, 1.0, 34), (1e4, 1e-6, 0.5, 23), (1e300, 1e-9, 1.0, 1720)],
)
def test_a_sum_has_few_terms(R, tolerance, power, terms):
    # The first explanation of a process pays for finding them, every one for having them.
    assert len(reciprocal_sum(R, tolerance, power).nodes) <= terms


@pytest.mark.parametrize("h", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("x", [1.0, 7.3, 1e4])
@pytest.mark.parametrize("p", [1.0, 0.3])
def test_each_part_of_the_trapezoid_rule_is_within_its_term(p, h, x):
    """All nodes, those merged at the lower end and those dropped at the upper one, in 30 digits."""
    with mpmath.workdps(30):
        R, low, first = 1e4, mpmath.mpf(3e-4), mpmath.mpf(1.5)

        def terms(start, step):
            nodes = [start * mpmath.exp(k * mpmath.mpf(step)) for k in range(int(90 / (p * h)))]
            return [(h * node**p / mpmath.gamma(p), node) for node in nodes]

        def summed(pairs):
            return mpmath.mpf(x) ** p * sum(w * mpmath.exp(-node * x) for w, node in pairs)

        below, above = terms(low, -h), terms(low, h)[1:]
        aliased = abs(summed(below + above) - 1)
        if p in (0.5, 1):  # the powers whose formulas they are
            assert module._alias(h, p) * 1e-6 < aliased + 1e-25
        assert aliased <= module._alias(h, p) * (1 + 1e-12) + 1e-25
        for n in (1, 2, 4, 7):
            share, weight, cost = module._gauss(n, h, p)
            mass = h * low**p / mpmath.gamma(p)
            gauss = [(mass * w, low * one) for w, one in zip(weight, share, strict=True)]
            merged = summed(below) - summed(gauss)
            reach = R * low
            rounding = 8 * 2.0**-52 * mass * R**p * weight.sum() * (1 + reach)
            assert -rounding <= merged <= mass * R**p * cost * reach ** (2 * n) + rounding
        assert summed(terms(first, h)) <= (h * first + 1) * mpmath.exp(-first)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("p", [1.0, 0.5, 0.2])
@pytest.mark.parametrize("h", [0.3, 0.7, 2.0])
def test_gauss_meets_twice_as_many_moments_as_it_has_nodes(h, p, n):
    nodes, weights, cost = module._gauss(n, h, p)
    assert (np.diff(nodes) > 0).all()
    assert 0 < nodes[0] <= nodes[-1] <= 1 + 1e-15
    moments = np.array([1 / -math.expm1(-h * (p + j)) for j in range(2 * n + 1)])
    found = np.array([weights @ nodes**j for j in range(2 * n + 1)])
    np.testing.assert_allclose(found[:-1], moments[:-1], rtol=1e-13)
    # Of x^{2n} the error is ‖π_n‖², here in 200 digits as a quotient of determinants of moments.
    with mpmath.workdps(200):
        exact = [1 / -mpmath.expm1(-mpmath.mpf(h) * (mpmath.mpf(p) + j)) for j in range(2 * n + 1)]
        above, below = (
            mpmath.det(mpmath.matrix([[exact[i + j] for j in range(m)] for i in range(m)]))
            for m in (n + 1, n)
        )
        assert cost * math.factorial(2 * n) == pytest.approx(float(above / below), rel=1e-10)


def test_the_constants_of_the_rounding_of_a_certificate():
    for h in (0.1, 0.34, 1.0, 4.5):
        for shift in np.linspace(0, 1, 7):
            y = h * (np.arange(-400, 65) + shift)
            at = np.exp(y[y < 6.5])  # beyond, e^{−z} is 0
            for p in (1.0, 0.5, 0.2):
                terms = at**p * np.abs(p - at) * np.exp(-at) / math.gamma(p)
                assert 3 * h * np.sum(terms) <= 3 * (2 / np.e + 0.48 * h) <= 4 * max(1, h)
