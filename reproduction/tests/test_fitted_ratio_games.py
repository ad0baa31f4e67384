"""Fitted ratio games: what is known is found again, and what is not a ratio game is told apart."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.sampling.all_masks import shapley_values_from_all_masks
from limelight.theory.enumeration import (
    banzhaf_matrix,
    enumerate_masks,
    lime_mask_weights,
    ridge_matrix,
    shapley_matrix,
)
from limelight.theory.ratio_game import value
from limelight.theory.shapley import shapley
from limelight_reproduction.studies.fitted_ratio_games import (
    HeldOut,
    RatioFit,
    _coefficients,
    _derivatives,
    _evaluate,
    _FitData,
    cross_fit_ratio_game,
    draw_paired_masks,
    fit_ratio_games,
    fitted_game,
    fitted_values,
    pair_errors,
    word_errors,
)

quick = settings(deadline=None, max_examples=15)


def random_fit(seed, *, heads=2, d=7, spread=0.8):
    rng = np.random.default_rng(seed)
    log = spread * rng.standard_normal((1, heads, d))
    return RatioFit(rng.standard_normal(1), log, rng.standard_normal((1, heads, d)))


def values_from_words(fit, mask):
    """g(Z) word by word, in the letters of the definition."""
    (c,), (log,), (A,) = fit
    heads, d = log.shape
    total = c
    for h in range(heads):
        top = sum(math.sqrt(d) * A[h, j] for j in range(d) if mask[j])
        total += top / sum(math.exp(log[h, j]) if mask[j] else 1.0 for j in range(d))
    return total


@given(st.integers(0, 10**6))
@quick
def test_values_of_a_fit_are_those_of_the_definition_and_of_its_game(seed):
    fit, keep = random_fit(seed), enumerate_masks(7)
    expected = np.array([values_from_words(fit, mask) for mask in keep])
    np.testing.assert_allclose(fitted_values(fit, keep.astype(float))[0], expected, rtol=1e-9)
    game = fitted_game(fit, mean=5.0, scale=3.0)
    np.testing.assert_allclose(value(game, keep)[0, 0], 5 + 3 * expected, rtol=1e-9)


def test_derivatives_are_those_of_finite_differences():
    d, heads, step = 7, 3, 1e-6
    fit, keep = random_fit(1, heads=heads, d=d), enumerate_masks(d).astype(float)
    y = np.zeros((1, len(keep)))
    rows = _FitData(keep, y, np.ones_like(y), np.ones((1, 2)))
    result = _derivatives(rows, _evaluate(rows, fit.l, fit.A))[0]
    for i, (part, h, j) in enumerate(np.ndindex(2, heads, d)):
        ends = []
        for sign in (1, -1):
            moved = [x.copy() for x in fit]
            moved[1 + part][0, h, j] += sign * step
            ends.append(fitted_values(RatioFit(*moved), keep)[0])
        np.testing.assert_allclose(result[:, i], (ends[0] - ends[1]) / (2 * step), atol=1e-8)


def fit_loss(fit, keep, y, penalties):
    """What a fit should minimise, word by word."""
    remaining = y - np.array([values_from_words(fit, mask) for mask in keep])
    log, u = fit.l[0], fit.A[0] * np.exp(-fit.l[0])
    spread = ((log - log.mean(axis=1, keepdims=True)) ** 2).sum()
    return (remaining**2).sum() + penalties[0] * spread + penalties[1] * (u**2).sum()


def test_steps_lead_to_a_minimum_of_the_penalised_loss(monkeypatch):
    """Given enough of them: by default they stop when little is left to gain."""
    monkeypatch.setattr("limelight_reproduction.studies.fitted_ratio_games._STEPS", 200)
    monkeypatch.setattr("limelight_reproduction.studies.fitted_ratio_games._SETTLED", 1e-12)
    rng = np.random.default_rng(2)
    d, penalties = 5, np.array([0.5, 0.7])
    keep = enumerate_masks(d)
    y = np.tanh(keep @ rng.standard_normal(d)) + 0.2 * rng.standard_normal(len(keep))
    y = (y - y.mean()) / y.std()
    fit = fit_ratio_games(
        keep.astype(float), y[None], np.ones((1, len(y))), heads=2, penalties=penalties[None]
    )
    least = fit_loss(fit, keep, y, penalties)
    assert least < fit_loss(random_fit(0, d=d), keep, y, penalties)
    slopes = []
    for part, x in enumerate(fit):
        for place in np.ndindex(x.shape):
            ends = []
            for sign in (1, -1):
                moved = [element.copy() for element in fit]
                moved[part][place] += sign * 1e-5
                ends.append(fit_loss(RatioFit(*moved), keep, y, penalties))
            slopes.append((ends[0] - ends[1]) / 2e-5)
    assert np.abs(slopes).max() < 1e-4


@pytest.mark.parametrize("heads", [1, 2])
def test_an_exact_ratio_game_is_recovered(heads):
    d = 13
    truth = fitted_game(random_fit(0, heads=heads, d=d, spread=1.5), mean=1.0, scale=2.0)
    keep = draw_paired_masks(d, 600, np.random.default_rng(0))
    result = cross_fit_ratio_game(keep, value(truth, keep)[0, 0], heads=heads)
    assert result.r2 > 0.9999
    assert result.r2_linear < 0.99
    exact = shapley(truth).scores[0, 0]
    np.testing.assert_allclose(shapley(result.games).scores[0, 0], exact, atol=0.01)
    assert np.abs(exact).max() > 0.5


def test_parity_is_no_ratio_game_and_has_a_small_r2():
    keep = draw_paired_masks(12, 600, np.random.default_rng(0))
    f = (-1.0) ** keep[:, :6].sum(axis=1)
    result = cross_fit_ratio_game(keep, f)
    assert result.r2 < 0.3
    assert np.mean(result.held_out.residuals**2) > 0.7 * f.var()


@given(st.integers(0, 10**6), st.floats(-50, 50), st.sampled_from([-3.0, 0.01, 7.0]))
@settings(deadline=None, max_examples=5)
def test_shifting_and_scaling_the_answers_does_the_same_to_the_game(seed, shift, scale):
    d = 7
    keep = draw_paired_masks(d, 200, np.random.default_rng(seed))
    f = np.tanh(keep @ np.random.default_rng(seed + 1).standard_normal(d))
    element, other = (cross_fit_ratio_game(keep, x, heads=1) for x in (f, shift + scale * f))
    np.testing.assert_allclose(
        other.held_out.residuals, scale * element.held_out.residuals, atol=1e-5 * abs(scale)
    )
    assert other.r2 == pytest.approx(element.r2, abs=1e-5)


def test_reordering_the_words_reorders_the_values():
    d = 11
    rng = np.random.default_rng(5)
    keep, order = draw_paired_masks(d, 300, rng), rng.permutation(d)
    f = np.tanh(keep @ rng.standard_normal(d)) + (keep[:, 0] & keep[:, 1])
    element, other = (cross_fit_ratio_game(x, f, heads=1) for x in (keep, keep[:, order]))
    scores, moved = (shapley(x.games).scores[0, 0] for x in (element, other))
    np.testing.assert_allclose(moved, scores[order], atol=1e-8)


def test_a_model_that_never_moves_has_a_flat_surrogate():
    keep = draw_paired_masks(6, 100, np.random.default_rng(0))
    result = cross_fit_ratio_game(keep, np.full(100, 3.7))
    assert (result.r2, result.r2_linear) == (1.0, 1.0)
    np.testing.assert_allclose(value(result.games, enumerate_masks(6)), 3.7, rtol=1e-12)
    out = result.held_out._replace(size=2.0)
    assert out.has_no_residuals
    errors = word_errors(out, np.zeros(6), np.zeros((5, 6)), "shapley").stderr
    assert (errors > 0).all()


def sized_law(keep):
    """The chance of each mask when the number of kept words is uniform."""
    d = keep.shape[1]
    return np.array([1 / ((d + 1) * math.comb(d, int(m))) for m in keep.sum(axis=1)])


@pytest.mark.parametrize("kind", ["shapley", "banzhaf", "lime"])
def test_coefficients_give_the_values_as_means_over_masks(kind):
    d = 6
    keep, rng = enumerate_masks(d), np.random.default_rng(1)
    f, size = rng.standard_normal(2**d), enumerate_masks(d).sum(axis=1)
    kept_words, removed = _coefficients(d, kind)
    mean = (sized_law(keep) * f) @ np.where(keep, kept_words[size, None], removed[size, None])
    if kind == "lime":
        x = np.column_stack([np.ones(len(keep)), keep])
        exact = (ridge_matrix(x, lime_mask_weights(d, bandwidth=0.25), 0.0).T @ f)[1:]
    else:
        exact = {"shapley": shapley_matrix, "banzhaf": banzhaf_matrix}[kind](d).T @ f
    np.testing.assert_allclose(mean, exact, atol=1e-9)


def misspecified_game(seed, d):
    rng = np.random.default_rng(seed)
    slope, pairs = rng.standard_normal(d), rng.permutation(d)[:4]

    def game(keep):
        pair = keep[:, pairs[0]] & keep[:, pairs[1]] ^ keep[:, pairs[2]] & keep[:, pairs[3]]
        return (np.tanh(keep @ slope) + pair)[:, None]

    return game


def test_two_standard_errors_hold_the_model_where_the_fit_is_wrong():
    d, contained, r2 = 10, [], []
    for seed in range(12):
        game = misspecified_game(seed, d)
        keep = draw_paired_masks(d, 400, np.random.default_rng(seed))
        result = cross_fit_ratio_game(keep, game(keep)[:, 0], heads=1)
        own_value, *of_parts = shapley(result.games).scores[:, 0]
        out = result.held_out._replace(size=3.0)
        errors = word_errors(out, own_value, np.stack(of_parts), "shapley").stderr
        contained.append(
            np.abs(own_value - shapley_values_from_all_masks(game, d)[0]) <= 2 * errors
        )
        r2.append(result.r2)
    assert np.median(r2) < 0.95  # or there would be nothing to cover
    assert np.mean(contained) >= 0.9
    assert np.mean(errors) < 0.2  # and not by errors that hold anything


def test_errors_of_pairs_hold_what_the_fit_misses():
    d = 8
    keep = draw_paired_masks(d, 2000, np.random.default_rng(0))
    # A game of which nothing was fitted: all that is left is one pair, of interaction 1.
    remaining = (keep[:, 2] & keep[:, 5]) * 1.0
    out = HeldOut(keep, remaining, np.arange(2000) // 2 % 5, 1.0)
    errors = pair_errors(out, np.zeros((d, d)), np.zeros((5, d, d)))
    assert (np.diag(errors) == 0).all()
    assert 2 * errors[2, 5] > 0.3
    np.testing.assert_array_equal(errors > 0, ~np.eye(d, dtype=bool))
