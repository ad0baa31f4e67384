"""What a penalty and row 0 do to LIME with n samples: how far they shift it, and its scatter."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.shapes import Float, Int
from limelight.theory.lime_weights import LimeDesign, lime_design, size_weight


class Shift(NamedTuple):
    """What is added to the limit of every word, in three parts."""

    differences: Float[np.ndarray, " d"]  # words drawn towards their mean
    penalty: Float[np.ndarray, " d"]  # the mean drawn towards 0
    row0: Float[np.ndarray, " d"]

    @property
    def total(self) -> Float[np.ndarray, " d"]:
        """The sum of the parts."""
        return self.differences + self.penalty + self.row0

    @property
    def most(self) -> Float[np.ndarray, " d"]:
        """The sum of their sizes: no part is let off because another happens to cancel it."""
        return np.abs(self.differences) + np.abs(self.penalty) + np.abs(self.row0)


def lime_shift(
    scores: Float[np.ndarray, " d"],
    left: float,
    *,
    samples: int | Int[np.ndarray, " d"],
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    words: int | None = None,
) -> Shift:
    """The shift of LIME's ``scores`` β by a penalty λ = ``ridge`` and by row 0 on n ``samples``.

    ``left`` is e_1 = f(whole text) − intercept − Σβ. ``samples`` may differ from word to word; each
    word is then told its own. Scores may be of some of the text's ``words`` only (None: of all),
    the others being left out of the regression. Domain: d ≥ 2, λ ≥ 0, n ≥ 1.
    """
    design = lime_design(words or len(scores), bandwidth=bandwidth)
    rho, tau = ridge / samples, row0 / np.asarray(samples, dtype=np.float64)
    mean, removed = np.mean(scores), design.m0 - design.m1  # E[ψ(1 − Z_j)]
    spread = spread_with_row0(design, tau, len(scores))
    even = np.ones(len(scores))
    return Shift(
        differences=-rho / (design.V + rho) * (scores - mean),
        penalty=-rho / (spread + rho) * mean * even,
        row0=tau * removed / (design.m0 + tau) / (spread + rho) * left * even,
    )


def spread_with_row0(
    design: LimeDesign, tau: float | Float[np.ndarray, "*n"], scored: int
) -> float | Float[np.ndarray, "*n"]:
    """V′: row 0 is one more point, of weight τ, in the variance of the number of kept words.

    Of the words that are ``scored``.
    """
    removed = design.m0 - design.m1
    spread = design.spread - (design.d - scored) * design.covariance  # V + kχ
    return spread + scored * tau * removed**2 / (design.m0 * (design.m0 + tau))


def shift_scatter(
    scores: Float[np.ndarray, " d"],
    left: float,
    *,
    samples: int | Int[np.ndarray, " d"],
    bandwidth: float = 0.25,
    ridge: float = 1.0,
    row0: bool = True,
    power: float = 0.0,
) -> Float[np.ndarray, " d"]:
    """The s_j of LIME's ``scores``, whose arguments are those of `lime_shift`.

    Sizes are drawn in proportion to ψ^``power``, as in `lime_variance`. Cost O(d).
    """
    d, design = len(scores), lime_design(len(scores), bandwidth=bandwidth)
    settings = {"samples": samples, "bandwidth": bandwidth, "ridge": ridge, "row0": row0}
    shift = lime_shift(scores, left, **settings)  # type: ignore[arg-type]
    rho, tau = ridge / samples, row0 / np.asarray(samples, dtype=np.float64)
    even = shift.penalty + shift.row0
    # δ·x = level + even (n − n̄) + Σ_k differences_k Z_k
    pulled = d * tau * (1 - design.m1 / design.m0) / (design.m0 + tau)  # n̄′ − n̄
    level = tau * left / (design.m0 + tau) - even * pulled
    moves = np.stack([level + 0 * even, even, shift.differences], axis=-1)
    single, common = 1 / (design.V + rho), 1 / (spread_with_row0(design, tau, d) + rho)
    slopes = np.stack([x + 0 * even for x in (single, common, -common * pulled)], axis=-1)
    fixed, spreading = _moments(d, bandwidth, power)
    # Σ over the other words of differences_k Z_k has its variance from theirs.
    centered = scores - np.mean(scores)
    others = (np.sum(centered**2) - centered**2) / (d - 1) - (centered / (d - 1)) ** 2
    others = np.maximum(others, 0) * (rho / (design.V + rho)) ** 2
    square = np.einsum("ja,jb,jp,jq,abpq->j", slopes, slopes, moves, moves, fixed, optimize=True)
    square = square + others * np.einsum("ja,jb,ab->j", slopes, slopes, spreading)
    return np.sqrt(np.maximum(square, 0))


@lru_cache(maxsize=256)
def _moments(
    d: int, bandwidth: float, power: float
) -> tuple[Float[np.ndarray, "3 3 3 3"], Float[np.ndarray, "3 3"]]:
    """E[w² κκᵀ ⊗ mean mean], and E[w² κκᵀ] times the variance of a sum over other words.

    κ has the parts Z_j − n/d, (n − n̄)/d and 1/d; a word is kept or removed, at n = 0..d.
    """
    design, n = lime_design(d, bandwidth=bandwidth), np.arange(d + 1)
    drawn = size_weight(d, bandwidth)[::-1] ** power
    # Where ψ vanishes in double precision nothing is drawn, and nothing weighs.
    some = (n < d) & (drawn > 0)
    share = np.where(some, drawn, 1.0) / np.sum(drawn[:-1])
    weight = np.where(some, design.weight[::-1] ** 2 / share, 0.0)
    x, excess, one = n / d, design.excess[::-1], np.ones(d + 1)
    chance = weight * np.stack([x, 1 - x])
    slope = np.stack([[own, excess / d, one / d] for own in (1 - x, -x)])
    # Of numbers that add up to 0: the word's own, and the mean of those kept among the others.
    mean = np.stack([[one, excess, (d - n) / (d - 1)], [one, excess, -n / (d - 1)]])
    chosen = np.stack([n - 1, n])
    spreading = np.maximum(chosen * (d - 1 - chosen), 0) / max(d - 2, 1)
    fixed = np.einsum("zn,zan,zbn,zpn,zqn->abpq", chance, slope, slope, mean, mean, optimize=True)
    return fixed, np.einsum("zn,zan,zbn->ab", chance * spreading, slope, slope)
