"""A learned start against drawn values whose truth is known."""

import re
from functools import cache

import numpy as np
import pytest

from limelight.explainers.learned import LearnedScores, combine_scores
from limelight.results import Attribution
from limelight.sampling.orders import shapley_values_from_orders

D = 40


@cache
def make_game(seed):
    """Return a game with pairs and a threshold, and its Shapley values from many orders."""
    rng = np.random.default_rng(seed)
    single, pairs = rng.standard_normal(D), np.triu(rng.standard_normal((D, D)), 1) / 3

    def game(keep):
        z = keep.astype(float)
        full = z @ single + ((z @ pairs) * z).sum(axis=1)
        return (full + 6 * np.tanh(full / 3))[:, None]

    return game, shapley_values_from_orders(game, D, rng, pairs=4_000).values[0]


def combine(start, samples):
    variance = samples.sampled_variance[0]
    return combine_scores(start, samples.values[0], variance, pairs=samples.draw_counts)


@pytest.mark.parametrize("pairs", [1, 2, 6])
def test_both_errors_known_the_mean_of_both_is_nearer_and_says_how_near(pairs):
    rng, off, single, unbiased, contained = np.random.default_rng(0), [], [], [], []
    for seed in range(6):
        game, truth = make_game(seed)
        values = [shapley_values_from_orders(game, D, rng, pairs=1).values[0] for _ in range(60)]
        spread = np.full(D, np.std(np.array(values) - truth))  # as learned from other texts
        for _ in range(8):
            error = rng.uniform(0.3, 2.0, D) * spread
            start = LearnedScores(truth + error * rng.standard_normal(D), error, spread, ())
            samples = shapley_values_from_orders(game, D, rng, pairs=pairs)
            result = combine(start, samples)
            off += list(result.scores - truth)
            single += list(start.values - truth)
            unbiased += list(samples.values[0] - truth)
            contained += list(np.abs(result.scores - truth) <= 2 * result.stderr)
            assert sum(result.scores) == pytest.approx(float(samples.values.sum()))
    mean = [np.mean(np.square(x)) for x in (off, single, unbiased)]
    assert mean[0] < 0.9 * min(mean[1:])
    assert 0.93 <= np.mean(contained) < 0.995


def test_a_start_that_is_wrong_counts_for_little():
    rng = np.random.default_rng(1)
    game, truth = make_game(0)
    spread = np.full(D, np.std(shapley_values_from_orders(game, D, rng, pairs=1).values[0] - truth))
    wrong = LearnedScores(truth + 50 * spread * rng.standard_normal(D), spread / 10, spread, ())
    samples = shapley_values_from_orders(game, D, rng, pairs=1)
    combined = combine(wrong, samples)
    result = combined.replace_scores(Attribution(scores=samples.values[0]))
    assert result.diagnostics["learned_share"] < 0.01
    np.testing.assert_allclose(result.scores, samples.values[0], atol=float(spread[0]) / 2)
    (factor,) = re.findall(r"errors increased by a factor of ([0-9.]+)", result.warnings[0])
    assert float(factor) > 10
