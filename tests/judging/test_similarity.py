"""How alike two explanations are, against definitions that are slower, and at the edges."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import limelight
from limelight.explainers import LimeSampled, prepare_batch
from limelight.judging import measures as measured
from limelight.judging.candidates import make_candidates
from limelight.judging.measures import TOP_COUNT, merge_near_ties, ranking_scores, top_probabilities

from tiny_models import random_texts, tiny_model


def likeness(a, b, *, signed=True, noise=0.0):
    """The likeness of two explanations, None where it has no meaning."""
    result = measured.pairwise_similarity(np.stack([a, b]), [signed, True], noise=noise)
    for matrix in result:
        np.testing.assert_array_equal(matrix, matrix.T)
    return tuple(None if np.isnan(m[0, 1]) else m[0, 1] for m in result)


scores = st.lists(st.integers(-4, 4).map(float), min_size=7, max_size=7).map(np.array)


@given(scores, scores)
def test_the_rank_correlation_is_scipys_and_none_where_that_is_nan(a, b):
    result = likeness(a, b)[0]
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert result is None
    else:
        assert result == pytest.approx(spearmanr(a, b).statistic)


@settings(max_examples=15)
@given(scores, scores)
def test_the_strongest_words_are_shared_as_often_as_when_ties_are_broken_at_random(a, b):
    def tops(x):
        """Top sets by every order of the words, of which ties keep the first."""
        for order in itertools.permutations(range(7)):
            own_value = np.array(order)
            yield frozenset(
                own_value[np.argsort(-x[own_value], kind="stable")[:TOP_COUNT]].tolist()
            )

    mean = np.zeros((2, 7))
    for row, x in zip(mean, (a, b), strict=True):
        result = list(tops(x))
        row[:] = [sum(j in top for top in result) / len(result) for j in range(7)]
    np.testing.assert_allclose(top_probabilities(a, TOP_COUNT), mean[0], atol=1e-12)
    assert likeness(a, b)[2] == pytest.approx(mean[0] @ mean[1] / TOP_COUNT)


@given(scores, scores)
def test_likeness_is_symmetric_and_knows_no_unit(a, b):
    assert likeness(a, b) == likeness(b, a)
    assert likeness(3 * a, b) == pytest.approx(likeness(a, b))


def test_signs_are_counted_where_both_have_one():
    result = likeness(np.array([1.0, -2.0, 3.0, 0.0]), np.array([1.0, 2.0, 0.5, 4.0]))
    assert result[1] == pytest.approx(2 / 3)
    assert result[2] is None
    assert likeness(np.zeros(3), np.arange(3.0)) == (None, None, None)


def test_without_signs_words_are_ranked_by_size():
    a, b = np.array([-5.0, 1.0, 3.0, 0.0, 2.0, 4.0]), np.array([5.0, 1.0, 3.0, 0.0, 2.0, 4.0])
    assert likeness(a, b, signed=False) == (pytest.approx(1.0), None, pytest.approx(1.0))
    assert likeness(a, b)[0] < 0.5


def test_rounding_has_neither_order_nor_sign():
    rng = np.random.default_rng(0)
    exact = np.concatenate([np.zeros(12), [1.0, 2.0, -3.0]])
    a, b = (exact + 1e-15 * rng.normal(size=15) for _ in range(2))
    assert likeness(a, b) == likeness(exact, exact)
    assert likeness(a, b)[0] == pytest.approx(1.0)
    blurred = [exact + 1e-3 * rng.normal(size=15) for _ in range(2)]
    assert likeness(*blurred)[0] < 0.9  # twelve words in random order
    assert likeness(*blurred, noise=0.02)[0] == pytest.approx(1.0)
    noise = 1e-9 * rng.normal(size=(2, 15))
    assert likeness(noise[0], noise[1], noise=1e-8) == (None, None, pytest.approx(TOP_COUNT / 15))


def test_levels_keep_what_is_apart():
    x = np.array([3.0, 1.0, 1.0 + 1e-9, 2.0])
    assert merge_near_ties(x).tolist() == [3.0, 1.0, 1.0, 2.0]
    assert ranking_scores(np.array([-2.0, 1.0]), signed=False).tolist() == [2.0, 1.0]


def test_methods_that_sample_can_run_again_with_another_seed():
    model, text = tiny_model(3, T_max=31, scale=0.4), random_texts(1, seed=5, longest=8)
    values = ["lime-sampled", LimeSampled(samples=300, seed=7), "loo"]
    result = make_candidates(model, values, {}, seed=3, replacement="unk")
    assert [element.score_again is None for element in result] == [False, False, True]
    batch = prepare_batch(model, text)
    for value, seed in zip(result[:2], (3, 7), strict=True):
        samples = 300 if seed == 7 else 5000
        first = limelight.explain(model, text[0], "lime-sampled", seed=seed, samples=samples)
        np.testing.assert_array_equal(value.score(batch)[0], first.scores)
        other = value.score_again(batch)[0]
        assert not np.array_equal(other, first.scores)
        np.testing.assert_array_equal(value.score_again(batch)[0], other)
        assert np.all(np.abs(other - first.scores) < 8 * first.stderr)
