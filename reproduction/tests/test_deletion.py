"""LIME under deletion against all subsets, built by deleting words one set at a time."""

from dataclasses import replace

import numpy as np
import pytest

from limelight.errors import DomainError, InputError
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame
from limelight_reproduction.theory.deletion import DeletionGame, deletion_range, lime_under_deletion

from ratio_games import random_game

K, C, T_MAX = 3, 2, 13


def positional_model(seed, *, d, spread):
    """Logits and values that depend on word and position, per head; the padding is word d."""
    rng = np.random.default_rng(seed)
    g = np.exp(spread * (rng.normal(size=(K, d + 1, 1)) + rng.normal(size=(K, 1, T_MAX))))
    u = rng.normal(size=(C, K, d + 1, 1)) + rng.normal(size=(C, K, 1, T_MAX))
    return g, u, np.exp(rng.normal(size=K)), rng.normal(size=(C, K))


def deleted_values(model, d):
    """Oracle: delete, close the gap, pad to the window, run the softmax. Shape (C, 2^d)."""
    g, u, g_cls, u_cls = model
    out = []
    for Z in enumerate_masks(d):
        words = [*np.flatnonzero(Z), *[d] * (T_MAX - int(Z.sum()))]
        at = np.arange(T_MAX)
        G = np.concatenate([g_cls[:, None], g[:, words, at]], axis=1)
        U = np.concatenate([u_cls[..., None], u[:, :, words, at]], axis=2)
        out.append(((G * U).sum(-1) / G.sum(-1)).mean(-1))
    return np.stack(out, axis=-1)


def deletion_game(model, d):
    g, u, g_cls, u_cls = model
    pads, pad_values = g[:, d, :], (g * u)[:, :, d, :]
    tail_g = np.stack([g_cls + pads[:, m:].sum(-1) for m in range(d + 1)], axis=-1)
    tail = np.stack([g_cls * u_cls + pad_values[..., m:].sum(-1) for m in range(d + 1)], axis=-1)
    return DeletionGame(g=g[:, :d, :d], u=u[:, :, :d, :d], tail_g=tail_g, tail_gu=tail)


def regression(f, d, bandwidth):
    keep = enumerate_masks(d)
    s = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * bandwidth**2))
    count = np.bincount(s)[s]
    root = np.sqrt(np.where(s > 0, psi / count, 0.0))
    Z = np.column_stack([np.ones(len(s)), keep])
    return np.linalg.lstsq(root[:, None] * Z, root[:, None] * f.T, rcond=None)[0].T


@pytest.mark.parametrize("bandwidth", [0.25, 1.0, np.inf])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("d", [2, 5, 7])
def test_matches_all_subsets(d, spread, bandwidth):
    model = positional_model(d, d=d, spread=spread)
    exact = regression(deleted_values(model, d), d, bandwidth)
    result = lime_under_deletion(deletion_game(model, d), bandwidth=bandwidth, tolerance=1e-9)
    assert (np.abs(result.scores - exact[:, 1:]).max(-1) <= result.bound + 1e-11).all()
    assert (np.abs(result.intercept - exact[:, 0]) <= result.intercept_bound + 1e-11).all()
    assert (result.bound < 1e-7).all()


def test_the_range_of_the_denominator_is_attained():
    model = positional_model(0, d=7, spread=1.0)
    low, high = deletion_range(deletion_game(model, 7))
    g, _, g_cls, _ = model
    D = []
    for Z in enumerate_masks(7):
        words = [*np.flatnonzero(Z), *[7] * (T_MAX - int(Z.sum()))]
        D.append(g_cls + g[:, words, np.arange(T_MAX)].sum(-1))
    np.testing.assert_allclose(low, np.min(D, axis=0), rtol=1e-12)
    np.testing.assert_allclose(high, np.max(D, axis=0), rtol=1e-12)


def test_without_positions_deletion_is_a_ratio_game_with_nothing_in_place_of_a_word():
    base = random_game(3, d=7, ratio=100)
    u = base.A / np.where(base.a > 0, base.a, 1)
    a = np.where(base.a > 0, base.a, 0.01)
    game = RatioGame(base.D0, a, 0 * a, base.N0, u * a, 0 * base.B)
    tile = np.ones(7)
    deleted = DeletionGame(
        g=a[:, :, None] * tile,
        u=u[..., None] * tile,
        tail_g=base.D0[:, None] * np.ones(8),
        tail_gu=base.N0[..., None] * np.ones(8),
    )
    value, two = lime(game, tolerance=1e-9), lime_under_deletion(deleted, tolerance=1e-9)
    assert (np.abs(value.scores - two.scores).max(-1) <= value.bound + two.bound).all()


def test_replacement_is_not_deletion():
    model, d = positional_model(1, d=5, spread=1.0), 5
    g, u, g_cls, u_cls = model
    gu, at = g * u, np.arange(d)
    replaced = RatioGame(  # every word stays at its place, or padding stands there
        D0=g_cls + g[:, d, d:].sum(-1),
        a=g[:, at, at],
        b=g[:, d, :d],
        N0=g_cls * u_cls + gu[:, :, d, d:].sum(-1),
        A=gu[:, :, at, at],
        B=gu[:, :, d, :d],
    )
    value = lime(replaced, tolerance=1e-9)
    two = lime_under_deletion(deletion_game(model, d), tolerance=1e-9)
    exact = regression(deleted_values(model, d), d, 0.25)
    assert (np.abs(two.scores - exact[:, 1:]).max(-1) <= two.bound + 1e-11).all()
    assert (np.abs(value.scores - exact[:, 1:]).max(-1) > 1e-2).all()


def test_a_game_outside_the_domain_raises_an_error():
    game = deletion_game(positional_model(0, d=5, spread=1.0), 5)
    with pytest.raises(InputError) as caught:
        lime_under_deletion(game, tolerance=0.0)
    assert str(caught.value) == "tolerance must be between 0 and 1, not 0.0."
    with pytest.raises(DomainError, match="positive weights without the words"):
        lime_under_deletion(replace(game, tail_g=0 * game.tail_g))
