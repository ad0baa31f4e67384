"""The search for a small removal, against certificates and against all sets."""

from itertools import combinations

import numpy as np
import pytest

import limelight
from limelight.explainers import prepare_batch
from limelight.sampling.removal_search import measure_stability, search_removals
from limelight.theory.decisions import certify_removals
from limelight.theory.ratio_game import extract_document, value

from tiny_models import random_texts, tiny_model


def margin_game(text, model):
    """Return the margin of the predicted class as a ratio game."""
    batch = prepare_batch(model, [text], target="predicted")
    return extract_document(batch.ratio_game, 0)


def count_call(game):
    """Return a function that evaluates masks, and the list of the numbers of masks."""
    counts = []

    def evaluate(masks):
        assert len(np.unique(masks, axis=0)) == len(masks)
        counts.append(len(masks))
        margins = value(game, masks)[0]
        return margins, margins < 0

    return evaluate, counts


WORDS = (
    "superb", "great", "loved", "fine", "good", "plot", "film", "the", "a", "of", "is", "dull",
    "bad", "story", "actor", "scene", "music", "it", "was", "and", "but", "very", "long", "slow",
    "charming", "awful", "waste", "best", "worst", "boring",
)  # fmt: skip
LONG_TEXTS = [" ".join(np.random.default_rng(seed).choice(WORDS, 40)) for seed in range(12)]


@pytest.mark.parametrize("text", LONG_TEXTS)
def test_the_search_reaches_the_proven_minimum_of_the_shipped_model(text):
    game = margin_game(text, limelight.load())
    certificate = certify_removals([game], seconds=np.inf)
    evaluate, counts = count_call(game)
    full = float(value(game, np.ones((1, game.d), bool))[0, 0])
    searched = search_removals(evaluate, game.d, full_margin=full, calls=600)
    assert searched.calls == sum(counts) <= 600
    if certificate.is_robust:
        assert searched.removed is None
    else:
        assert len(searched.removed) == len(certificate.removed)
        assert searched.lower_bound <= certificate.lower_bound


@pytest.mark.parametrize("calls", [1, 2, 5, 17, 60, 200, 700])
def test_no_number_of_calls_is_exceeded_and_no_claim_is_wrong(calls):
    model = tiny_model(3)
    for text in random_texts(12, seed=4, longest=11):
        game = margin_game(text, model)
        evaluate, counts = count_call(game)
        full = float(value(game, np.ones((1, game.d), bool))[0, 0])
        searched = search_removals(evaluate, game.d, full_margin=full, calls=calls)
        assert searched.calls == sum(counts) <= calls
        smallest = None
        for size in range(1, game.d + 1):
            sets = list(combinations(range(game.d), size))
            masks = np.ones((len(sets), game.d), bool)
            for row, removed in zip(masks, sets, strict=True):
                row[list(removed)] = False
            if (value(game, masks)[0] < 0).any():
                smallest = size
                break
        if searched.removed is not None:
            mask = ~np.isin(np.arange(game.d), searched.removed)[None]
            assert value(game, mask)[0, 0] < 0
            assert len(searched.removed) >= smallest
        assert searched.lower_bound <= (game.d + 1 if smallest is None else smallest)
        if 2**game.d - 1 <= calls:
            assert searched.lower_bound == (game.d + 1 if smallest is None else smallest)


def test_an_output_that_never_changes_is_robust_only_if_all_sets_were_evaluated():
    def constant(masks):
        return np.ones(len(masks)), np.zeros(len(masks), bool)

    assert search_removals(constant, 6, full_margin=1.0, calls=63).lower_bound == 7
    searched = search_removals(constant, 6, full_margin=1.0, calls=62)
    assert searched.removed is None
    assert searched.lower_bound == 2


def test_two_words_that_matter_only_together_are_found_by_all_pairs():
    def changes_without_both(masks):
        is_changed = ~masks[:, 3] & ~masks[:, 17]
        return np.where(is_changed, -1.0, 1.0), is_changed

    searched = search_removals(changes_without_both, 20, full_margin=1.0, calls=400)
    assert searched.removed == (3, 17)
    assert searched.lower_bound == 2


def test_stability_keeps_to_its_calls_and_sizes():
    game, counts = margin_game(LONG_TEXTS[0], limelight.load()), []

    def evaluate(masks):  # random sets may repeat
        counts.append(len(masks))
        margins = value(game, masks)[0]
        return margins, margins < 0

    rng = np.random.default_rng(0)
    rows = measure_stability(evaluate, game.d, calls=200, rng=rng)
    assert sum(counts) == sum(row.draws for row in rows) <= 200
    assert [row.size for row in rows] == [1, 2, 3, 5, 10, 20]
    for row in rows:
        assert row.low <= row.probability <= row.high
        assert (row.low == row.high) == (row.size in (1, game.d - 1))  # all sets
    assert measure_stability(evaluate, game.d, calls=5, rng=rng) == ()


def test_few_calls_for_stability_go_to_the_smallest_sizes():
    def never_changes(masks):
        return np.ones(len(masks)), np.zeros(len(masks), bool)

    rng = np.random.default_rng(0)
    rows = measure_stability(never_changes, 500, calls=25, rng=rng)
    assert [(row.size, row.draws) for row in rows] == [(1, 12), (2, 13)]


@pytest.mark.parametrize("position", [0, 700])
def test_single_features_count_as_evaluated_only_if_all_of_them_were(position):
    def changes_without_one(masks):
        return np.where(masks[:, position], 1.0, -1.0), ~masks[:, position]

    searched = search_removals(changes_without_one, 1000, full_margin=1.0, calls=400)
    assert searched.calls <= 400
    assert not searched.has_singles
    assert search_removals(changes_without_one, 1000, full_margin=1.0, calls=3000).has_singles


def test_a_single_word_that_suffices_is_found_with_few_calls():
    """Of 300 words, one suffices, and its effect is small beside that of its block."""
    d, sizes = 300, []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        slope, key = 0.3 * rng.standard_normal(d), rng.integers(d)

        def evaluate(masks, slope=slope, key=key):
            removed = ~masks
            margins = 2 - 1.5 * np.tanh(removed @ slope / 3) - 2.2 * removed[:, key]
            margins = margins - 0.02 * removed.sum(axis=1)
            return margins, margins <= 0

        if evaluate(~np.eye(d, dtype=bool))[1].any():
            searched = search_removals(evaluate, d, full_margin=2.0, calls=40)
            sizes.append(d if searched.removed is None else len(searched.removed))
    assert len(sizes) > 90
    assert np.mean(np.equal(sizes, 1)) > 0.8  # 0.3 if the set is not halved


def additive_search(effects, calls):
    """Search on a margin of 1 from which each removed feature takes its effect."""

    def evaluate(masks):
        margins = 1.0 - ~masks @ effects
        return margins, margins < 0

    return search_removals(evaluate, len(effects), full_margin=1.0, calls=calls)


def test_few_calls_remove_the_features_with_the_largest_effects_first():
    effects = np.random.default_rng(0).permutation(np.linspace(-0.05, 0.2, 60))
    strongest = np.sort(effects)[::-1]
    smallest = int(np.argmax(np.cumsum(strongest) > 1)) + 1
    searched = additive_search(effects, 80)  # each feature once, and a few sets
    assert len(searched.removed) == smallest
    assert sum(effects[list(searched.removed)]) > 1


def test_of_all_sets_of_the_smallest_size_the_clearest_change_is_returned():
    effects = np.array([0.1, 1.2, 0.3, 1.9, 1.5, 0.2])
    assert additive_search(effects, 100).removed == (3,)
    effects = np.array([0.6, 0.3, 0.7, 0.8, 0.1, 0.2])
    assert additive_search(effects, 100).removed == (2, 3)


def test_stability_counts_the_sets_of_each_size_that_change_nothing():
    effects = np.array([0.6, 0.3, 0.7, 0.8, 0.1, 0.2])

    def evaluate(masks):
        margins = 1.0 - ~masks @ effects
        return margins, margins < 0

    rows = measure_stability(evaluate, 6, calls=1000, rng=np.random.default_rng(0))
    assert [row.size for row in rows] == [1, 2, 3, 5]
    for row in rows:
        sums = [effects[list(removed)].sum() for removed in combinations(range(6), row.size)]
        assert row.draws == len(sums)
        assert row.low == row.high == np.mean(np.array(sums) <= 1)
    assert 0 < rows[1].low < 1
