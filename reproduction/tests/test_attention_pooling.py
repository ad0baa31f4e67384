"""Attention pooling as a ratio game: every kind of removal against the definition."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.errors import InputError
from limelight.theory.enumeration import (
    enumerate_masks,
    lime_by_enumeration,
    shapley_by_enumeration,
)
from limelight.theory.interactions import shapley_interactions
from limelight.theory.lime import lime
from limelight.theory.owen import owen
from limelight.theory.ratio_game import value
from limelight.theory.shapley import shapley
from limelight_reproduction.studies.attention_pooling import pooling_game

from ratio_games import quick

K, C, T = 3, 2, 7


def random_pooling(seed):
    rng = np.random.default_rng(seed)
    logit, value_ = 2 * rng.normal(size=(K, T)), rng.normal(size=(C, K, T))
    return rng, logit, value_


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def output_from_definition(logit, values, keep, *, removed=None, skip=None):
    """f of one set of kept positions: softmax over what is there, mean over heads."""
    out = np.zeros(C)
    for i in range(K):
        if removed is None:
            ell, u = logit[i, keep], values[:, i, keep]
        else:
            ell = np.where(keep, logit[i], removed[0][i])
            u = np.where(keep, values[:, i], removed[1][:, i])
        out += u @ softmax(ell) / K
    if skip is not None:
        out += np.where(keep, skip[0], skip[1]).sum(axis=-1)
    return out


@quick
@given(st.integers(0, 10_000))
def test_removed_positions_vanish_and_the_rest_is_renormalised(seed):
    _, logit, values = random_pooling(seed)
    groups = np.array([-1, 0, 1, 2, 3, 4, 5])
    game = pooling_game(logit, values, groups=groups)
    for keep in enumerate_masks(6)[::7]:
        target = np.concatenate([[True], keep])
        expected = output_from_definition(logit, values, target)
        np.testing.assert_allclose(value(game, keep[None])[:, 0], expected, rtol=1e-10)
    assert (game.b == 0).all()
    assert (game.B == 0).all()


@quick
@given(st.integers(0, 10_000))
def test_removed_positions_are_replaced_group_by_group(seed):
    rng, logit, values = random_pooling(seed)
    removed = 2 * rng.normal(size=(K, T)), rng.normal(size=(C, K, T))
    skip = rng.normal(size=(2, C, T))
    groups = np.array([0, 1, 0, -1, 2, 2, 1])
    game = pooling_game(
        logit,
        values,
        removed_logit=removed[0],
        removed_value=removed[1],
        groups=groups,
        skip=skip[0],
        removed_skip=skip[1],
    )
    for kept_words in product([True, False], repeat=3):
        keep = np.array([g < 0 or kept_words[g] for g in groups])
        expected = output_from_definition(logit, values, keep, removed=removed, skip=skip)
        result = value(game, np.array(kept_words)[None])[:, 0]
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


def additive_attention(rng, instances, query):
    """Bahdanau: ℓ_t = wᵀ tanh(W x_t + V q + b); nothing here is linear before the softmax."""
    W, V = rng.normal(size=(2, 5, instances.shape[1]))
    w, b = rng.normal(size=(2, 5))
    return np.tanh(instances @ W.T + V @ query + b) @ w


def test_exact_methods_take_additive_attention_over_instances():
    rng = np.random.default_rng(0)
    bag, blank = rng.normal(size=(8, 4)), np.zeros((1, 4))
    query, read = rng.normal(size=4), rng.normal(size=4)
    seed = np.random.default_rng(1)
    logit = additive_attention(seed, np.concatenate([bag, blank]), query)
    game = pooling_game(
        logit[:8],
        bag @ read,
        removed_logit=np.full(8, logit[8]),
        removed_value=np.full(8, (blank @ read)[0]),
    )
    for exact, oracle in (
        (shapley(game, tolerance=1e-9), shapley_by_enumeration(game)),
        (lime(game, tolerance=1e-9), lime_by_enumeration(game).scores),
    ):
        assert (np.abs(exact.scores - oracle).max(axis=-1) <= exact.bound).all()
    # The oracle of the oracle: the network itself on the bag with two instances blanked.
    keep = np.array([1, 1, 0, 1, 0, 1, 1, 1], bool)
    masked = np.where(keep[:, None], bag, blank)
    ell = additive_attention(np.random.default_rng(1), masked, query)
    np.testing.assert_allclose(value(game, keep[None])[0], softmax(ell) @ (masked @ read))


def test_patches_of_an_image_are_groups_and_rows_are_groups_of_groups():
    rng = np.random.default_rng(2)
    logit, values = rng.normal(size=(2, 16)), rng.normal(size=(1, 2, 16))
    patches = (np.arange(16) // 8 * 2) + np.arange(16) % 4 // 2  # a 4 × 4 image in 2 × 2 patches
    game = pooling_game(
        logit, values, removed_logit=logit - 1, removed_value=0 * values, groups=patches
    )
    rows = owen(game, np.array([0, 0, 1, 1]), tolerance=1e-9)
    exact = shapley(game, tolerance=1e-9)
    np.testing.assert_allclose(rows.scores.sum(), exact.scores.sum(), atol=1e-7)


def test_with_a_skip_connection_every_bound_holds():
    _, logit, values = random_pooling(3)
    game = pooling_game(
        logit, values, removed_logit=0 * logit, removed_value=0 * values, skip=values[:, 0]
    )
    for exact, oracle in (
        (shapley(game), shapley_by_enumeration(game)),
        (lime(game), lime_by_enumeration(game).scores),
    ):
        assert (np.abs(exact.scores - oracle).max(axis=-1) <= exact.bound).all()
        assert (exact.bound < 1e-4).all()
    assert shapley_interactions(game).scores.shape == (C, T, T)


def test_a_game_that_forgets_the_skip_would_be_noticed():
    _, logit, values = random_pooling(3)
    removed = {"removed_logit": 0 * logit, "removed_value": 0 * values}
    with_it = pooling_game(logit, values, **removed, skip=values[:, 0])
    without = pooling_game(logit, values, **removed)
    keep = np.ones((1, T), bool)
    gap = value(with_it, keep) - value(without, keep)
    np.testing.assert_allclose(gap[:, 0], values[:, 0].sum(axis=-1))


def test_what_removed_positions_add_may_be_the_same_for_every_output():
    removed = {"removed_logit": np.zeros((K, T)), "removed_value": np.zeros((C, K, T))}
    arrays = np.zeros((K, T)), np.zeros((C, K, T))
    element = pooling_game(*arrays, **removed, skip=np.ones(T), removed_skip=np.arange(T))
    keep = np.zeros((1, T), bool)
    np.testing.assert_allclose(value(element, keep)[:, 0], np.full(C, np.arange(T).sum()))


_STAYS = {"groups": np.array([-1, *range(T - 1)])}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"removed_logit": np.zeros((K, T))}, "give removed_logit and removed_value together"),
        ({}, "needs a position that always stays"),
        ({"groups": np.array([0, 2, 2, 0, 0, 0, -1])}, "0, 1, … without a gap, not 0, 2"),
        ({"groups": np.zeros(3, int)}, "groups must be 7 whole numbers"),
        ({"logit": np.full((K, T), np.nan)}, "logit must be finite"),
        ({"value": np.zeros((C, K + 1, T))}, "value must have the axes"),
        ({"value": "x"}, "value must be an array of numbers, not 'x'"),
        (
            {**_STAYS, "skip": np.zeros(T + 1)},
            f"skip must have the axes (C, T) or (T,), here ({C},",
        ),
        (
            {**_STAYS, "skip": np.zeros(T), "removed_skip": np.zeros((C + 1, T))},
            "removed_skip must have the axes (C, T) or (T,)",
        ),
        ({**_STAYS, "removed_skip": np.zeros(T)}, "removed_skip needs skip"),
    ],
)
def test_inputs_outside_the_domain_raise_an_error(change, sentence):
    arguments = {"logit": np.zeros((K, T)), "value": np.zeros((C, K, T))} | change
    logit, values = arguments.pop("logit"), arguments.pop("value")
    with pytest.raises(InputError) as caught:
        pooling_game(logit, values, **arguments)
    assert sentence in str(caught.value)
