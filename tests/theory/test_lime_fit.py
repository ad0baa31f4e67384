import math

import numpy as np
import pytest
from ratio_games import random_game

from limelight.theory.enumeration import lime_by_enumeration
from limelight.theory.lime_fit import lime_fit
from limelight.theory.ratio_game import select_heads


@pytest.mark.parametrize("ratio", [1, 1e3, 1e7])
@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize(
    "design",
    [{"bandwidth": 0.25}, {"bandwidth": 1.0, "penalty": 0.01, "rows": 20}, {"bandwidth": math.inf}],
    ids=str,
)
def test_r2_is_that_of_the_regression_on_all_subsets(d, ratio, design):
    game = random_game(d, d=d, ratio=ratio)
    fit = lime_fit(game, **design)
    exact = lime_by_enumeration(game, **design)
    assert (np.abs(fit.r2 - exact.r2) <= fit.bound + 1e-12).all()
    assert (fit.bound < 1e-3).all()


def test_r2_is_not_the_mean_of_the_heads():
    game = random_game(5, d=5)
    heads = [lime_fit(select_heads(game, slice(i, i + 1))).r2 for i in range(game.K)]
    assert np.abs(np.mean(heads, axis=0) - lime_fit(game).r2).max() > 1e-3


def test_a_model_that_does_not_vary_is_fitted_perfectly():
    game = random_game(5, d=5, ratio=1)
    zero = 0 * game.A
    flat = type(game)(game.D0, game.a, game.b, 0 * game.N0, zero, zero)
    fit = lime_fit(flat)
    assert (fit.r2 == 1).all()
    assert np.isfinite(fit.bound).all()


def test_batches_keep_their_shape():
    fit = lime_fit(random_game(0, d=3, batch=(2, 5)))
    assert fit.r2.shape == (2, 5, 2)


@pytest.mark.parametrize("seed", range(40))
def test_a_value_is_a_share_even_where_little_is_known(seed):
    fit = lime_fit(random_game(seed, d=2, ratio=10), tolerance=0.2, bandwidth=0.5)
    assert ((fit.r2 >= 0) & (fit.r2 <= 1) & (fit.bound <= 1)).all()
    exact = lime_by_enumeration(random_game(seed, d=2, ratio=10), bandwidth=0.5)
    assert (np.abs(fit.r2 - exact.r2) <= fit.bound + 1e-12).all()
