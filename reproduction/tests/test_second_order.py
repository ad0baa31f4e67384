"""The second order about the mean text: its parts by all subsets, its bound, its rates."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_lime import pad_games

from limelight.theory.enumeration import (
    enumerate_masks,
    lime_by_enumeration,
    lime_mask_weights,
    ridge_matrix,
    shapley_by_enumeration,
    shapley_matrix,
)
from limelight.theory.lime import lime
from limelight.theory.lime_weights import lime_design
from limelight.theory.ratio_game import RatioGame, select_documents, subtract_constants
from limelight.theory.shapley import shapley
from limelight_reproduction.studies.attention_pooling import pooling_game
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field, shapley_mean_field
from limelight_reproduction.theory.paper import lime_theorem
from limelight_reproduction.theory.second_order import (
    distance_bound,
    lime_distance_bound,
    lime_second_order,
    lime_value,
    second_order,
    shapley_second_order,
    shapley_value,
)
from test_lime_theorem import theorem_game

from ratio_games import games, peaked_game, quick, random_game

BANDWIDTHS = (0.1, 0.25, 1.0, np.inf)


def first_order_bound(game):
    return lime_distance_bound(lime_first_order(game), game)


def shapley_mean_field_bound(game):
    return distance_bound(shapley_mean_field(game), shapley_second_order(game))


def largest(x):
    """The largest score in size, of each class."""
    return np.abs(x).max(axis=-1)


# --- Exchanges, in whole fractions -------------------------------------------------------------


def solve_exactly(matrix, right):
    """Gauss's elimination in fractions."""
    rows = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k, row in enumerate(rows):
            if k != i:
                rows[k] = [x - row[i] * y for x, y in zip(row, rows[i], strict=True)]
    return [row[-1] for row in rows]


def subsets(d):
    return [
        frozenset(combination) for n in range(d + 1) for combination in combinations(range(d), n)
    ]


def least_squares(phi, law, d):
    """Coefficients of the words in the regression of φ: sizes by ``law``, sets of a size alike."""
    rows = [
        ([1, *(int(j in S) for j in range(d))], law[len(S)] / math.comb(d, len(S)), phi[S])
        for S in subsets(d)
    ]
    size = range(d + 1)
    normal = [[sum(w * Z[i] * Z[k] for Z, w, _ in rows) for k in size] for i in size]
    return solve_exactly(normal, [sum(w * Z[i] * y for Z, w, y in rows) for i in size])[1:]


def exchange_effect(phi, j, i, n, d):
    """E[φ(Z) − φ(Z with i for j) | n kept, j among them, i not]."""
    other_values = [k for k in range(d) if k not in (i, j)]
    pairs = [(frozenset(S) | {j}, frozenset(S) | {i}) for S in combinations(other_values, n - 1)]
    return sum(phi[a] - phi[b] for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_lime_and_shapley_values_are_means_of_exchanges(d):
    """Every function of the text, every law of sizes; no ratio game, no rounding."""
    rng = np.random.default_rng(d)
    phi = {S: Fraction(int(rng.integers(-50, 50))) for S in subsets(d)}
    law = [Fraction(int(rng.integers(1, 20))) for _ in range(d + 1)]
    total = sum(law)
    mean = sum(p * n for n, p in enumerate(law)) / total
    by_size = [
        sum(phi[S] for S in subsets(d) if len(S) == n) / math.comb(d, n) for n in range(d + 1)
    ]
    variance = sum(p * (n - mean) ** 2 for n, p in enumerate(law))
    slope = sum(p * (n - mean) * y for n, (p, y) in enumerate(zip(law, by_size, strict=True)))
    chance = [Fraction(n * (d - n), d * (d - 1)) for n in range(d + 1)]  # j is kept and i is not
    distance = sum(p * q for p, q in zip(law, chance, strict=True))
    orders = list(permutations(range(d)))
    for j, beta in enumerate(least_squares(phi, law, d)):
        swaps = {
            n: sum(exchange_effect(phi, j, i, n, d) for i in range(d) if i != j) / d
            for n in range(1, d)
        }
        weighed = sum(law[n] * chance[n] / distance * swaps[n] for n in range(1, d))
        assert beta == weighed + slope / variance
        assert slope / variance == 0 or beta != weighed
        value = sum(
            phi[frozenset(p[: p.index(j) + 1])] - phi[frozenset(p[: p.index(j)])] for p in orders
        ) / len(orders)
        assert value == sum(swaps.values()) / (d - 1) + (by_size[d] - by_size[0]) / d


# --- The parts, by all subsets -----------------------------------------------------------------


def apply_weights(value, phi, d):
    """v_j(φ) = Σ_n E[(common_n + single_n (Z_j − n/d)) φ | n], over all subsets."""
    keep = enumerate_masks(d)
    n = keep.sum(axis=1)
    chance = 1 / np.array([math.comb(d, k) for k in n])
    factor = value.common[n][:, None] + value.single[n][:, None] * (keep - n[:, None] / d)
    return (phi * chance) @ factor


@pytest.mark.parametrize("d", [2, 3, 7])
def test_both_values_are_seen_through_the_sizes(d):
    phi = np.random.default_rng(d).normal(size=2**d)
    np.testing.assert_allclose(
        apply_weights(shapley_value(d), phi, d), phi @ shapley_matrix(d), atol=1e-12
    )
    Z = np.column_stack([np.ones(2**d), enumerate_masks(d)])
    for bandwidth in BANDWIDTHS:
        for penalty, rows in ((0.0, None), (0.3, None), (0.0, 11)):
            weight = lime_mask_weights(d, bandwidth=bandwidth, rows=rows)
            expected = (phi @ ridge_matrix(Z, weight, penalty))[1:]
            design = lime_design(d, bandwidth=bandwidth, penalty=penalty, rows=rows)
            np.testing.assert_allclose(
                apply_weights(lime_value(design), phi, d), expected, atol=1e-9
            )


def expand_game(game):
    """One head, one class, by all subsets: the second order, its rest, √(E L² E η⁴)/(D̄ min D)."""
    d = game.d
    keep = enumerate_masks(d).astype(float)
    n = keep.sum(axis=1).astype(int)
    a, b, A, B = game.a[0], game.b[0], game.A[0, 0], game.B[0, 0]
    D = game.D0[0] + keep @ a + (1 - keep) @ b
    N = game.N0[0, 0] + keep @ A + (1 - keep) @ B

    def mean(y):
        return np.array([y[n == k].mean() for k in range(d + 1)])

    least = np.array([D[n == k].min() for k in range(d + 1)])
    D_bar, N_bar = mean(D), mean(N)
    eta, L = D - D_bar[n], (N - N_bar[n] - N_bar[n] / D_bar[n] * (D - D_bar[n])) / D_bar[n]
    near = N_bar[n] / D_bar[n] + L - L * eta / D_bar[n]
    return near, N / D - near, np.sqrt(mean(L**2) * mean(eta**4)) / (D_bar * least)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8])
def test_scores_and_bound_are_those_of_all_subsets(d):
    game = random_game(d, d=d, K=1, C=1, ratio=1.5)
    game = replace(game, D0=game.D0 + 2)
    near, remainder, least = expand_game(game)
    values = [(shapley_second_order(game), shapley_value(d))]
    if d > 1:
        for bandwidth in BANDWIDTHS:
            result = lime_second_order(game, bandwidth=bandwidth, penalty=0.1)
            values.append((result, lime_value(lime_design(d, bandwidth=bandwidth, penalty=0.1))))
    x = np.arange(d + 1) / d
    for result, value in values:
        np.testing.assert_allclose(result.scores[0], apply_weights(value, near, d), atol=1e-11)
        reach = np.maximum(
            np.abs(value.common + value.single * (1 - x)), np.abs(value.common - value.single * x)
        )
        assert result.bound[0] == pytest.approx(reach @ least, rel=1e-9, abs=1e-12)
        assert (np.abs(apply_weights(value, remainder, d)) <= result.bound[0]).all()


# --- The bound ---------------------------------------------------------------------------------


def repeat_words(game, rng):
    """The same game with words that stand in the text 1 to 40 times."""
    times = rng.integers(1, 41, game.d)
    return replace(game, a=game.a * times, b=game.b * times, A=game.A * times, B=game.B * times)


def formula_scores(game, bandwidth, penalty):
    """Score, bound and exact value of every formula that has a bound."""
    settings = {"bandwidth": bandwidth, "penalty": penalty}
    exact = lime_by_enumeration(game, **settings).scores
    yield *lime_second_order(game, **settings), exact
    formulas = [lime_first_order(game), lime_theorem(game)]
    if not penalty:
        formulas.append(lime_mean_field(game, bandwidth=bandwidth))
    for scores in formulas:
        yield scores, lime_distance_bound(scores, game, **settings), exact
    exact = shapley_by_enumeration(game)
    yield *shapley_second_order(game), exact
    scores = shapley_mean_field(game)
    yield scores, distance_bound(scores, shapley_second_order(game)), exact


@quick
@given(games(most=7), st.sampled_from(BANDWIDTHS), st.sampled_from([0.0, 0.2]), st.booleans())
def test_every_formula_is_within_its_bound(game, bandwidth, penalty, repeat):
    if repeat:
        game = repeat_words(game, np.random.default_rng(game.d))
    for scores, bound, exact in formula_scores(game, bandwidth, penalty):
        assert (largest(scores - exact) <= bound + 1e-11 * (1 + largest(exact))).all()


@pytest.mark.parametrize("decades", range(8))
def test_the_bounds_hold_on_hundreds_of_games_and_stay_below_the_range_of_values(decades):
    game = random_game(decades, d=5, ratio=10.0**decades, batch=(2, 53))
    for scores, bound, exact in formula_scores(game, 0.25, 0.0):
        assert (largest(scores - exact) <= bound + 1e-11).all()
        assert np.median(bound) < 8  # values are normally distributed


def test_where_one_word_weighs_everything_the_bound_stays_finite():
    """D(none) is 1e-300 of D(all): its square leaves the range of the numbers."""
    game = random_game(3, d=7, ratio=10)
    tiny = replace(game, D0=game.D0 * 1e-300, b=game.b * 1e-300, N0=game.N0 * 1e-300)
    tiny = replace(tiny, B=tiny.B * 1e-300)
    for scores, bound, exact in formula_scores(tiny, 0.25, 0.0):
        assert (largest(scores - exact) <= bound).all()
        assert np.isfinite(bound).all()


@pytest.mark.parametrize("gap", [300.0, 400.0, 700.0])
def test_squares_that_underflow_leave_a_bound(gap):
    values = np.array([1.0, 0.0, 2.0, -1.0]), np.array([0.0, 1.0, 0.0, 0.0])
    logits = np.array([0.0, gap, 0.0, 0.0])
    game = pooling_game(logits, values[0], removed_logit=np.zeros(4), removed_value=values[1])
    exact = shapley_by_enumeration(game)  # each subset's ratio is right, however small its weights
    near = shapley_second_order(game)
    assert 0.1 < largest(near.scores - exact) <= near.bound[0] < 10
    assert largest(shapley_mean_field(game) - exact) <= shapley_mean_field_bound(game)[0] < 10


def test_a_value_without_weight_has_no_range_but_a_bound():
    game = random_game(3, d=5, ratio=10)
    a = game.a.copy()
    a[..., 1] = 0.0
    for scores, bound, exact in formula_scores(replace(game, a=a), 0.25, 0.0):
        assert (largest(scores - exact) <= bound).all()
        assert np.isfinite(bound).all()


def test_a_bound_that_leaves_something_out_fails():
    """Negative controls: half the bound, no remainder, no slope on the number of words kept."""
    game = random_game(1, d=2, K=1, ratio=10.0, batch=(2, 53))
    near, exact = shapley_second_order(game), shapley_by_enumeration(game)
    assert (largest(near.scores - exact) > near.bound / 2).any()
    first, limit = lime_first_order(game), lime_by_enumeration(game).scores
    error, second = largest(first - limit), lime_second_order(game)
    assert (error > first_order_bound(game) / 2).any()
    assert (error > largest(first - second.scores)).any()
    value = lime_value(lime_design(2))
    flat = second_order(game, [value._replace(common=0 * value.common)] * 106)
    assert (largest(flat.scores - limit) > flat.bound).any()


@pytest.mark.parametrize("bandwidth", [0.25, np.inf])
def test_where_the_denominator_does_not_move_nothing_is_left(bandwidth):
    game = random_game(3, d=13, ratio=100)
    b = np.where(game.a > 0, game.a, 0.3)
    game = RatioGame(game.D0, b, b, game.N0, game.A, game.B)
    slopes = ((game.A - game.B) / (game.D0 + b.sum(axis=-1))[:, None]).mean(axis=1)
    for result in (lime_second_order(game, bandwidth=bandwidth), shapley_second_order(game)):
        np.testing.assert_allclose(result.scores, slopes, atol=1e-11)
        assert result.bound.max() < 1e-10


def test_on_weights_like_a_trained_models_the_bounds_are_near():
    game = peaked_game(3, spread=0.5)
    exact, values = lime(game, tolerance=1e-9).scores, shapley(game, tolerance=1e-9).scores
    near, result = lime_second_order(game), shapley_second_order(game)
    assert largest(near.scores - exact) <= near.bound < 0.05 * largest(exact)
    assert largest(result.scores - values) <= result.bound < 0.2 * largest(values)
    assert first_order_bound(game) < 1.2 * largest(lime_first_order(game) - exact)


def test_a_padded_batch_is_its_documents_one_at_a_time():
    single = [random_game(d, d=d, ratio=10.0) for d in (5, 2, 7, 3, 13)]
    for formula in (lime_second_order, shapley_second_order):
        together = formula(pad_games(single))
        for i, game in enumerate(single):
            value = formula(game)
            np.testing.assert_allclose(together.scores[i, :, : game.d], value.scores, atol=1e-12)
            np.testing.assert_allclose(together.bound[i], value.bound, rtol=1e-9)
            assert (together.scores[i, :, game.d :] == 0).all()
        short = formula(
            select_documents(pad_games(single), [1, 3])
        )  # with the padding of the longest
        np.testing.assert_allclose(short.bound, together.bound[[1, 3]], rtol=1e-12)


def test_a_large_constant_in_all_values_costs_its_rounding_only():
    game = random_game(3, d=5, ratio=10)
    far = subtract_constants(game, np.full_like(game.N0, 1e7))
    for formula in (lime_second_order, shapley_second_order):
        value, two = formula(game), formula(far)
        off = largest(value.scores - two.scores)
        assert (off < 1e-7).all()
        assert (two.bound - value.bound > off).all()
        assert (two.bound - value.bound < 1e-5).all()


def test_torch_tensors_give_the_same():
    torch = pytest.importorskip("torch")
    game = random_game(3, d=7, ratio=10, batch=(2,))
    names = ("D0", "a", "b", "N0", "A", "B")
    other = RatioGame(*(torch.as_tensor(getattr(game, name)) for name in names))
    for formula in (lime_second_order, shapley_second_order):
        value, two = formula(game), formula(other)
        np.testing.assert_allclose(two.scores.numpy(), value.scores, atol=1e-13)
        np.testing.assert_allclose(two.bound.numpy(), value.bound, rtol=1e-12)


def test_the_bound_covers_an_error_of_the_game_itself():
    game = random_game(3, d=5)
    off = replace(game, error=np.full_like(game.N0, 0.1))
    for formula, reach in ((lime_second_order, 1.9), (shapley_second_order, 2.0)):
        assert (formula(off).bound >= formula(game).bound + 0.0999 * reach).all()


# --- The rates ---------------------------------------------------------------------------------


def rate(windows, errors):
    return np.polyfit(np.log(windows), np.log(errors), 1)[0]


@pytest.mark.parametrize(
    ("power", "windows"), [(0.5, (1024, 4096, 16384)), (0.75, (256, 1024, 4096))]
)
def test_errors_and_bounds_fall_with_the_window_as_proven(power, windows):
    rows = []
    for n in windows:
        results = []
        for seed in range(3):
            game = theorem_game(n, round(n**power), K=1, C=1, seed=seed)
            # Words weigh more than UNK in the mean: the denominator moves by T, not by √T.
            game = replace(game, a=1.6 * game.a, A=1.6 * game.A)
            exact = lime(game, tolerance=1e-11).scores
            near, size = lime_second_order(game), largest(exact)
            bounds = (
                first_order_bound(game),
                lime_distance_bound(lime_mean_field(game), game),
                near.bound,
            )
            errors = [
                largest(scores - exact)
                for scores in (lime_first_order(game), lime_mean_field(game), near.scores)
            ]
            assert all((e <= b).all() for e, b in zip(errors, bounds, strict=True))
            results.append(np.concatenate([*errors, *bounds]) / size)
        rows.append(np.mean(results, axis=0))
    first, field, second, first_bound, field_bound, second_bound = np.transpose(rows)
    assert rate(windows, first) == pytest.approx(power - 1, abs=0.12)
    assert rate(windows, first_bound) == pytest.approx(power - 1, abs=0.12)
    assert (first_bound < 1.02 * first).all()
    assert rate(windows, field) == pytest.approx(-1, abs=0.15)
    assert rate(windows, field_bound) == pytest.approx(max(-1, 1.5 * power - 2), abs=0.15)
    assert rate(windows, second) == pytest.approx(power - 2, abs=0.15)
    assert rate(windows, second_bound) == pytest.approx(1.5 * power - 2, abs=0.15)


@pytest.mark.parametrize("small", [1.0, 1e-4])
def test_rates_relative_to_the_largest_score_hold_where_effects_cancel(small):
    """f is constant up to ``small``: scores and errors of one head shrink together."""
    rng, T, T_max = np.random.default_rng(0), 64, 4096
    g, g_h = np.exp(rng.uniform(-0.7, 0.7, (2, T)))
    g, common, f = 1.6 * g, rng.uniform(-1, 1, T), 0.4
    D0 = np.exp(rng.uniform(-0.7, 0.7, T_max - T)).sum()
    game = RatioGame(
        D0=np.array([D0]),
        a=g[None],
        b=g_h[None],
        N0=np.array([[f * D0 - common.sum() + small * rng.normal()]]),
        A=(f * g + common + small * rng.normal(size=T))[None, None],
        B=(f * g_h + common)[None, None],
    )
    beta, values = lime(game, tolerance=1e-12).scores, shapley(game, tolerance=1e-12).scores
    assert largest(beta) < 10 * small / T_max
    rows = (
        (lime_first_order(game), beta, T / T_max),
        (lime_mean_field(game), beta, 1 / T_max),
        (lime_second_order(game).scores, beta, T / T_max**2),
        (shapley_mean_field(game), values, 1 / T_max),
        (shapley_second_order(game).scores, values, T / T_max**2),
    )
    for scores, exact, size in rows:
        assert largest(scores - exact) < size * largest(exact)


def test_repeated_words_leave_the_rate_of_the_first_order():
    """Words of 1 to 16 tokens: |β_j − first order| = O((m_j + T/d) T_max^{ε−2})."""
    windows, power, worst = (512, 2048, 8192), 0.7, []
    for n in windows:
        rng = np.random.default_rng(n)
        game = theorem_game(n, round(n**power), K=1, C=1)
        feature_index = np.searchsorted(np.cumsum(2.0 ** rng.integers(0, 5, n)), np.arange(game.d))
        d = feature_index[-1] + 1
        groups = np.eye(d)[feature_index]
        game = replace(game, a=1.6 * game.a, A=1.6 * game.A)
        game = replace(
            game, **{name: getattr(game, name) @ groups for name in ("a", "b", "A", "B")}
        )
        scale = groups.sum(axis=0) + groups.sum() / d
        off = np.abs(lime_first_order(game) - lime(game, tolerance=1e-10).scores)
        worst.append((off / scale).max() * n)
    assert rate(windows, worst) == pytest.approx(power - 1, abs=0.15)
