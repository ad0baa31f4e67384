"""Shapley, Banzhaf, leave-one-out and pair interactions against all subsets, and their axioms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from ratio_games import games, peaked_game, quick, random_game, value_spread
from test_lime import extreme_games, pad_games

from limelight.theory.banzhaf import banzhaf
from limelight.theory.enumeration import (
    banzhaf_by_enumeration,
    banzhaf_interactions_by_enumeration,
    enumerate_masks,
    shapley_by_enumeration,
    shapley_interactions_by_enumeration,
)
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.ratio_game import (
    RatioGame,
    empty_value,
    full_value,
    subtract_constants,
    value,
)
from limelight.theory.shapley import shapley


def loo_by_enumeration(game):
    """Oracle: f of every set with one word missing, read off the table of all sets."""
    f = value(game, enumerate_masks(game.d))
    return np.stack([f[..., -1] - f[..., -1 - (1 << j)] for j in range(game.d)], axis=-1)


def loo(game, *, tolerance=1e-6):
    return leave_one_out(game)


METHODS = [
    (shapley, shapley_by_enumeration),
    (banzhaf, banzhaf_by_enumeration),
    (loo, loo_by_enumeration),
    (shapley_interactions, shapley_interactions_by_enumeration),
    (banzhaf_interactions, banzhaf_interactions_by_enumeration),
]
methods = pytest.mark.parametrize(("method", "oracle"), METHODS)


def worst(x, bound):
    """The largest of |x| in units of the bound of its class."""
    return (np.abs(x).reshape(*bound.shape, -1).max(axis=-1) / bound).max()


@methods
@pytest.mark.parametrize("ratio", [1, 10, 1e3, 1e7])
@pytest.mark.parametrize("d", [2, 3, 5, 11])
def test_matches_all_subsets(method, oracle, d, ratio):
    game = random_game(d, d=d, ratio=ratio)
    exact = oracle(game)
    for tolerance in (1e-6, 1e-9):
        result = method(game, tolerance=tolerance)
        assert worst(result.scores - exact, result.bound) <= 1
        assert worst(result.scores - exact, tolerance * value_spread(game)) <= 1


@methods
def test_a_wrong_value_would_be_noticed(method, oracle):
    game = random_game(2, d=5)
    result = method(game, tolerance=1e-9)
    other = oracle(replace(game, A=game.A * (1 + 1e-5)))
    assert worst(result.scores - other, result.bound) > 1


@pytest.mark.parametrize(("method", "oracle"), METHODS[:3])
def test_one_word_gets_the_whole_difference(method, oracle):
    game = random_game(0, d=1)
    result = method(game, tolerance=1e-9)
    full = (full_value(game) - empty_value(game))[..., None]
    assert worst(result.scores - full, result.bound) <= 1


@quick
@given(games(least=1))
def test_shapley_values_add_up(game):
    result = shapley(game, tolerance=1e-9)
    gap = result.scores.sum(axis=-1) - (full_value(game) - empty_value(game))
    assert (np.abs(gap) <= game.d * result.bound).all()


@methods
@quick
@given(game=games())
def test_a_constant_added_to_every_value_moves_nothing(method, oracle, game):
    before, after = method(game), method(subtract_constants(game, np.full_like(game.N0, 3.0)))
    assert worst(after.scores - before.scores, after.bound + before.bound) <= 1


@methods
@quick
@given(game=games(least=3))
def test_a_word_that_changes_nothing_gets_nothing(method, oracle, game):
    same = {"a": game.a.copy(), "A": game.A.copy()}
    same["a"][..., 1], same["A"][..., 1] = game.b[..., 1], game.B[..., 1]
    result = method(replace(game, **same))
    assert worst(result.scores[..., 1], result.bound) <= 1


@methods
@quick
@given(game=games(least=3))
def test_swapping_two_words_swaps_their_scores(method, oracle, game):
    order = np.arange(game.d)
    order[[0, 2]] = 2, 0
    moved = {name: getattr(game, name)[..., order] for name in ("a", "b", "A", "B")}
    before, after = method(game), method(replace(game, **moved))
    want = before.scores[..., order]
    if before.scores.ndim == 3:
        want = want[..., order, :]
    assert worst(after.scores - want, after.bound + before.bound) <= 1


@methods
@pytest.mark.parametrize("name", extreme_games())
def test_extreme_games_stay_finite_and_within_their_bound(method, oracle, name):
    game = extreme_games()[name]
    result = method(game)
    assert np.isfinite(result.scores).all()
    assert (
        np.abs(result.scores - oracle(game)).reshape(2, -1).max(axis=-1) <= result.bound + 1e-15
    ).all()
    assert (result.bound <= 1e-5).all()


@methods
def test_a_padded_batch_is_its_documents_one_at_a_time(method, oracle):
    single = [random_game(d, d=d, ratio=10.0**d) for d in (5, 2, 7)]
    together = method(pad_games(single), tolerance=1e-9)
    for i, game in enumerate(single):
        element, d = method(game, tolerance=1e-9), game.d
        pairs = element.scores.ndim == 3
        inside = together.scores[i, :, :d, :d] if pairs else together.scores[i, :, :d]
        assert worst(inside - element.scores, element.bound + together.bound[i]) <= 1
        assert (together.scores[i, :, d:] == 0).all()


@methods
def test_torch_gives_the_same_numbers(method, oracle):
    torch = pytest.importorskip("torch")
    game = peaked_game(2, d=31)
    names = ("D0", "a", "b", "N0", "A", "B")
    theirs = method(RatioGame(*(torch.as_tensor(getattr(game, n)) for n in names)))
    for x, y in zip(method(game), theirs, strict=True):
        np.testing.assert_allclose(y.numpy(), x, rtol=1e-12, atol=1e-13)


def test_interactions_are_symmetric_with_an_empty_diagonal():
    scores = shapley_interactions(random_game(0, d=7)).scores
    np.testing.assert_allclose(scores, scores.swapaxes(-1, -2), atol=1e-14)
    assert (scores[..., np.arange(7), np.arange(7)] == 0).all()
