"""All sets of words asked: every number against its definition, written out over orders or sets."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight.text import build_features
from limelight_reproduction.questions.complete_games import VARIATION, CompleteGame, play_all_masks

D, CLASSES = 5, 3
SECOND = np.array([False, True, False, True, True])
ORDERS = list(itertools.permutations(range(D)))


def random_game(seed=0):
    outputs = np.random.default_rng(seed).standard_normal((2**D, CLASSES))
    return CompleteGame(outputs=outputs, second=SECOND, target=1)


def game_value(game, kept_words):
    """f of a set of words, by the bits of its row."""
    return game.outputs[sum(1 << j for j in kept_words), game.target]


def area(game, order):
    remaining_values = [game_value(game, order[k:]) for k in range(1, D + 1)]
    return game_value(game, order) - np.mean(remaining_values)


def game_from_signs(function, second=SECOND):
    """A game whose only class is a function of ±1 for every word, kept or removed."""
    masks = itertools.product([-1, 1], repeat=len(second))  # the last word changes fastest
    outputs = [[function(np.array(mask[::-1]))] for mask in masks]
    return CompleteGame(outputs=np.array(outputs, float), second=second, target=0)


@pytest.mark.parametrize("seed", range(3))
def test_chance_and_ceiling_are_those_of_all_orders(seed):
    game = random_game(seed)
    areas = [area(game, order) for order in ORDERS]
    assert game.chance == pytest.approx(np.mean(areas), abs=1e-12)
    assert game.ceiling == pytest.approx(max(areas), abs=1e-12)
    assert game.area(np.array(ORDERS[17])) == pytest.approx(areas[17], abs=1e-12)
    assert game.ceiling > max(a for a in areas if a < max(areas) - 1e-9)  # the next best is told


def test_shapley_values_are_the_mean_of_what_words_add_over_all_orders():
    game = random_game()
    added = np.zeros(D)
    for order in ORDERS:
        for k, j in enumerate(order):
            added[j] += game_value(game, order[: k + 1]) - game_value(game, order[:k])
    np.testing.assert_allclose(game.shapley, added / len(ORDERS), atol=1e-12)


def test_leave_one_out_and_interactions_are_differences():
    game, all_words = random_game(), set(range(D))
    for j in range(D):
        difference = game_value(game, all_words) - game_value(game, all_words - {j})
        assert game.leave_one_out[j] == pytest.approx(difference)
    wanted = 0.0
    other_words = all_words - {0, 3}
    for size in range(D - 1):
        for subset in itertools.combinations(other_words, size):
            S = set(subset)
            double = (
                game_value(game, S | {0, 3}) - game_value(game, S | {0}) - game_value(game, S | {3})
            )
            wanted += (double + game_value(game, S)) / ((D - 1) * math.comb(D - 2, size))
    assert game.interactions[0, 3] == pytest.approx(wanted)


def test_lime_is_its_regression_on_all_sets():
    game = random_game()
    keep = np.array(list(itertools.product([0, 1], repeat=D)))[:, ::-1]
    removed = D - keep.sum(axis=1)
    weight = [
        math.exp(-((1 - math.sqrt(1 - s / D)) ** 2) / 0.125) / math.comb(D, s) if s else 0.0
        for s in removed
    ]
    root = np.sqrt(weight)[:, None]
    design = np.column_stack([np.ones(2**D), keep])
    wanted = np.linalg.lstsq(root * design, root[:, 0] * game.f, rcond=None)[0]
    np.testing.assert_allclose(game.lime, wanted[1:], atol=1e-9)
    residual = np.array(weight) @ (game.f - design @ wanted) ** 2
    spread = np.array(weight) @ (game.f - np.average(game.f, weights=weight)) ** 2
    assert game.linear_share == pytest.approx(1 - residual / spread)


@pytest.mark.parametrize("seed", range(3))
def test_the_fewest_words_that_change_the_decision(seed):
    game = random_game(seed)
    decision = game.outputs.argmax(axis=1)
    sizes = [
        size
        for size in range(1, D + 1)
        for gone in itertools.combinations(range(D), size)
        if decision[2**D - 1 - sum(1 << j for j in gone)] != decision[-1]
    ]
    assert game.fewest == min(sizes)
    single = [decision[2**D - 1 - (1 << j)] != decision[-1] for j in range(D)]
    assert game.single_flips.tolist() == single
    assert game.flips_after(np.arange(D)) >= game.fewest


def test_a_decision_that_never_changes_has_no_such_number():
    outputs = np.tile([0.0, 0.0, 1.0], (2**D, 1))
    game = CompleteGame(outputs=outputs, second=SECOND, target=2)
    assert (game.fewest, game.flips_after(np.arange(D))) == (None, None)
    assert not game.single_flips.any()
    assert game.variation is None


# ------------------------------------------------------- whose doing the variance is


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda z: z[0] + z[2], {"first": 1.0}),
        (lambda z: 2 * z[0] - z[1], {"first": 0.8, "second": 0.2}),
        (lambda z: z[0] * z[2], {"within": 1.0}),
        (lambda z: z[1] * z[3] * z[4], {"within": 1.0}),
        (lambda z: z[0] * z[1], {"across": 1.0}),
        (lambda z: z[0] * z[2] * z[3], {"across": 1.0}),
        (lambda z: z[4] + 2 * z[2] * z[4] + 7, {"second": 0.2, "across": 0.8}),
    ],
)
def test_variance_goes_to_words_to_sentences_or_between_them(function, wanted):
    variation = game_from_signs(function).variation
    assert {name: variation[name] for name in VARIATION} == pytest.approx(
        dict.fromkeys(VARIATION, 0.0) | wanted
    )


def test_two_words_differ_from_more():
    two, three = (
        game_from_signs(f).variation for f in (lambda z: z[0] * z[1], lambda z: z[:3].prod())
    )
    assert (two["across_two"], three["across_two"]) == pytest.approx((1.0, 0.0))
    inside = game_from_signs(lambda z: z[1] * z[3] + z[1] * z[3] * z[4]).variation
    assert (inside["within_two"], inside["within"]) == pytest.approx((0.5, 1.0))


def test_sentences_alone_are_first_then_second():
    game = game_from_signs(lambda z: z[0] + 10 * z[1])
    assert game.sentences[:, 0].tolist() == [-11.0, -9.0, 9.0, 11.0]


def test_other_sentences_make_another_division():
    product = game_from_signs(
        lambda z: z[0] * z[1], second=np.array([False, False, True, True, True])
    )
    assert product.variation["within"] == pytest.approx(1.0)
    assert product.variation["across"] == pytest.approx(0.0)


@given(st.integers(0, 10**6))
def test_shares_add_up_and_single_words_are_squared_banzhaf_values(seed):
    game = random_game(seed)
    variation = game.variation
    assert sum(variation[name] for name in VARIATION) == pytest.approx(1.0)
    keep = np.array(list(itertools.product([0, 1], repeat=D)))[:, ::-1].astype(bool)
    banzhaf = [game.f[keep[:, j]].mean() - game.f[~keep[:, j]].mean() for j in range(D)]
    single = np.square(banzhaf) / 4 / game.f.var()
    assert variation["first"] == pytest.approx(single[~SECOND].sum())
    assert variation["second"] == pytest.approx(single[SECOND].sum())
    assert variation["across_two"] <= variation["across"] + 1e-12
    assert variation["within_two"] <= variation["within"] + 1e-12


def compare_sentences(pairs):
    """Made up: the sentences entail each other where both or neither have “rain”."""
    same = [("rain" in a.split()) == ("rain" in b.split()) for a, b in pairs]
    return [[float(not is_same), 0.0, float(is_same)] for is_same in same]


def test_a_model_that_only_compares_has_no_words_that_matter_but_one_pair_that_does():
    classes = ("contradiction", "neutral", "entailment")
    model = limelight.wrap(compare_sentences, classes=classes, scale="score", mask="x", pairs=True)
    model_input = model.read(("rain falls here", "the rain"))
    features = build_features(model_input)
    second = np.array([spans[0][0] >= model_input.parts[1].span[0] for spans in features.spans])
    assert second.tolist() == [False, False, False, True, True]
    game = play_all_masks(model.game(model_input, features, "mask"), second, target=2)
    np.testing.assert_allclose(game.shapley, 0.0, atol=1e-12)
    assert game.variation["across"] == pytest.approx(1.0)
    strongest = np.unravel_index(np.abs(game.interactions).argmax(), (5, 5))
    assert {features.strings[i] for i in strongest} == {"rain"}
    assert np.abs(game.interactions).sum() == pytest.approx(2 * game.interactions[0, 4])
    # Whoever removes one word sees it, whoever removes both does not: no single score is right.
    assert game.leave_one_out.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert game.sentences[:, 2].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_large_texts_are_evaluated_in_parts():
    sizes = []

    def play(keep):
        sizes.append(len(keep))
        return keep[:, :2].astype(float)

    game = play_all_masks(play, np.arange(15) > 6, target=0)
    assert sizes == [2**14, 2**14]
    assert game.leave_one_out.tolist() == [1.0] + [0.0] * 14
