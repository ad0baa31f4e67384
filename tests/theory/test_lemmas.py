"""Eq. 17, Proposition B.1 and Lemmas D.1–D.5 against all subsets, integrals and rates."""

import math
from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
from ratio_games import random_game
from test_lime_theorem import theorem_game

from limelight.theory.conditionals import expectations
from limelight.theory.enumeration import enumerate_masks, lime_by_enumeration
from limelight.theory.heavy_form import heavy_form
from limelight.theory.lime import lime
from limelight.theory.ratio_game import value
from limelight.theory.removal_mixture import removal_mixture
from limelight_reproduction.lemmas import (
    approximate_conditionals,
    conditional_mean,
    conditional_variance,
    conditional_weights,
    expected_ratio_bound,
    integral_approximation,
    kept_given_kept,
    kept_probability,
    limit_at_finite_d,
    limit_of_many_words,
    mixed_probability,
    ratio_integral,
    removed_given_kept,
)

N = 7


def sets(n, s):
    return [set(x) for x in combinations(range(n), s)]


@pytest.mark.parametrize("s", range(N + 1))
def test_lemma_d4_counts_subsets(s):
    S = sets(N, s)
    share = lambda test: sum(map(test, S)) / len(S)  # noqa: E731
    assert kept_probability(N, s) == pytest.approx(share(lambda x: 0 not in x))
    assert kept_probability(N, s, words=2) == pytest.approx(share(lambda x: not {0, 1} & x))
    assert mixed_probability(N, s) == pytest.approx(share(lambda x: 0 not in x and 1 in x))
    assert kept_probability(N, s, words=3) == pytest.approx(share(lambda x: not {0, 1, 2} & x))
    assert mixed_probability(N, s, kept_words=2) == pytest.approx(
        share(lambda x: not {0, 2} & x and 1 in x)
    )


@pytest.mark.parametrize("s", range(N))
def test_lemma_d5_counts_subsets_without_one_word(s):
    S = [x for x in sets(N, s) if 6 not in x]
    share = lambda test: sum(map(test, S)) / len(S)  # noqa: E731
    assert kept_given_kept(N, s) == pytest.approx(share(lambda x: 0 not in x))
    assert removed_given_kept(N, s) == pytest.approx(share(lambda x: 0 in x))
    assert kept_given_kept(N, s, words=2) == pytest.approx(share(lambda x: not {0, 1} & x))


@pytest.mark.parametrize("s", range(N))
def test_lemma_d3_is_the_mean_and_variance_over_subsets(s):
    a, b = np.random.default_rng(s).random((2, N))
    for word in range(N):
        H = [sum(b[i] if i in S else a[i] for i in range(N)) for S in sets(N, s) if word not in S]
        assert conditional_mean(a, b, s)[word] == pytest.approx(np.mean(H))
        assert conditional_variance(a, b, s)[word] == pytest.approx(np.var(H), abs=1e-12)


@pytest.mark.parametrize("seed", range(50))
def test_lemma_d1_bounds_the_ratio_of_expectations(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.uniform(-2, 2, 9), 10 * rng.uniform(0.5, 2, 9)
    gap = abs(np.mean(X / Y) - np.mean(X) / np.mean(Y))
    bound = expected_ratio_bound(c=0.5, C=2.0, n=10.0, variance=float(np.var(Y)))
    assert gap <= bound
    assert bound == pytest.approx(2 * np.var(Y) / 5**3 + 2 * np.std(Y) / 5**2)
    printed = expected_ratio_bound(c=0.5, C=2.0, n=10.0, variance=float(np.var(Y)), printed=True)
    assert printed == pytest.approx(2 * np.var(Y) / 5**3 + 4 * np.std(Y) / 5**2)


def test_lemma_d1_as_printed_is_false_below_one():
    """X = ±C and Y = cn or Cn, half the time each; all but the root in whole fractions."""
    c, C, n = Fraction(9, 20), Fraction(1, 2), 1
    X, Y = (C, -C), (c * n, C * n)
    gap = abs(sum(x / y for x, y in zip(X, Y, strict=True)) / 2 - sum(X) / sum(Y))
    assert gap == (C / c - 1) / (2 * n) == Fraction(1, 18)
    deviation = (C - c) * n / 2  # of Y, which takes two values: the variance is its square
    bound = {
        power: C * deviation**2 / (c * n) ** 3 + C**power * deviation / (c * n) ** 2
        for power in (1, 2)
    }
    assert bound[2] < gap < bound[1]
    for power, printed in ((1, False), (2, True)):
        result = expected_ratio_bound(
            c=float(c), C=float(C), n=1.0, variance=float(deviation**2), printed=printed
        )
        assert result == pytest.approx(float(bound[power]))


@pytest.mark.parametrize("a", [-0.9, -0.3, -1e-3, 0.0, 1e-6, 0.009, 0.011, 0.5, 10.0])
def test_lemma_d2_is_the_integral(a):
    integral = mpmath.quad(lambda x: x / (1 + a * x), [0, 1])
    assert ratio_integral(a) == pytest.approx(float(integral), rel=1e-12)


def test_lemma_d2_expands_to_second_order():
    a = np.asarray([0.1, 0.05, 0.025])
    errors = [abs(ratio_integral(x) - integral_approximation(x)) for x in a]
    rate = np.polyfit(np.log(a), np.log(errors), 1)[0]
    assert rate == pytest.approx(2, abs=0.15)


def conditionals(game):
    """E[f | j ∉ S] for every j and E f, sizes uniform on 1..d: from all subsets."""
    keep = enumerate_masks(game.d)
    s = game.d - keep.sum(axis=1)
    weight = np.where(s > 0, 1 / np.bincount(s)[s], 0.0) / game.d
    f = value(game, keep)
    kept_words = (f * weight) @ keep / (weight @ keep)
    return kept_words, f @ weight


@pytest.mark.parametrize("d", [2, 3, 7, 11])
def test_the_finite_form_of_eq_17_is_lime_without_weights(d):
    game = random_game(d, d=d)
    m, mean = conditionals(game)
    exact = lime_by_enumeration(game, bandwidth=math.inf)
    np.testing.assert_allclose(limit_at_finite_d(m, mean), exact.scores, rtol=1e-8, atol=1e-9)


def test_eq_17_approaches_the_finite_form_as_words_grow():
    rng = np.random.default_rng(0)
    errors, words = [], np.asarray([10, 30, 100, 300, 1000])
    for d in words:
        m = 1 + rng.normal(size=d) / d
        mean = np.mean(m) * (1 - 1 / d)
        exact = limit_at_finite_d(m, np.asarray(mean))
        errors.append(np.linalg.norm(limit_of_many_words(m) - exact) / np.linalg.norm(exact))
    assert np.polyfit(np.log(words), np.log(errors), 1)[0] < -0.4


def test_eq_17_errs_by_one_over_d_absolutely_and_relatively_only_where_words_cancel_or_dominate():
    words, absolute, relative = np.asarray([20, 80, 320]), [], {"even": [], "sparse": []}
    for d in words.tolist():
        for kind in relative:
            w = np.full(d, 1 / d) if kind == "even" else np.eye(d)[0]
            # f = Σ w_k Z_k: P(k kept | j kept) = 2(d−2)/(3(d−1)), P(k kept) = (d−1)/(2d).
            pair = 2 * (d - 2) / (3 * (d - 1))
            m = w + pair * (w.sum() - w)
            result = limit_of_many_words(m)
            np.testing.assert_allclose(
                limit_at_finite_d(m, np.asarray(w.sum() * (d - 1) / (2 * d))), w, atol=1e-9
            )
            relative[kind].append(np.linalg.norm(result - w) / np.linalg.norm(w))
            if kind == "sparse":
                absolute.append(np.abs(result - w).max())
    assert np.polyfit(np.log(words), np.log(absolute), 1)[0] == pytest.approx(-1, abs=0.1)
    assert min(relative["even"]) > 0.9  # all pull the same way: everything is lost
    assert relative["sparse"][-1] < 0.1


@pytest.mark.parametrize("d", [2, 3, 7, 30])
def test_eq_17_is_the_finite_form_less_its_mean(d):
    m, mean = np.random.default_rng(d).normal(size=(2, 5, d))
    exact = limit_at_finite_d(m, mean[:, 0])
    centered = exact - exact.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(limit_of_many_words(m), (d + 1) / (d - 1) * centered, rtol=1e-9)
    assert np.abs(limit_of_many_words(m) - exact).max() > 1e-2  # the mean is not small


def test_eq_17_is_a_fifth_off_at_thirty_words():
    game = theorem_game(256, 30)
    exact = lime(game, bandwidth=math.inf, tolerance=1e-9)
    d = 30
    mixture = removal_mixture(np.full(d + 1, 1 / (d + 1)), np.ones(d + 1), tolerance=1e-12)
    form = heavy_form(game)
    G = len(form.delta)
    sums = expectations(
        form, np.tile(mixture.p, (G, 1)), np.tile(mixture.omega, (G, 1)), tolerance=1e-12
    )
    keep = np.where(form.kept_is_heavy[:, None], sums.heavy, sums.total[..., None] - sums.heavy)
    full = (form.n0 + (form.step * form.kept_is_heavy[:, None]).sum(-1)) / (
        1 + (form.delta * form.kept_is_heavy).sum(-1)
    )[:, None]
    keep = ((d + 1) * keep - full[..., None]) / d  # sizes 1..d
    mean = ((d + 1) * sums.total - full) / d
    m = keep * 2 * d / (d - 1)  # P(j kept) = (d − 1)/(2d)
    m, mean = (m + form.c[..., None]).mean(0), (mean + form.c).mean(0)
    np.testing.assert_allclose(limit_at_finite_d(m, mean), exact.scores, rtol=1e-5, atol=1e-9)
    off = np.linalg.norm(limit_of_many_words(m) - exact.scores) / np.linalg.norm(exact.scores)
    assert 0.1 < off < 0.4


def test_proposition_b1_holds_at_its_rate_once_its_weights_are_right():
    windows, right, printed = np.asarray([64, 256, 1024, 4096]), [], []
    for T_max in windows:
        game = theorem_game(int(T_max), 7, C=2)
        f_given = exact_parts(game)
        for weights, errors in ((False, right), (True, printed)):
            same, other = approximate_conditionals(game, printed=weights)
            errors.append(max(np.abs(same - f_given[0]).max(), np.abs(other - f_given[1]).max()))
    assert np.polyfit(np.log(windows), np.log(right), 1)[0] < -1.5
    assert np.polyfit(np.log(windows), np.log(printed), 1)[0] > -1.3


def exact_parts(game):
    """E[A_t V_t | ℓ ∉ S] for t = ℓ, and for one ℓ other than t, from all subsets."""
    keep = enumerate_masks(game.d)
    s = game.d - keep.sum(axis=1)
    weight = np.where(s > 0, 1 / np.bincount(s)[s], 0.0) / game.d
    D = game.D0[:, None] + game.a @ keep.T + game.b @ (~keep).T
    part = np.where(keep.T[None, None], game.A[..., None], game.B[..., None]) / D[:, None, :]
    part = part.mean(axis=1)  # (C, d, sets)
    arguments = weight[:, None] * keep / (weight @ keep)  # (sets, ℓ)
    table = part @ arguments  # (C, t, ℓ)
    t = np.arange(game.d)
    return table[:, t, t], table[:, t, (t + 1) % game.d]


def test_the_printed_weights_do_not_sum_to_one():
    assert conditional_weights(10, printed=False).sum() == pytest.approx(1)
    assert conditional_weights(10).sum() == pytest.approx(0.9)
    element = [kept_probability(10, s) for s in range(1, 10)]
    np.testing.assert_allclose(
        conditional_weights(10, printed=False)[1:], np.asarray(element) / sum(element)
    )
