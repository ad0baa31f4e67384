"""Shapley values by random orders: how far they are off is what they say."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

import limelight
from limelight.sampling.all_masks import (
    shapley_values_from_all_masks,
    values_from_repeated_outputs,
)
from limelight.sampling.orders import (
    draw_orders,
    evaluate_orders,
    group_owen_values,
    shapley_values_from_orders,
)
from limelight.sampling.pairs import (
    PairSampler,
    pair_coefficients,
    pair_influence_sums,
    shapley_pair_coefficients,
    weighted_pair_sums,
)
from limelight.sampling.stopping import StoppingRule


def all_present(words):
    """1 where all of the first ``words`` words are there: each of them is worth 1/words."""
    return lambda keep: keep[:, :words].all(axis=1).astype(float)[:, None]


def sample_values(game, d, pairs, seed=0, **options):
    return shapley_values_from_orders(game, d, np.random.default_rng(seed), pairs=pairs, **options)


def test_a_tolerance_is_not_met_by_two_pairs_that_agree():
    """Of three words that only work together, two pairs of orders agree in a third of the cases."""
    agreeing = [
        seed for seed in range(30) if sample_values(all_present(3), 3, 2, seed).has_no_spread.all()
    ]
    assert agreeing
    for seed in agreeing:
        result = sample_values(
            all_present(3), 3, 2, seed, stopping=StoppingRule(tolerance=0.05, max_count=10_000)
        )
        assert result.pairs >= 10
        assert (np.abs(result.values - 1 / 3) <= 5 * result.stderr).all()
        assert result.stderr.max() <= 0.05


@pytest.mark.parametrize("seed", range(5))
def test_a_word_whose_rare_interaction_has_not_shown_keeps_an_error(seed):
    """Of 50 words that only work together, 10 pairs of orders see 20 at most at work."""
    result = sample_values(all_present(50), 50, 10, seed)
    unseen = result.values[0] == 0
    assert unseen.sum() >= 30
    assert (np.abs(result.values - 1 / 50) <= 5 * result.stderr).all()
    truth = np.sqrt((0.5**2 * 0.04 - 0.02**2) / 10)  # each draw is 1/2 with chance 2/50
    assert truth <= result.stderr[0, unseen].max() <= 3 * truth


def test_draws_that_all_agree_are_no_proof():
    """Three of ten pairs may yet be off by as much as f is known to move."""
    slope = np.array([3.0, -1.0, 0.5])
    pair = lambda keep: (keep @ slope + 2 * keep[:, 0] * keep[:, 2])[:, None]  # noqa: E731
    result = sample_values(pair, 3, 10)
    np.testing.assert_allclose(result.values[0], [4.0, -1.0, 1.5], atol=1e-12)
    assert result.has_no_spread.all()
    np.testing.assert_allclose(result.stderr[0], 1.5 * 4.5 / 10)
    np.testing.assert_allclose(
        sample_values(pair, 3, 10, known_range=20.0).stderr[0], 1.5 * 20 / 10
    )


def test_two_words_have_one_pair_of_orders_and_no_error():
    result = sample_values(all_present(2), 2, 10)
    np.testing.assert_array_equal([result.values[0], result.stderr[0]], [[0.5, 0.5], [0, 0]])


def test_the_spread_is_that_of_the_draws_written_out():
    """Equal to the definition, from draws asked for one pair at a time."""
    game = lambda keep: np.sin(keep @ np.arange(1.0, 8.0))[:, None]  # noqa: E731
    result, rng = sample_values(game, 7, 40, seed=5), np.random.default_rng(5)
    orders = [draw_orders(7, n, rng) for n in (1, 39)]
    request = evaluate_orders(lambda values: [game(keep) for keep in values], orders)
    draws = np.concatenate([value for _, value in request])[:, 0]
    shares = (draws - draws.mean(axis=0)) / 40
    second, largest = (shares**2).sum(axis=0) * 40 / 39, np.abs(shares).max(axis=0)
    carriers = second**2 / (shares**4).sum(axis=0)
    factor = np.maximum(stats.t.ppf(0.975, np.minimum(2 * (carriers + 1), 39)) / 2, 1)
    np.testing.assert_allclose(result.stderr[0], factor * np.sqrt(second + largest**2), rtol=3e-3)


TEXT = "a b c d e f"


@pytest.mark.usefixtures("short_texts_are_sampled")
def test_few_pairs_bring_a_warning_and_with_a_tolerance_an_error():
    model = limelight.wrap(
        lambda texts: np.array([[float(text == TEXT)] for text in texts]),
        classes=["bad", "good"],
        scale="logit",
    )
    warning = (
        "Scores come from 2 pairs of orders: the ranking of words is usable, but sizes and "
        "standard errors are rough. For reliable scores, use a budget of 253 calls (25 pairs)."
    )
    assert warning in limelight.explain(model, TEXT, "shapley", pairs=2).warnings
    assert warning in limelight.explain(model, TEXT, "owen", samples=22).warnings
    for method, calls, enough in (("owen", 552, False), ("owen", 553, True), ("zoom", 553, True)):
        e = limelight.explain(model, f"{TEXT} g h i j k l", method, budget=f"{calls} calls")
        assert any("use a budget of 553 calls" in warning for warning in e.warnings) != enough
    for text, pairs in (("a b c", 2), (TEXT, 60)):  # three words have fewer masks than two pairs
        e = limelight.explain(model, text, "shapley", pairs=pairs)
        assert not e.warnings
    np.testing.assert_allclose(limelight.explain(model, TEXT, "shapley").scores, 1 / 6)
    with pytest.raises(limelight.InputError) as error:
        limelight.explain(model, TEXT, "shapley", pairs=2, max_pairs=5, tolerance=0.1)
    assert str(error.value) == (
        "max_pairs must be at least 10 with tolerance, not 5, because fewer pairs have no reliable "
        "standard errors."
    )


@pytest.mark.parametrize("kind", ["cubic", "threshold"])
def test_a_stretch_of_a_pair_is_unbiased_and_its_errors_hold(kind):
    """Two pairs and 14 calls, of the 16 that a third would take, against all 512 masks."""
    d, rng = 9, np.random.default_rng(3)
    w, T = rng.normal(size=d), rng.normal(size=(d, d, d)) / d

    def game(keep):
        k = keep.astype(float)
        cubic = k @ w + np.einsum("ni,nj,nl,ijl->n", k, k, k, T)
        return (cubic if kind == "cubic" else np.tanh(2 * (k @ w)))[:, None]

    exact = shapley_values_from_all_masks(game, d)[0]
    results = {
        spare: [
            shapley_values_from_orders(
                game, d, np.random.default_rng(seed), pairs=2, spare_calls=spare
            )
            for seed in range(600)
        ]
        for spare in (0, 14)
    }
    values = {
        spare: np.array([value.values[0] for value in subset]) for spare, subset in results.items()
    }
    error = values[14].std(axis=0) / np.sqrt(600)
    assert (np.abs(values[14].mean(axis=0) - exact) < 5 * error).all()
    assert np.allclose(values[14].sum(axis=1), exact.sum())
    # 14 calls of 48 more: the mean square falls to 0.77.
    squares = {spare: ((sample - exact) ** 2).mean() for spare, sample in values.items()}
    assert 0.68 < squares[14] / squares[0] < 0.86
    contained = {
        spare: (
            np.abs(values[spare] - exact) <= 2 * np.array([element.stderr[0] for element in some])
        )
        for spare, some in results.items()
    }
    assert contained[14].mean() > max(contained[0].mean(), 0.9)


@pytest.mark.parametrize(("spare", "most"), [(0, 0), (3, 0), (4, 4), (5, 4), (9, 8), (16, 16)])
def test_a_stretch_makes_no_more_calls_than_allowed(spare, most):
    counts = []
    for seed in range(20):
        texts = []

        def game(keep, texts=texts):
            texts.append(len(keep))
            return keep @ np.arange(1.0, 10.0)[:, None]

        shapley_values_from_orders(game, 9, np.random.default_rng(seed), pairs=2, spare_calls=spare)
        counts.append(sum(texts) - 2 - 2 * 16)
    assert most - 2 <= max(counts) <= most
    assert min(counts) >= most - 2


def owen_values_of_all_orders(game, groups, members):
    """Return the mean contributions over all orders in which each group comes as a whole."""
    total, count = np.zeros(len(members)), 0
    for group_order in permutations(set(groups.tolist())):
        before = list(group_order[: group_order.index(groups[members[0]])])
        for order in permutations(range(len(members))):
            keep = np.repeat(np.isin(groups, before)[None], len(members) + 1, axis=0)
            for step, member in enumerate(order):
                keep[step + 1 :, members[member]] = True
            total[list(order)] += np.diff(game(keep)[:, 0])
            count += 1
    return total / count


def test_owen_values_of_a_group_are_those_of_all_orders_within_their_errors():
    rng, groups = np.random.default_rng(4), np.array([0, 1, 0, 2, 1, 0, 1])
    weights, products = rng.normal(size=7), rng.normal(size=(7, 7))

    def game(keep):
        z = keep.astype(float)
        return (z @ weights + np.tanh(((z @ products) * z).sum(axis=1)))[:, None]

    for group in range(3):
        members = np.flatnonzero(groups == group)
        truth = owen_values_of_all_orders(game, groups, members)
        values, stderr, pairs = group_owen_values(game, groups, group, rng, pairs=400)
        assert pairs == 400
        np.testing.assert_array_less(abs(values[0, :-1] - truth), 5 * stderr[0, :-1])
        assert (abs(values[0, :-1] + truth) > 5 * stderr[0, :-1]).any()  # the wrong sign
        assert values[0, -1] == pytest.approx(values[0, :-1].sum())


@pytest.mark.parametrize("index", ["banzhaf", "shapley"])
def test_an_interaction_of_two_features_is_the_difference_of_their_effects(index):
    keep = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], float)
    output = np.array([0.3, 1.1, -0.4, 2.5])
    interaction = weighted_pair_sums(keep, output, pair_coefficients(2, index))
    assert interaction[0, 1] == pytest.approx(2.5 - 1.1 + 0.4 + 0.3)


def test_coefficients_of_more_features_weigh_all_sizes_alike():
    for d in (2, 3, 7):
        coefficients = shapley_pair_coefficients(d)
        for kept, sign in enumerate((1, -1, 1)):
            sizes = np.arange(kept, d - 1 + kept)
            counts = [(d - m) * (d - m - 1) for m in sizes], [m * (d - m) for m in sizes]
            counts = (*counts, [m * (m - 1) for m in sizes])[kept]
            np.testing.assert_allclose(coefficients[kept, sizes] * counts, sign * d)
            assert np.count_nonzero(coefficients[kept]) == len(sizes)


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_the_mean_over_masks_of_a_pair_sampler_is_the_interaction(index):
    d, n = 5, 20_000
    sampler = PairSampler(d, index)
    keep, weights = sampler(n, np.random.default_rng(0))
    assert (weights == 1).all()
    keep = keep.astype(float)
    f = keep[:, :2].all(axis=1) + 3.0 * keep[:, 2:4].all(axis=1)
    sums = pair_influence_sums(keep, f / n, sampler.coefficients)
    error = np.sqrt(sums.second)
    assert abs(sums.first[0, 1] - 1) <= 5 * error[0, 1]
    assert abs(sums.first[2, 3] - 3) <= 5 * error[2, 3]
    assert abs(sums.first[0, 4]) <= 5 * error[0, 4] < 0.5


def test_the_largest_contribution_of_a_pair_is_that_of_a_loop_over_masks():
    d, rng = 4, np.random.default_rng(1)
    coefficients = shapley_pair_coefficients(d)
    for n in (1, 6):
        keep, share = rng.integers(0, 2, (n, d)).astype(float), rng.normal(size=n)
        largest = pair_influence_sums(keep, share, coefficients).largest
        for j, k in permutations(range(d), 2):
            contributions = [
                abs(value * coefficients[int(mask[j] + mask[k]), int(mask.sum())])
                for mask, value in zip(keep, share, strict=True)
            ]
            assert largest[j, k] == max(contributions)


def test_errors_of_repeated_outputs_are_their_spread():
    rng, k = np.random.default_rng(0), 10
    matrix, size = rng.normal(size=(8, 3)), np.linspace(0.5, 2, 8)
    errors = [
        values_from_repeated_outputs(
            size[:, None] * rng.normal(size=(8, k)), matrix, known_range=1.0
        ).stderr
        for _ in range(100)
    ]
    truth = np.sqrt(matrix.T**2 @ size**2 / k)
    np.testing.assert_allclose(np.mean(errors, axis=0), truth, rtol=0.2)


def test_errors_of_outputs_that_agree_allow_for_three_that_do_not():
    matrix, known_range = np.array([[1.0], [-1.0]]), 2.0
    five, ten = (
        values_from_repeated_outputs(np.ones((2, k)), matrix, known_range=known_range).stderr[0]
        for k in (5, 10)
    )
    assert five == pytest.approx(2 * ten)
    assert 3 * known_range / 10 <= 2 * ten <= 3 * 3 * known_range / 10
