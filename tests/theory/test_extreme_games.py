"""Bounds at the ends of double precision, against sixty digits; and faults that were there."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from limelight.errors import DomainError
from limelight.theory.enumeration import lime_by_enumeration
from limelight.theory.faithfulness import deletion_area, deletion_curves, greedy_order
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.shapley import shapley
from limelight_reproduction.studies.attention_pooling import pooling_game
from limelight_reproduction.theory.lime_variance import lime_variance
from limelight_reproduction.theory.second_order import lime_second_order, shapley_second_order

HOME = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def extreme():
    sys.path.insert(0, str(HOME))
    try:
        spec = importlib.util.spec_from_file_location("extreme_games", HOME / "extreme_games.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(HOME))
    return module


def test_no_number_leaves_its_bound_whatever_the_logits(extreme):
    tally = extreme.tried(range(20_000, 20_040))
    assert tally.wrong == []
    assert sum(n for (_, outcome), n in tally.held.items() if outcome == "held") > 150


def test_a_bound_that_is_too_small_is_noticed(extreme, monkeypatch):
    monkeypatch.setattr(
        extreme, "shapley", lambda g, **k: (s := shapley(g, **k))._replace(bound=s.bound / 1e4)
    )
    wrong = extreme.tried(range(20_000, 20_020)).wrong
    assert wrong
    assert all(" shapley: " in line for line in wrong)


def test_greedy_removes_the_word_that_holds_everything_and_then_looks_again():
    # D − a_1 lost the digits of all others, and the order after word 1 was made of rounding errors.
    game = pooling_game([40.0, 0.0, 1.0, 0.0], [1.0, -3.0, 2.0, 0.5], groups=[0, 1, 2, -1])
    order = greedy_order(game)
    assert order.tolist() == [0, 2, 1]
    area = float(deletion_area(deletion_curves(game, order[None]))[0])
    after = (2 * np.e - 3 + 0.5) / (np.e + 2), (-3 + 0.5) / 2, 0.5
    assert area == pytest.approx(1 - sum(after) / 3, rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("bandwidth", [0.05, 0.08, 0.25])
def test_the_intercept_is_right_where_a_penalty_leaves_no_score(d, bandwidth):
    rng = np.random.default_rng(d)
    game = pooling_game(
        rng.normal(size=(1, d + 1)) * 3, rng.normal(size=(1, 1, d + 1)), groups=[-1, *range(d)]
    )
    result = lime(game, bandwidth=bandwidth, penalty=1.0)
    exact = lime_by_enumeration(game, bandwidth=bandwidth, penalty=1.0)
    off = np.abs(result.intercept - exact.intercept).item()
    assert off <= result.intercept_bound.item() < 1e-3


def test_tiny_and_huge_values_raise_an_error_but_zero_does_not():
    game = pooling_game([0.0, 1.0, 2.0], [1.0, 2.0, -1.0], groups=[-1, 0, 1])
    for factor in (1e-295, 1e-200, 1e200):
        off = replace(game, **{k: factor * getattr(game, k) for k in ("N0", "A", "B")}, error=None)
        for method in (lime, shapley, lime_second_order, shapley_second_order):
            with pytest.raises(DomainError, match="0 or between 1e-100 and 1e"):
                method(off)
    none = replace(game, **{k: 0 * getattr(game, k) for k in ("N0", "A", "B")}, error=None)
    assert lime(none).scores.tolist() == [[0.0, 0.0]]


def test_heads_too_peaked_for_squares_have_no_known_fit_and_no_standard_error():
    game = pooling_game([0.0, -400.0, 350.0, 1.0], [1.0, 2.0, -1.0, 0.3], groups=[-1, 0, 1, 2])
    assert lime_fit(game).r2 == lime_fit(game).bound == 1
    with pytest.raises(DomainError, match="one feature outweighs all others"):
        lime_variance(game)


def test_weights_of_any_size_have_a_second_order():
    # Squares of denominators of e^−600 underflowed, and 1/D² was infinite.
    plain = pooling_game([0.0, 1.0, 2.0], [1.0, 2.0, -1.0], groups=[-1, 0, 1])
    small = {k: 1e-250 * getattr(plain, k) for k in ("D0", "a", "b", "N0", "A", "B")}
    for formula in (lime_second_order, shapley_second_order):
        expected, result = formula(plain), formula(replace(plain, **small))
        np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-12)
        np.testing.assert_allclose(result.bound, expected.bound, rtol=1e-9)


def test_what_a_position_that_stays_would_weigh_if_removed_is_never_met():
    logit, value = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, -1.0])
    gone, groups = np.array([700.0, 0.5, 0.1]), [-1, 0, 1]
    game = pooling_game(logit, value, removed_logit=gone, removed_value=value, groups=groups)
    assert game.D0[0] == pytest.approx(np.exp(-2.0))
