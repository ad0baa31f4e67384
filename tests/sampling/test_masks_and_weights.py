import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.errors import InputError
from limelight.sampling.masks import (
    SIZES,
    balanced_masks,
    coin_masks,
    lime_masks,
    size_probabilities,
)
from limelight.sampling.sample import LimeDraws
from limelight.theory.lime_weights import size_weight

seeds = st.integers(0, 2**32)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 30), seeds)
def test_every_lime_mask_removes_a_word(d, n, seed):
    keep = lime_masks(d, n, np.random.default_rng(seed))
    assert keep.shape == (n, d)
    assert not keep.all(axis=1).any()


def test_sizes_are_uniform_and_every_word_goes_equally_often():
    d, n = 7, 40_000
    keep = lime_masks(d, n, np.random.default_rng(0))
    removed = np.bincount(d - keep.sum(axis=1), minlength=d + 1)
    assert removed[0] == 0
    assert np.abs(removed[1:] / n - 1 / d).max() < 5 * np.sqrt(1 / d / n)
    chance = 1 - (d + 1) / (2 * d)
    assert np.abs(keep.mean(axis=0) - chance).max() < 5 * np.sqrt(0.25 / n)


@pytest.mark.parametrize(("sizes", "power"), [("balanced", 0.5), ("importance", 1)])
def test_sizes_are_drawn_in_proportion_to_a_power_of_their_weight(sizes, power):
    d, n = 7, 40_000
    chances = size_probabilities(d, sizes, 0.25)
    keep = lime_masks(d, n, np.random.default_rng(0), probabilities=chances)
    removed = np.bincount(d - keep.sum(axis=1), minlength=d + 1)[1:]
    psi = size_weight(d, 0.25)[1:] ** power
    np.testing.assert_allclose(removed / n, psi / psi.sum(), atol=5 * np.sqrt(0.25 / n))


def test_all_ways_of_drawing_have_the_same_weighted_sums():
    d, n = 6, 60_000
    totals = {}
    for sizes in SIZES:
        keep, weight = LimeDraws(d=d, sizes=sizes)(n, np.random.default_rng(1))
        totals[sizes] = [weight.mean(), (weight * keep[:, 0]).mean()]
    for sizes in ("balanced", "importance"):
        np.testing.assert_allclose(totals[sizes], totals["uniform"], atol=5 * 0.5 / np.sqrt(n))
    assert totals["uniform"][1] < 0.9 * totals["uniform"][0]  # keeping a word does matter


@pytest.mark.parametrize("sizes", SIZES)
def test_weights_stay_finite_where_psi_vanishes(sizes):
    _, weight = LimeDraws(d=9, bandwidth=0.01, sizes=sizes)(200, np.random.default_rng(0))
    assert np.isfinite(weight).all()


@settings(deadline=None)
@given(st.integers(1, 30), seeds, st.data())
def test_coins_hold_what_is_held(d, seed, data):
    held = data.draw(st.lists(st.integers(0, d - 1), unique=True))
    keep = coin_masks(d, 50, np.random.default_rng(seed), held=held)
    assert keep[:, held].all()


def test_coins_are_fair_and_independent():
    n = 40_000
    keep = coin_masks(9, n, np.random.default_rng(0))
    together = keep.T.astype(float) @ keep / n
    np.testing.assert_allclose(together, 0.25 + 0.25 * np.eye(9), atol=5 * 0.5 / np.sqrt(n))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 70), st.integers(1, 200), seeds)
def test_balanced_coins_fall_together_as_often_as_apart(d, n, seed):
    keep = balanced_masks(d, n, np.random.default_rng(seed))
    assert keep.shape == (n, d)
    size = next(2**k for k in range(1, 9) if 2**k > d)
    sign = 2.0 * keep[: n - n % size].reshape(-1, size, d) - 1
    np.testing.assert_array_equal(sign.sum(axis=1), 0)
    together = np.einsum("bij,bik->bjk", sign, sign)
    np.testing.assert_array_equal(together, size * np.eye(d) + np.zeros_like(together))


def test_every_balanced_mask_is_as_likely_as_any_other():
    rng = np.random.default_rng(0)
    for place in (0, 3):  # of a block of four
        keep = np.concatenate([balanced_masks(3, 4, rng)[place:][:1] for _ in range(8000)])
        seen = np.bincount(keep @ (1, 2, 4), minlength=8)
        assert np.abs(seen - 1000).max() <= 5 * np.sqrt(1000 * 7 / 8)


@settings(deadline=None)
@given(st.integers(1, 50), st.sampled_from([0.05, 0.25, 1.0, np.inf]))
def test_the_weight_of_a_mask_depends_on_its_cosine_distance_to_the_whole_text(d, bandwidth):
    keep, weight = LimeDraws(d=d, bandwidth=bandwidth)(200, np.random.default_rng(d))
    whole = np.sqrt(keep.sum(axis=1) * d)  # |Z| |1|; the distance of a mask of nothing is 1
    distance = 1 - keep.sum(axis=1) / np.where(whole > 0, whole, 1)
    np.testing.assert_allclose(weight, np.exp(-((distance / bandwidth) ** 2) / 2), rtol=1e-9)


def test_bad_settings_are_named():
    with pytest.raises(InputError, match="bandwidth must be positive; got 0"):
        LimeDraws(d=3, bandwidth=0.0)
    with pytest.raises(InputError, match=r"no sizes 'unifrm'\."):
        size_probabilities(3, "unifrm", 0.25)
