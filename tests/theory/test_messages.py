"""Wrong calls of theorems, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import math
from dataclasses import replace

import numpy as np
import pytest
from ratio_games import random_game
from test_decisions import counted_words, positive
from test_number_edges import game

from limelight.errors import DomainError, InputError
from limelight.theory.banzhaf import banzhaf
from limelight.theory.decisions import bound_margin, certify_removals, find_sufficient_set
from limelight.theory.faithfulness import size_extremes
from limelight.theory.heavy_form import heavy_form
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.owen import owen
from limelight.theory.ratio_game import RatioGame, word_counts
from limelight.theory.reciprocal_sum import reciprocal_sum
from limelight.theory.refilling import compress_words
from limelight.theory.shapley import shapley
from limelight_reproduction import lemmas
from messages import exactly, wrong_calls

GAME = random_game(0, d=5)
POSITIVE = positive(random_game(0, d=4, K=2, C=1))
NEGATIVE = replace(POSITIVE, N0=-POSITIVE.N0, A=-POSITIVE.A, B=-POSITIVE.B)
WITHOUT_WEIGHTS = replace(GAME, D0=0 * GAME.D0, a=0 * GAME.a)


def change_first(name, number):
    """Return the game with another number in the first place of an array."""
    x = getattr(GAME, name).copy()
    x[..., 0] = number
    return replace(GAME, **{name: x})


def power_game(power, N):
    """Return a game of two words without weights."""
    empty = np.zeros((1, 2))
    return RatioGame(
        np.zeros(1), empty, empty, np.zeros((1, 1)), np.full((1, 1, 2), N), empty[None], power=power
    )


def count_words(*sizes):
    return word_counts(replace(random_game(0, d=5, batch=(2,)), sizes=np.array(sizes)))


SCORES_OF_WORDS = ("leave_one_out", "shapley", "banzhaf", "lime")
METHODS_WITH_TOLERANCE = (
    *("shapley", "banzhaf", "shapley_interactions", "banzhaf_interactions"),
    *("lime_by_recurrence", "lime_fit"),
)
TOLERANCE = "tolerance must be between 0 and 1, not {}."
SINGLE = "one document and one class, not a batch of shape {} classes"
NO_WEIGHT = "needs N = 0 for every mask with D = 0, but a head has"
INPUT_ERRORS = {
    "certify_removals([])": "the same features",
    "find_sufficient_set([POSITIVE, positive(random_game(0, d=5, K=2, C=1))])": "the same features",
    "size_extremes(GAME)": SINGLE.format(r"\(\) and 2"),
    "size_extremes(random_game(0, C=1, batch=(2,)))": SINGLE.format(r"\(2,\) and 1"),
    "lime(GAME, bandwidth=0.0)": exactly("bandwidth must be positive, not 0.0."),
    "lime(GAME, bandwidth=math.nan)": exactly("bandwidth must be positive, not nan."),
    "lime(GAME, penalty=-1.0)": exactly("penalty must be finite and at least 0, not -1.0."),
    "lime(GAME, rows=0)": exactly("rows must be at least 1, not 0."),
    "lime(GAME, tolerance=0.0)": exactly(TOLERANCE.format("0.0")),
    "owen(GAME, np.zeros(3, int))": r"groups must have one entry per feature \(5\), not 3\.",
    "owen(random_game(0, batch=(2,)), np.zeros(7, int))": (
        r"a single document, not a batch of shape \(2,\)"
    ),
    "owen(GAME, np.zeros(5, int), tolerance=0.0)": TOLERANCE.format("0.0"),
    "power_game(1.5, 0.0)": r"power of a game must be in \(0, 1\], not 1\.5",
    # A buffer of a game in single precision once made the bounds of later games wrong.
    "replace(GAME, N0=GAME.N0.astype(np.float32))": exactly(
        "a ratio game needs float64 arrays, not float32."
    ),
    "count_words(3, 0)": exactly("sizes must be in 1..5, not 0..3."),
    "count_words(3, 6)": exactly("sizes must be in 1..5, not 3..6."),
    **{
        f"{method}(GAME, tolerance=float('{value}'))": exactly(TOLERANCE.format(value))
        for method in METHODS_WITH_TOLERANCE
        for value in ("0.0", "-1.0", "1.0", "nan")
    },
}
WEIGHTS = "the weights D_0, a and b of a ratio game must be at least 0."
VALUES = "the values N_0, A and B of a ratio game must be finite."
DOMAIN_ERRORS = {
    "bound_margin(*counted_words(np.random.default_rng(0), 4, power=0.5, intercept=True))": "power",
    "certify_removals([POSITIVE, NEGATIVE])": "positive margin",
    "lemmas.kept_given_kept(5, 5)": "s must be less than n = 5",
    "lemmas.kept_probability(5, 6)": "s must be from 0 to n",
    "lemmas.conditional_variance(np.ones(2), np.ones(2), 1)": r"Lemma D\.3",
    "lemmas.expected_ratio_bound(c=0.0, C=1.0, n=1.0, variance=1.0)": r"Lemma D\.1",
    "lemmas.ratio_integral(-1.0)": r"Lemma D\.2",
    "lime(random_game(0, d=1))": r"LIME needs at least 2 features, but this text has 1\.",
    "shapley_interactions(random_game(0, d=1))": "at least 2 features",
    "banzhaf_interactions(random_game(0, d=1))": "at least 2 features",
    "shapley(power_game(0.5, 1.0))": NO_WEIGHT,
    "heavy_form(WITHOUT_WEIGHTS)": NO_WEIGHT,
    "heavy_form(change_first('a', -1e-6))": exactly(WEIGHTS),
    "heavy_form(change_first('D0', -1e-9))": exactly(WEIGHTS),
    "heavy_form(change_first('A', np.nan))": exactly(VALUES),
    "heavy_form(change_first('N0', np.inf))": exactly(VALUES),
    "reciprocal_sum(0.5, 1e-6)": "1 ≤ R",
    "compress_words(np.array([0.0, 700.0]), np.zeros((1, 2)), np.full(2, 0.5), order=8)": (
        "within 600"
    ),
    **{
        f"{method}(game([1e305, 1.0], [1.0, 1.0], 1.0))": (
            r"within a factor of 1e\+300 of each other"
        )
        for method in SCORES_OF_WORDS
    },
    **{
        f"{method}(game([{scale}, 2 * {scale}], [{scale}, {scale}], 0.0))": (
            r"must be finite, at least 2\.2e-308, and within"
        )
        for method in SCORES_OF_WORDS
        for scale in (5e-324, 1e-310, 7e-309)  # denominators without their last digits
    },
}


@wrong_calls({InputError: INPUT_ERRORS, DomainError: DOMAIN_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        eval(call)
