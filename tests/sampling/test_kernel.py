"""Shapley values by a regression on paired masks: the values of all subsets, errors that hold."""

import math
from itertools import combinations

import numpy as np
import pytest

import limelight
from limelight.sampling import kernel
from limelight.sampling.kernel import (
    draw_paired_masks,
    minimum_pairs,
    shapley_values_from_regression,
)
from limelight.sampling.orders import shapley_values_from_orders


def table_game(d, rng):
    """Any numbers at all, one for each set."""
    table = rng.standard_normal(2**d)
    return lambda keep: table[keep @ (1 << np.arange(d))][:, None]


def enumerate_values(game, d):
    """Shapley values by the definition: what a word adds, over all sets of the others."""
    values = np.zeros(d)
    for j in range(d):
        other_values = [i for i in range(d) if i != j]
        for size in range(d):
            for members in combinations(other_values, size):
                keep = np.zeros((2, d), bool)
                keep[:, members], keep[1, j] = True, True
                without, with_it = game(keep)[:, 0]
                values[j] += (with_it - without) / (d * math.comb(d - 1, size))
    return values


def and_of_three(d, _):
    return lambda keep: keep[:, :3].all(axis=1).astype(float)[:, None]


def largest(d, rng):
    value = rng.exponential(1, d)
    return lambda keep: np.where(keep, value, 0.0).max(axis=1)[:, None]


def gate(d, rng):
    slope = rng.standard_normal(d)
    return lambda keep: (keep[:, :2].all(axis=1) * (keep[:, 2:] @ slope[2:]))[:, None]


def fit_values(game, d, pairs, seed=0):
    return shapley_values_from_regression(game, d, np.random.default_rng(seed), pairs=pairs)


@pytest.mark.parametrize("d", [2, 3, 4, 7, 8])
def test_all_pairs_of_masks_give_the_values_of_all_subsets_without_error(d):
    game = table_game(d, np.random.default_rng(d))
    result = fit_values(game, d, 2**d)
    assert result.pairs == 2 ** (d - 1) - 1
    np.testing.assert_allclose(result.values[0], enumerate_values(game, d), atol=1e-10)
    np.testing.assert_array_equal(result.stderr, 0)


def test_other_weights_give_other_values(monkeypatch):
    """Negative control: with all masks of even weight the same fit is not Shapley's."""
    game = table_game(7, np.random.default_rng(7))

    def equal_weights(d, pairs, rng):
        masks = draw_paired_masks(d, pairs, rng)
        return masks._replace(weight=np.ones_like(masks.weight))

    monkeypatch.setattr(kernel, "draw_paired_masks", equal_weights)
    assert np.abs(fit_values(game, 7, 64).values[0] - enumerate_values(game, 7)).max() > 0.01


@pytest.mark.parametrize(("d", "pairs"), [(6, 10), (9, 40), (12, 14), (16, 100), (30, 700)])
def test_masks_differ_and_weigh_what_the_kernel_says_of_their_size(d, pairs):
    rng, total = np.random.default_rng(0), np.zeros(d // 2)
    for _ in range(200):
        masks = draw_paired_masks(d, pairs, rng)
        pair = np.concatenate([masks.keep, ~masks.keep])
        assert len(masks.keep) == pairs
        assert len(np.unique(pair, axis=0)) == 2 * pairs
        size = np.minimum(masks.keep.sum(axis=1), (~masks.keep).sum(axis=1))
        total += np.bincount(size - 1, masks.weight, minlength=d // 2) / 200
    sizes = np.arange(1, d // 2 + 1)
    wanted = 1 / (sizes * (d - sizes) * np.where(2 * sizes == d, 2, 1))
    np.testing.assert_allclose(total, wanted, rtol=0.25 if pairs < 20 else 0.1)


def test_three_words_that_work_together_only_are_found_by_any_seed():
    """Unbiased enough: the mean over seeds is the truth within its own error."""
    d, values = 12, []
    for seed in range(60):
        values.append(fit_values(and_of_three(d, None), d, 40, seed).values[0])
    truth = np.append(np.full(3, 1 / 3), np.zeros(d - 3))
    off = np.mean(values, axis=0) - truth
    assert (np.abs(off) < 5 * np.std(values, axis=0) / math.sqrt(60) + 1e-9).all()


def test_additive_games_and_pairs_fit_at_once_which_is_no_proof():
    slope = np.random.default_rng(0).standard_normal(11)
    game = lambda keep: (keep @ slope + 2 * keep[:, 0] * keep[:, 3])[:, None]  # noqa: E731
    result = fit_values(game, 11, minimum_pairs(11))
    wanted = slope.copy()
    wanted[[0, 3]] += 1
    np.testing.assert_allclose(result.values[0], wanted, atol=1e-10)
    assert result.has_no_spread.all()
    assert (result.stderr > 0).all()


@pytest.mark.parametrize("family", [and_of_three, largest, gate])
@pytest.mark.parametrize(("d", "pairs"), [(8, 30), (10, 50)])
def test_two_standard_errors_hold_the_truth(family, d, pairs):
    contained = []
    for number in range(12):
        game = family(d, np.random.default_rng(number))
        truth = shapley_values_from_regression(
            game, d, np.random.default_rng(0), pairs=2**d
        ).values[0]
        for seed in range(6):
            result = fit_values(game, d, pairs, 100 * number + seed)
            contained.append(np.abs(result.values[0] - truth) <= 2 * result.stderr[0] + 1e-9)
    assert np.mean(contained) >= 0.93


def test_few_words_are_nearer_to_the_truth_than_by_as_many_calls_of_orders():
    d, off = 9, []
    for number in range(20):
        rng = np.random.default_rng(number)
        game = largest(d, rng)
        truth = shapley_values_from_regression(game, d, rng, pairs=2**d).values
        by_orders = shapley_values_from_orders(
            game, d, rng, pairs=4
        ).values  # 64 masks and the ends
        by_masks = shapley_values_from_regression(game, d, rng, pairs=32).values
        off.append([np.square(x - truth).sum() for x in (by_orders, by_masks)])
    orders, masks = np.mean(off, axis=0)
    assert masks < 0.6 * orders


def test_the_user_chooses_the_sampler_and_the_settings_name_it():
    text = " ".join("abcdefghijklmn")
    model = limelight.wrap(
        lambda texts: np.array(
            [[len(t) / 9 + ("a" in t and "b" in t and "c" in t)] for t in texts]
        ),
        classes=["no", "yes"],
        scale="logit",
    )
    how = {
        name: limelight.explain(model, text, "shapley", **own_value).diagnostics["sampler"]
        for name, own_value in {
            "few": {},
            "budget": {"budget": "100 calls"},
            "less": {"budget": "90 calls"},
            "counted": {"pairs": 4},
            "tolerance": {"tolerance": 0.5},
            "orders": {"sampler": "orders"},
            "both": {"sampler": "regression", "pairs": 40},
        }.items()
    }
    assert how == {
        "few": "regression",
        "budget": "regression",
        "less": "orders",
        "counted": "orders",
        "tolerance": "orders",
        "orders": "orders",
        "both": "regression",
    }
    # A number of pairs has the scores that it always had.
    old = limelight.explain(model, text, "shapley", pairs=4).scores
    np.testing.assert_array_equal(
        old, limelight.explain(model, text, "shapley", pairs=4, sampler="orders").scores
    )
    with pytest.raises(
        limelight.errors.InputError,
        match=r"the sampler 'orders', not 'regression'.*or set pairs instead of tolerance",
    ):
        limelight.explain(model, text, "shapley", sampler="regression", tolerance=0.1)
    with pytest.raises(
        limelight.errors.DomainError, match=r"at least 16 pairs of masks, not 5\. Set pairs to 16"
    ):
        limelight.explain(model, text, "shapley", sampler="regression", pairs=5)
