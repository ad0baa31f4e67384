"""Exact LIME against all subsets, the recurrence, exact integers, and in extreme games."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ratio_games import games, peaked_game, quick, random_game, value_spread

from limelight.errors import DomainError
from limelight.theory.enumeration import enumerate_masks, lime_by_enumeration
from limelight.theory.lime import lime
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.lime_weights import lime_design
from limelight.theory.ratio_game import RatioGame, full_value, subtract_constants

DESIGNS = [
    {"bandwidth": bandwidth, "penalty": penalty, "rows": rows}
    for bandwidth in (0.1, 0.25, 1.0, math.inf)
    for penalty, rows in ((0.0, None), (0.01, None), (1 / 4999, 4999))
]


def assert_within(result, exact, scale, tolerance):
    """Errors below the returned bound, and both below the tolerance times the range of f."""
    error = np.abs(result.scores - exact.scores).max(axis=-1)
    assert (error <= result.bound).all()
    assert (error <= tolerance * scale).all()
    assert (np.abs(result.intercept - exact.intercept) <= result.intercept_bound).all()


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("d", [3, 4, 7])
def test_what_an_error_of_f_can_do_is_the_absolute_sum_over_all_subsets(d, design):
    keep = enumerate_masks(d)
    s = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * design["bandwidth"] ** 2))
    weight = psi / d / np.array([math.comb(d, k) for k in s])
    weight[s == 0] = 1 / design["rows"] if design["rows"] else 0.0
    X = np.column_stack([np.ones(len(keep)), keep])
    ridge = design["penalty"] * np.diag([0.0] + [1.0] * d)
    c = np.linalg.solve(X.T @ (weight[:, None] * X) + ridge, X.T * weight)
    intercept, *slopes = np.abs(c).sum(axis=1)
    assert lime_design(d, **design).error_factors() == pytest.approx(
        (slopes[0], intercept), rel=1e-9
    )


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("ratio", [1, 10, 1e3, 1e7])
@pytest.mark.parametrize("d", [2, 3, 5, 11])
def test_matches_all_subsets(d, ratio, design):
    game = random_game(d, d=d, ratio=ratio)
    exact = lime_by_enumeration(game, **design)
    for tolerance in (1e-6, 1e-9):
        result = lime(game, tolerance=tolerance, **design)
        assert_within(result, exact, value_spread(game), tolerance)


@quick
@given(games(most=8), st.floats(0.08, 3), st.sampled_from([0.0, 1e-3, 1.0]))
def test_the_bound_holds_for_any_game_and_bandwidth(game, bandwidth, penalty):
    exact = lime_by_enumeration(game, bandwidth=bandwidth, penalty=penalty)
    result = lime(game, bandwidth=bandwidth, penalty=penalty)
    assert (np.abs(result.scores - exact.scores).max(axis=-1) <= result.bound + 1e-12).all()
    assert (result.bound <= 1e-4 * np.abs(game.A).max() / game.D0.min()).all()


@pytest.mark.parametrize("decades", range(8))
@pytest.mark.parametrize("d", range(2, 9))
def test_the_bound_holds_on_thousands_of_games(d, decades):
    game = random_game(100 * d + decades, d=d, ratio=10.0**decades, batch=(53,))
    exact = lime_by_enumeration(game)
    result = lime(game)
    assert (np.abs(result.scores - exact.scores).max(axis=-1) <= result.bound).all()
    assert (np.abs(result.intercept - exact.intercept) <= result.intercept_bound).all()


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_two_routes_agree(design):
    game = peaked_game(5, d=61, K=2, C=3)
    fast = lime(game, tolerance=1e-9, **design)
    scores, bound, intercept, intercept_bound = lime_by_recurrence(game, **design)
    assert (np.abs(fast.scores - scores).max(axis=-1) <= fast.bound + bound).all()
    assert (np.abs(fast.intercept - intercept) <= fast.intercept_bound + intercept_bound).all()
    assert (fast.bound < 2e-8).all()


def lime_from_counts(a, b, D0, A, B, j, bandwidth):
    """Oracle for integer weights and values: count the sets of each (size, D) exactly, then mpmath.

    Returns β_j and the intercept of the limit. No integral, no mixture, and no floating point
    before the end.
    """
    d, top = len(a), D0 + sum(max(x) for x in zip(a, b, strict=True)) + 1

    def tables(words):
        sets = np.zeros((d + 1, top), dtype=object)
        numerator = np.zeros((d + 1, top), dtype=object)
        sets[0, D0] = 1
        for k in words:
            keep, kept_N = np.roll(sets, a[k], 1), np.roll(numerator + A[k] * sets, a[k], 1)
            gone, gone_N = np.roll(sets, b[k], 1), np.roll(numerator + B[k] * sets, b[k], 1)
            sets, numerator = (
                keep + np.roll(gone, 1, 0),
                kept_N + np.roll(gone_N, 1, 0),
            )
        return sets, numerator

    def mean_by_size(sets, numerator):
        return [
            sum(mpmath.mpf(int(numerator[s, D])) / D for D in range(1, top) if sets[s, D])
            for s in range(d + 1)
        ]

    total = mean_by_size(*tables(range(d)))
    other_values, others_N = tables([k for k in range(d) if k != j])
    with_j = mean_by_size(
        np.roll(other_values, a[j], 1), np.roll(others_N + A[j] * other_values, a[j], 1)
    )
    nu = mpmath.mpf(bandwidth)
    psi = [
        mpmath.exp(-((1 - mpmath.sqrt(1 - mpmath.mpf(s) / d)) ** 2) / (2 * nu**2))
        for s in range(d + 1)
    ]
    w = [psi[s] / d if s else mpmath.mpf(0) for s in range(d + 1)]
    per_set = [w[s] / mpmath.binomial(d, s) for s in range(d + 1)]
    m0 = sum(w)
    m1 = sum(w[s] * (d - s) for s in range(d + 1)) / d
    m2 = sum(w[s] * (d - s) * (d - s - 1) for s in range(d + 1)) / (d * (d - 1))
    f = sum(per_set[s] * total[s] for s in range(d + 1))
    Zf = sum(per_set[s] * (d - s) * total[s] for s in range(d + 1))
    Zjf = sum(per_set[s] * with_j[s] for s in range(d))
    V, chi = m1 - m2, m2 - m1**2 / m0
    c_j, c = Zjf - m1 / m0 * f, Zf - d * m1 / m0 * f
    beta = (c_j - chi / (V + d * chi) * c) / V
    return beta, f / m0 - m1 / m0 * c / (V + d * chi)


def test_forty_words_in_exact_arithmetic():
    rng = np.random.default_rng(60)
    d = 40
    a, b = rng.integers(1, 9, d), rng.integers(1, 9, d)
    a[7], b[11] = 400, 200  # two words that hold nearly everything, so D_max/D_min is above 10
    A, B = rng.integers(-20, 20, d) * a, rng.integers(-20, 20, d) * b
    game = RatioGame(
        D0=np.full(1, 3.0),
        a=a[None, :].astype(float),
        b=b[None, :].astype(float),
        N0=np.zeros((1, 1)),
        A=A[None, None, :].astype(float),
        B=B[None, None, :].astype(float),
    )
    result = lime(game, tolerance=1e-9)
    full = [x.tolist() for x in (a, b, A, B)]
    with mpmath.workdps(40):
        for j in (7, 23):
            beta, intercept = lime_from_counts(full[0], full[1], 3, full[2], full[3], j, 0.25)
            assert abs(float(result.scores[0, j] - beta)) <= result.bound[0]
            assert abs(float(result.intercept[0] - intercept)) <= result.intercept_bound[0]
    assert result.bound[0] < 1e-9 * 40


@quick
@given(games(), st.floats(-50, 50))
def test_adding_a_constant_to_every_value_moves_only_the_intercept(game, constant):
    before = lime(game, tolerance=1e-9)
    after = lime(subtract_constants(game, np.full_like(game.N0, -constant)), tolerance=1e-9)
    slack = (before.bound + after.bound)[..., None]
    assert (np.abs(after.scores - before.scores) <= slack).all()
    moved = after.intercept - before.intercept - constant
    assert (np.abs(moved) <= before.intercept_bound + after.intercept_bound).all()


@quick
@given(games(least=3))
def test_swapping_two_words_swaps_their_scores(game):
    order = np.arange(game.d)
    order[[0, 2]] = 2, 0
    swapped = replace(
        game, a=game.a[..., order], b=game.b[..., order], A=game.A[..., order], B=game.B[..., order]
    )
    value, two = lime(game, tolerance=1e-9), lime(swapped, tolerance=1e-9)
    assert (
        np.abs(two.scores - value.scores[..., order]) <= (value.bound + two.bound)[..., None]
    ).all()


@pytest.mark.parametrize("bandwidth", [0.1, 0.25, 1.0, math.inf])
def test_a_constant_denominator_gives_the_coefficients_themselves(bandwidth):
    game = random_game(3, d=13, ratio=100)
    b = np.where(game.a > 0, game.a, 0.3)
    game = replace(game, a=b, b=b)
    D = game.D0 + b.sum(axis=-1)
    want = ((game.A - game.B) / D[:, None]).mean(axis=1)
    result = lime(game, bandwidth=bandwidth, tolerance=1e-9)
    assert (np.abs(result.scores - want).max(axis=-1) <= result.bound).all()
    np.testing.assert_allclose(result.scores, want, atol=1e-8)


def test_a_word_that_changes_nothing_still_gets_a_score():
    # LIME has no dummy axiom: unless f is additive, Z_j stands in for the size of the set.
    game = random_game(4, d=5)
    same = {"a": game.a.copy(), "A": game.A.copy()}
    same["a"][..., 1], same["A"][..., 1] = game.b[..., 1], game.B[..., 1]
    game = replace(game, **same)
    result, exact = lime(game, tolerance=1e-9), lime_by_enumeration(game)
    assert (np.abs(exact.scores[:, 1]) > 1e3 * result.bound).all()
    assert (np.abs(result.scores - exact.scores)[:, 1] <= result.bound).all()


def test_equal_words_get_equal_scores():
    game = random_game(4, d=5)
    same = {name: getattr(game, name).copy() for name in ("a", "b", "A", "B")}
    for x in same.values():
        x[..., 1] = x[..., 3]
    result = lime(replace(game, **same))
    np.testing.assert_allclose(result.scores[:, 1], result.scores[:, 3], rtol=1e-12)


def test_a_wrong_formula_would_be_noticed():
    game = random_game(7, d=7)
    exact = lime_by_enumeration(game, bandwidth=0.25)
    wrong = lime(game, bandwidth=0.26, tolerance=1e-9)
    assert (np.abs(wrong.scores - exact.scores).max(axis=-1) > wrong.bound).all()


def extreme_games():
    rng = np.random.default_rng(0)
    plain = random_game(0, d=7)
    ones = np.ones_like(plain.a)
    heavy = plain.a.copy()
    heavy[:, 2] = 1e5 * plain.a.sum()
    logits = np.exp(rng.uniform(-80, 80, plain.a.shape))
    logits_h = np.exp(rng.uniform(-80, 80, plain.a.shape))
    u = rng.normal(size=plain.A.shape)
    return {
        "all words equal": replace(plain, a=ones, b=0.5 * ones, A=0 * plain.A + 1, B=0 * plain.B),
        "one word holds 99.999 %": replace(plain, a=heavy, A=u * heavy),
        "logits of ±80": replace(plain, a=logits, b=logits_h, A=u * logits, B=u * logits_h),
        "huge scale": replace(
            plain,
            D0=plain.D0 * 1e250,
            a=plain.a * 1e250,
            b=plain.b * 1e250,
            N0=plain.N0 * 1e250,
            A=plain.A * 1e250,
            B=plain.B * 1e250,
        ),
        "tiny scale": replace(
            plain,
            D0=plain.D0 * 1e-250,
            a=plain.a * 1e-250,
            b=plain.b * 1e-250,
            N0=plain.N0 * 1e-250,
            A=plain.A * 1e-250,
            B=plain.B * 1e-250,
        ),
        "zero values": replace(plain, N0=0 * plain.N0, A=0 * plain.A, B=0 * plain.B),
        "no weight on words": replace(
            plain, a=0 * plain.a, b=0 * plain.b, A=0 * plain.A, B=0 * plain.B
        ),
        "two words": random_game(1, d=2),
    }


@pytest.mark.parametrize("name", extreme_games())
def test_extreme_games_stay_finite_and_within_their_bound(name):
    game = extreme_games()[name]
    result = lime(game)
    exact = lime_by_enumeration(game)
    for x in result:
        assert np.isfinite(x).all()
    assert (np.abs(result.scores - exact.scores).max(axis=-1) <= result.bound + 1e-15).all()
    assert (result.bound <= 1e-5).all()


def test_a_bandwidth_that_leaves_one_size_raises_an_error_and_a_larger_one_is_exact():
    """At ν = 0.01 three words keep weight, but its variance over the sizes is below 1e-308."""
    game = random_game(0, d=3)
    exact = lime_by_enumeration(game, bandwidth=0.012)
    result = lime(game, bandwidth=0.012)
    assert (np.abs(result.scores - exact.scores).max(axis=-1) <= result.bound).all()
    with pytest.raises(DomainError) as caught:
        lime(game, bandwidth=0.01)
    assert str(caught.value) == (
        "with bandwidth 0.01, only samples of one size have a weight (3 features). Use a larger "
        "bandwidth."
    )
    assert np.isfinite(lime(game, bandwidth=0.01, penalty=1e-3).scores).all()


def pad_games(games):
    """One batch of documents of different d."""
    d = max(game.d for game in games)

    def pad(x, n):
        return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, d - n)])

    words = {
        name: np.stack([pad(getattr(game, name), game.d) for game in games])
        for name in ("a", "b", "A", "B")
    }
    return RatioGame(
        D0=np.stack([game.D0 for game in games]),
        N0=np.stack([game.N0 for game in games]),
        sizes=np.asarray([game.d for game in games]),
        **words,
    )


def test_a_padded_batch_is_its_documents_one_at_a_time():
    single = [random_game(d, d=d, ratio=10.0**d) for d in (5, 2, 7, 3, 13)]
    together = lime(pad_games(single), tolerance=1e-9, bandwidth=0.15)
    for i, game in enumerate(single):
        value = lime(game, tolerance=1e-9, bandwidth=0.15)
        np.testing.assert_allclose(
            together.scores[i, :, : game.d], value.scores, atol=float(value.bound.max())
        )
        assert (together.scores[i, :, game.d :] == 0).all()
        assert (together.bound[i] < 1e-8).all()


def test_a_batch_has_any_number_of_dimensions():
    game = random_game(0, d=7, batch=(2, 3))
    result = lime(game)
    assert result.scores.shape == (2, 3, 2, 7)
    value = RatioGame(*(getattr(game, n)[1, 2] for n in ("D0", "a", "b", "N0", "A", "B")))
    np.testing.assert_allclose(result.scores[1, 2], lime(value).scores, rtol=1e-12)


def test_torch_gives_the_same_numbers():
    torch = pytest.importorskip("torch")
    game = peaked_game(2, d=31)
    names = ("D0", "a", "b", "N0", "A", "B")
    tensors = RatioGame(*(torch.as_tensor(getattr(game, n)) for n in names))
    ours, theirs = lime(game), lime(tensors)
    assert isinstance(theirs.scores, torch.Tensor)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(y.numpy(), x, rtol=1e-12, atol=1e-14)


@quick
@given(games())
def test_row_zero_fades_as_samples_grow(game):
    limit = lime(game, tolerance=1e-9)
    near = lime(game, tolerance=1e-9, rows=10**9, penalty=0.0)
    scale = np.abs(full_value(game)).max() + value_spread(game).max()
    assert (np.abs(near.scores - limit.scores) <= 1e-4 * scale + near.bound[..., None]).all()
