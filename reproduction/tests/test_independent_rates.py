"""Approximations of the paper and of the library against games that are counted out."""

import itertools
import math

import numpy as np
import pytest

from limelight.theory.ratio_game import RatioGame
from limelight_reproduction.lemmas import approximate_conditionals
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field
from limelight_reproduction.theory.paper import lime_theorem
from limelight_reproduction.theory.second_order import lime_distance_bound

from own_classifier import lime_by_all_masks


def first_order_bound(game, **settings):
    return lime_distance_bound(lime_first_order(game), game, **settings)


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def two_word_game(rest, g, u, h, v, *, of_rest=None):
    """The library's game of one head and one output: words (g, u), UNK (h, v), ``rest`` more."""
    g, u, h, v = (np.broadcast_to(np.asarray(x, float), np.shape(g)) for x in (g, u, h, v))
    of_rest = rest * v[0] if of_rest is None else of_rest
    return RatioGame(
        D0=np.array([float(rest)]),
        N0=np.array([[float(of_rest)]]),
        a=g[None].copy(),
        b=h[None].copy(),
        A=(g * u)[None, None],
        B=(h * v)[None, None],
    )


# ------------------------------------------------------------- Proposition B.1


def test_the_slopes_of_proposition_b1():
    """Per position the error falls like T_max⁻²; but T_max positions are added, which leaves −1."""
    d, rng = 8, np.random.default_rng(5)
    g, u, h, v = np.exp(rng.uniform(-1, 1, d)), rng.uniform(-1, 1, d), 0.8, 0.4
    windows = [64, 256, 1024, 4096]
    per_word, summed = [], []
    for window in windows:
        remainder = (window - d) * h
        exact, total, weights = np.zeros(d), 0.0, 0.0
        own_value = {
            False: np.zeros(d),
            True: np.zeros(d),
        }  # by the right weights, by those printed
        for s in range(1, d):
            x, weight = s / (d - 1), 2 * (d - s) / (d * (d - 1))
            D = (1 - x) * (remainder + g.sum()) + x * (remainder + d * h)
            N = (1 - x) * g * u + x * h * v
            N[0] = g[0] * u[0]  # the first word is the one that is known to stay
            own_value[False] += weight * N / D
            own_value[True] += N / D / d
            weights += weight * remainder * v / D
            sets = [S for S in itertools.combinations(range(d), s) if 0 not in S]
            for S in sets:
                gone = np.isin(np.arange(d), S)
                added = np.where(gone, h, g)
                terms = added * np.where(gone, v, u) / (remainder + added.sum())
                exact += weight * terms / len(sets)
                total += weight * remainder * v / (remainder + added.sum()) / len(sets)
        for printed, wanted in own_value.items():
            same, other = approximate_conditionals(
                two_word_game(remainder, g, u, h, v), printed=printed
            )
            result = np.r_[same[0, 0], other[0, 1:]]
            np.testing.assert_allclose(result, wanted, rtol=1e-12)
            if not printed:
                per_word.append(np.abs(exact - result).max())
                summed.append(abs((exact - result).sum() + total - weights))
    assert slope(windows, per_word) == pytest.approx(-2, abs=0.15)
    assert slope(windows, summed) == pytest.approx(-1, abs=0.15)


# ------------------------------------------------------ Theorem 5.1 and its repairs

KINDS = (1.6, 0.9), (0.7, -0.5), (1.0, 0.2)  # (g, u) of two kinds of words, and of UNK


def two_kinds(window, T, bandwidth=math.inf):
    """LIME for T words of two kinds, half of each: one coefficient of either, and the game.

    f depends on how many of each kind are removed alone, so that weighted least squares on these
    two numbers have the coefficients of all T words.
    """
    (g, u), (k, w), (h, v) = KINDS
    n = T // 2
    i, j = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    s, d = i + j, 2 * n
    p = np.exp(log_binomial(n)[i] + log_binomial(n)[j] - log_binomial(d)[s]) / d * (s > 0)
    near = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / 2 / bandwidth**2)
    remainder = window - d
    D = remainder * h + (n - i) * g + (n - j) * k + s * h
    N = remainder * h * v + (n - i) * g * u + (n - j) * k * w + s * h * v
    X = np.stack([np.ones(p.size), (n - i).ravel(), (n - j).ravel()], axis=1)
    root = np.sqrt(p * near).ravel()
    beta = np.linalg.lstsq(X * root[:, None], (N / D).ravel() * root, rcond=None)[0][1:]
    words = np.repeat(KINDS[:2], n, axis=0)
    return beta, two_word_game(remainder * h, words[:, 0], words[:, 1], h, v)


def log_binomial(n):
    return np.array(
        [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(n + 1)]
    )


def first_orders(window, T):
    """The corrected first order and Eq. 19 for a word of either kind, written out."""
    (g, u), (k, w), (h, v) = KINDS
    n = T // 2
    remainder = window - 2 * n
    full, empty = remainder * h + n * (g + k), window * h
    f = (remainder * h * v + n * (g * u + k * w)) / full
    words = ((g, u), (k, w))
    corrected = [(x * (y - f) - h * (v - f)) / full for x, y in words]
    printed = [1.5 * (x * y / full - h * v / empty) for x, y in words]
    return np.array(corrected), np.array(printed)


def first_scores(scores):
    """The scores of a word of the first kind and of one of the second."""
    return scores[0, [0, -1]]


def error(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize(("epsilon", "rate"), [(0.5, -0.5), (0.75, -0.25)])
def test_the_rates_of_the_regime(epsilon, rate):
    windows, errors = [2**k for k in (8, 10, 12, 14)], []
    for window in windows:
        T = 2 * round(window**epsilon / 2)
        exact, game = two_kinds(window, T)
        results = [first_scores(method(game)) for method in (lime_first_order, lime_theorem)]
        for scores, wanted in zip(results, first_orders(window, T), strict=True):
            np.testing.assert_allclose(scores, wanted, rtol=1e-10)
        errors.append([error(scores, exact) for scores in results])
    corrected, printed = np.transpose(errors)
    assert slope(windows, corrected) == pytest.approx(rate, abs=0.05)
    assert printed.min() > 0.2  # Eq. 19 as printed does not come nearer
    assert abs(slope(windows, printed)) < 0.1


@pytest.mark.parametrize("bandwidth", [0.1, 0.25, math.inf])
def test_the_mean_field_comes_nearer_as_words_are_added_and_the_first_order_does_not(bandwidth):
    """In a window of words alone D moves as much as it can, and the error falls like 1/d."""
    lengths, errors = [32, 64, 128, 256], []
    for T in lengths:
        exact, game = two_kinds(T, T, bandwidth)
        result = lime_mean_field(game, bandwidth=bandwidth), lime_first_order(game)
        errors.append([error(first_scores(scores), exact) for scores in result])
    mean_field, first_order = np.transpose(errors)
    assert slope(lengths, mean_field) == pytest.approx(-1, abs=0.1)
    assert first_order.min() > 5 * mean_field.max()


# ------------------------------------------------------- the bound of the first order


def counted_lime(game, bandwidth):
    """LIME of a game of one head over all its masks, by the oracle of the classifier."""
    d = game.d
    f = {}
    for size in range(d + 1):
        for gone in itertools.combinations(range(d), size):
            keep = ~np.isin(np.arange(d), gone)
            N = game.N0[0, 0] + np.where(keep, game.A[0, 0], game.B[0, 0]).sum()
            f[frozenset(gone)] = N / (game.D0[0] + np.where(keep, game.a[0], game.b[0]).sum())
    return lime_by_all_masks(range(d), f, bandwidth)[0]


@pytest.mark.parametrize("bandwidth", [0.25, 0.6, math.inf])
def test_the_first_order_is_as_near_to_lime_as_its_bound_says(bandwidth):
    rng = np.random.default_rng(2)
    for _ in range(20):
        d = int(rng.integers(2, 8))
        g, h = np.exp(rng.uniform(-2, 2, (2, d)))
        u, v = rng.uniform(-1, 1, (2, d))
        game = two_word_game(rng.uniform(0.1, 20), g, u, h, v, of_rest=rng.uniform(-2, 2))
        off = np.abs(lime_first_order(game)[0] - counted_lime(game, bandwidth)).max()
        assert 0 < off <= first_order_bound(game, bandwidth=bandwidth)[0]


def test_the_first_order_of_a_constant_is_zero():
    """f(Z) = f for every Z where A = f a + r, B = f b + r and N_0 = f D_0 − Σ r: LIME gives 0.

    Eq. 19 divides UNK's part by D(none), and is r (1/D(all) − 1/D(none)) off, centered and without
    its factor.
    """
    rng = np.random.default_rng(3)
    f, remainder, d = 0.7, 2.0, 6
    a, b = rng.uniform(0.5, 3, (2, d))
    r = rng.uniform(-1, 1, d)
    game = two_word_game(remainder, a, f + r / a, b, f + r / b, of_rest=f * remainder - r.sum())
    np.testing.assert_allclose(counted_lime(game, 0.25), 0, atol=1e-12)
    np.testing.assert_allclose(lime_first_order(game)[0], 0, atol=1e-12)
    assert first_order_bound(game)[0] < 1e-9
    centered = two_word_game(remainder, a, r / a, b, r / b, of_rest=-r.sum())
    off = r * (1 / (remainder + a.sum()) - 1 / (remainder + b.sum()))
    np.testing.assert_allclose(lime_theorem(centered)[0] / 1.5, off, rtol=1e-9)
