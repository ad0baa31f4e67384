"""The definitions of all scores as sums over all subsets, for d ≤ 20.

Slow and simple: the reference implementation for the other modules of this package.
"""

import math
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError
from limelight.shapes import Array, Bool, Float
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, value

_MAX_FEATURES = 20


class EnumeratedLime(NamedTuple):
    """The weighted ridge regression of f on all sets of words."""

    scores: Float[Array, "*batch C d"]
    intercept: Float[Array, "*batch C"]
    r2: Float[Array, "*batch C"]


def enumerate_masks(d: int) -> Bool[Array, "n d"]:
    """Return the 2^d masks of d features (True: kept).

    Row 0 removes all features, the last row removes none.

    Domain: d ≤ 20.
    """
    if d > _MAX_FEATURES:
        raise DomainError(f"enumeration needs at most {_MAX_FEATURES} features, not {d}.")
    return (np.arange(2**d)[:, None] >> np.arange(d)) % 2 == 1


def _values(game: RatioGame, keep: Bool[Array, "n d"]) -> Float[Array, "*batch C n"]:
    """Return f(Z) for each row Z of a NumPy array of masks."""
    return value(game, array_like(keep, game.a))


def _weighted_sums(game: RatioGame, matrix: Float[Array, "n m"]) -> Float[Array, "*batch C m"]:
    """Return Σ_S f(S) · matrix[S]."""
    f = _values(game, enumerate_masks(game.d))
    return f @ array_like(matrix, f)


def lime_by_enumeration(
    game: RatioGame, *, bandwidth: float = 0.25, penalty: float = 0.0, rows: int | None = None
) -> EnumeratedLime:
    """Return LIME's limit, which minimizes E[ψ (f − b − β·Z)²] + ρ‖β‖² with sizes uniform on 1..d.

    Parameters
    ----------
    game
        The ratio games of a batch of documents with the same d.
    bandwidth, penalty, rows
        ν, ρ and the number of samples beside row 0, as in `RegressionSettings`.

    Returns
    -------
    Coefficients, intercept and R².
    """
    keep = enumerate_masks(game.d)
    weight = lime_mask_weights(game.d, bandwidth=bandwidth, rows=rows)
    Z = np.column_stack([np.ones(len(keep)), keep])
    coefficients = _weighted_sums(game, ridge_matrix(Z, weight, penalty))
    xp = array_namespace(coefficients)
    f = _values(game, keep)
    w, fitted = array_like(weight, f), coefficients @ array_like(Z.T, f)
    mean = xp.sum(w * f, axis=-1) / xp.sum(w)
    residual = xp.sum(w * (f - fitted) ** 2, axis=-1)
    spread = xp.sum(w * (f - mean[..., None]) ** 2, axis=-1)
    is_constant = spread == 0  # a constant is fitted perfectly
    r2 = 1 - residual * xp.astype(~is_constant, f.dtype) / xp.where(
        is_constant, xp.ones_like(spread), spread
    )
    return EnumeratedLime(scores=coefficients[..., 1:], intercept=coefficients[..., 0], r2=r2)


def lime_mask_weights(
    d: int, *, bandwidth: float = 0.25, rows: int | None = None
) -> Float[np.ndarray, " n"]:
    """Return probability × ψ of every row of :func:`enumerate_masks`, sizes uniform on 1..d."""
    s = d - enumerate_masks(d).sum(axis=1)
    width = min(max(bandwidth, 1e-150), 1e150)  # beyond these ψ is 0 or 1
    psi = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * width**2))
    sets = np.asarray([math.comb(d, k) for k in range(d + 1)])
    return np.where(s > 0, psi / (d * sets[s]), 0.0 if rows is None else 1 / rows)


def ridge_matrix(
    Z: Float[Array, "n m"], weight: Float[Array, " n"], penalty: float
) -> Float[Array, "n m"]:
    """Return the matrix that maps f to the coefficients of weighted ridge regression on Z.

    Column 0 of Z is the intercept, which is not penalized. Weights span 20 orders of magnitude at
    small bandwidths. Householder QR on rows sorted by weight keeps the small weights. The normal
    equations would lose them.
    """
    n, m = Z.shape
    ridge = np.sqrt(penalty) * np.eye(m)[1:]
    rows = np.concatenate([np.sqrt(weight)[:, None] * Z, ridge])
    order = np.argsort(-np.max(np.abs(rows), axis=1), kind="stable")
    Q, R = np.linalg.qr(rows[order])
    unsorted = np.empty_like(Q)
    unsorted[order] = Q
    solution: Float[Array, "m n"] = np.linalg.solve(R, unsorted[:n].T * np.sqrt(weight))
    return solution.T


def _signs(keep: Bool[Array, "n d"]) -> Float[Array, "n d"]:
    """Return +1 for kept and −1 for removed features."""
    return np.where(keep, 1.0, -1.0)


def shapley_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d"]:
    """Return Sh_j = Σ_S [f(S ∪ j) − f(S)]/(d · C(d−1, |S|)), S a set of the other features."""
    return _weighted_sums(game, shapley_matrix(game.d))


def shapley_matrix(d: int) -> Float[np.ndarray, "n d"]:
    """Return the matrix that maps f on the rows of :func:`enumerate_masks` to Shapley values."""
    keep = enumerate_masks(d)
    other_counts = keep.sum(axis=1)[:, None] - keep
    sets = np.asarray([math.comb(d - 1, k) for k in range(d)])
    return _signs(keep) / (d * sets[np.clip(other_counts, 0, d - 1)])


def banzhaf_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d"]:
    """Return the mean of f(S ∪ j) − f(S) over all sets S of the other features."""
    return _weighted_sums(game, banzhaf_matrix(game.d))


def banzhaf_matrix(d: int) -> Float[np.ndarray, "n d"]:
    """Return the matrix that maps f on the rows of :func:`enumerate_masks` to Banzhaf values."""
    return _signs(enumerate_masks(d)) / 2 ** (d - 1)


def _pair_sums(game: RatioGame, weight: Float[Array, " sizes"]) -> Float[Array, "*batch C d d"]:
    """Return weighted sums of the four-term differences of all pairs.

    ``weight`` has the weight of a set of the other features by its size.
    """
    keep = enumerate_masks(game.d)
    pair = _signs(keep)[:, :, None] * _signs(keep)[:, None, :]
    other_counts = keep.sum(axis=1)[:, None, None] - keep[:, :, None] - 1 * keep[:, None, :]
    matrix = pair * weight[np.clip(other_counts, 0, game.d - 2)]
    matrix[:, np.arange(game.d), np.arange(game.d)] = 0.0
    flat = _weighted_sums(game, matrix.reshape(len(keep), -1))
    xp = array_namespace(flat)
    return xp.reshape(flat, (*flat.shape[:-1], game.d, game.d))


def banzhaf_interactions_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d d"]:
    """Return the mean of f(j, k) − f(j) − f(k) + f(∅) over sets of the other features."""
    return _pair_sums(game, np.full(max(1, game.d - 1), 0.5 ** (game.d - 2)))


def shapley_interactions_by_enumeration(game: RatioGame) -> Float[Array, "*batch C d d"]:
    """Return the Shapley interaction index: the same mean with sizes uniform on 0..d−2."""
    n = game.d - 2
    return _pair_sums(game, np.asarray([1 / ((n + 1) * math.comb(n, k)) for k in range(n + 1)]))
