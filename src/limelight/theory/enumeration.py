"""All subsets: the definitions themselves, for d ≤ 20.

Slow, plain, and the oracle of everything else here.
"""

import math
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError
from limelight.shapes import Array, Bool, Float
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, value

_MOST = 20


class EnumeratedLime(NamedTuple):
    """The weighted ridge regression of f on all sets of words."""

    scores: Float[Array, "*batch C d"]
    intercept: Float[Array, "*batch C"]
    r2: Float[Array, "*batch C"]


def all_keeps(d: int) -> Bool[Array, "n d"]:
    """The 2^d rows of kept indicators; row 0 removes everything, the last row nothing.

    Domain: d ≤ 20.
    """
    if d > _MOST:
        raise DomainError(f"enumeration needs at most {_MOST} features; got {d}.")
    return (np.arange(2**d)[:, None] >> np.arange(d)) % 2 == 1


def _values(game: RatioGame, keep: Bool[Array, "n d"]) -> Float[Array, "*batch C n"]:
    return value(game, array_like(keep, game.a))


def _applied(game: RatioGame, matrix: Float[Array, "n m"]) -> Float[Array, "*batch C m"]:
    """Σ_S f(S) · matrix[S]."""
    f = _values(game, all_keeps(game.d))
    return f @ array_like(matrix, f)


def lime_by_enumeration(
    game: RatioGame, *, bandwidth: float = 0.25, penalty: float = 0.0, rows: int | None = None
) -> EnumeratedLime:
    """LIME in the limit: minimise E[ψ (f − b − β·Z)²] + ρ‖β‖², sizes uniform on 1..d."""
    keep = all_keeps(game.d)
    weight = lime_weights(game.d, bandwidth=bandwidth, rows=rows)
    Z = np.column_stack([np.ones(len(keep)), keep])
    coefficients = _applied(game, ridge_solution(Z, weight, penalty))
    xp = array_namespace(coefficients)
    f = _values(game, keep)
    w, fitted = array_like(weight, f), coefficients @ array_like(Z.T, f)
    mean = xp.sum(w * f, axis=-1) / xp.sum(w)
    left = xp.sum(w * (f - fitted) ** 2, axis=-1)
    spread = xp.sum(w * (f - mean[..., None]) ** 2, axis=-1)
    flat = spread == 0  # a constant is fitted perfectly
    r2 = 1 - left * xp.astype(~flat, f.dtype) / xp.where(flat, xp.ones_like(spread), spread)
    return EnumeratedLime(scores=coefficients[..., 1:], intercept=coefficients[..., 0], r2=r2)


def lime_weights(
    d: int, *, bandwidth: float = 0.25, rows: int | None = None
) -> Float[np.ndarray, " n"]:
    """Probability × ψ of every row of :func:`all_keeps`, sizes uniform on 1..d."""
    s = d - all_keeps(d).sum(axis=1)
    width = min(max(bandwidth, 1e-150), 1e150)  # past these only 0 and 1 are left
    psi = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * width**2))
    sets = np.asarray([math.comb(d, k) for k in range(d + 1)])
    return np.where(s > 0, psi / (d * sets[s]), 0.0 if rows is None else 1 / rows)


def ridge_solution(
    Z: Float[Array, "n m"], weight: Float[Array, " n"], penalty: float
) -> Float[Array, "n m"]:
    """The matrix that takes f to the coefficients; column 0 of Z is the intercept, which goes free.

    Weights span 20 orders of magnitude at small bandwidths: Householder QR on rows sorted by weight
    keeps the small ones, the normal equations lose them.
    """
    n, m = Z.shape
    ridge = np.sqrt(penalty) * np.eye(m)[1:]
    rows = np.concatenate([np.sqrt(weight)[:, None] * Z, ridge])
    order = np.argsort(-np.max(np.abs(rows), axis=1), kind="stable")
    Q, R = np.linalg.qr(rows[order])
    back = np.empty_like(Q)
    back[order] = Q
    solution: Float[Array, "m n"] = np.linalg.solve(R, back[:n].T * np.sqrt(weight))
    return solution.T


def _signs(keep: Bool[Array, "n d"]) -> Float[Array, "n d"]:
    return np.where(keep, 1.0, -1.0)


def shapley_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d"]:
    """Sh_j = Σ_S [f(S ∪ j) − f(S)]/(d · number of sets as large as S), S any set of the others."""
    return _applied(game, shapley_weights(game.d))


def shapley_weights(d: int) -> Float[np.ndarray, "n d"]:
    """The matrix that takes f on the rows of :func:`all_keeps` to the Shapley values."""
    keep = all_keeps(d)
    others = keep.sum(axis=1)[:, None] - keep
    sets = np.asarray([math.comb(d - 1, k) for k in range(d)])
    return _signs(keep) / (d * sets[np.clip(others, 0, d - 1)])


def banzhaf_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d"]:
    """The mean over all sets of the others of f(with j) − f(without j)."""
    return _applied(game, banzhaf_weights(game.d))


def banzhaf_weights(d: int) -> Float[np.ndarray, "n d"]:
    """The matrix that takes f on the rows of :func:`all_keeps` to the Banzhaf values."""
    return _signs(all_keeps(d)) / 2 ** (d - 1)


def _pairs(game: RatioGame, weight: Float[Array, " others"]) -> Float[Array, "*batch C d d"]:
    keep = all_keeps(game.d)
    pair = _signs(keep)[:, :, None] * _signs(keep)[:, None, :]
    others = keep.sum(axis=1)[:, None, None] - keep[:, :, None] - 1 * keep[:, None, :]
    matrix = pair * weight[np.clip(others, 0, game.d - 2)]
    matrix[:, np.arange(game.d), np.arange(game.d)] = 0.0
    flat = _applied(game, matrix.reshape(len(keep), -1))
    xp = array_namespace(flat)
    return xp.reshape(flat, (*flat.shape[:-1], game.d, game.d))


def banzhaf_interactions_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d d"]:
    """The mean over sets of the others of f(j, k) − f(j) − f(k) + f(∅); 0 on the diagonal."""
    return _pairs(game, np.full(max(1, game.d - 1), 0.5 ** (game.d - 2)))


def shapley_interactions_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d d"]:
    """Shapley interaction index: the same, but with the size of the set uniform on 0..d−2."""
    n = game.d - 2
    return _pairs(game, np.asarray([1 / ((n + 1) * math.comb(n, k)) for k in range(n + 1)]))
