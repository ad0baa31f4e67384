"""Shapley values by random orders: how far they are off is what they say."""

import numpy as np
import pytest

import limelight
from limelight.sampling import permutation_shapley


def all_of(words):
    """1 where all of the first ``words`` words are there: each of them is worth 1/words."""
    return lambda keep: keep[:, :words].all(axis=1).astype(float)[:, None]


def drawn(game, d, pairs, seed=0, **options):
    return permutation_shapley(game, d, np.random.default_rng(seed), pairs=pairs, **options)


def test_a_tolerance_is_not_met_by_two_pairs_that_agree():
    """Of three words that only work together, two pairs of orders agree in a third of the cases."""
    agreeing = [seed for seed in range(30) if not drawn(all_of(3), 3, 2, seed).stderr.any()]
    assert agreeing
    for seed in agreeing:
        found = drawn(all_of(3), 3, 2, seed, tolerance=0.05, most=10_000)
        assert found.pairs >= 10
        assert (np.abs(found.values - 1 / 3) <= 5 * found.stderr).all()
        assert found.stderr.max() <= 0.05


@pytest.mark.parametrize("seed", range(5))
def test_a_word_whose_rare_interaction_has_not_shown_keeps_an_error(seed):
    """Of 50 words that only work together, 10 pairs of orders see 20 at most at work."""
    found = drawn(all_of(50), 50, 10, seed)
    unseen = found.values[0] == 0
    assert unseen.sum() >= 30
    assert (np.abs(found.values - 1 / 50) <= 5 * found.stderr).all()
    truth = np.sqrt((0.5**2 * 0.04 - 0.02**2) / 10)  # each draw is 1/2 with chance 2/50
    assert truth <= found.stderr[0, unseen].max() <= 2 * truth


def test_draws_that_all_agree_have_no_error():
    slope = np.array([3.0, -1.0, 0.5])
    pair = lambda keep: (keep @ slope + 2 * keep[:, 0] * keep[:, 2])[:, None]  # noqa: E731
    found = drawn(pair, 3, 10)
    np.testing.assert_allclose(found.values[0], [4.0, -1.0, 1.5], atol=1e-12)
    np.testing.assert_allclose(found.stderr[0], 0, atol=1e-12)


TEXT = "a b c d e f"


@pytest.mark.usefixtures("short_texts_are_sampled")
def test_few_pairs_are_announced_and_refused_with_a_tolerance():
    model = limelight.wrap(
        lambda texts: np.array([[float(text == TEXT)] for text in texts]),
        classes=["bad", "good"],
        scale="logit",
    )
    few = (
        "2 pairs of orders are few: do not trust the standard errors, zeros least of all; "
        "draw 10 or more."
    )
    assert few in limelight.explain(model, TEXT, "shapley", pairs=2).notices
    for text, pairs in (("a b c", 2), (TEXT, 10)):  # three words have fewer masks than two pairs
        e = limelight.explain(model, text, "shapley", pairs=pairs)
        assert not e.notices
    np.testing.assert_allclose(limelight.explain(model, TEXT, "shapley").scores, 1 / 6)
    with pytest.raises(limelight.InputError) as error:
        limelight.explain(model, TEXT, "shapley", pairs=2, max_pairs=5, tolerance=0.1)
    assert str(error.value) == (
        "max_pairs must be at least 10 with a tolerance, because fewer pairs do not show their "
        "spread; got 5."
    )
