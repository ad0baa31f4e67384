"""Theorem 5.1 as printed and corrected, in its own regime and outside it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from ratio_games import random_game

from limelight.theory.enumeration import lime_by_enumeration
from limelight.theory.lime import lime
from limelight.theory.lime_first_order import lime_first_order
from limelight.theory.paper import lime_theorem
from limelight.theory.ratio_game import RatioGame, shifted
from limelight.theory.second_order import lime_distance_bound


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
    centred = shifted(game, np.ones_like(game.N0))
    exact = lime(centred, bandwidth=np.inf, tolerance=1e-9).scores
    assert distance(lime_theorem(centred), exact) == pytest.approx(0.5, abs=0.02)
    assert distance(lime_theorem(centred) / 1.5, exact) < 0.02


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
    moved = shifted(game, np.full_like(game.N0, 2.0))
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
    windows, one, summed = (256, 1024, 4096, 16384), [], []
    for n in windows:
        rng = np.random.default_rng(n)
        g, u = np.exp(rng.uniform(-0.7, 0.7, n)), 1 + rng.uniform(-1, 1, n)
        change = g * u / (g.sum() + 0.5 * 0.8) - g * u / g.sum()  # s/(d−1) = ½, g_ℓ − g_{h,ℓ} = 0.8
        one.append(np.median(np.abs(change)))
        summed.append(abs(change.sum()))
    assert np.polyfit(np.log(windows), np.log(one), 1)[0] == pytest.approx(-2, abs=0.15)
    assert np.polyfit(np.log(windows), np.log(summed), 1)[0] == pytest.approx(-1, abs=0.15)


def chance_of_both(law):
    """π = P(k kept | j kept) for a law of the number removed s = 0..d, in whole fractions."""
    d = len(law) - 1
    one = sum(p * Fraction(d - s, d) for s, p in enumerate(law))
    two = sum(p * Fraction((d - s) * (d - s - 1), d * (d - 1)) for s, p in enumerate(law))
    return two / one


def test_no_law_of_sizes_makes_the_factor_three_halves():
    """Least squares on a linear f returns it; conditional means shrink it by 1 − π, for any law."""
    d = 60
    uniform = [Fraction(0), *([Fraction(1, d)] * d)]
    assert float(1 / (1 - chance_of_both(uniform))) == pytest.approx(3, abs=0.15)
    # s uniform given that one word is kept, as in Appendix C: P(s) ∝ 1/(d − s), s < d.
    total = sum(Fraction(1, d - s) for s in range(d))
    given = [*(Fraction(1, d - s) / total for s in range(d)), Fraction(0)]
    assert 1 / (1 - chance_of_both(given)) == 2
    game = random_game(3, d=7, ratio=10)
    linear = RatioGame(game.D0, game.b, game.b, game.N0, game.A, game.B)
    slopes = ((game.A - game.B) / (game.D0 + game.b.sum(-1))[:, None]).mean(axis=-2)
    for bandwidth in (0.1, 0.25, 1.0, np.inf):
        found = lime_by_enumeration(linear, bandwidth=bandwidth).scores
        np.testing.assert_allclose(found, slopes, atol=1e-9)


def test_where_f_is_constant_the_bound_is_what_unks_own_denominator_costs():
    """A − f a = B − f b for every word: LIME is 0, and the formula is off by its second term."""
    rng = np.random.default_rng(0)
    a, b, m = rng.random((3, 1, 5))
    f, D0 = 0.7, 0.4
    game = RatioGame(
        D0=np.array([D0]),
        a=a,
        b=b,
        N0=np.array([[f * D0 - m.sum()]]),
        A=(f * a + m)[None],
        B=(f * b + m)[None],
    )
    np.testing.assert_allclose(lime_by_enumeration(game).scores, 0, atol=1e-12)
    off = np.abs(lime_first_order(game)).max()
    assert off > 0.05
    assert first_order_bound(game).item() == pytest.approx(off, rel=1e-6)
