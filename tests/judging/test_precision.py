"""What orders of words find: all orders, scikit-learn, closed forms, controls."""

import itertools
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.judging.precision import draw_tie_orders, mean_and_error, precision_draws
from limelight.judging.removals import sample_chance, tied_groups


def enumerate_values(scores, count, marked, cuts):
    """Average precision and hits over all orders of the places that the scores allow, exactly.

    Words are shuffled whole, then the places of each: no formula of the package is used.
    """
    d, total, results, orders = len(scores), Fraction(0), [Fraction(0)] * len(cuts), 0
    for order in itertools.permutations(range(d)):
        if any(scores[a] < scores[b] for a, b in itertools.pairwise(order)):
            continue
        inside = [
            set(itertools.permutations([1] * marked[j] + [0] * (count[j] - marked[j])))
            for j in order
        ]
        weight = Fraction(1, int(np.prod([len(value) for value in inside])))
        for row in itertools.product(*inside):
            hits = list(itertools.chain.from_iterable(row))
            so_far = list(itertools.accumulate(hits))
            total += weight * sum(
                Fraction(n, i)
                for i, (n, hit) in enumerate(zip(so_far, hits, strict=True), 1)
                if hit
            )
            results = [f + weight * sum(hits[:k]) for f, k in zip(results, cuts, strict=True)]
        orders += 1
    return float(total / orders / sum(marked)), [float(f / orders) for f in results]


@st.composite
def games(draw, d=5):
    count = draw(st.lists(st.integers(1, 3), min_size=d, max_size=d))
    marked = [draw(st.integers(0, c)) for c in count]
    scores = draw(st.lists(st.integers(0, 3).map(float), min_size=d, max_size=d))
    if not any(marked):
        marked[0] = 1
    return np.array(scores), np.array(count), np.array(marked)


def mean_precision(groups, count, marked, cuts, *, seed=0):
    """The means over drawn orders with their standard errors, average precision first."""
    tie_orders = draw_tie_orders(len(count), np.random.default_rng(seed))
    average, hits = precision_draws(groups, count, marked, np.array(cuts), tie_orders)
    return mean_and_error(np.column_stack([average, hits]))


def all_orders(groups, count, marked, cuts):
    """The mean over all orders of tied words, each without ties."""
    orders = itertools.product(*map(itertools.permutations, groups))
    return np.mean(
        [
            mean_precision([[j] for j in itertools.chain(*order)], count, marked, cuts)[0]
            for order in orders
        ],
        axis=0,
    )


@given(games(), st.integers(1, 5))
def test_precision_without_drawn_ties_is_that_of_all_orders(game, cut):
    scores, count, marked = game
    scores = scores + 0.1 * (count > 1) * np.arange(5)  # words of several places are not tied
    groups = tied_groups(scores, signed=True)
    groups = [part for group in groups for part in ([group] if all(count[group] == 1) else
              [[j] for j in group])]  # fmt: skip
    ranks = np.empty(5)
    for rank, group in enumerate(groups):
        ranks[group] = -rank
    cuts = [cut, int(marked.sum())]
    mean, error = mean_precision(groups, count, marked, cuts)
    average, hits = enumerate_values(ranks, count, marked, cuts)
    np.testing.assert_allclose(mean, [average, *hits], rtol=1e-12, atol=1e-13)
    assert not error.any()


def deviations(precision, *, games=300):
    """How many standard errors the drawn means lie from those of all orders, and the largest gap
    where the standard error is 0."""
    rng = np.random.default_rng(4)
    result, gap = [], 0.0
    for number in range(games):
        count = rng.integers(1, 4, 5)
        marked = rng.integers(0, count + 1)
        marked[0] = max(marked[0], 1)
        words = rng.permutation(5).tolist()
        groups = [words[:1], words[1:]] if number % 2 else [words]
        cuts = [2, int(marked.sum())]
        mean, error = precision(groups, count, marked, cuts, seed=number)
        off = mean - all_orders(groups, count, marked, cuts)
        gap = max(gap, np.abs(off[error == 0]).max(initial=0.0))
        result += (off[error > 0] / error[error > 0]).tolist()
    return np.array(result), gap


def test_drawn_ties_lie_within_their_standard_errors_of_all_orders():
    result, gap = deviations(mean_precision)
    assert gap < 1e-12
    assert np.abs(result).max() < 5
    assert 0.8 < np.sqrt(np.mean(result**2)) < 1.2
    assert abs(result.mean()) < 0.2


def test_a_wrong_rule_for_ties_is_noticed():
    """Negative control: tied words in the order of the text, with the errors of drawn orders."""

    def precision_in_text_order(groups, count, marked, cuts, *, seed):
        wrong = [[j] for group in groups for j in sorted(group)]
        error = mean_precision(groups, count, marked, cuts, seed=seed)[1]
        return mean_precision(wrong, count, marked, cuts)[0], error

    result, _ = deviations(precision_in_text_order, games=30)
    assert np.sqrt(np.mean(result**2)) > 3


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    count, marked = np.array([2, 1, 3, 1, 2]), np.array([1, 0, 2, 1, 0])
    value, again, other = (
        mean_precision([[0, 1, 2, 3, 4]], count, marked, [3], seed=seed)[0] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(value, again)
    assert (value != other).all()


def test_the_error_of_a_mean_over_drawn_orders_is_that_of_a_mean():
    draws = np.random.default_rng(0).normal(size=(64, 2))
    mean, error = mean_and_error(draws)
    for column in range(2):
        values = draws[:, column].tolist()
        assert mean[column] == pytest.approx(statistics.mean(values), rel=1e-12)
        assert error[column] == pytest.approx(statistics.stdev(values) / 8, rel=1e-12)
    same = np.full((64, 1), 0.1)
    assert mean_and_error(same) == (0.1, 0.0)


@given(st.integers(1, 40), st.data())
def test_where_no_word_is_repeated_chance_is_a_harmonic_number(n, data):
    m = data.draw(st.integers(1, n))
    marked = np.arange(n) < m
    ones = np.ones(n, int)
    chance, error = mean_precision([list(range(n))], ones, marked.astype(int), [m])
    assert not error.any()
    harmonic = sum(1 / i for i in range(1, n + 1))
    other_values = (m - 1) / (n - 1) if n > 1 else 0.0
    assert chance[0] == pytest.approx((harmonic + other_values * (n - harmonic)) / n, rel=1e-12)
    assert chance[1] == pytest.approx(m * m / n, rel=1e-12)


def test_without_ties_it_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for n in (2, 9, 60):
        marked, scores = rng.integers(0, 2, n), rng.permutation(n).astype(float)
        marked[0] = 1
        result, _ = mean_precision(tied_groups(scores, signed=True), np.ones(n, int), marked, [3])
        assert result[0] == pytest.approx(metrics.average_precision_score(marked, scores))
        hits = marked[np.argsort(-scores)[:3]].sum()
        assert result[1] == pytest.approx(hits)


def test_long_texts_agree_with_orders_drawn_otherwise():
    """700 places of 300 words, some of them 40 times: what enumeration cannot reach."""
    rng = np.random.default_rng(1)
    count = np.minimum(rng.zipf(1.7, size=300), 40)
    marked = rng.binomial(count, 0.3)
    m = int(marked.sum())
    groups = [list(range(100)), [100], list(range(101, 300))]
    mean, error = mean_precision(groups, count, marked, [m])
    samples = []
    for _ in range(400):
        order = [j for group in groups for j in rng.permutation(group).tolist()]
        samples.append(mean_precision([[j] for j in order], count, marked, [m])[0])
    other = np.std(samples, axis=0) / 20
    assert np.all(np.abs(np.mean(samples, axis=0) - mean) < 5 * np.hypot(error, other))
    np.testing.assert_allclose(error, np.std(samples, axis=0) / 8, rtol=0.4)


def test_what_is_found_before_every_cut_grows_from_nothing_to_all():
    count, marked = np.array([2, 1, 3, 1]), np.array([1, 0, 2, 1])
    cuts = np.arange(8)
    for groups in ([[0, 1, 2, 3]], [[2], [0, 1], [3]]):
        result = mean_precision(groups, count, marked, cuts)[0][1:]
        assert result[0] == pytest.approx(0, abs=1e-15)
        assert result[-1] == pytest.approx(4)
        assert np.all(np.diff(result) >= -1e-12)


def test_the_best_order_has_precision_1_and_its_reverse_the_least():
    marked = np.array([1, 1, 0, 0, 0, 0])
    ones = np.ones(6, int)
    best = mean_precision([[j] for j in range(6)], ones, marked, [2])[0]
    worst = mean_precision([[j] for j in range(6)][::-1], ones, marked, [2])[0]
    chance = mean_precision([list(range(6))], ones, marked, [2])[0]
    assert best[0] == pytest.approx(1)
    assert best[1] == pytest.approx(2)
    assert worst[0] == pytest.approx((1 / 5 + 2 / 6) / 2)
    assert worst[1] == 0
    assert worst[0] < chance[0] < 1


def test_the_error_of_sampled_chance_is_that_of_a_mean_of_few_pairs():
    request = []

    def compute_areas(orders):
        request.append(np.array([orders[:, 0] * orders[:, 1], orders[:, 0] ** 2], dtype=float))
        return request[-1]

    rng = np.random.default_rng(3)
    means, errors = sample_chance(compute_areas, 5, np.array([30.0, 30.0]), rng, max_pairs=8)
    (areas,) = request
    assert areas.shape == (2, 16)  # eight orders, then each of them backwards
    for row, mean, error in zip(areas, means, errors, strict=True):
        pairs = [(row[i] + row[8 + i]) / 2 for i in range(8)]
        assert mean == pytest.approx(statistics.mean(pairs), rel=1e-12)
        assert error == pytest.approx(statistics.stdev(pairs) / 8**0.5, rel=1e-12)
