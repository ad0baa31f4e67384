"""Clopper and Pearson's interval against SciPy, exact fractions and 40 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainccinv, betaincinv

from limelight.sampling.anchors import clopper_pearson_interval

DELTAS = (1 - 1e-12, 0.9, 0.5, 0.1, 0.05, 0.01, 1e-6, 1e-10)


def some_successes(trials):
    edges = (0, 1, 2, 3, trials // 10, trials // 3, trials // 2)
    samples = np.random.default_rng(trials).integers(0, trials + 1, 12).tolist()
    return sorted({k for e in (*edges, *samples) for k in (e, trials - e) if 0 <= k <= trials})


@pytest.mark.parametrize("trials", [1, 2, 3, 10, 57, 1000, 9973, 10_000, 10**6])
def test_the_ends_are_scipys_beta_quantiles(trials):
    """To 1e-10, which is what SciPy reaches at a million trials; the tests below are sharper."""
    for successes in some_successes(trials):
        failures = trials - successes
        for delta in DELTAS:
            low, high = clopper_pearson_interval(successes, trials, delta=delta)
            target = betaincinv(successes, failures + 1, delta / 2) if successes else 0.0
            np.testing.assert_allclose(low, target, rtol=1e-10)
            target = betainccinv(successes + 1, failures, delta / 2) if failures else 1.0
            np.testing.assert_allclose(high, target, rtol=1e-10)


def chance_of_so_many(successes, trials, chance):
    """P(X ≥ successes) and P(X ≤ successes), without a rounding."""
    p = Fraction(chance)
    law = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    return sum(law[successes:]), sum(law[: successes + 1])


def assert_the_ends_are_tight(successes, trials, delta, low, high):
    """Outside the interval the tails are δ/2 at most; 1e-12 inside it they are more."""
    half = Fraction(delta) / 2
    at_low, near_low = (
        chance_of_so_many(successes, trials, p)[0] for p in (low, low * (1 + 1e-12))
    )
    at_high, near_high = (
        chance_of_so_many(successes, trials, p)[1] for p in (high, high * (1 - 1e-12))
    )
    assert (at_low <= half < near_low) if successes else low == 0
    assert (at_high <= half < near_high) if successes < trials else high == 1


@given(st.integers(1, 40), st.data(), st.floats(1e-9, 1, exclude_max=True))
def test_each_tail_has_half_of_delta_and_rounding_only_widens(trials, data, delta):
    successes = data.draw(st.integers(0, trials))
    low, high = clopper_pearson_interval(successes, trials, delta=delta)
    assert_the_ends_are_tight(successes, trials, delta, low, high)


@pytest.mark.parametrize("wrong", ["successes", "delta", "narrow", "wide"])
def test_the_exact_comparison_can_fail(wrong):
    low, high = clopper_pearson_interval(7, 20, delta=0.1)
    if wrong == "successes":
        low, high = clopper_pearson_interval(8, 20, delta=0.1)
    if wrong == "delta":  # one tail only
        low, high = clopper_pearson_interval(7, 20, delta=0.2)
    if wrong == "narrow":
        low, high = low * (1 + 1e-12), high * (1 - 1e-12)
    if wrong == "wide":
        low, high = low * (1 - 1e-12), high * (1 + 1e-12)
    with pytest.raises(AssertionError):
        assert_the_ends_are_tight(7, 20, 0.1, low, high)


def relative_error(k, n, chance, tail):
    """How far ``chance`` is from where k successes or more of n have probability ``tail``."""
    p = mpmath.mpf(chance)
    first = term = mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k)
    total, odds = first, p / (1 - p)
    for i in range(n - k):
        term *= odds * (n - k - i) / (k + 1 + i)
        total += term
        if term < 1e-30 * total:
            break
    return float(mpmath.log(total / tail) * total / (k * first))


@pytest.mark.parametrize("trials", [100, 10_000, 10**6])
@pytest.mark.parametrize("delta", [0.9, 0.05, 1e-10, 1e-300])
def test_forty_digits_say_the_same_up_to_a_million_trials(trials, delta):
    with mpmath.workdps(40):
        for successes in (1, 2, 29, 62, trials // 3):
            low, high = clopper_pearson_interval(successes, trials, delta=delta)
            half, q = mpmath.mpf(delta) / 2, 1 - mpmath.mpf(high)
            assert -1e-12 < relative_error(successes, trials, low, half) < 0
            off = relative_error(trials - successes, trials, q, half) * float(q) / high
            assert -1e-12 < off < 0


def test_no_success_and_no_failure_have_closed_forms():
    assert clopper_pearson_interval(0, 0, delta=0.1) == (0, 1)
    for trials in (1, 10, 10**6):
        power = math.log(0.05) / trials
        assert clopper_pearson_interval(trials, trials, delta=0.1) == (
            pytest.approx(math.exp(power)),
            1,
        )
        assert clopper_pearson_interval(0, trials, delta=0.1) == (
            0,
            pytest.approx(-math.expm1(power)),
        )


@pytest.mark.parametrize("trials", [1, 9, 200])
def test_more_successes_and_less_doubt_move_the_ends_outwards(trials):
    for delta in (0.5, 0.05, 1e-8):
        ends = np.array(
            [clopper_pearson_interval(k, trials, delta=delta) for k in range(trials + 1)]
        )
        assert (np.diff(ends, axis=0) > 0).all()
        wider = np.array(
            [clopper_pearson_interval(k, trials, delta=delta / 2) for k in range(trials + 1)]
        )
        assert (wider[1:, 0] < ends[1:, 0]).all()
        assert (wider[:-1, 1] > ends[:-1, 1]).all()
