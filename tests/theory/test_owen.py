"""Owen values against their definition in whole fractions, their axioms, and their bounds."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ratio_games import games, peaked_game, quick, random_game, value_spread

from limelight.theory.enumeration import enumerate_masks
from limelight.theory.owen import owen
from limelight.theory.ratio_game import (
    RatioGame,
    empty_value,
    full_value,
    subtract_constants,
    value,
)
from limelight.theory.shapley import shapley


def list_orders(groups):
    """Every order of the words in which each group comes in one piece."""
    names = sorted(set(groups))
    members = [[j for j, name in enumerate(groups) if name == element] for element in names]
    for order in permutations(range(len(members))):
        for inside in product(*(permutations(members[i]) for i in order)):
            yield [j for piece in inside for j in piece]


def values_from_orders(game, groups):
    """Oracle: the mean change when a word comes in, over all orders; coefficients are fractions."""
    d = game.d
    count = {}
    orders = list(list_orders(groups))
    for order in orders:
        seen = 0
        for j in order:
            for mask, sign in ((seen | 1 << j, 1), (seen, -1)):
                count[j, mask] = count.get((j, mask), 0) + sign
            seen |= 1 << j
    f = value(game, enumerate_masks(d))
    scores = np.zeros((game.C, d))
    for (j, mask), times in count.items():
        scores[:, j] += float(Fraction(times, len(orders))) * f[:, mask]
    return scores


def worst(x, bound):
    return (np.abs(x).max(axis=-1) / bound).max()


@pytest.mark.parametrize("ratio", [1, 1e3, 1e7])
@pytest.mark.parametrize("groups", [(0, 0, 1, 2, 1), (0, 1, 1, 1, 0, 2), (0,), (3, 1, 3, 2, 2, 3)])
def test_matches_the_mean_over_all_orders(groups, ratio):
    game = random_game(len(groups), d=len(groups), ratio=ratio)
    exact = values_from_orders(game, groups)
    for tolerance in (1e-3, 1e-6, 1e-9):
        result = owen(game, np.array(groups), tolerance=tolerance)
        assert worst(result.scores - exact, result.bound) <= 1
        if len(groups) > 1:
            assert worst(result.scores - exact, tolerance * value_spread(game)) <= 1


def test_other_groups_would_be_noticed():
    game = random_game(2, d=5)
    result = owen(game, np.array([0, 0, 1, 2, 1]), tolerance=1e-9)
    assert worst(result.scores - values_from_orders(game, (0, 0, 1, 2, 2)), result.bound) > 100
    nearly = replace(game, A=game.A * (1 + 1e-5))
    assert worst(result.scores - values_from_orders(nearly, (0, 0, 1, 2, 1)), result.bound) > 1


@quick
@given(games(least=1), st.data())
def test_a_group_is_worth_its_shapley_value_as_one_word(game, data):
    groups = np.array(data.draw(st.lists(st.integers(0, 2), min_size=game.d, max_size=game.d)))
    result = owen(game, groups, tolerance=1e-9)
    names = np.unique(groups)
    merged = {
        name: np.stack(
            [getattr(game, name)[..., groups == element].sum(-1) for element in names], -1
        )
        for name in "abAB"
    }
    full = shapley(replace(game, **merged), tolerance=1e-9)
    totals = np.stack([result.scores[:, groups == one].sum(-1) for one in names], -1)
    assert worst(totals - full.scores, game.d * result.bound + full.bound) <= 1
    gap = result.scores.sum(axis=-1) - (full_value(game) - empty_value(game))
    assert (np.abs(gap) <= game.d * result.bound).all()


@quick
@given(games())
def test_one_group_and_groups_of_one_are_shapley_values(game):
    exact = shapley(game, tolerance=1e-9)
    for groups in (np.zeros(game.d, int), np.arange(game.d)):
        result = owen(game, groups, tolerance=1e-9)
        assert worst(result.scores - exact.scores, result.bound + exact.bound) <= 1


@quick
@given(games(least=3))
def test_a_word_that_changes_nothing_gets_nothing_and_a_constant_moves_nothing(game):
    groups = np.arange(game.d) // 2
    same = {"a": game.a.copy(), "A": game.A.copy()}
    same["a"][..., 1], same["A"][..., 1] = game.b[..., 1], game.B[..., 1]
    result = owen(replace(game, **same), groups)
    assert worst(result.scores[:, 1:2], result.bound) <= 1
    before, after = (
        owen(game, groups),
        owen(subtract_constants(game, np.full_like(game.N0, 3.0)), groups),
    )
    assert worst(after.scores - before.scores, after.bound + before.bound) <= 1


def test_long_documents_keep_their_bound():
    game, groups = peaked_game(0, d=127), np.arange(127) // 12
    fine, rough = owen(game, groups, tolerance=1e-11), owen(game, groups, tolerance=1e-4)
    assert worst(rough.scores - fine.scores, rough.bound) <= 1
    assert (fine.bound < 1e-3 * rough.bound).all()


def test_torch_gives_the_same_numbers():
    torch = pytest.importorskip("torch")
    game, groups = peaked_game(2, d=31), np.arange(31) // 7
    names = ("D0", "a", "b", "N0", "A", "B")
    theirs = owen(RatioGame(*(torch.as_tensor(getattr(game, n)) for n in names)), groups)
    for x, y in zip(owen(game, groups), theirs, strict=True):
        np.testing.assert_allclose(y.numpy(), x, rtol=1e-12, atol=1e-13)
