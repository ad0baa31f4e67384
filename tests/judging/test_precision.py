"""What orders of words find: every order enumerated, scikit-learn, closed forms, controls."""

import itertools
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.judging.precision import expected_precision
from limelight.judging.removals import sampled_chance, tied_groups


def enumerated(scores, count, marked, cuts):
    """Average precision and hits over all orders of the places that the scores allow, exactly.

    Words are shuffled whole, then the places of each: no formula of the package is used.
    """
    d, total, found, orders = len(scores), Fraction(0), [Fraction(0)] * len(cuts), 0
    for order in itertools.permutations(range(d)):
        if any(scores[a] < scores[b] for a, b in itertools.pairwise(order)):
            continue
        inside = [
            set(itertools.permutations([1] * marked[j] + [0] * (count[j] - marked[j])))
            for j in order
        ]
        weight = Fraction(1, int(np.prod([len(one) for one in inside])))
        for row in itertools.product(*inside):
            hits = list(itertools.chain.from_iterable(row))
            so_far = list(itertools.accumulate(hits))
            total += weight * sum(
                Fraction(n, i)
                for i, (n, hit) in enumerate(zip(so_far, hits, strict=True), 1)
                if hit
            )
            found = [f + weight * sum(hits[:k]) for f, k in zip(found, cuts, strict=True)]
        orders += 1
    return float(total / orders / sum(marked)), [float(f / orders) for f in found]


@st.composite
def games(draw, d=5):
    count = draw(st.lists(st.integers(1, 3), min_size=d, max_size=d))
    marked = [draw(st.integers(0, c)) for c in count]
    scores = draw(st.lists(st.integers(0, 3).map(float), min_size=d, max_size=d))
    if not any(marked):
        marked[0] = 1
    return np.array(scores), np.array(count), np.array(marked)


@given(games(), st.integers(1, 5))
def test_precision_over_ties_is_that_of_all_orders(game, cut):
    scores, count, marked = game
    cuts = np.array([cut, int(marked.sum())])
    found = expected_precision(tied_groups(scores, signed=True), count, marked, cuts)
    average, hits = enumerated(scores, count, marked, cuts)
    assert found[0] == pytest.approx(average, rel=1e-12)
    np.testing.assert_allclose(found[1], hits, rtol=1e-12, atol=1e-13)


@settings(max_examples=30, deadline=None)
@given(games(), st.integers(1, 5))
def test_chance_is_the_mean_over_all_orders_of_the_words(game, cut):
    _, count, marked = game
    cuts = np.array([cut])
    chance = expected_precision([list(range(5))], count, marked, cuts)
    every = [
        expected_precision([[j] for j in order], count, marked, cuts)
        for order in itertools.permutations(range(5))
    ]
    assert chance[0] == pytest.approx(np.mean([one[0] for one in every]), rel=1e-12)
    assert chance[1][0] == pytest.approx(np.mean([one[1][0] for one in every]), rel=1e-12)


@given(st.integers(1, 40), st.data())
def test_where_no_word_is_repeated_chance_is_a_harmonic_number(n, data):
    m = data.draw(st.integers(1, n))
    marked = np.arange(n) < m
    ones = np.ones(n, int)
    chance = expected_precision([list(range(n))], ones, marked.astype(int), np.array([m]))
    harmonic = sum(1 / i for i in range(1, n + 1))
    others = (m - 1) / (n - 1) if n > 1 else 0.0
    assert chance[0] == pytest.approx((harmonic + others * (n - harmonic)) / n, rel=1e-12)
    assert chance[1][0] == pytest.approx(m * m / n, rel=1e-12)


def test_without_ties_it_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for n in (2, 9, 60):
        marked, scores = rng.integers(0, 2, n), rng.permutation(n).astype(float)
        marked[0] = 1
        found = expected_precision(
            tied_groups(scores, signed=True), np.ones(n, int), marked, np.array([3])
        )
        assert found[0] == pytest.approx(metrics.average_precision_score(marked, scores))
        hits = marked[np.argsort(-scores)[:3]].sum()
        assert found[1][0] == pytest.approx(hits)


def test_long_texts_agree_with_drawn_orders():
    """700 places of 300 words, some of them 40 times: what enumeration cannot reach."""
    rng = np.random.default_rng(1)
    count = np.minimum(rng.zipf(1.7, size=300), 40)
    marked = rng.binomial(count, 0.3)
    m = int(marked.sum())
    groups = [list(range(100)), [100], list(range(101, 300))]
    found = expected_precision(groups, count, marked, np.array([m]))
    drawn = []
    for _ in range(400):
        order = [j for group in groups for j in rng.permutation(group).tolist()]
        one = expected_precision([[j] for j in order], count, marked, np.array([m]))
        drawn.append((one[0], one[1][0]))
    error = np.std(drawn, axis=0) / 20
    assert np.all(np.abs(np.mean(drawn, axis=0) - (found[0], found[1][0])) < 5 * error)


def test_what_is_found_before_every_cut_grows_from_nothing_to_all():
    count, marked = np.array([2, 1, 3, 1]), np.array([1, 0, 2, 1])
    cuts = np.arange(8)
    for groups in ([[0, 1, 2, 3]], [[2], [0, 1], [3]]):
        found = expected_precision(groups, count, marked, cuts)[1]
        assert found[0] == pytest.approx(0, abs=1e-15)
        assert found[-1] == pytest.approx(4)
        assert np.all(np.diff(found) >= -1e-12)


def test_the_best_order_has_precision_1_and_its_reverse_the_least():
    marked = np.array([1, 1, 0, 0, 0, 0])
    ones = np.ones(6, int)
    best = expected_precision([[j] for j in range(6)], ones, marked, np.array([2]))
    worst = expected_precision([[j] for j in range(6)][::-1], ones, marked, np.array([2]))
    chance = expected_precision([list(range(6))], ones, marked, np.array([2]))
    assert best[0] == pytest.approx(1)
    assert best[1][0] == pytest.approx(2)
    assert worst[0] == pytest.approx((1 / 5 + 2 / 6) / 2)
    assert worst[1][0] == 0
    assert worst[0] < chance[0] < 1


def test_the_error_of_sampled_chance_is_that_of_a_mean_of_few_pairs():
    asked = []

    def areas_of(orders):
        asked.append(np.array([orders[:, 0] * orders[:, 1], orders[:, 0] ** 2], dtype=float))
        return asked[-1]

    rng = np.random.default_rng(3)
    means, errors = sampled_chance(areas_of, 5, np.array([30.0, 30.0]), rng, most=8)
    (areas,) = asked
    assert areas.shape == (2, 16)  # eight orders, then each of them backwards
    for row, mean, error in zip(areas, means, errors, strict=True):
        pairs = [(row[i] + row[8 + i]) / 2 for i in range(8)]
        assert mean == pytest.approx(statistics.mean(pairs), rel=1e-12)
        assert error == pytest.approx(statistics.stdev(pairs) / 8**0.5, rel=1e-12)
