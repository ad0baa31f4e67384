"""Theorem 5.1 as printed and corrected, in its own regime and outside it."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.theory.enumeration import (
    enumerate_masks,
    lime_by_enumeration,
    lime_mask_weights,
    ridge_matrix,
)
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, subtract_constants
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.paper import lime_theorem
from limelight_reproduction.theory.second_order import lime_distance_bound

from ratio_games import quick, random_game

PAGES = Path(__file__).resolve().parents[2] / "docs" / "theorems"


def first_order_bound(game, **settings):
    return lime_distance_bound(lime_first_order(game), game, **settings)


def theorem_game(T_max, T, *, seed=0, K=2, C=3):
    """Arrays that satisfy Theorem 5.1: d = T, 0.5 ≤ g ≤ 2, |u| ≤ 2, padding equal to UNK."""
    rng = np.random.default_rng(seed)
    g, g_h = np.exp(rng.uniform(-0.7, 0.7, (2, K, T_max)))
    u = 1 + rng.uniform(-1, 1, (C, K, T_max))
    u_h = 1 + rng.uniform(-1, 1, (C, K, T_max))
    return RatioGame(
        D0=g_h[:, T:].sum(-1),
        a=g[:, :T],
        b=g_h[:, :T],
        N0=(g_h * u_h)[:, :, T:].sum(-1),
        A=(g * u)[:, :, :T],
        B=(g_h * u_h)[:, :, :T],
    )


def distance(approximation, exact):
    """Relative L2 distance, over all words and classes."""
    return np.linalg.norm(approximation - exact) / np.linalg.norm(exact)


def test_eq_19_is_far_off_in_its_own_regime_and_the_corrected_form_is_not():
    game = theorem_game(16384, 128)
    exact = lime(game, bandwidth=np.inf, tolerance=1e-9).scores
    assert 0.4 < distance(lime_theorem(game), exact) < 2.0
    assert distance(lime_first_order(game), exact) < 1e-3


def test_without_an_offset_the_printed_form_errs_by_its_factor_alone():
    game = theorem_game(16384, 128)
    centered = subtract_constants(game, np.ones_like(game.N0))
    exact = lime(centered, bandwidth=np.inf, tolerance=1e-9).scores
    assert distance(lime_theorem(centered), exact) == pytest.approx(0.5, abs=0.02)
    assert distance(lime_theorem(centered) / 1.5, exact) < 0.02


def test_the_corrected_form_gains_a_power_of_the_window():
    T_max, errors = np.asarray([1024, 4096, 16384, 65536]), []
    for n in T_max:
        games = [theorem_game(int(n), 64, seed=seed) for seed in range(3)]
        exact = [lime(game, bandwidth=np.inf, tolerance=1e-9).scores for game in games]
        first = [lime_first_order(game) for game in games]
        errors.append(np.mean([distance(*pair) for pair in zip(first, exact, strict=True)]))
    rate = np.polyfit(np.log(T_max), np.log(errors), 1)[0]
    assert -1.3 < rate < -0.7


def test_the_printed_form_does_not_converge():
    errors = []
    for n in (1024, 16384):
        game = theorem_game(n, 64)
        exact = lime(game, bandwidth=np.inf, tolerance=1e-9).scores
        errors.append(distance(lime_theorem(game), exact))
    assert min(errors) > 0.4


@pytest.mark.parametrize("bandwidth", [0.25, np.inf])
def test_with_a_constant_denominator_the_corrected_form_is_exact(bandwidth):
    game = random_game(3, d=13, ratio=100)
    b = np.where(game.a > 0, game.a, 0.3)
    game = RatioGame(game.D0, b, b, game.N0, game.A, game.B)
    exact = lime(game, bandwidth=bandwidth, tolerance=1e-9).scores
    np.testing.assert_allclose(lime_first_order(game), exact, atol=1e-8)
    assert distance(lime_theorem(game), exact) == pytest.approx(0.5, abs=1e-6)


def test_a_constant_moves_the_printed_form_and_not_the_corrected_one():
    game = random_game(1, d=7)
    moved = subtract_constants(game, np.full_like(game.N0, 2.0))
    np.testing.assert_allclose(lime_first_order(moved), lime_first_order(game), atol=1e-12)
    assert np.abs(lime_theorem(moved) - lime_theorem(game)).max() > 1e-2


def test_a_token_without_value_still_counts():
    # Comment (iii) of the paper says that its influence disappears; it dilutes the others.
    game = random_game(1, d=7, ratio=10)
    A, B = game.A.copy(), game.B.copy()
    A[..., 2] = B[..., 2] = 0.0
    game = RatioGame(game.D0, game.a, game.b, game.N0 + game.D0, A, B)
    assert np.abs(lime(game).scores[:, 2]).min() > 1e-3
    assert (lime_theorem(game)[:, 2] == 0).all()


def test_far_from_its_regime_first_order_is_poor():
    game = random_game(2, d=11, ratio=1e5)
    assert distance(lime_first_order(game), lime(game).scores) > 0.1


def test_with_a_penalty_the_bound_is_another():
    game = theorem_game(4096, 16)
    shrunk = lime(game, bandwidth=np.inf, penalty=1.0, tolerance=1e-9).scores
    error = np.abs(lime_first_order(game) - shrunk).max(axis=-1)
    assert (error > first_order_bound(game, bandwidth=np.inf)).all()
    assert (error <= first_order_bound(game, bandwidth=np.inf, penalty=1.0)).all()


def test_where_the_denominator_does_not_move_the_bound_is_rounding():
    game = random_game(3, d=13, ratio=100)
    b = np.where(game.a > 0, game.a, 0.3)
    game = RatioGame(game.D0, b, b, game.N0, game.A, game.B)
    assert first_order_bound(game).max() < 1e-10


def test_the_bound_covers_an_error_of_the_game_itself():
    game = random_game(3, d=5)
    off = replace(game, error=np.full_like(game.N0, 0.1))
    assert (first_order_bound(off) > first_order_bound(game) + 0.19).all()


def test_two_groups_of_equal_tokens_are_covered():
    """The paper's extreme case of repeated words: no distinct words are needed."""
    rng = np.random.default_rng(0)
    T_max, m = 65_536, 120
    pad = np.exp(rng.uniform(-0.7, 0.7, T_max - 2 * m))
    g, g_h = np.array([[1.7, 0.6]]), np.array([[1.1, 0.9]])
    u, u_h = np.array([[[1.5, -0.8]]]), np.array([[[0.2, 0.4]]])
    game = RatioGame(
        D0=np.array([pad.sum()]),
        a=m * g,
        b=m * g_h,
        N0=np.array([[0.3 * pad.sum()]]),
        A=m * g * u,
        B=m * g_h * u_h,
    )
    exact = lime_by_enumeration(game, bandwidth=np.inf).scores
    error = np.abs(lime_first_order(game) - exact).max()
    bound = first_order_bound(game, bandwidth=np.inf).max()
    assert error <= bound < 1.1 * error
    assert distance(lime_first_order(game), exact) < 0.002
    assert distance(lime_theorem(game), exact) > 0.3


@pytest.mark.parametrize(
    ("power", "windows"), [(0.5, (1024, 4096, 16384)), (0.75, (256, 1024, 4096))]
)
def test_the_corrected_form_errs_like_the_window_to_the_power_epsilon_minus_one(power, windows):
    errors = []
    for n in windows:
        games = [theorem_game(n, round(n**power), K=1, C=1, seed=seed) for seed in range(3)]
        # Words weigh more than UNK in the mean: the denominator moves by T, not by √T.
        games = [replace(game, a=1.6 * game.a, A=1.6 * game.A) for game in games]
        exact = [lime(game, bandwidth=np.inf, tolerance=1e-8).scores for game in games]
        pairs = zip(map(lime_first_order, games), exact, strict=True)
        errors.append(np.mean([distance(*pair) for pair in pairs]))
    rate = np.polyfit(np.log(windows), np.log(errors), 1)[0]
    assert rate == pytest.approx(power - 1, abs=0.12)
    assert abs(rate + 1) > 0.3  # 1/T_max holds at fixed T


def test_the_dropped_term_is_small_at_each_position_and_not_in_the_sum():
    """After Eq. 34: (s/(d−1))(g_ℓ − g_{h,ℓ}) beside T_max, at one position and added up."""
    windows, value, summed = (256, 1024, 4096, 16384), [], []
    for n in windows:
        rng = np.random.default_rng(n)
        g, u = np.exp(rng.uniform(-0.7, 0.7, n)), 1 + rng.uniform(-1, 1, n)
        change = g * u / (g.sum() + 0.5 * 0.8) - g * u / g.sum()  # s/(d−1) = ½, g_ℓ − g_{h,ℓ} = 0.8
        value.append(np.median(np.abs(change)))
        summed.append(abs(change.sum()))
    assert np.polyfit(np.log(windows), np.log(value), 1)[0] == pytest.approx(-2, abs=0.15)
    assert np.polyfit(np.log(windows), np.log(summed), 1)[0] == pytest.approx(-1, abs=0.15)


def chance_of_both(law):
    """π = P(k kept | j kept) for a law of the number removed s = 0..d, in whole fractions."""
    d = len(law) - 1
    value = sum(p * Fraction(d - s, d) for s, p in enumerate(law))
    two = sum(p * Fraction((d - s) * (d - s - 1), d * (d - 1)) for s, p in enumerate(law))
    return two / value


def test_no_law_of_sizes_makes_the_factor_three_halves():
    """Least squares on a linear f returns it; conditional means shrink it by 1 − π, for any law."""
    d = 60
    uniform = [Fraction(0), *([Fraction(1, d)] * d)]
    assert float(1 / (1 - chance_of_both(uniform))) == pytest.approx(3, abs=0.15)
    # s uniform given that one word is kept, as in Appendix C: P(s) ∝ 1/(d − s), s < d.
    total = sum(Fraction(1, d - s) for s in range(d))
    arguments = [*(Fraction(1, d - s) / total for s in range(d)), Fraction(0)]
    assert 1 / (1 - chance_of_both(arguments)) == 2
    game = random_game(3, d=7, ratio=10)
    linear = RatioGame(game.D0, game.b, game.b, game.N0, game.A, game.B)
    slopes = ((game.A - game.B) / (game.D0 + game.b.sum(-1))[:, None]).mean(axis=-2)
    for bandwidth in (0.1, 0.25, 1.0, np.inf):
        result = lime_by_enumeration(linear, bandwidth=bandwidth).scores
        np.testing.assert_allclose(result, slopes, atol=1e-9)


def with_two_denominators(game):
    """The form that divides UNK's part by the denominator without any word: the negative control.

    It has the absolute rate of the theorem, but no relative one.
    """
    full, empty = (game.D0 + x.sum(axis=-1) for x in (game.a, game.b))
    f = (game.N0 + game.A.sum(axis=-1)) / full[..., None, :]
    present = (game.A - f[..., None] * game.a[..., None, :, :]) / full[..., None, :, None]
    replaced = (game.B - f[..., None] * game.b[..., None, :, :]) / empty[..., None, :, None]
    return (present - replaced).mean(axis=-2)


def counterexample(T_max, power):
    """Two words of T/2 equal tokens; their effects are of the order 1/T_max, far below T/T_max."""
    m = round(T_max**power / 2)
    return RatioGame(
        D0=np.array([T_max - 2.0 * m]),
        a=np.full((1, 2), 1.0 * m),
        b=np.full((1, 2), 2.0 * m),
        N0=np.array([[-2.0 * m]]),
        A=np.full((1, 1, 2), m + 1.0),
        B=np.full((1, 1, 2), 1.0 * m),
    )


@pytest.mark.parametrize(
    ("power", "error", "of_two_denominators"), [(0.5, 0.0029, 0.50), (0.75, 0.067, 251)]
)
def test_one_denominator_keeps_the_relative_rate_where_effects_cancel(
    power, error, of_two_denominators
):
    windows, ours, other_values = [4096, 16384, 65536, 262144], [], []
    for window in windows:
        game = counterexample(window, power)
        exact = lime_by_enumeration(game, bandwidth=np.inf).scores
        assert window * exact == pytest.approx(1, abs=0.1)
        ours.append(distance(lime_first_order(game), exact))
        other_values.append(distance(with_two_denominators(game), exact))
    assert np.polyfit(np.log(windows), np.log(ours), 1)[0] == pytest.approx(power - 1, abs=0.02)
    assert ours[-1] == pytest.approx(error, rel=0.02)
    assert other_values[-1] == pytest.approx(of_two_denominators, rel=0.02)
    page = (PAGES / "lime-first-order.md").read_text("utf-8")
    assert f"| {of_two_denominators:.3g} | {error} |".replace("0.5 ", "0.50 ") in page


LEAST, MOST = 0.5, 2.0  # c and C of the theorem


def cancelling_game(seed, *, most=8):
    """One head with c ≤ g ≤ C and repeated words, and T, T_max and m_j.

    Half of the games have effects that nearly cancel, by up to six powers of ten, and in half of
    them every g is c or C.
    """
    rng = np.random.default_rng(seed)
    d, T_max = int(rng.integers(2, most + 1)), int(10 ** rng.uniform(2.5, 5))
    m = np.minimum((10 ** rng.uniform(0, 3, d)).astype(int), T_max // (2 * d))
    g, g_h = rng.uniform(LEAST, MOST, (2, d))
    if rng.random() < 0.5:
        g, g_h = rng.choice([LEAST, MOST], (2, d))
    D0 = (T_max - m.sum()) * rng.uniform(LEAST, MOST)
    common, f = rng.uniform(-1, 1, d), rng.uniform(-1, 1)
    small = 10 ** rng.uniform(-6, -1) if rng.random() < 0.5 else 1.0
    game = RatioGame(
        D0=np.array([D0]),
        a=(m * g)[None],
        b=(m * g_h)[None],
        N0=np.array([[f * D0 - (m * common).sum() + small * m.sum() * rng.normal()]]),
        A=(m * (f * g + common + small * rng.normal(size=d)))[None, None],
        B=(m * (f * g_h + common))[None, None],
    )
    return game, m, T_max


def excess(scores, seed, bandwidth):
    """The errors of ``scores`` over what the theorem allows: per word, in sum, L2 and at most."""
    game, m, T_max = cancelling_game(seed)
    T, d = m.sum(), game.d
    beta = lime_by_enumeration(game, bandwidth=bandwidth).scores[0]
    h = np.abs(lime_first_order(game)[0])
    # Rounding moves f, and by it every coefficient, by parts of the largest value.
    rounding = 1e-12 * max(np.abs(x).max() for x in (game.A, game.B, game.N0)) / T_max
    error = np.maximum(np.abs(scores(game)[0] - beta) - rounding, 0)
    kappa, E = (MOST - LEAST) / LEAST, 4 * np.exp(1 / (4 * bandwidth**2))
    ratio = MOST / LEAST
    word = kappa / T_max * (T * h + (T + ratio * (T + d * m) + E * T) * h.mean())
    total = kappa * (2 + 2 * ratio + E) * T / T_max * h.sum()
    factor, norm = kappa * (2 + ratio + E) / T_max, np.linalg.norm
    largest = factor * (T + d * m.max()) * h.max()
    in_l2 = factor * (T + d**0.5 * norm(m)) * norm(h)
    return (error / word).max(), error.sum() / total, norm(error) / in_l2, error.max() / largest


@quick
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.25, 0.5, 2.0, np.inf]))
def test_errors_are_at_most_those_of_the_theorem_whatever_words_repeat(seed, bandwidth):
    assert max(excess(lime_first_order, seed, bandwidth)) <= 1


def test_two_denominators_would_break_each_statement_of_the_theorem():
    worst = np.max([excess(with_two_denominators, seed, np.inf) for seed in range(40)], axis=0)
    assert (worst > 10).all()
    assert worst.max() > 100


@quick
@given(st.integers(0, 2**32 - 1))
def test_the_steps_of_the_proof_hold_with_their_constants(seed):
    """Each step by itself: the final bounds are far above the errors of most games."""
    game, m, T_max = cancelling_game(seed)
    d, T = game.d, m.sum()
    rng = np.random.default_rng(seed)
    a, b, A, B = game.a[0], game.b[0], game.A[0, 0], game.B[0, 0]
    full = game.D0[0] + a.sum()
    f = (game.N0[0, 0] + A.sum()) / full
    h = (A - B - f * (a - b)) / full
    np.testing.assert_allclose(lime_first_order(game)[0], h, rtol=1e-9, atol=1e-9 * np.abs(h).max())

    def denominator(Z):
        return game.D0[0] + (Z * a + (1 - Z) * b).sum()

    def delta(Z):
        return full / denominator(Z) - 1

    kappa, ratio = (MOST - LEAST) / LEAST, MOST / LEAST
    for _ in range(5):
        Z = (rng.random(d) < rng.random()).astype(float)
        value = (game.N0[0, 0] + (Z * A + (1 - Z) * B).sum()) / denominator(Z)
        H = ((1 - Z) * h).sum()
        size = (np.abs(game.N0[0, 0]) + np.abs(A).sum() + np.abs(B).sum()) / denominator(Z)
        assert value == pytest.approx(f - H * (1 + delta(Z)), abs=1e-11 * size)
        assert abs(delta(Z)) <= kappa * T / T_max * (1 + 1e-9)
        i, j = rng.choice(d, 2, replace=False)
        swapped = Z.copy()
        swapped[[i, j]] = Z[[j, i]]
        # The difference of φ = −Hδ under an exchange of two words, and its second term.
        if Z[i] != Z[j]:
            other = ((1 - swapped) * h).sum()
            step = -H * delta(Z) + other * delta(swapped)
            first = -(H - other) * delta(Z)
            second = -other * (delta(Z) - delta(swapped))
            assert step == pytest.approx(first + second, abs=1e-12 * (np.abs(h).sum() + 1e-300))
            most = np.abs(h).sum() * ratio * kappa * (m[i] + m[j]) / T_max
            assert abs(second) <= most * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("bandwidth", [0.25, 0.5, 2.0, np.inf])
def test_the_spread_of_sizes_is_as_large_as_the_proof_says(bandwidth):
    """√Var(n) ≥ d/E for the number n of words present, under the weights of LIME."""
    E = 4 * np.exp(1 / (4 * bandwidth**2))
    for d in (2, 3, 5, 11, 60, 400):
        removed = np.arange(1, d + 1)
        weights = np.exp(-((1 - np.sqrt(1 - removed / d)) ** 2) / (2 * bandwidth**2))
        weights /= weights.sum()
        mean = weights @ (d - removed)
        assert np.sqrt(weights @ (d - removed - mean) ** 2) >= d / E


def game_with_frequent_word(d, m, T_max):
    """Word 0 occurs m times and d − 1 words once, |u| ≤ 2, f = 0, T_max h = 0, 1, 1, …"""
    counts = np.r_[float(m), np.ones(d - 1)]
    T = counts.sum()
    gain = (T_max - T / 2) / T_max * np.r_[0.0, np.ones(d - 1)]  # D(1) = T_max − T/2
    return RatioGame(
        D0=np.array([T_max - T]),
        a=0.5 * counts[None],
        b=2.0 * counts[None],
        N0=np.array([[-gain.sum()]]),
        A=gain[None, None],
        B=np.zeros((1, 1, d)),
    )


def fit_errors_by_sizes(d, m, T_max):
    """Return T_max(β − h) for word 0 and for another word of the same game, without bandwidth.

    The output depends on word 0 and on the number of other absent words alone, so sums over both
    replace the sums over all subsets. The remainder −H(D(1)/D − 1) is fitted, not the output,
    because its coefficients are much smaller. This uses no code of the library.
    """
    sizes, absent = np.arange(1.0, d + 1)[:, None], np.array([[0.0, 1.0]])
    others = sizes - absent
    weights = np.where(absent == 1, sizes / d, 1 - sizes / d) / d
    growth = 1.5 * (m * absent + others)
    remainder = others * growth / (T_max - (d - 1 + m) / 2 + growth)
    contrast = absent - sizes / d  # orthogonal to every function of the size
    centered = np.broadcast_to(sizes - (d + 1) / 2, contrast.shape)
    difference = (weights * contrast * remainder).sum() / (weights * contrast**2).sum()
    slope = (weights * centered * remainder).sum() / (weights * centered**2).sum()
    other = slope - difference / d
    return -(other + difference), -other  # signs of Z, not of 1 − Z


def largest_error(T, epsilon, m):
    """Return T_max and T_max times the largest error of the first order in the game above."""
    T_max = round(T ** (1 / epsilon))
    return T_max, max(map(abs, fit_errors_by_sizes(T - m + 1, m, T_max)))


def test_a_word_that_occurs_often_keeps_its_error_and_the_sum_over_words_does_not():
    """Relative to the largest score no rate holds: the factor d max m_j of the error is needed."""
    page = (PAGES / "lime-first-order.md").read_text("utf-8")
    totals = []
    for d in (32, 128, 512):
        T_max = (2 * d - 1) ** 2
        game = game_with_frequent_word(d, d, T_max)
        h = lime_first_order(game)[0]
        np.testing.assert_allclose(T_max * h, np.r_[0, np.ones(d - 1)], atol=1e-9)
        error = np.abs(lime(game, bandwidth=np.inf, tolerance=1e-11).scores[0] - h)
        largest, total = error.max() / h.max(), error.sum() / h.sum()
        assert error.argmax() == 0
        assert largest == pytest.approx(3 / 16, rel=0.02)
        assert f"| {d} | {largest:.3f} | {total:.4f} |" in page
        totals.append(total)
    assert np.polyfit(np.log([32, 128, 512]), np.log(totals), 1)[0] == pytest.approx(-1, abs=0.05)


@pytest.mark.parametrize("epsilon", ["1/2", "3/4"])
def test_bounded_multiplicities_keep_the_rate_of_one_word_and_small_ones_do_not(epsilon):
    """The conjecture on repeated words: m = √T is small beside T, and m = 10 is the control."""
    page = (PAGES / "lime-first-order.md").read_text("utf-8")
    power = float(Fraction(epsilon))
    scaled = {}
    for T in (10**4, 10**6):
        for m, name in ((round(T**0.5), r"$\sqrt T$"), (10, "10")):
            T_max, error = largest_error(T, power, m)
            d = T - m + 1
            rate = error * T_max ** (1 - power)
            assert error == pytest.approx(0.75 * d * m / T_max, rel=2 / d + 1.5 * T / T_max)
            ratio = np.format_float_positional(error, 2, fractional=False)
            content = f"{rate:.1f}" if rate < 10 else f"{rate:.0f}"
            assert f"| {T:,} | {epsilon} | {name} | {ratio} | {content} |" in page
            scaled[T, name] = rate
    assert scaled[10**6, r"$\sqrt T$"] > 9 * scaled[10**4, r"$\sqrt T$"]
    assert scaled[10**6, "10"] == pytest.approx(scaled[10**4, "10"], rel=0.06)
    assert max(scaled[T, "10"] for T in (10**4, 10**6)) <= 0.75 * 10


@pytest.mark.parametrize(("d", "m"), [(3, 3), (6, 2), (9, 30)])
def test_limit_and_all_subsets_and_sizes_agree_on_a_word_that_occurs_often(d, m):
    T_max = (d - 1 + m) ** 2
    game = game_with_frequent_word(d, m, T_max)
    exact = lime(game, bandwidth=np.inf, tolerance=1e-11).scores
    subsets = lime_by_enumeration(game, bandwidth=np.inf).scores
    first, other = fit_errors_by_sizes(d, m, T_max)
    np.testing.assert_allclose(T_max * exact, T_max * subsets, atol=1e-7)
    expected = np.r_[first, np.full(d - 1, 1 + other)]
    np.testing.assert_allclose(T_max * subsets[0], expected, atol=1e-9)


def test_heads_that_cancel_have_no_relative_rate():
    """h of two heads adds up to 0, and β does not: the theorem holds for each head by itself."""
    value, other = (random_game(seed, d=5, K=1, C=1, ratio=3) for seed in (1, 2))
    full = other.D0 + other.a.sum(axis=-1)
    f = (other.N0 + other.A.sum(axis=-1)) / full
    # The second head keeps its weights and its f, and gets the opposite h.
    wanted = -lime_first_order(value)[:, None] * full
    A = wanted + f * (other.a - other.b) + other.B
    N0 = f * full - A.sum(axis=-1)
    other = replace(other, A=A, N0=N0)
    pair = RatioGame(
        **{
            name: np.concatenate(
                [getattr(value, name), getattr(other, name)],
                axis={"D0": 0, "a": 0, "b": 0, "N0": -1, "A": -2, "B": -2}[name],
            )
            for name in ("D0", "a", "b", "N0", "A", "B")
        }
    )
    np.testing.assert_allclose(lime_first_order(other), -lime_first_order(value), atol=1e-12)
    np.testing.assert_allclose(lime_first_order(pair), 0, atol=1e-12)
    beta = lime_by_enumeration(pair).scores
    assert np.abs(beta).max() > 1e-3
    mean_of_heads = [lime_by_enumeration(game).scores for game in (value, other)]
    np.testing.assert_allclose(beta, np.mean(mean_of_heads, axis=0), atol=1e-12)


@quick
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.25, np.inf]))
def test_a_bound_by_the_largest_move_of_the_denominator_holds_for_each_head(seed, bandwidth):
    """|β_j − h_j| ≤ Σ|c_S| max|D(1)/D − 1| max(Σh⁺, Σh⁻), since f = f(1) − H D(1)/D exactly."""
    game = random_game(seed, d=2 + seed % 5, K=1, C=1, ratio=30)
    keep = enumerate_masks(game.d)
    D = game.D0 + np.where(keep, game.a, game.b).sum(axis=-1)
    moved = np.abs(D[-1] / D - 1).max()
    design = np.column_stack([np.ones(len(keep)), keep])
    weights = lime_mask_weights(game.d, bandwidth=bandwidth)
    functional = ridge_matrix(design, weights, 0.0)[:, 1:]
    h = lime_first_order(game)[0]
    allowed = np.abs(functional).sum(axis=0) * moved * max(h.clip(0).sum(), (-h).clip(0).sum())
    beta = lime_by_enumeration(game, bandwidth=bandwidth).scores[0]
    assert (np.abs(beta - h) <= allowed + 1e-9).all()


@given(st.integers(0, 2**32 - 1))
def test_where_f_is_constant_the_corrected_form_is_zero(seed):
    """A − f a = B − f b for every word: each text has the value f, and no word has an effect."""
    rng = np.random.default_rng(seed)
    a, b, m = rng.random((3, 1, 5))
    f, D0 = rng.normal(), rng.random()
    game = RatioGame(
        D0=np.array([D0]),
        a=a,
        b=b,
        N0=np.array([[f * D0 - m.sum()]]),
        A=(f * a + m)[None],
        B=(f * b + m)[None],
    )
    np.testing.assert_allclose(lime_by_enumeration(game).scores, 0, atol=1e-10)
    np.testing.assert_allclose(lime_first_order(game), 0, atol=1e-13)
    assert first_order_bound(game).item() < 1e-9
    assert np.abs(with_two_denominators(game)).max() > 1e-5
