"""Standard errors that hold: against Poisson's limits, Student's law, and by counting."""

import numpy as np
import pytest
from scipy import stats

from limelight.sampling.orders import shapley_values_from_orders
from limelight.sampling.regression import fit_sampled_lime
from limelight.sampling.sample import Sample, make_lime_sampler
from limelight.sampling.spread import PowerSums, small_sample_factor, unseen_effect_error
from limelight.theory.enumeration import (
    enumerate_masks,
    lime_mask_weights,
    ridge_matrix,
    shapley_matrix,
)

D = 12
KEEP = enumerate_masks(D)
LIME = ridge_matrix(np.column_stack([np.ones(len(KEEP)), KEEP]), lime_mask_weights(D), 0.0).T[1:]
SHAPLEY = shapley_matrix(D).T


def of(draws):
    return PowerSums(
        draws.sum(axis=0),
        (draws**2).sum(axis=0),
        (draws**4).sum(axis=0),
        np.abs(draws).max(axis=0),
    )


def test_squares_of_draws_that_came_in_two_parts_are_about_the_mean_of_all():
    draws = np.random.default_rng(0).standard_normal((7, 3)) + 2
    result = (
        PowerSums.from_contributions(draws[:3])
        .merge(PowerSums.from_contributions(draws[3:]))
        .centered_squares(7)
    )
    np.testing.assert_allclose(result, 6 * draws.var(axis=0, ddof=1))


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 7, 9, 13, 22, 50, 1e6])
def test_quantiles_are_students(degrees):
    exact = max(stats.t.ppf(0.975, degrees) / 2, 1)
    np.testing.assert_allclose(small_sample_factor(np.array([float(degrees)])), exact, rtol=3e-3)


@pytest.mark.parametrize("seen", [1, 2, 3, 5, 10, 30])
def test_an_effect_seen_k_times_has_poissons_upper_limit(seen):
    """k of n draws are 1: k + 2 stderr is the mean at which k or fewer come in 5 % of samples."""
    draws = np.zeros((10_000, 1))
    draws[:seen] = 1.0
    limit = stats.gamma.ppf(0.95, seen + 1)
    np.testing.assert_allclose(
        seen + 2 * of(draws).standard_error(10_000, degrees=9_999), limit, rtol=0.04
    )


def test_an_effect_never_seen_has_the_rule_of_three():
    limit = stats.gamma.ppf(0.95, 1)
    np.testing.assert_allclose(2 * unseen_effect_error(np.ones(1)), limit, rtol=2e-3)


def test_many_tame_draws_have_the_plain_standard_error():
    draws = np.random.default_rng(0).standard_normal((20_000, 3))
    plain = np.sqrt(((draws - draws.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(of(draws).standard_error(20_000, degrees=19_999), plain, rtol=1e-3)


def test_draws_add_up_in_parts():
    draws = np.random.default_rng(1).standard_normal((50, 2))
    pair = of(draws[:20]).merge(of(draws[20:]))
    for target, index in zip(of(draws), pair, strict=True):
        np.testing.assert_allclose(index, target)


def games(kind, count=8):
    """Tables of f over all masks: smooth, peaked, with a rare effect, or 0 and 1."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        words = rng.choice(D, 6, replace=False)
        if kind == "rare":
            yield (KEEP[:, words] == (rng.random(6) < 0.6)).all(axis=1).astype(float)
        elif kind == "0/1":
            slope = rng.standard_normal(D)
            yield (KEEP @ slope > slope.sum() / 2).astype(float)
        else:
            weight = np.exp(0.7 * rng.standard_normal(D))
            weight[words[:2]] *= 60 if kind == "peaked" else 1
            value = rng.standard_normal(D)
            yield (KEEP @ (weight * value)) / (KEEP @ weight + (~KEEP).sum(axis=1))


def ask(table):
    return lambda keep: table[keep @ (1 << np.arange(D))][:, None]


def lime_errors(table, seed, n=300):
    draws = make_lime_sampler(D, sizes="balanced")
    sample = Sample(ask(table), draws, np.random.default_rng(seed), d=D, row0=False)
    sample.grow(n)
    fit = fit_sampled_lime(sample, ridge=0.0, known_range=1.0)
    return fit.scores[0] - LIME @ table, fit.stderr[0]


def shapley_errors(table, seed, pairs=10):
    rng = np.random.default_rng(seed)
    result = shapley_values_from_orders(ask(table), D, rng, pairs=pairs, known_range=1.0)
    return result.values[0] - SHAPLEY @ table, result.stderr[0]


def coverage(sampled, kind, seeds=12):
    """The share of ±2 standard errors that hold the exact value, and its own standard error."""
    contained = []
    for number, table in enumerate(games(kind)):
        for seed in range(seeds):
            off, stderr = sampled(table, 100 * number + seed)
            contained.append(np.mean(np.abs(off) <= 2 * stderr + 1e-12))
    return np.mean(contained), np.std(contained) / np.sqrt(len(contained))


@pytest.mark.parametrize("kind", ["smooth", "peaked", "rare", "0/1"])
@pytest.mark.parametrize("sampled", [lime_errors, shapley_errors])
def test_two_standard_errors_hold_the_truth(sampled, kind):
    share, error = coverage(sampled, kind)
    assert share >= 0.93 - 5 * error
    assert share >= 0.90


def test_a_naive_standard_error_does_not():
    """Negative control: the standard deviation of a few draws misses rare effects."""

    def naively(table, seed):
        off, _ = shapley_errors(table, seed)
        rng = np.random.default_rng(seed)
        values = [
            shapley_values_from_orders(ask(table), D, rng, pairs=1).values[0] for _ in range(10)
        ]
        return off, np.std(values, axis=0, ddof=1) / np.sqrt(10)

    share, error = coverage(naively, "rare", seeds=6)
    assert share + 5 * error < 0.93
