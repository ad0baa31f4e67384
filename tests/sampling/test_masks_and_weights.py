import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.sampling.masks import (
    MASK_SIZE_POWERS,
    draw_balanced_masks,
    draw_coin_masks,
    draw_lime_masks,
    removed_count_probabilities,
)
from limelight.sampling.regression import fit_sampled_lime
from limelight.sampling.sample import Sample, make_lime_sampler
from limelight.theory.lime_weights import size_weight

seeds = st.integers(0, 2**32)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 30), seeds)
def test_every_lime_mask_removes_a_word(d, n, seed):
    keep = draw_lime_masks(d, n, np.random.default_rng(seed))
    assert keep.shape == (n, d)
    assert not keep.all(axis=1).any()


def test_sizes_are_uniform_and_every_word_goes_equally_often():
    d, n = 7, 40_000
    keep = draw_lime_masks(d, n, np.random.default_rng(0))
    removed = np.bincount(d - keep.sum(axis=1), minlength=d + 1)
    assert removed[0] == 0
    assert np.abs(removed[1:] / n - 1 / d).max() < 5 * np.sqrt(1 / d / n)
    chance = 1 - (d + 1) / (2 * d)
    assert np.abs(keep.mean(axis=0) - chance).max() < 5 * np.sqrt(0.25 / n)


@pytest.mark.parametrize(("sizes", "power"), [("balanced", 0.5), ("importance", 1)])
def test_sizes_are_drawn_in_proportion_to_a_power_of_their_weight(sizes, power):
    d, n = 7, 40_000
    chances = removed_count_probabilities(d, sizes, 0.25)
    keep = draw_lime_masks(d, n, np.random.default_rng(0), probabilities=chances)
    removed = np.bincount(d - keep.sum(axis=1), minlength=d + 1)[1:]
    psi = size_weight(d, 0.25)[1:] ** power
    np.testing.assert_allclose(removed / n, psi / psi.sum(), atol=5 * np.sqrt(0.25 / n))


def test_all_ways_of_drawing_have_the_same_weighted_sums():
    d, n = 6, 60_000
    totals = {}
    for sizes in MASK_SIZE_POWERS:
        keep, weight = make_lime_sampler(d, sizes=sizes)(n, np.random.default_rng(1))
        totals[sizes] = [weight.mean(), (weight * keep[:, 0]).mean()]
    for sizes in ("balanced", "importance"):
        np.testing.assert_allclose(totals[sizes], totals["uniform"], atol=5 * 0.5 / np.sqrt(n))
    assert totals["uniform"][1] < 0.9 * totals["uniform"][0]  # keeping a word does matter


@pytest.mark.parametrize("sizes", MASK_SIZE_POWERS)
def test_weights_stay_finite_where_psi_vanishes(sizes):
    _, weight = make_lime_sampler(9, bandwidth=0.01, sizes=sizes)(200, np.random.default_rng(0))
    assert np.isfinite(weight).all()


@settings(deadline=None)
@given(st.integers(1, 30), seeds, st.data())
def test_coins_hold_what_is_held(d, seed, data):
    contained = data.draw(st.lists(st.integers(0, d - 1), unique=True))
    keep = draw_coin_masks(d, 50, np.random.default_rng(seed), fixed_features=contained)
    assert keep[:, contained].all()


def test_coins_are_fair_and_independent():
    n = 40_000
    keep = draw_coin_masks(9, n, np.random.default_rng(0))
    together = keep.T.astype(float) @ keep / n
    np.testing.assert_allclose(together, 0.25 + 0.25 * np.eye(9), atol=5 * 0.5 / np.sqrt(n))


def block_rows(d, n):
    """Return the rows of a block for ``n`` masks of ``d`` words, by a list of primes."""
    primes = [31, 43, 47, 59, 67, 71, 79, 83, 103, 107, 127, 131, 139, 151, 163, 167, 179, 191, 199]
    blocks = max(n // (min(q for q in primes if q >= d) + 1), 1)
    return min(q for q in primes if q >= d and blocks * (q + 1) >= n) + 1


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 70), st.integers(1, 200), seeds)
def test_balanced_coins_fall_together_as_often_as_apart(d, n, seed):
    keep = draw_balanced_masks(d, n, np.random.default_rng(seed))
    assert keep.shape == (n, d)
    size = block_rows(d, n)
    sign = 2.0 * keep[: n - n % size].reshape(-1, size, d) - 1
    np.testing.assert_array_equal(sign.sum(axis=1), 0)
    together = np.einsum("bij,bik->bjk", sign, sign)
    np.testing.assert_array_equal(together, size * np.eye(d) + np.zeros_like(together))


@pytest.mark.parametrize(("d", "rows"), [(20, 32), (33, 64), (64, 128), (63, 500), (100, 500)])
def test_whole_blocks_fill_a_sample_up_to_a_few_rows(d, rows):
    size = block_rows(d, rows)
    keep = draw_balanced_masks(d, rows, np.random.default_rng(0))
    missing = -rows % size
    assert missing <= 0.1 * size
    start = rows - (size - missing)
    sign = 2.0 * keep[start:] - 1
    # Fewer than all rows of the last block leave every sum within what the missing rows hold.
    assert np.abs(sign.sum(axis=0)).max() <= missing
    assert np.abs(sign.T @ sign - len(sign) * np.eye(d)).max() <= missing


def sylvester_masks(d, n, rng):
    """Return blocks in which the product of two columns is a column: a negative control."""
    size, blocks = 1 << d.bit_length(), []
    for start in range(0, n, size):
        row = rng.permutation(size)[: n - start, None].astype(np.uint32)
        column = 1 + rng.permutation(size - 1)[:d].astype(np.uint32)
        odd = np.bitwise_count(row & column) & 1
        blocks.append((odd ^ rng.integers(0, 2, d, dtype=np.uint8)).astype(bool))
    return np.concatenate(blocks)


def largest_share_of_three(keep):
    """Return how much of the joint effect of three words a fourth word gets, at most."""
    sign = 2.0 * keep - 1
    d = sign.shape[1]
    three = np.array(list(itertools.combinations(range(d), 3)))
    shares = np.abs(sign[:, three].prod(axis=2).T @ sign) / len(sign)
    np.put_along_axis(shares, three, 0.0, axis=1)
    return shares.max()


@pytest.mark.parametrize("d", [11, 19, 31])
def test_the_joint_effect_of_three_words_is_spread_over_all_others(d):
    rng = np.random.default_rng(d)
    share = largest_share_of_three(draw_balanced_masks(d, 32, rng))
    assert share <= (2 * np.sqrt(31) + 4) / 32
    assert largest_share_of_three(sylvester_masks(d, 1 << d.bit_length(), rng)) == 1.0
    assert share < 0.5


def test_the_mean_square_of_the_shares_of_three_words_is_near_that_of_plain_coins():
    sign = 2.0 * draw_balanced_masks(31, 32, np.random.default_rng(0)) - 1
    three = np.array(list(itertools.combinations(range(31), 3)))
    shares = sign[:, three].prod(axis=2).T @ sign / 32
    np.put_along_axis(shares, three, 0.0, axis=1)
    mean_square = (shares**2).sum(axis=1) / 28
    assert (mean_square <= 1 / 28 + 1e-12).all()  # of plain coins 1/32
    assert mean_square.max() == pytest.approx(1 / 28)


def coverage(masks, game, truth, *, rows, runs):
    """Return the share of the words of value 0 within two standard errors, over runs."""

    class Coins:
        d = len(truth)

        def __call__(self, n, rng):
            return masks(len(truth), n, rng), np.ones(n)

    contained = []
    for seed in range(runs):
        sample = Sample(
            lambda keep: ((game(keep) - game(~keep)) / 2)[:, None],
            Coins(),
            np.random.default_rng(seed),
            d=len(truth),
            row0=False,
        )
        sample.grow(rows)
        fit = fit_sampled_lime(sample, ridge=0.0, known_range=1.0)
        inside = np.abs(fit.scores[0] - truth) <= 2 * fit.stderr[0] + 1e-9
        contained.append(inside[truth == 0])
    return np.mean(contained)


def small_paley_masks(d, n, rng):
    """Return blocks of d + 1 rows, for a prime d: a negative control."""
    squares, blocks = np.arange(1, d) ** 2 % d, []
    for start in range(0, n, d + 1):
        row, column = rng.permutation(d + 1)[: n - start, None], rng.permutation(d)
        keep = np.isin((row - column) % d, squares) | (row == d)
        blocks.append(keep ^ rng.integers(0, 2, d).astype(bool))
    return np.concatenate(blocks)


@pytest.mark.parametrize(
    ("d", "rows", "poor_masks"),
    [(11, 240, small_paley_masks), (20, 128, sylvester_masks), (40, 500, sylvester_masks)],
)
def test_errors_of_balanced_coins_hold_for_words_outside_an_and_of_three(d, rows, poor_masks):
    words = [0, d // 2, d - 1]
    truth = np.zeros(d)
    truth[words] = 0.25
    cell = {"truth": truth, "rows": rows, "runs": 100 if d == 11 else 40}

    def all_three(keep):
        return keep[:, words].all(axis=1).astype(float)

    assert coverage(draw_balanced_masks, all_three, **cell) >= 0.94
    # Negative control: where a word gets too much of the joint effect the same errors do not hold.
    assert coverage(poor_masks, all_three, **cell) < 0.92


def test_every_balanced_mask_is_as_likely_as_any_other():
    rng = np.random.default_rng(0)
    for place in (0, 31):  # of a block of 32
        keep = np.concatenate([draw_balanced_masks(3, 32, rng)[place:][:1] for _ in range(8000)])
        seen = np.bincount(keep @ (1, 2, 4), minlength=8)
        assert np.abs(seen - 1000).max() <= 5 * np.sqrt(1000 * 7 / 8)


@settings(deadline=None)
@given(st.integers(1, 50), st.sampled_from([0.05, 0.25, 1.0, np.inf]))
def test_the_weight_of_a_mask_depends_on_its_cosine_distance_to_the_whole_text(d, bandwidth):
    keep, weight = make_lime_sampler(d, bandwidth=bandwidth)(200, np.random.default_rng(d))
    full = np.sqrt(keep.sum(axis=1) * d)  # |Z| |1|; the distance of a mask of nothing is 1
    distance = 1 - keep.sum(axis=1) / np.where(full > 0, full, 1)
    np.testing.assert_allclose(weight, np.exp(-((distance / bandwidth) ** 2) / 2), rtol=1e-9)
