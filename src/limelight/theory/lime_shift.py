"""The shift of LIME's scores by a penalty and by row 0, with n samples, and its scatter."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.shapes import Float, Int
from limelight.theory.lime_weights import LimeDesign, lime_design, size_weight


class LimeShift(NamedTuple):
    """The shift of the limit of every word, in three parts."""

    differences: Float[np.ndarray, " d"]  # scores shrink to their mean
    penalty: Float[np.ndarray, " d"]  # the mean shrinks to 0
    row0: Float[np.ndarray, " d"]  # the fit of the unchanged document

    @property
    def total(self) -> Float[np.ndarray, " d"]:
        """Return the sum of the parts."""
        return self.differences + self.penalty + self.row0

    @property
    def magnitude(self) -> Float[np.ndarray, " d"]:
        """Return the sum of the absolute parts, which do not cancel."""
        return np.abs(self.differences) + np.abs(self.penalty) + np.abs(self.row0)


def lime_shift(
    scores: Float[np.ndarray, " d"],
    full_residual: float,
    *,
    samples: int | Int[np.ndarray, " d"],
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    words: int | None = None,
) -> LimeShift:
    """Return the shift of LIME's scores β by a ridge penalty λ and by row 0.

    Parameters
    ----------
    scores
        LIME's scores β without penalty and row 0.
    full_residual
        The residual e_1 = f(full text) − intercept − Σβ.
    samples
        The number n of samples, one for all words or one for each.
    bandwidth, ridge, row0
        LIME's settings ν and λ, and whether row 0 is used.
    words
        The number of words of the text, if the scores are those of a subset that the regression
        uses. None means that all words have a score.

    Returns
    -------
    The parts of the shift. Domain: d ≥ 2, λ ≥ 0, n ≥ 1.
    """
    design = lime_design(words or len(scores), bandwidth=bandwidth)
    rho, tau = ridge / samples, row0 / np.asarray(samples, dtype=np.float64)
    mean, removed = np.mean(scores), design.m0 - design.m1  # E[ψ(1 − Z_j)]
    spread = spread_with_row0(design, tau, len(scores))
    ones = np.ones(len(scores))
    return LimeShift(
        differences=-rho / (design.V + rho) * (scores - mean),
        penalty=-rho / (spread + rho) * mean * ones,
        row0=tau * removed / (design.m0 + tau) / (spread + rho) * full_residual * ones,
    )


def spread_with_row0(
    design: LimeDesign, tau: float | Float[np.ndarray, "*n"], scored_count: int
) -> float | Float[np.ndarray, "*n"]:
    """Return V′, the variance of the number of kept words with row 0 as a point of weight τ.

    It is divided by d and counts only the ``scored_count`` words that have a score.
    """
    removed = design.m0 - design.m1
    spread = design.spread - (design.d - scored_count) * design.covariance  # V + kχ
    return spread + scored_count * tau * removed**2 / (design.m0 * (design.m0 + tau))


def shift_scatter(
    scores: Float[np.ndarray, " d"],
    full_residual: float,
    *,
    samples: int | Int[np.ndarray, " d"],
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    power: float = 0.0,
) -> Float[np.ndarray, " d"]:
    """Return the standard deviations s_j of the shift of LIME's scores over random samples.

    The arguments are those of `lime_shift`. Sizes are drawn in proportion to ψ^``power``, as in
    `lime_variance`. The cost is O(d). Statement: ``docs/theorems/lime-variance.md``.

    Parameters
    ----------
    scores, full_residual, samples, bandwidth, ridge, row0
        As in `lime_shift`.
    power
        Sizes are drawn in proportion to ψ^power, as in `lime_variance`.

    Returns
    -------
    The standard deviation of the shift of each score.
    """
    d, design = len(scores), lime_design(len(scores), bandwidth=bandwidth)
    settings = {"samples": samples, "bandwidth": bandwidth, "ridge": ridge, "row0": row0}
    shift = lime_shift(scores, full_residual, **settings)  # type: ignore[arg-type]
    rho, tau = ridge / samples, row0 / np.asarray(samples, dtype=np.float64)
    common = shift.penalty + shift.row0
    # δ·x = level + common (n − n̄) + Σ_k differences_k Z_k
    mean_shift = d * tau * (1 - design.m1 / design.m0) / (design.m0 + tau)  # n̄′ − n̄
    level = tau * full_residual / (design.m0 + tau) - common * mean_shift
    moves = np.stack([level + 0 * common, common, shift.differences], axis=-1)
    word_slope, count_slope = 1 / (design.V + rho), 1 / (spread_with_row0(design, tau, d) + rho)
    slopes = np.stack(
        [x + 0 * common for x in (word_slope, count_slope, -count_slope * mean_shift)], axis=-1
    )
    mean_products, variance_factor = _moments(d, bandwidth, power)
    # Σ over the other words of differences_k Z_k has its variance from theirs.
    centered = scores - np.mean(scores)
    other_variance = (np.sum(centered**2) - centered**2) / (d - 1) - (centered / (d - 1)) ** 2
    other_variance = np.maximum(other_variance, 0) * (rho / (design.V + rho)) ** 2
    square = np.einsum(
        "ja,jb,jp,jq,abpq->j", slopes, slopes, moves, moves, mean_products, optimize=True
    )
    square = square + other_variance * np.einsum("ja,jb,ab->j", slopes, slopes, variance_factor)
    return np.sqrt(np.maximum(square, 0))


@lru_cache(maxsize=256)
def _moments(
    d: int, bandwidth: float, power: float
) -> tuple[Float[np.ndarray, "3 3 3 3"], Float[np.ndarray, "3 3"]]:
    """Return E[w² κκᵀ ⊗ mean mean], and E[w² κκᵀ] times the variance of a sum over other words.

    κ has the parts Z_j − n/d, (n − n̄)/d and 1/d. A word is kept or removed, at n = 0..d.
    """
    design, n = lime_design(d, bandwidth=bandwidth), np.arange(d + 1)
    size_weights = size_weight(d, bandwidth)[::-1] ** power
    # Sizes whose ψ is 0 in double precision are not drawn and have no weight.
    has_weight = (n < d) & (size_weights > 0)
    share = np.where(has_weight, size_weights, 1.0) / np.sum(size_weights[:-1])
    weight = np.where(has_weight, design.weight[::-1] ** 2 / share, 0.0)
    x, excess, ones = n / d, design.excess[::-1], np.ones(d + 1)
    chance = weight * np.stack([x, 1 - x])
    slope = np.stack([[centered, excess / d, ones / d] for centered in (1 - x, -x)])
    # For numbers that add up to 0: the word's number, and the mean of the other kept words'
    # numbers.
    mean = np.stack([[ones, excess, (d - n) / (d - 1)], [ones, excess, -n / (d - 1)]])
    other_count = np.stack([n - 1, n])
    variance_factor = np.maximum(other_count * (d - 1 - other_count), 0) / max(d - 2, 1)
    mean_products = np.einsum(
        "zn,zan,zbn,zpn,zqn->abpq", chance, slope, slope, mean, mean, optimize=True
    )
    return mean_products, np.einsum("zn,zan,zbn->ab", chance * variance_factor, slope, slope)
