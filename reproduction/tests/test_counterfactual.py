"""The farthest attention with the same answer, against searches that know nothing of vertices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import jensenshannon

from limelight import InputError
from limelight_reproduction.one_layer.counterfactual import (
    DIVERGENCES,
    farthest_weights,
    jensen_shannon,
    total_variation,
    unconstrained_farthest_weights,
)

seeds = st.integers(0, 2**32 - 1)
divergences = st.sampled_from(sorted(DIVERGENCES))


def head(seed, T=7, *, ties=False):
    """Return the attention and the values of a random head."""
    rng = np.random.default_rng(seed)
    alpha = rng.dirichlet(np.full(T, rng.choice([0.2, 1.0, 5.0])))
    return alpha, rng.integers(-2, 3, T).astype(float) if ties else rng.normal(size=T)


def farthest_total_variation(alpha, u):
    """Oracle: |x| is the larger of x and -x, so the best of 2^T linear programs, one per sign."""
    T, best = len(alpha), 0.0
    for signs in np.ndindex(*(2,) * T):
        sign = 1.0 - 2.0 * np.array(signs)
        result = linprog(-sign, A_eq=[np.ones(T), u], b_eq=[1.0, alpha @ u], bounds=(0, 1))
        best = max(best, (-result.fun - sign @ alpha) / 2 if result.status == 0 else 0.0)
    return best


def other_weights(alpha, u, rng, count):
    """Return random weights that keep the answer: from ``alpha`` along the null space, shortened.

    Most end on a face of the polytope, some inside.
    """
    constraints = np.array([np.ones_like(u), u])
    null = np.linalg.svd(constraints)[2][2:]
    weights = []
    for _ in range(count):
        at = alpha
        for _ in range(rng.integers(1, len(alpha))):
            step = rng.normal(size=len(null)) @ null * (at > 1e-12)
            step -= np.linalg.pinv(constraints * (at > 1e-12)) @ (constraints @ step)
            down = step < -1e-12
            if down.any():
                at = np.maximum(
                    at + rng.choice([1.0, 0.7]) * (at[down] / -step[down]).min() * step, 0
                )
        weights.append(at)
    return np.array(weights)


@given(seeds)
def test_divergences_are_those_of_scipy_and_of_the_definition(seed):
    a, b = head(seed)[0], head(seed + 1)[0]
    np.testing.assert_allclose(jensen_shannon(a, b), jensenshannon(a, b) ** 2, rtol=1e-9)
    np.testing.assert_allclose(total_variation(a, b), 1 - np.minimum(a, b).sum(), atol=1e-12)


@given(seeds, divergences, st.booleans())
def test_it_is_a_distribution_on_two_positions_with_the_same_answer(seed, divergence, ties):
    alpha, u = head(seed, 11, ties=ties)
    result = farthest_weights(alpha, u, divergence)
    assert np.count_nonzero(result) <= 2
    assert result.min() >= 0
    np.testing.assert_allclose(result.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(result @ u, alpha @ u, atol=1e-12)


@given(seeds, divergences, st.booleans())
def test_no_random_weights_with_the_same_answer_are_farther(seed, divergence, ties):
    alpha, u = head(seed, ties=ties)
    other_values = other_weights(alpha, u, np.random.default_rng(seed), 20)
    np.testing.assert_allclose(other_values @ u, alpha @ u, atol=1e-9)
    distance = DIVERGENCES[divergence]
    best = distance(farthest_weights(alpha, u, divergence), alpha)
    assert distance(other_values, alpha).max() <= best + 1e-9


def test_random_weights_do_leave_the_original_far_behind():
    """Control: the search above goes far, so that a poor optimum would be beaten."""
    alpha, u = head(3)
    other_values = other_weights(alpha, u, np.random.default_rng(0), 200)
    reached = jensen_shannon(other_values, alpha).max() / jensen_shannon(
        farthest_weights(alpha, u), alpha
    )
    assert reached > 0.8


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_total_variation_is_the_best_of_all_linear_programs(seed):
    alpha, u = head(seed, 5)
    mine = total_variation(farthest_weights(alpha, u, "total-variation"), alpha)
    np.testing.assert_allclose(mine, farthest_total_variation(alpha, u), rtol=1e-7)


@given(seeds, divergences, st.floats(0.01, 0.5))
def test_weights_that_are_no_vertex_are_nearer(seed, divergence, share):
    """Control: mixed with the original, the optimum keeps the answer and loses distance."""
    alpha, u = head(seed)
    result, distance = farthest_weights(alpha, u, divergence), DIVERGENCES[divergence]
    mixed = (1 - share) * result + share * alpha
    np.testing.assert_allclose(mixed @ u, alpha @ u, atol=1e-12)
    assert distance(mixed, alpha) < distance(result, alpha)


@given(seeds, divergences)
def test_without_the_constraint_one_position_is_farthest(seed, divergence):
    alpha, u = head(seed)
    distance = DIVERGENCES[divergence]
    anywhere = distance(unconstrained_farthest_weights(alpha, divergence), alpha)
    np.testing.assert_allclose(anywhere, distance(np.eye(len(alpha)), alpha).max(), rtol=1e-12)
    assert anywhere >= distance(farthest_weights(alpha, u, divergence), alpha) - 1e-12


@pytest.mark.parametrize("divergence", sorted(DIVERGENCES))
def test_one_position_has_no_other_attention(divergence):
    result = farthest_weights(np.ones(1), np.array([0.3]), divergence)
    np.testing.assert_array_equal(result, [1.0])


def test_with_equal_values_all_attention_goes_to_the_least_attended():
    alpha = np.array([0.5, 0.1, 0.4])
    np.testing.assert_array_equal(farthest_weights(alpha, np.full(3, 0.1)), [0.0, 1.0, 0.0])


def test_an_unknown_divergence_raises_an_error():
    with pytest.raises(InputError, match="unknown divergence: 'euclid'"):
        farthest_weights(np.ones(1), np.ones(1), "euclid")
