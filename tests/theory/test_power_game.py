"""Power games, f = N/D^p + offset, against all subsets: TF-IDF vectors of length 1 have p = ½."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.theory.ratio_games import quick

from limelight.theory.banzhaf import banzhaf
from limelight.theory.enumeration import (
    banzhaf_by_enumeration,
    banzhaf_interactions_by_enumeration,
    enumerate_masks,
    lime_by_enumeration,
    lime_mask_weights,
    shapley_by_enumeration,
    shapley_interactions_by_enumeration,
)
from limelight.theory.faithfulness import deletion_curves, size_extremes
from limelight.theory.heavy_form import heavy_form
from limelight.theory.interactions import banzhaf_interactions, shapley_interactions
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.lime import lime
from limelight.theory.lime_fit import lime_fit
from limelight.theory.owen import owen
from limelight.theory.ratio_game import RatioGame, combine_outputs, full_value, value
from limelight.theory.shapley import shapley
from limelight_reproduction.theory.lime_variance import lime_variance


def power_game(seed, *, d=6, C=2, power=0.5, decades=2.0, stays=False, batch=()):
    """A bag of words: removed words vanish; with ``stays`` some of the text cannot be removed."""
    rng = np.random.default_rng(seed)
    a = 10 ** (-2 * decades * rng.random((*batch, 1, d)))
    a = a * (rng.random(a.shape) < 0.9)  # the others are outside the vocabulary
    w = rng.normal(size=(*batch, C, 1, d)) * 10 ** rng.normal(size=(*batch, C, 1, d))
    D0 = rng.random((*batch, 1)) if stays else np.zeros((*batch, 1))
    return RatioGame(
        D0=D0,
        a=a,
        b=0 * a,
        N0=rng.normal(size=(*batch, C, 1)) * D0[..., None, :],
        A=w * a[..., None, :, :] ** power,
        B=0 * w,
        offset=rng.normal(size=(*batch, C)),
        power=power,
    )


power_games = st.builds(
    lambda seed, d, power, decades, stays: power_game(
        seed, d=d, power=power, decades=decades, stays=stays
    ),
    st.integers(0, 2**32 - 1),
    st.integers(2, 7),
    st.sampled_from([0.5, 0.5, 1.0, 0.25, 0.9]),
    st.floats(0, 5),
    st.booleans(),
)


def assert_within_bound(found, exact, bound):
    assert np.all(np.abs(found - exact) <= bound + 1e-300)


@quick
@given(power_games, st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_every_value_of_a_power_game_is_within_its_bound(game, tolerance):
    sets = enumerate_masks(game.d)
    for result, exact in (
        (shapley(game, tolerance=tolerance), shapley_by_enumeration(game)),
        (banzhaf(game, tolerance=tolerance), banzhaf_by_enumeration(game)),
        (owen(game, np.zeros(game.d, int), tolerance=tolerance), shapley_by_enumeration(game)),
        (
            leave_one_out(game),
            full_value(game)[:, None] - value(game, ~np.eye(game.d, dtype=bool)),
        ),
    ):
        assert_within_bound(result.scores, exact, result.bound[:, None])
    for result, exact in (
        (
            shapley_interactions(game, tolerance=tolerance),
            shapley_interactions_by_enumeration(game),
        ),
        (
            banzhaf_interactions(game, tolerance=tolerance),
            banzhaf_interactions_by_enumeration(game),
        ),
    ):
        assert_within_bound(result.scores, exact, result.bound[:, None, None])
    form = heavy_form(game)
    around = np.abs(value(game, sets) - game.offset[:, None])
    assert np.all(around.max(axis=1) <= form.half_range[0] * (1 + 1e-12))


@quick
@given(
    power_games,
    st.sampled_from([0.25, 1.0, math.inf]),
    st.sampled_from([(0.0, None), (0.01, None), (0.01, 100)]),
)
def test_lime_of_a_power_game_is_within_its_bounds(game, bandwidth, ridge):
    settings = {"bandwidth": bandwidth, "penalty": ridge[0], "rows": ridge[1]}
    result, exact = lime(game, **settings), lime_by_enumeration(game, **settings)
    assert_within_bound(result.scores, exact.scores, result.bound[:, None])
    assert_within_bound(result.intercept, exact.intercept, result.intercept_bound)
    fit = lime_fit(game, **settings)
    assert_within_bound(fit.r2, exact.r2, fit.bound)


@pytest.mark.parametrize("seed", range(10))
def test_shapley_values_of_sixty_digits(seed):
    """An oracle that shares nothing with ours: weights of 12 orders of magnitude, in mpmath."""
    game = power_game(seed, d=6, C=1, decades=6.0)
    result = shapley(game, tolerance=1e-9)
    with mpmath.workdps(60):
        a, A = ([mpmath.mpf(x) for x in y.ravel().tolist()] for y in (game.a, game.A))

        def f(words):
            D = mpmath.fsum(a[j] for j in words)
            return mpmath.fsum(A[j] for j in words) / mpmath.sqrt(D) if D else mpmath.mpf(0)

        for j in range(6):
            other_values = [k for k in range(6) if k != j]
            exact = mpmath.mpf(0)
            for row in enumerate_masks(5):
                values = [k for k, keep in zip(other_values, row, strict=True) if keep]
                weight = mpmath.mpf(1) / (6 * math.comb(5, len(values)))
                exact += weight * (f([*values, j]) - f(values))
            assert abs(result.scores[0, j] - exact) <= result.bound[0]


def test_the_power_matters_and_so_does_its_error():
    game = power_game(3, d=6)
    as_ratio = RatioGame(game.D0, game.a, game.b, game.N0, game.A, game.B, offset=game.offset)
    result, other = shapley(game), shapley_by_enumeration(as_ratio)
    assert np.all(np.abs(result.scores - other).max(axis=1) > 1e3 * result.bound)


def test_a_batch_has_the_values_of_its_documents():
    games = power_game(5, d=7, batch=(3,))
    together = shapley(games)
    for i in range(3):
        names = ("D0", "a", "b", "N0", "A", "B")
        element = RatioGame(
            *(getattr(games, n)[i] for n in names), offset=games.offset[i], power=games.power
        )
        np.testing.assert_allclose(
            together.scores[i], shapley(element).scores, rtol=1e-12, atol=1e-15
        )


def test_the_offset_is_nobodys_and_joins_the_intercept():
    game = power_game(7)
    moved = RatioGame(
        *(getattr(game, n) for n in ("D0", "a", "b", "N0", "A", "B")),
        offset=game.offset + 3.0,
        power=0.5,
    )
    before, after = lime(game), lime(moved)
    np.testing.assert_allclose(after.scores, before.scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.intercept, before.intercept + 3.0, rtol=1e-10)
    weights = np.array([2.0, -1.0])
    np.testing.assert_allclose(
        full_value(combine_outputs(game, weights)), [weights @ full_value(game)], rtol=1e-12
    )


def test_the_standard_error_of_sampled_lime_on_a_power_game():
    game = power_game(11, d=5, C=1, decades=0.5)
    design = lime_by_enumeration(game)
    sets = enumerate_masks(5)
    f = value(game, sets)[0]
    weight = lime_mask_weights(5)
    Z = np.concatenate([np.ones((len(sets), 1)), sets], axis=1)
    off = f - Z @ np.concatenate([design.intercept, design.scores[0]])
    gram = Z.T @ (weight[:, None] * Z)
    rows = np.linalg.solve(gram, Z.T)[1:]
    size = 5 - sets.sum(axis=1)
    samples = np.array([0 if s == 0 else 1 / (5 * math.comb(5, s)) for s in size])
    psi = np.divide(weight, samples, out=np.zeros_like(weight), where=samples > 0)
    exact = (rows**2 * psi**2 * off**2) @ samples
    np.testing.assert_allclose(lime_variance(game)[0], exact, rtol=1e-4)


def test_a_text_without_known_words_has_only_zeros():
    empty = np.zeros((1, 3))
    game = RatioGame(
        np.zeros(1), empty, empty, np.zeros((1, 1)), empty[None], empty[None],
        offset=np.array([2.0]), power=0.5,
    )  # fmt: skip
    assert np.all(shapley(game).scores == 0)
    assert full_value(game) == 2.0
    np.testing.assert_allclose(lime(game).intercept, 2.0)


@pytest.mark.parametrize("power", [0.25, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("d", [2, 7, 40])
def test_equal_words_have_the_values_of_their_formula(power, d):
    """φ_j = m u_j − (m − 1) f/d, m → 1/(1 − p): `docs/theorems/power-game.md`, statement 5."""
    u, empty = np.random.default_rng(d).normal(size=d), np.zeros((1, d))
    game = RatioGame(
        np.zeros(1), empty + 3.0, empty, np.zeros((1, 1)), (u * (3 * d) ** power)[None, None],
        empty[None], power=power,
    )  # fmt: skip
    alpha = d ** (power - 1) * np.sum(np.arange(1, d + 1) ** -power)
    m = (d * alpha - 1) / (d - 1)
    np.testing.assert_allclose(
        shapley(game, tolerance=1e-10).scores[0], m * u - (m - 1) * u.sum() / d, rtol=0, atol=1e-8
    )
    if power < 1:
        remainder = alpha - 1 / (1 - power) - float(mpmath.zeta(power)) * d ** (power - 1)
        assert abs(remainder) < 1 / d


@quick
@given(power_games, st.sampled_from([-3.0, 0.0, 3.0]))
def test_no_set_of_words_passes_the_extremes_of_its_size(game, pull):
    # Values of one sign, of the other and of both: each has a bound of its own.
    moved = game.A + pull * game.a[None] ** game.power
    game = combine_outputs(replace(game, A=moved), np.array([1.0, 0.5]))
    sets = enumerate_masks(game.d)
    f, removed = value(game, sets)[0], game.d - sets.sum(axis=1)
    result, room = size_extremes(game), 1e-9 * (1 + np.abs(f).max())
    for k in range(1, game.d + 1):
        assert result.low[k - 1] - room <= f[removed == k].min()
        assert f[removed == k].max() <= result.high[k - 1] + room
    orders = np.array([np.random.default_rng(0).permutation(game.d)])
    (curve,) = deletion_curves(game, orders)
    masks = np.array([~np.isin(np.arange(game.d), orders[0, :k]) for k in range(game.d + 1)])
    np.testing.assert_allclose(curve, value(game, masks)[0], rtol=1e-9, atol=1e-9)


def test_the_extremes_of_one_word_are_nearly_attained():
    gaps = []
    for seed in range(20):
        game = power_game(seed, d=8, C=1, decades=0.5)
        f = value(game, ~np.eye(8, dtype=bool))[0]
        result = size_extremes(game)
        gaps += [result.high[0] - f.max(), f.min() - result.low[0]]
    assert np.median(np.array(gaps)) < 0.01
