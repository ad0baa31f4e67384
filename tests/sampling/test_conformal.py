"""The threshold of false alarms: exact probabilities by enumeration, and what a quantile does."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.errors import InputError
from limelight.sampling.conformal import conformal_threshold


def false_alarm_rate(values, threshold):
    """Return the exact probability that the last of exchangeable values exceeds a threshold.

    ``threshold`` is a function of the other values. All orders are equally probable.
    """
    orders = list(permutations(values))
    return Fraction(sum(last > threshold(others) for *others, last in orders), len(orders))


ALPHAS = st.sampled_from([0.15, 0.2, 0.25, 1 / 3, 0.4, 0.5, 0.6, 0.75, 0.9])


@given(st.lists(st.integers(0, 4), min_size=2, max_size=6), ALPHAS)
def test_the_rate_of_false_alarms_is_at_most_alpha_also_with_ties(values, alpha):
    n = len(values) - 1
    if 1 / (n + 1) > alpha:
        with pytest.raises(InputError, match=f"not {n}"):
            conformal_threshold(values[1:], alpha)
        return
    rate = false_alarm_rate(values, lambda others: conformal_threshold(others, alpha))
    assert float(rate) <= alpha  # a float such as 1/3 is rounded


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("alpha", [0.15, 0.2, 0.25, 0.5, 0.9])
def test_without_ties_the_rate_is_the_largest_multiple_below_alpha(n, alpha):
    k = math.floor(Fraction(alpha) * (n + 1))
    if not k:
        return
    rate = false_alarm_rate(range(n + 1), lambda others: conformal_threshold(others, alpha))
    assert rate == Fraction(min(k, n), n + 1)


def test_the_quantile_of_the_benign_scores_is_too_small():
    """Negative control: numpy's quantile ignores that the new score is one of n + 1."""
    for n in (5, 6):
        rate = false_alarm_rate(range(n + 1), lambda others: np.quantile(others, 0.8))
        assert rate == Fraction(2, n + 1) > Fraction(1, 5)


def test_conversations_that_depend_on_each_other_only_by_their_order_need_no_independence():
    """A random shift that all scores share keeps them exchangeable."""
    rng, alarms, runs = np.random.default_rng(0), 0, 4000
    for _ in range(runs):
        scores = rng.normal() + rng.standard_cauchy(20)
        alarms += scores[-1] > conformal_threshold(scores[:-1], 0.1)
    assert alarms / runs == pytest.approx(0.1, abs=5 * math.sqrt(0.09 / runs))


def test_a_shift_of_the_new_conversation_breaks_the_promise():
    rng = np.random.default_rng(0)
    alarms = sum(
        rng.normal() + 1 > conformal_threshold(rng.normal(size=19), 0.1) for _ in range(1000)
    )
    assert alarms > 200


@pytest.mark.parametrize("n", [1, 9, 10, 19, 99, 100, 999])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.07, 0.1, 0.29, 0.3, 0.5, 0.99])
def test_the_rank_is_that_of_fractions(n, alpha):
    scores = np.arange(n)[::-1]
    k = sum(j / (n + 1) <= alpha for j in range(1, n + 1))
    if k:
        assert conformal_threshold(scores, alpha) == n - k
        return
    needed = next(m for m in range(1, 10_000) if 1 / (m + 1) <= alpha)
    with pytest.raises(InputError, match=f"needs at least {needed} benign scores, not {n}"):
        conformal_threshold(scores, alpha)
