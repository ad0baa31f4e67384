"""The standard error of sampled LIME: the sandwich of all subsets, many runs, the lime package."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.errors import DomainError, InputError
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.ratio_game import RatioGame, value
from limelight_reproduction.theory.lime_variance import lime_variance

from ratio_games import games, peaked_game, random_game, value_spread

DESIGNS = [(0.25, 0.0), (0.25, 0.5), (1.0, 1.0), (math.inf, 0.0)]


def sandwich(game, bandwidth, power):
    """Oracle: G⁻¹ E[w² x xᵀ (f − ℓ)²] G⁻¹ over all sets of words, G = E[w x xᵀ]."""
    d, keep = game.d, enumerate_masks(game.d)
    s = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - np.arange(d + 1) / d)) ** 2) / (2 * bandwidth**2))
    samples = np.where(np.arange(d + 1) > 0, psi**power, 0)
    samples /= samples.sum()
    chance = samples[s] / np.array([math.comb(d, k) for k in range(d + 1)])[s]
    weight = np.where(s > 0, psi[s] / np.where(s > 0, samples[s], 1), 0)
    X = np.column_stack([np.ones(len(keep)), keep])
    f = value(game, keep).T
    G = X.T @ (X * (chance * weight)[:, None])
    remaining = f - X @ np.linalg.solve(G, X.T @ (f * (chance * weight)[:, None]))
    inverse = np.linalg.inv(G)
    middle = [X.T @ (X * (chance * weight**2 * column**2)[:, None]) for column in remaining.T]
    return np.stack([np.diag(inverse @ element @ inverse)[1:] for element in middle])


@pytest.mark.parametrize(("bandwidth", "power"), DESIGNS)
@pytest.mark.parametrize("ratio", [10, 1e5])
@pytest.mark.parametrize("d", [3, 5, 9])
def test_matches_the_sandwich_of_all_subsets(d, ratio, bandwidth, power):
    game = random_game(d, d=d, ratio=ratio)
    exact = sandwich(game, bandwidth, power)
    result = lime_variance(game, bandwidth=bandwidth, power=power, tolerance=1e-9)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-7 * exact.max())


@pytest.mark.parametrize("peak", [1e10, 1e14, 1e25, 1e60])
def test_a_removed_word_may_outweigh_all_others(peak):
    game = random_game(11, d=6, K=2, ratio=10)
    a, b, A, B = (x.copy() for x in (game.a, game.b, game.A, game.B))
    a[0, 1], A[:, 0, 1], b[1, 3], B[:, 1, 3] = peak, 0.7 * peak, peak, -0.4 * peak
    game = RatioGame(game.D0, a, b, game.N0, A, B)
    exact = sandwich(game, 0.25, 0.0)
    result = lime_variance(game, tolerance=1e-9)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-7 * exact.max())


def test_another_design_would_be_noticed():
    game = random_game(5, d=5)
    result = lime_variance(game, tolerance=1e-9)
    for bandwidth, power in ((0.26, 0.0), (0.25, 0.05)):
        assert np.abs(result / sandwich(game, bandwidth, power) - 1).max() > 1e-3


@settings(deadline=None, max_examples=10)
@given(games(least=3), st.floats(0.01, 5) | st.floats(-5, -0.01) | st.just(0.0))
def test_the_variance_scales_with_the_square_of_f(game, factor):
    scaled = RatioGame(game.D0, game.a, game.b, *(factor * x for x in (game.N0, game.A, game.B)))
    once, times = lime_variance(game), lime_variance(scaled)
    size = factor**2 * value_spread(game).max() ** 2
    np.testing.assert_allclose(times, factor**2 * once, rtol=1e-3, atol=1e-5 * size)


def test_a_linear_function_has_no_sampling_error():
    game = random_game(3, d=13, ratio=100)
    b = np.where(game.a > 0, game.a, 0.3)
    linear = RatioGame(game.D0, b, b, game.N0, game.A, game.B)
    assert lime_variance(linear).max() < 1e-6 * lime_variance(game).max()


def test_many_regressions_scatter_as_much():
    """250 regressions of a long game, by code that knows nothing of the formula."""
    game, n, runs = peaked_game(0, d=23, K=2), 2500, 250
    rng, result = np.random.default_rng(0), []
    for _ in range(runs):
        s = rng.integers(1, game.d + 1, n)
        keep = rng.random((n, game.d)).argsort(axis=1) >= s[:, None]
        root = np.exp(-((1 - np.sqrt(1 - s / game.d)) ** 2) / (4 * 0.25**2))
        X = np.column_stack([np.ones(n), keep])
        f = value(game, keep)[0]
        result.append(np.linalg.lstsq(root[:, None] * X, root * f, rcond=None)[0][1:])
    ratio = np.std(result, axis=0, ddof=1) / np.sqrt(lime_variance(game)[0] / n)
    assert 0.96 < np.median(ratio) < 1.06
    assert (np.abs(ratio - 1) < 5 / math.sqrt(2 * runs)).all()


def test_torch_gives_the_same_numbers():
    torch = pytest.importorskip("torch")
    game = peaked_game(2, d=13, K=2)
    names = ("D0", "a", "b", "N0", "A", "B")
    theirs = lime_variance(RatioGame(*(torch.as_tensor(getattr(game, n)) for n in names)))
    np.testing.assert_allclose(theirs.numpy(), lime_variance(game), rtol=1e-9)


def test_inputs_outside_the_domain_raise_an_error(monkeypatch):
    with pytest.raises(InputError, match="needs one document"):
        lime_variance(random_game(0, batch=(2,)))
    monkeypatch.setattr("limelight_reproduction.theory.lime_variance._MAX_LOST_WEIGHT", 0.0)
    with pytest.raises(DomainError, match="one size of the samples of 3 features"):
        lime_variance(random_game(0, d=3), bandwidth=0.05)
