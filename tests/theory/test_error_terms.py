"""Bounds on errors are sums of products: they grow in proportion to each cause of an error."""

from dataclasses import replace

import numpy as np
import pytest
from ratio_games import random_game

from limelight.theory.banzhaf import mean_marginal_contributions
from limelight.theory.conditionals import Expectations
from limelight.theory.heavy_form import heavy_form
from limelight.theory.lime import _error_bounds
from limelight.theory.removal_mixture import FAIR_COINS


@pytest.mark.parametrize("factor", [0.125, 64.0])
def test_values_of_a_mixture_and_their_bounds_are_linear_in_its_weights(factor):
    game = random_game(3, batch=(1,))
    scaled = FAIR_COINS._replace(omega=factor * FAIR_COINS.omega)
    one, other = (
        mean_marginal_contributions(game, [mixture], share=1e-3) for mixture in (FAIR_COINS, scaled)
    )
    np.testing.assert_allclose(other.scores, factor * one.scores, rtol=1e-9)
    # The error of f itself is no error of the mixture.
    own_error = 2 * heavy_form(game).error.mean(axis=0)
    np.testing.assert_allclose(other.bound - own_error, factor * (one.bound - own_error), rtol=1e-6)


def test_values_and_bounds_are_linear_in_the_outputs_of_the_game():
    game = random_game(3, batch=(1,))
    larger = replace(game, N0=16 * game.N0, A=16 * game.A, B=16 * game.B)
    one, other = (mean_marginal_contributions(g, [FAIR_COINS], share=1e-3) for g in (game, larger))
    np.testing.assert_allclose(other.scores, 16 * one.scores, rtol=1e-9)
    np.testing.assert_allclose(other.bound, 16 * one.bound, rtol=1e-9)


CAUSES = ("error", "rounding", "half_range", "magnitude", "form error", "mixture", "reciprocal",
          "round off", "game")  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_the_bounds_of_lime_grow_in_proportion_to_each_cause(cause):
    rng, form = np.random.default_rng(5), heavy_form(random_game(3))
    G, C = form.half_range.shape
    table, error, rounding = rng.random((G, 14)), rng.random(G), rng.random(G)

    def bounds(factor):
        """Return the bounds of β and of the intercept if one cause is larger by a factor."""
        factors = {name: factor if name == cause else 1.0 for name in CAUSES}
        columns = np.ones(14)
        for first, name in ((6, "mixture"), (8, "reciprocal"), (10, "round off"), (12, "game")):
            columns[first : first + 2] = factors[name]
        changed = form._replace(
            half_range=factors["half_range"] * np.ones((G, C)),
            magnitude=factors["magnitude"] * np.full((G, C), 2.0),
            error=factors["form error"] * np.full((G, C), 3.0),
        )
        empty = np.zeros((G, C))
        sums = Expectations(
            empty, empty, np.zeros((G, C, form.delta.shape[1])),
            factors["error"] * error, factors["rounding"] * rounding,
        )  # fmt: skip
        return np.array(_error_bounds(changed, sums, table * columns))

    without, once, eightfold = bounds(0.0), bounds(1.0), bounds(8.0)
    np.testing.assert_allclose(eightfold - without, 8 * (once - without), rtol=1e-9)
    assert (once > without).all()
