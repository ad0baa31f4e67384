"""Mean-field LIME and Shapley against 20-digit integrals, their axioms, and the exact values."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from test_lime import pad_games

from limelight.errors import DomainError, InputError
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, empty_value, full_value, subtract_constants
from limelight.theory.shapley import shapley
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field, shapley_mean_field
from test_lime_theorem import distance, theorem_game

from ratio_games import games, quick, random_game

NAMES = ("D0", "a", "b", "N0", "A", "B")
FORMULAS = [
    shapley_mean_field,
    lime_mean_field,
    lambda game: lime_mean_field(game, bandwidth=np.inf),
]
formulas = pytest.mark.parametrize("formula", FORMULAS)


def scores_from_definition(game, bandwidth):
    """One head, one class: the integrals as the page has them (None: Shapley), in 20 digits."""
    with mpmath.workdps(20):
        total = {name: mpmath.fsum(getattr(game, name).ravel().tolist()) for name in "abAB"}
        D0, N0 = mpmath.mpf(game.D0.item()), mpmath.mpf(game.N0.item())
        ends = [mpmath.mpf(2) ** -k for k in range(28, 0, -2)]
        cuts = [0, *ends, *(1 - end for end in ends[-2::-1]), 1]

        def D(x):
            return D0 + x * total["a"] + (1 - x) * total["b"]

        def f(x):
            return (N0 + x * total["A"] + (1 - x) * total["B"]) / D(x)

        def psi(x):
            return mpmath.exp(-((1 - mpmath.sqrt(x)) ** 2) / (2 * mpmath.mpf(bandwidth) ** 2))

        def kernel(x):
            return 1 if bandwidth is None else psi(x) * x * (1 - x)

        def integral(function):
            return mpmath.quad(function, cuts)

        mass = integral(kernel)
        value = integral(lambda x: kernel(x) / D(x)) / mass
        pull = integral(lambda x: kernel(x) * f(x) / D(x)) / mass
        rows = zip(*(getattr(game, name).ravel().tolist() for name in "abAB"), strict=True)
        scores = [(A - B) * value - (a - b) * pull for a, b, A, B in rows]
        if bandwidth is not None:
            weight = integral(psi)
            mean = integral(lambda x: psi(x) * x) / weight
            slope = integral(lambda x: psi(x) * (x - mean) * f(x))
            slope /= integral(lambda x: psi(x) * (x - mean) ** 2)
            scores = [score + (slope - mpmath.fsum(scores)) / game.d for score in scores]
        return np.array([float(score) for score in scores])


@pytest.mark.parametrize("bandwidth", [None, 0.02, 0.25])
@pytest.mark.parametrize("ratio", [10, 1e7])
def test_matches_the_integrals_in_twenty_digits(ratio, bandwidth):
    game = random_game(5, d=5, K=1, C=1, ratio=ratio)
    result = (
        shapley_mean_field(game)
        if bandwidth is None
        else lime_mean_field(game, bandwidth=bandwidth)
    )
    np.testing.assert_allclose(
        result[0], scores_from_definition(game, bandwidth), rtol=1e-11, atol=1e-12
    )


def test_a_wrong_kernel_would_be_noticed():
    game = random_game(5, d=5, K=1, C=1, ratio=10)
    near = lime_mean_field(game, bandwidth=0.25 * (1 + 1e-5))
    assert np.abs(near[0] - scores_from_definition(game, 0.25)).max() > 1e-8


@quick
@given(games(least=1))
def test_mean_field_shapley_values_add_up(game):
    gap = shapley_mean_field(game).sum(axis=-1) - (full_value(game) - empty_value(game))
    size = np.abs(shapley_mean_field(game)).sum(axis=-1)
    assert (np.abs(gap) <= 1e-10 * (1 + size)).all()


@formulas
@quick
@given(game=games())
def test_a_constant_added_to_every_value_moves_nothing(formula, game):
    before, after = formula(game), formula(subtract_constants(game, np.full_like(game.N0, 3.0)))
    np.testing.assert_allclose(after, before, rtol=1e-8, atol=1e-8)


@formulas
def test_where_the_denominator_does_not_move_it_is_exact(formula):
    game = random_game(3, d=13, ratio=100)
    b = np.where(game.a > 0, game.a, 0.3)
    game = RatioGame(game.D0, b, b, game.N0, game.A, game.B)
    D = game.D0 + b.sum(axis=-1)
    np.testing.assert_allclose(
        formula(game), ((game.A - game.B) / D[:, None]).mean(axis=1), rtol=1e-9, atol=1e-12
    )


def test_without_weights_the_common_shift_is_nothing():
    """Σ_j ∫ 6x(1−x) h_j is the slope of f̄ by parts, so only a finite bandwidth needs a shift."""
    game = random_game(1, d=7, K=1, C=1, ratio=10)
    for bandwidth, shifts in ((1e6, False), (0.1, True)):
        result = lime_mean_field(game, bandwidth=bandwidth)[0]
        unshifted = _scores_without_shift(game, bandwidth)
        np.testing.assert_allclose(np.ptp(result - unshifted), 0, atol=1e-6)
        assert (np.abs(result - unshifted).max() > 1e-4) == shifts


def _scores_without_shift(game, bandwidth):
    x = (np.arange(200_000) + 0.5) / 200_000
    kernel = np.exp(-((1 - np.sqrt(x)) ** 2) / (2 * bandwidth**2)) * x * (1 - x)
    kernel /= kernel.sum()
    D = game.D0[0] + x * game.a.sum() + (1 - x) * game.b.sum()
    f = (game.N0[0, 0] + x * game.A.sum() + (1 - x) * game.B.sum()) / D
    return (game.A - game.B)[0, 0] * (kernel @ (1 / D)) - (game.a - game.b)[0] * (kernel @ (f / D))


def test_in_the_regime_of_theorem_5_1_it_is_nearer_than_the_first_order():
    game = theorem_game(1024, 256)
    exact = lime(game, bandwidth=np.inf, tolerance=1e-9).scores
    mean_field = distance(lime_mean_field(game, bandwidth=np.inf), exact)
    assert mean_field < 0.02
    assert mean_field < 0.2 * distance(lime_first_order(game), exact)
    values = shapley(game, tolerance=1e-9).scores
    assert distance(shapley_mean_field(game), values) < 0.02


def test_where_one_word_owns_the_denominator_it_is_poor():
    game = random_game(2, d=11, ratio=1e5)
    assert distance(lime_mean_field(game), lime(game).scores) > 0.1


@formulas
def test_a_padded_batch_is_its_documents_one_at_a_time(formula):
    single = [random_game(d, d=d, ratio=10.0**d) for d in (5, 2, 7)]
    together = formula(pad_games(single))
    for i, game in enumerate(single):
        np.testing.assert_allclose(together[i, :, : game.d], formula(game), rtol=1e-9)
        assert (together[i, :, game.d :] == 0).all()


@formulas
def test_torch_gives_the_same_numbers(formula):
    torch = pytest.importorskip("torch")
    game = random_game(2, d=5)
    theirs = formula(RatioGame(*(torch.as_tensor(getattr(game, name)) for name in NAMES)))
    np.testing.assert_allclose(theirs.numpy(), formula(game), rtol=1e-11)


def test_inputs_outside_the_domain_raise_an_error():
    with pytest.raises(DomainError, match="at least 2 features, not 1"):
        lime_mean_field(random_game(0, d=1))
    with pytest.raises(InputError, match="bandwidth must be positive"):
        lime_mean_field(random_game(0), bandwidth=0.0)
    with pytest.raises(DomainError, match="no text has a weight"):
        lime_mean_field(random_game(0), bandwidth=1e-100)
