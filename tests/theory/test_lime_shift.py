"""What a penalty and the untouched text do to LIME with n samples, by two other roads."""

import math

import numpy as np
import pytest
from ratio_games import random_game

from limelight.theory.enumeration import enumerate_masks
from limelight.theory.lime import lime
from limelight.theory.lime_shift import lime_shift
from limelight.theory.ratio_game import value


def regression(game, *, bandwidth, samples, ridge, row0):
    """Weighted least squares over all subsets, with a penalty and row 0 of their share."""
    d, keep = game.d, enumerate_masks(game.d)
    s = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * bandwidth**2))
    weight = np.where(s > 0, psi / d, row0 / samples)
    weight /= np.array([math.comb(d, k) for k in range(d + 1)])[s]
    X = np.column_stack([np.ones(len(keep)), keep])
    penalty = ridge / samples * np.diag([0.0] + [1.0] * d)
    return np.linalg.solve((X.T * weight) @ X + penalty, (X.T * weight) @ value(game, keep)[0])


@pytest.mark.parametrize("bandwidth", [0.25, 1.0, np.inf])
@pytest.mark.parametrize(("ridge", "row0"), [(1.0, True), (1.0, False), (0.0, True), (30.0, True)])
@pytest.mark.parametrize("samples", [7, 300])
def test_the_shift_is_that_of_a_regression_on_all_subsets(bandwidth, ridge, row0, samples):
    game = random_game(3, d=6)
    settings = {"bandwidth": bandwidth, "samples": samples}
    limit = regression(game, ridge=0.0, row0=False, **settings)
    moved = regression(game, ridge=ridge, row0=row0, **settings)
    remaining = value(game, np.ones((1, game.d), dtype=bool))[0, 0] - limit.sum()
    shift = lime_shift(limit[1:], remaining, ridge=ridge, row0=row0, **settings)
    np.testing.assert_allclose(shift.total, (moved - limit)[1:], rtol=1e-8, atol=1e-12)
    assert (np.abs(shift.total) <= shift.magnitude * (1 + 1e-12)).all()


@pytest.mark.parametrize("part", ["differences", "penalty", "row0"])
def test_no_part_can_be_left_out(part):
    shift = lime_shift(np.array([1.0, -2.0, 0.5]), 0.3, samples=50)
    without = shift._replace(**{part: np.zeros(3)})
    assert np.abs(without.total - shift.total).max() > 1e-3


def test_the_shift_of_a_long_text_is_that_of_the_exact_limit():
    game = random_game(5, d=60)
    limit = lime(game, tolerance=1e-10)
    full = float(value(game, np.ones((1, 60), dtype=bool))[0, 0])
    remaining = full - float(limit.intercept[0]) - float(limit.scores[0].sum())
    shift = lime_shift(np.asarray(limit.scores[0]), remaining, samples=200)
    moved = lime(game, penalty=1 / 200, rows=200, tolerance=1e-10)
    np.testing.assert_allclose(shift.total, (moved.scores - limit.scores)[0], rtol=1e-5, atol=1e-8)


def test_each_word_may_have_samples_of_its_own():
    scores, element = np.array([1.0, -2.0, 0.5]), np.array([10, 200, 3000])
    together = lime_shift(scores, 0.3, samples=element).total
    single = [lime_shift(scores, 0.3, samples=int(n)).total[j] for j, n in enumerate(element)]
    np.testing.assert_allclose(together, single, rtol=1e-14)
