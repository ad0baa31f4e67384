"""Areas, chance and ceiling against all orders and all subsets."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ratio_games import peaked_game, quick, random_game, value_spread

from limelight.theory import faithfulness
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.faithfulness import (
    change_area,
    deletion_area,
    deletion_curves,
    greedy_order,
    insertion_area,
    random_removal_mean,
    restrict_game,
    size_extremes,
)
from limelight.theory.ratio_game import RatioGame, empty_value, full_value, head_values, value

PAGES = Path(__file__).resolve().parents[2] / "docs" / "theorems"


def games(*, least=1, most=7):
    return st.builds(
        lambda seed, d, K, decades: random_game(seed, d=d, K=K, C=1, ratio=10.0**decades),
        st.integers(0, 2**32 - 1),
        st.integers(least, most),
        st.sampled_from([1, 2, 5]),
        st.floats(0, 6),
    )


def curve_by_masks(game, order):
    """Oracle: the game is asked about every text of the curve."""
    keep = np.array([[j not in order[:k] for j in range(game.d)] for k in range(game.d + 1)])
    return value(game, keep)[0]


def outputs_per_size(game):
    """Oracle: f of every set, grouped by the number of removed words."""
    keep = enumerate_masks(game.d)
    f, removed = value(game, keep)[0], game.d - keep.sum(axis=1)
    return [f[removed == k] for k in range(1, game.d + 1)]


def best_order(game):
    """Oracle: the order of the largest area, by dynamic programming over all sets."""
    d, keep = game.d, enumerate_masks(game.d)
    f = value(game, keep)[0]
    least, first = np.zeros(2**d), np.zeros(2**d, int)
    for row in range(1, 2**d):  # row: the words that are still there
        ways = [(f[row ^ (1 << j)] + least[row ^ (1 << j)], j) for j in range(d) if row >> j & 1]
        least[row], first[row] = min(ways)
    order, row = [], 2**d - 1
    while row:
        order.append(int(first[row]))
        row ^= 1 << order[-1]
    return order


@quick
@given(games(), st.randoms(use_true_random=False))
def test_a_curve_asks_what_is_left_after_each_word(game, random):
    order = random.sample(range(game.d), game.d)
    curve = deletion_curves(game, np.array([order]))[0]
    np.testing.assert_allclose(curve, curve_by_masks(game, order), rtol=1e-9, atol=1e-11)
    reverse = deletion_curves(game, np.array([order[::-1]]))[0]
    inserted = curve_by_masks(game, order[::-1])[1:].mean()
    assert insertion_area(reverse) == pytest.approx(inserted, rel=1e-9, abs=1e-11)
    assert insertion_area(reverse) == pytest.approx(curve[0] - deletion_area(reverse), abs=1e-9)
    assert change_area(curve) == pytest.approx(np.abs(curve[1:] - curve[0]).mean())


def test_another_order_has_another_curve():
    game = random_game(1, C=1)
    element, other = deletion_curves(game, np.array([range(7), [1, 0, *range(2, 7)]]))
    assert not np.allclose(element, other, rtol=1e-9)
    assert element[0] == pytest.approx(float(full_value(game)[0]))
    assert element[-1] == pytest.approx(float(empty_value(game)[0]))


@quick
@given(games(most=6))
def test_chance_is_the_mean_over_all_orders(game):
    orders = np.array(list(itertools.permutations(range(game.d))))
    areas = deletion_area(deletion_curves(game, orders))
    mean, bound = random_removal_mean(game)
    assert abs(float(full_value(game)[0]) - mean - areas.mean()) <= bound


@quick
@given(games(most=11), st.sampled_from([1e-6, 1e-9]))
def test_chance_is_the_mean_over_all_sets_of_every_size(game, tolerance):
    mean, bound = random_removal_mean(game, tolerance=tolerance)
    exact = np.mean([f.mean() for f in outputs_per_size(game)])
    spread = np.ptp(head_values(game, enumerate_masks(game.d)), axis=-1).mean()
    assert abs(mean - exact) <= bound <= 2.1 * tolerance * spread + 1e-11


def test_a_wrong_chance_would_be_noticed():
    game = random_game(2, d=6, C=1)
    mean, bound = random_removal_mean(game)
    other = np.mean([f.mean() for f in outputs_per_size(replace(game, A=game.A * (1 + 1e-5)))])
    assert abs(mean - other) > bound


@quick
@given(games(most=10))
def test_no_set_of_any_size_passes_the_bounds_and_one_head_attains_them(game):
    result = size_extremes(game)
    low, high = (np.array([pick(f) for f in outputs_per_size(game)]) for pick in (np.min, np.max))
    rounding = 1e-13 * np.abs(np.concatenate([low, high])).max()
    assert (result.low <= low + rounding).all()
    assert (result.high >= high - rounding).all()
    if game.K == 1:
        slack = 1e-9 * (value_spread(game)[0] + np.abs(high).max())
        np.testing.assert_allclose(result.low, low, rtol=1e-9, atol=slack)
        np.testing.assert_allclose(result.high, high, rtol=1e-9, atol=slack)


@pytest.mark.parametrize("seed", range(30))
def test_one_head_attains_its_bounds_where_a_word_holds_nearly_everything(seed):
    """There a denominator that is taken away from cancels, and θ may start above the maximum."""
    game = random_game(seed, d=7, K=1, C=1, ratio=1e30)
    result = size_extremes(game)
    low, high = (np.array([pick(f) for f in outputs_per_size(game)]) for pick in (np.min, np.max))
    np.testing.assert_allclose(result.low, low, atol=1e-12)
    np.testing.assert_allclose(result.high, high, atol=1e-12)


def test_one_head_need_not_reach_its_ceiling():
    """The worst word to remove is in none of the worst two: the example of the page."""
    game = RatioGame(
        D0=np.zeros(1),
        a=np.array([[1.0, 1.0, 1.0]]),
        b=np.array([[0.0, 0.0, 1.0]]),
        N0=np.zeros((1, 1)),
        A=np.array([[[5.0, 5.0, -10.0]]]),
        B=np.array([[[0.0, 0.0, -22.0]]]),
    )
    orders = np.array(list(itertools.permutations(range(3))))
    areas = deletion_area(deletion_curves(game, orders))
    chance = full_value(game)[0] - random_removal_mean(game).value
    ceiling = full_value(game)[0] - size_extremes(game).low.mean()
    assert areas.mean() == pytest.approx(chance)
    assert (areas.max() - chance) / (ceiling - chance) == pytest.approx(1 / 4, abs=1e-8)
    page = (PAGES / "faithfulness-ceiling.md").read_text("utf-8")
    assert "f(Z)=(5Z_1+5Z_2+12Z_3-22)/(1+Z_1+Z_2)" in page
    assert "the share of the best order is exactly 1/4" in page


def negative_root_games(count):
    """Random games f = N/√D of deleted words that are negative for every set."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        d, spread = int(rng.integers(3, 9)), rng.uniform(0.3, 3)
        a, D0 = np.exp(spread * rng.normal(size=(1, d))), np.exp(spread * rng.normal(size=1))
        game = RatioGame(
            D0=D0,
            a=a,
            b=np.zeros((1, d)),
            N0=-np.sqrt(D0)[None] * rng.uniform(0.1, 6),
            A=(np.sqrt(a) * rng.normal(size=(1, d)) * rng.uniform(0.2, 2))[None],
            B=np.zeros((1, 1, d)),
            power=0.5,
        )
        if value(game, enumerate_masks(d)).max() < 0:
            yield game


def test_the_ceiling_of_a_root_holds_and_may_be_loose_where_all_values_are_negative():
    loose = []
    for game in negative_root_games(250):
        high = np.array([f.max() for f in outputs_per_size(game)])
        result = size_extremes(game).high
        assert (result >= high - 1e-9 * np.abs(high)).all()
        loose.append(((result - high) / np.abs(high)).max())
    assert len(loose) > 100
    assert np.median(loose) < 1e-6
    share = np.mean(np.array(loose) > 0.2)
    assert 0.02 < share < 0.15
    assert 0.5 < max(loose) < 1


def test_the_best_set_of_another_game_passes_the_bound():
    game = random_game(3, d=6, K=1, C=1)
    other = size_extremes(replace(game, A=game.A * 1.001))
    low = np.array([f.min() for f in outputs_per_size(game)])
    assert (other.low > low + 1e-9).any()


@quick
@given(games(least=2, most=7))
def test_the_best_order_lies_between_greedy_and_the_ceiling(game):
    full = float(full_value(game)[0])
    orders = np.array(list(itertools.permutations(range(min(game.d, 6)))))
    if game.d > 6:
        orders = np.concatenate([orders, np.full((len(orders), 1), 6)], axis=1)
    best, greedy = deletion_area(
        deletion_curves(game, np.array([best_order(game), greedy_order(game)]))
    )
    extremes, small = size_extremes(game), 1e-10 * (1 + abs(full))
    assert deletion_area(deletion_curves(game, orders)).max() <= best + small
    assert greedy <= best + small
    assert best <= full - extremes.low.mean() + small
    inserted = insertion_area(deletion_curves(game, orders[:, ::-1]))
    assert inserted.max() <= extremes.high.mean() + small


@pytest.mark.parametrize("seed", range(3))
def test_peaked_games_of_many_words_keep_their_order(seed):
    game = peaked_game(seed, d=61)
    rng = np.random.default_rng(seed)
    orders = np.array([rng.permutation(61) for _ in range(400)])
    areas = deletion_area(deletion_curves(game, np.concatenate([orders, orders[:, ::-1]])))
    full, (mean, bound) = float(full_value(game)[0]), random_removal_mean(game)
    pairs = areas.reshape(2, -1).mean(axis=0)
    assert abs(pairs.mean() - (full - mean)) <= 5 * pairs.std() / 20 + bound
    greedy = deletion_area(deletion_curves(game, greedy_order(game)[None]))[0]
    ceiling = full - size_extremes(game).low.mean()
    assert full - mean < areas.max() < greedy <= ceiling


def test_greedy_takes_the_word_that_hurts_most_at_every_step():
    game, remaining = random_game(4, C=1), list(range(7))
    for step, j in enumerate(greedy_order(game).tolist()):
        gone = set(range(7)) - set(remaining)
        keep = [[i not in gone and i != other for i in range(7)] for other in remaining]
        f = value(game, np.array(keep))[0]
        assert f[remaining.index(j)] == pytest.approx(f.min()), step
        remaining.remove(j)


def test_words_that_are_settled_leave_a_smaller_game():
    game = random_game(5, C=1)
    small = restrict_game(game, [2, 6], [0, 3, 4])
    keep = enumerate_masks(3)
    full = np.ones((8, 7), bool)
    full[:, [2, 6]] = False
    full[:, [0, 3, 4]] = keep
    np.testing.assert_allclose(value(small, keep), value(game, full), rtol=1e-12)


def test_constant_games_have_no_room():
    ones = np.ones((2, 3))
    game = RatioGame(
        D0=np.ones(2), a=ones, b=2 * ones, N0=np.ones((1, 2)), A=ones[None], B=2 * ones[None]
    )
    extremes, chance = size_extremes(game), random_removal_mean(game)
    np.testing.assert_allclose([*extremes.low, *extremes.high, chance.value], 1, atol=1e-12)


def test_torch_tensors_give_the_same():
    torch = pytest.importorskip("torch")
    game = random_game(6, C=1)
    names = ("D0", "a", "b", "N0", "A", "B")
    other = RatioGame(*(torch.as_tensor(getattr(game, name)) for name in names))
    for size_extreme, two in zip(size_extremes(game), size_extremes(other), strict=True):
        np.testing.assert_allclose(two.numpy(), size_extreme, rtol=1e-12)
    assert greedy_order(other).tolist() == greedy_order(game).tolist()
    assert float(random_removal_mean(other).value) == pytest.approx(
        float(random_removal_mean(game).value), rel=1e-12
    )


def test_bounds_of_long_texts_are_found_in_parts(monkeypatch):
    game = random_game(3, d=7, K=3, C=1, ratio=100.0)
    full = size_extremes(game)
    monkeypatch.setattr(faithfulness, "_CELLS", 35)  # five rows at a time
    parts = size_extremes(game)
    np.testing.assert_array_equal(full.low, parts.low)
    np.testing.assert_array_equal(full.high, parts.high)


@pytest.mark.parametrize("seed", range(2))
def test_the_ceiling_stays_in_the_range_of_f_where_denominators_differ_without_end(seed):
    """There N − θD is a rounding that the smallest denominator magnifies."""
    rng = np.random.default_rng(seed)
    a, b = (np.exp(rng.uniform(-80, most, (1, 49))) for most in (60, -40))
    u, v = rng.standard_normal((2, 1, 1, 49))
    none = np.full((1, 1), 1e-30)
    game = RatioGame(D0=none[0], a=a, b=b, N0=none, A=a * u, B=b * v)
    result = size_extremes(game)
    assert max(result.high.max(), -result.low.min()) <= 1.001 * max(1, np.abs([u, v]).max())
