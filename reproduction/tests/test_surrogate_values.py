"""Values of fitted ratio games: exact where the model is one, with a warning where it is not."""

import numpy as np
import pytest

import limelight
from limelight.theory.ratio_game import value
from limelight_reproduction.studies.fitted_ratio_games import (
    cross_fit_ratio_game,
    draw_paired_masks,
)
from limelight_reproduction.studies.surrogate_values import (
    compute_surrogate_values,
    fit_warnings,
)

TEXT = "The plot is predictable and slow, but the two leads are superb and often funny."


@pytest.fixture(scope="module")
def fits():
    """A game fitted to the log-odds of the shipped model, which is a ratio game."""
    game = limelight.game(limelight.load(), TEXT)
    keep = draw_paired_masks(len(game), 1000, np.random.default_rng(0))
    return cross_fit_ratio_game(keep, game(keep)[:, -1])


@pytest.mark.parametrize("kind", ["shapley", "lime", "banzhaf", "interactions"])
def test_values_of_a_ratio_game_are_its_exact_ones(fits, kind):
    result = compute_surrogate_values(fits, kind)
    exact = limelight.explain(
        limelight.load(), TEXT, kind, **({"top": None} if kind == "interactions" else {})
    )
    assert fits.r2 > 0.9999
    assert result.warnings == ()
    scores, stderr, expected = result.scores, result.stderr, exact.scores
    if kind == "interactions":
        place = tuple(exact.pairs.features.T)
        scores, stderr, expected = scores[place], stderr[place], exact.pairs.scores
    off = np.abs(scores - expected)
    assert off.max() < 1e-3 * np.abs(expected).max() + 1e-4
    assert (off <= 5 * stderr + 1e-5).all()


def test_the_fitted_game_answers_as_the_model_does(fits):
    game = limelight.game(limelight.load(), TEXT)
    keep = draw_paired_masks(len(game), 50, np.random.default_rng(3))
    np.testing.assert_allclose(value(fits.games, keep)[0, 0], game(keep)[:, -1], atol=1e-3)


def test_a_game_that_is_no_ratio_is_warned_of():
    keep = draw_paired_masks(12, 600, np.random.default_rng(0))
    parity = cross_fit_ratio_game(keep, (-1.0) ** keep[:, :5].sum(axis=1))
    result = compute_surrogate_values(parity, "shapley")
    assert parity.r2 < 0.4
    assert "those of another game" in result.warnings[0]
    assert (result.stderr > 0.005).all()


def test_a_fit_worse_than_a_line_is_warned_of():
    keep = draw_paired_masks(8, 100, np.random.default_rng(0))
    result = cross_fit_ratio_game(keep, keep @ np.arange(8.0))
    assert fit_warnings(result._replace(r2=0.8, r2_linear=0.8)) == ()
    (warning,) = fit_warnings(result._replace(r2=0.71, r2_linear=0.75))
    assert "less than a linear model does (R² 0.710 against 0.750" in warning
