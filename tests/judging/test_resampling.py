"""Shares over texts, intervals and corrections against slower ways to get them."""

import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.judging.candidates import Candidate
from limelight.judging.removals import count_ties, draw_orders, sample_chance, tied_groups
from limelight.judging.statistics import (
    DRAWS,
    UNBOUNDED,
    Bootstrap,
    bootstrap_means,
    bootstrap_shares,
    compare_pairs,
    holm_p_values,
    summarize_methods,
    verdict,
)
from limelight.results.judgment import JudgedMethod, JudgedPair, JudgedText, format_interval_end

RNG = np.random.default_rng(0)
ROOM = 1 + RNG.random(43)
GAIN = ROOM[:, None] * np.array([0.8, 0.0]) + 0.1 * RNG.normal(size=(43, 2))


def test_a_share_is_a_ratio_of_sums_and_its_interval_that_of_resampled_texts():
    result = bootstrap_shares(GAIN, ROOM, seed=0)
    np.testing.assert_allclose(result.share, GAIN.sum(axis=0) / ROOM.sum())
    # Texts drawn one by one by another generator, each sample studentized by itself.
    rows = np.random.default_rng(1).integers(0, 43, size=(20000, 43))
    gain, room = GAIN[rows, 0], ROOM[rows]
    shares = gain.sum(axis=1) / room.sum(axis=1)
    errors = np.sqrt(((gain - shares[:, None] * room) ** 2).sum(axis=1)) / room.sum(axis=1)
    share = GAIN[:, 0].sum() / ROOM.sum()
    error = np.sqrt(((GAIN[:, 0] - share * ROOM) ** 2).sum()) / ROOM.sum()
    high, low = np.quantile((shares - share) / errors, [0.025, 0.975])
    ends = share - error * np.array([low, high])
    np.testing.assert_allclose(result.interval(0), ends, atol=4e-3)
    assert len(result.deviations) == DRAWS
    low, high = result.interval(1)
    assert low < 0 < high


@pytest.mark.parametrize("texts", [12, 30, 60])
def test_intervals_of_skewed_shares_hold_the_share_as_often_as_they_say(texts):
    """Of 12 texts percentiles of the bootstrap_shares shares held 0.83, of 60 texts 0.90."""
    rng, holds = np.random.default_rng(2), 0
    for i in range(20):
        # Each column is a sample of texts: columns share only which texts are drawn again.
        gap = np.exp(rng.normal(size=(texts, 20)) - 0.5)
        result = bootstrap_shares(1 - 0.3 * gap, np.ones(texts), seed=i)
        ends = [result.interval(c) for c in range(20)]
        holds += sum(low <= 0.7 <= high for low, high in ends)
    assert holds / 400 >= (0.89 if texts == 12 else 0.91)


def test_no_interval_reaches_beyond_the_ceiling():
    share = np.ones((12, 1))
    share[0] = -1.0  # where many draws miss it, the spread of others makes a wide interval
    share[1] = -0.5
    assert bootstrap_shares(share, np.ones(12), seed=0).interval(0)[1] == 1.0
    assert bootstrap_means(share, seed=0).interval(0)[1] > 1.0


@pytest.mark.parametrize("texts", [1, 2, 9, 10, 11])
def test_only_ten_texts_or_more_have_an_interval(texts):
    result = bootstrap_means(np.random.default_rng(texts).normal(size=(texts, 1)), seed=0)
    value, interval = result.estimate(0)
    assert value is not None
    assert (interval is not None) == (texts >= 10)


def test_texts_without_a_number_do_not_count_towards_ten():
    gain = np.random.default_rng(0).normal(size=(30, 2))
    gain[9:, 1] = np.nan
    result = bootstrap_means(gain, seed=0)
    assert result.estimate(0)[1] is not None
    assert result.estimate(1)[1] is None
    (row,) = compare_pairs("ab", gain, np.ones(30), seed=0)
    assert (row.interval, row.p, row.p_holm, row.simultaneous, row.p_simultaneous) == (None,) * 5
    assert not row.differs


def test_texts_that_a_method_lacks_take_no_part():
    gain = GAIN.copy()
    gain[5:, 1] = np.nan
    result = bootstrap_shares(gain, ROOM, seed=0)
    assert result.share[1] == pytest.approx(GAIN[:5, 1].sum() / ROOM[:5].sum())
    assert result.share[0] == pytest.approx(GAIN[:, 0].sum() / ROOM.sum())


def test_holm_is_holm():
    assert holm_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_p_values([0.9, 0.8]) == [1.0, 1.0]
    assert holm_p_values([]) == []


def test_p_values_are_never_0_and_of_nothing_1():
    rng = np.random.default_rng(0)
    gaps = np.stack([np.full(40, 0.3), 5 + rng.normal(size=40), np.zeros(40)], axis=1)
    result = bootstrap_means(gaps, seed=0)
    assert [result.p_value(c) for c in range(3)] == [2 / (DRAWS + 1), 2 / (DRAWS + 1), 1.0]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(10, 40),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.02, 0.2, 1.0]),
)
def test_0_is_outside_an_interval_exactly_where_its_p_is_below_5_percent(texts, seed, lead):
    rng = np.random.default_rng(seed)
    values = rng.choice([rng.normal, rng.standard_cauchy])(size=(texts, 5)).round(1)
    values[:, 0] += lead
    room = np.exp(rng.normal(size=texts))
    pairs = compare_pairs("abcde", values * room[:, None], room, seed=seed)
    for row in pairs:
        if row.interval is None:
            assert row.p is row.p_holm is row.simultaneous is row.p_simultaneous is None
            continue
        for (low, high), p in ((row.interval, row.p), (row.simultaneous, row.p_simultaneous)):
            assert (low > 0 or high < 0) == (p < 0.05)


def make_pairs(columns):
    return np.stack([columns[:, i] - columns[:, j] for i, j in combinations(range(5), 2)], axis=1)


def test_intervals_of_all_pairs_are_those_of_texts_drawn_one_by_one():
    """The same draws as lists of texts, each studentised by itself; some texts lack a column."""
    rng = np.random.default_rng(4)
    room, gain = 0.5 + rng.random(17), 0.2 + rng.normal(size=(17, 3))
    gain[:5, 2] = np.nan

    def share_and_error(rows, c):
        own_value = [i for i in rows if np.isfinite(gain[i, c])]
        share = gain[own_value, c].sum() / room[own_value].sum()
        error = (
            np.sqrt(np.sum((gain[own_value, c] - share * room[own_value]) ** 2))
            / room[own_value].sum()
        )
        return share, error

    full = [share_and_error(range(17), c) for c in range(3)]
    largest = []
    for times in np.random.default_rng(9).multinomial(17, np.full(17, 1 / 17), size=DRAWS):
        rows = np.repeat(np.arange(17), times)
        samples = [share_and_error(rows, c) for c in range(3)]
        off = [abs(a - b) / e for (a, e), (b, _) in zip(samples, full, strict=True)]
        largest.append(max(off))
    for c, simultaneous_interval in enumerate(
        bootstrap_shares(gain, room, seed=9).simultaneous_intervals()
    ):
        share, error = full[c]
        assert simultaneous_interval.p == (1 + sum(x >= abs(share) / error for x in largest)) / (
            DRAWS + 1
        )
        half = sorted(largest)[-100] * error
        assert simultaneous_interval.interval == pytest.approx((share - half, share + half))


def test_an_interval_leaves_out_0_exactly_if_p_is_below_5_percent():
    deviations = np.sort(np.random.default_rng(0).normal(size=DRAWS))
    middle = (deviations[1:] + deviations[:-1]) / 2
    shares = np.concatenate([middle[40:60], middle[-60:-40]])  # between draws near the ends
    count = np.full(len(shares), 20)
    draws = np.repeat(deviations[:, None], len(shares), axis=1)
    bootstrap = Bootstrap(shares, np.ones(len(shares)), draws, count, count, UNBOUNDED)
    excluded = []
    for column in range(len(shares)):
        low, high = bootstrap.interval(column)
        excluded.append(not low <= 0 <= high)
        assert excluded[-1] == (bootstrap.p_value(column) < 0.05)
    assert 0 < sum(excluded) < len(excluded)


def test_intervals_of_all_pairs_hold_at_once():
    """Of ten pairs of methods that do not differ; those of each pair alone hold together rarely."""
    rng, all_at_once, single = np.random.default_rng(2), 0, 0
    for i in range(150):
        gaps = make_pairs(np.exp(rng.normal(size=(25, 5))))
        result = bootstrap_means(gaps, seed=i)
        together = [
            simultaneous_interval.interval
            for simultaneous_interval in result.simultaneous_intervals()
        ]
        all_at_once += all(low <= 0 <= high for low, high in together)
        ends = [result.interval(c) for c in range(10)]
        single += all(low <= 0 <= high for low, high in ends)
    assert all_at_once / 150 >= 0.9
    assert single / 150 < 0.8


@pytest.mark.parametrize("size", [1.0, 1e-3])  # three decimals would show many small ends as 0
def test_a_verdict_says_that_methods_differ_if_its_interval_does_not_contain_0(size):
    rng, verdicts = np.random.default_rng(8), set()
    for i in range(90):
        n = int(rng.integers(10, 40))
        values = 3 + size * (i % 3 / 2 * np.arange(3) + rng.normal(size=(n, 3)))
        pairs = compare_pairs("abc", values, np.ones(n), seed=i)
        shares = values.mean(axis=0).tolist()
        methods = [method(m, share, 0.1, 0.9) for m, share in zip("abc", shares, strict=True)]
        sentence = make_verdict(methods, pairs, texts=n)
        ((low, high),) = re.findall(
            r"95% interval (\S+) to ([\d.-]+\d)", sentence.replace("−", "-")
        )
        differs = "do not differ significantly" not in sentence
        assert differs == (float(high) < 0)
        assert float(low) < 0
        for a_pair in pairs:
            certain = a_pair.p_simultaneous < 0.05
            assert a_pair.differs == certain == (a_pair.simultaneous[0] > 0)
        verdicts.add(differs)
    assert verdicts == {False, True}


def test_pairs_that_differ_on_few_texts_have_no_interval_and_leave_others_theirs():
    rng = np.random.default_rng(0)
    gaps = np.stack([0.5 + rng.normal(size=40), np.zeros(40), np.zeros(40)], axis=1)
    gaps[:5, 1] = 1.0  # all in one direction, as five coins may fall
    gaps[:, 2] = 1e-12 * np.arange(40)  # rounding
    values, subset, same = bootstrap_means(gaps, seed=0).simultaneous_intervals()
    assert subset is same is None
    (single,) = bootstrap_means(gaps[:, :1], seed=0).simultaneous_intervals()
    assert values.interval == pytest.approx(single.interval)
    (every,) = bootstrap_means(np.full((10, 1), 0.25), seed=0).simultaneous_intervals()
    assert every.interval == (0.25, 0.25)
    assert every.p < 0.05
    (nine,) = bootstrap_means(np.full((9, 1), 0.25), seed=0).simultaneous_intervals()
    assert nine is None


@pytest.mark.parametrize(
    ("end", "output"),
    [(0.1234, "0.123"), (-0.00004, "−0.00004"), (0.0, "0.000"), (-0.0, "0.000"), (1e-15, "0.000")],
)
def test_an_end_that_is_not_0_is_not_shown_as_0(end, output):
    assert format_interval_end(end) == output


@pytest.mark.parametrize("area", [0.9, 0.3, -0.6])
def test_the_error_within_texts_is_how_far_a_share_moves_with_chance(area):
    """Chance stands above and below the line: near the ceiling a mistake in it hardly counts."""
    rng, errors = np.random.default_rng(3), np.array([0.01, 0.02, 0.04])
    candidates = [Candidate("one", "one", True, list)]

    def row(chances):
        texts = [
            JudgedText(
                id=i,
                has_room=True,
                ties={"one": 0},
                chance=chance,
                stderr=error,
                ceiling=1.0,
                areas={"one": area},
            )
            for i, (chance, error) in enumerate(zip(chances, errors, strict=True))
        ]
        return summarize_methods(candidates, texts, seed=0)[0][0]

    shares = [row(errors * rng.normal(size=3)).share for _ in range(300)]
    assert row(np.zeros(3)).sampling == pytest.approx(np.std(shares), rel=0.15)


def test_ties_are_groups_and_signs_are_dropped_only_where_there_are_none():
    scores = np.array([0.0, -3.0, 2.0, 0.0, 2.0])
    assert tied_groups(scores, signed=True) == [[2, 4], [0, 3], [1]]
    assert tied_groups(scores, signed=False) == [[1], [2, 4], [0, 3]]
    groups = tied_groups(scores, signed=True)
    assert count_ties(groups) == 4
    orders = draw_orders(groups, np.random.default_rng(0), 50)
    assert {tuple(sorted(order[:2])) for order in orders.tolist()} == {(2, 4)}
    assert len({tuple(order) for order in orders.tolist()}) == 4


def make_verdict(methods, pairs, **how):
    return verdict([(m.method, m.share, m.interval) for m in methods], pairs, **how)


def method(name, share, low, high):
    return JudgedMethod(method=name, label=name, share=share, interval=(low, high), texts=200)


def pair(first, second, gap, p):
    interval = (gap - 0.02, gap + 0.02)
    return JudgedPair(
        methods=(first, second),
        difference=gap,
        interval=interval,
        p=p,
        p_holm=p,
        won=0.7,
        simultaneous=interval,
        p_simultaneous=p,
    )


def test_the_verdict_follows_from_the_numbers():
    methods = [
        method("gxi", -0.01, -0.05, 0.03),
        method("lime", 0.82, 0.8, 0.84),
        method("shapley", 0.89, 0.87, 0.9),
        method("g-avg", -0.4, -0.5, -0.3),
    ]
    sentences = make_verdict(methods, [pair("shapley", "lime", 0.07, 0.001)], texts=200)
    assert sentences == (
        "On these 200 texts, shapley is the most faithful (share 0.890), followed by lime (0.820, "
        "difference −0.070, 95% interval −0.090 to −0.050). g-avg is worse than a random order. "
        "gxi is not significantly better than a random order."
    )
    close = make_verdict(methods[1:3], [pair("shapley", "lime", 0.01, 0.4)], texts=200)
    assert "shapley and lime are the most faithful and do not differ significantly" in close
    assert "95% interval −0.030 to 0.010" in close


def test_a_method_that_leads_only_on_its_own_texts_is_not_called_the_most_faithful():
    methods = [method("stored", 0.9, 0.8, 0.95), method("lime", 0.8, 0.7, 0.9)]
    ahead = pair("lime", "stored", 0.07, 0.001)
    assert make_verdict(methods, [ahead], texts=200) == (
        "On these 200 texts, stored has the largest share (0.900), followed by lime (0.800). On "
        "the texts that both score, lime is better (0.070, 95% interval 0.050 to 0.090)."
    )
    close = make_verdict(methods, [pair("lime", "stored", 0.01, 0.4)], texts=200)
    assert close == (
        "On these 200 texts, stored and lime are the most faithful and do not differ significantly "
        "(share 0.900 and 0.800, difference 0.010, 95% interval −0.010 to 0.030)."
    )


@pytest.mark.parametrize("texts", [1, 2, 5])
def test_below_six_texts_no_method_is_called_the_best(texts):
    methods = [
        JudgedMethod(method=name, label=name, share=share, texts=texts)
        for name, share in (("lime", 0.9), ("loo", 0.4))
    ]
    sentence = make_verdict(methods, [], texts=texts)
    assert sentence == f"Too few texts ({texts}) to rank the methods."
    single = make_verdict(methods[:1], [], texts=texts)
    assert single.endswith("lime has the share 0.900.")


def test_from_six_to_nine_texts_the_largest_share_is_named_without_a_test():
    methods = [
        JudgedMethod(method=name, label=name, share=share, texts=9)
        for name, share in (("lime", 0.9), ("loo", 0.4))
    ]
    untested = JudgedPair(
        methods=("lime", "loo"), difference=0.5, interval=None, p=None, p_holm=None, won=1.0
    )
    assert make_verdict(methods, [untested], texts=9) == (
        "On these 9 texts, lime has the largest share (0.900), followed by loo (0.400)."
    )


def test_if_no_method_is_better_than_chance_none_is_called_faithful():
    methods = [method("gxi", 0.01, -0.05, 0.03), method("lime", -0.1, -0.2, 0.1)]
    sentence = "no method is significantly better than a random order (largest share: gxi, 0.010)."
    assert make_verdict(methods, [], texts=50) == f"On these 50 texts, {sentence}"
    methods.append(method("g-avg", -0.4, -0.5, -0.3))
    assert make_verdict(methods, [], texts=50) == (
        f"On these 50 texts, {sentence} g-avg is worse than a random order."
    )


def test_methods_that_are_worse_than_chance_are_named():
    methods = [method("g-avg", -0.4, -0.5, -0.3), method("b", -0.3, -0.4, -0.2)]
    assert make_verdict(methods, [], texts=50) == (
        "On these 50 texts, no method is significantly better than a random order (largest share: "
        "b, −0.300). b and g-avg are worse than a random order."
    )


def test_a_number_that_rounds_to_0_has_no_minus_sign():
    small = [method("a", -1e-9, -0.1, 0.1)]
    assert "largest share: a, 0.000)" in make_verdict(small, [], texts=50)
    close = [method("a", 0.5 + 4e-5, 0.4, 0.6), method("b", 0.5, 0.4, 0.6)]
    sentence = make_verdict(close, [pair("a", "b", 4e-5, 0.9)], texts=50)
    assert "0.500 and 0.500, difference −0.00004, 95% interval" in sentence


def test_the_standard_error_of_sampled_chance_is_that_of_its_mean():
    """Where eight pairs are drawn, ddof=0 would be 0.935 of the root mean square: it must be 1."""

    def areas(orders):  # a pair of orders is as good as the place of word 0 among the first half
        return np.argmin(orders, axis=1)[None] ** 2.0

    best = np.array([-1.0])  # nothing is better than chance, so that no more than 8 are drawn
    rng = np.random.default_rng(5)
    samples = [sample_chance(areas, 7, best, rng, max_pairs=512) for _ in range(2000)]
    means, errors = (np.array(result)[:, 0] for result in zip(*samples, strict=True))
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(means.std(), rel=0.04)


def test_the_error_of_eight_pairs_is_their_spread_over_the_root_of_eight():
    """As worked by hand: the sum of squares about the mean over 8 · 7."""
    areas = [1.0, 2.0, 4.0, 7.0, 7.0, 3.0, 0.0, 5.0]
    pairs = iter(areas)

    def repeat_orders(orders):
        values = [next(pairs) for _ in range(len(orders) // 2)]
        return np.array([values * 2])

    mean, error = sample_chance(
        repeat_orders, 5, np.array([0.0]), np.random.default_rng(0), max_pairs=8
    )
    middle = sum(areas) / 8
    assert mean[0] == pytest.approx(middle)
    assert error[0] == pytest.approx((sum((x - middle) ** 2 for x in areas) / (8 * 7)) ** 0.5)
