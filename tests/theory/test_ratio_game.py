from dataclasses import replace

import numpy as np
import pytest
from ratio_games import C, K, random_game

from limelight.errors import InputError
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.heavy_form import heavy_form
from limelight.theory.ratio_game import (
    denominator_range,
    empty_value,
    full_value,
    head_values,
    select_heads,
    subtract_constants,
    value,
    value_range,
)

GAME = random_game(0, d=5, ratio=1e4)


def values_from_loops(game, keep):
    """Oracle: the definition, one set and one head at a time."""
    out = np.zeros((C, len(keep)))
    for n, Z in enumerate(keep):
        for c in range(C):
            for i in range(K):
                N = game.N0[c, i] + sum(
                    game.A[c, i, j] if Z[j] else game.B[c, i, j] for j in range(game.d)
                )
                D = game.D0[i] + sum(game.a[i, j] if Z[j] else game.b[i, j] for j in range(game.d))
                out[c, n] += N / D / K
    return out


def test_value_is_the_mean_of_the_ratios():
    keep = enumerate_masks(5)
    np.testing.assert_allclose(value(GAME, keep), values_from_loops(GAME, keep), rtol=1e-12)


def test_full_and_empty_are_the_ends_of_all_sets():
    f = value(GAME, enumerate_masks(5))
    np.testing.assert_allclose(full_value(GAME), f[:, -1], rtol=1e-12)
    np.testing.assert_allclose(empty_value(GAME), f[:, 0], rtol=1e-12)


def test_one_head_alone_is_that_head():
    f = head_values(GAME, enumerate_masks(5))
    np.testing.assert_allclose(
        value(select_heads(GAME, slice(1, 2)), enumerate_masks(5)), f[:, 1], rtol=1e-12
    )


def test_a_shift_moves_every_value_by_the_mean_shift():
    c = np.random.default_rng(1).normal(size=(C, K))
    moved = value(subtract_constants(GAME, c), enumerate_masks(5))
    np.testing.assert_allclose(
        moved, value(GAME, enumerate_masks(5)) - c.mean(axis=1)[:, None], rtol=1e-9
    )


@pytest.mark.parametrize("ratio", [1, 10, 1e4, 1e7])
@pytest.mark.parametrize("seed", range(5))
def test_ranges_hold_every_value(seed, ratio):
    game = random_game(seed, d=7, ratio=ratio)
    f = head_values(game, enumerate_masks(7))
    low, high = value_range(game)
    assert (f.min(-1) >= low - 1e-12).all()
    assert (f.max(-1) <= high + 1e-12).all()
    D_min, D_max = denominator_range(game)
    form = heavy_form(game)
    np.testing.assert_allclose(form.ratio, D_max / D_min)
    assert (np.abs(f - form.c.T[..., None]).max(-1) <= form.half_range.T * (1 + 1e-12)).all()
    # and the range is not wasteful: Dinkelbach finds the extremes themselves
    spread = f.max(-1) - f.min(-1)
    np.testing.assert_allclose(2 * form.half_range.T, spread, rtol=1e-6)


def test_a_wrong_shape_is_named():
    with pytest.raises((InputError, TypeError), match="N0"):
        replace(GAME, N0=GAME.N0[:, :2])
