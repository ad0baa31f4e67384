"""How alike explanations of one text are: order, signs, strongest words."""

__all__ = ["TOP", "Likeness", "levelled", "likeness", "strengths", "top_chances"]

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limelight.results.comparison import mean_ranks
from limelight.shapes import Bool, Float

TOP = 5  # strongest words that two explanations are asked to share
_SAME = 1e-7  # of the largest score: float32 models differ by this much from run to run


class Likeness(NamedTuple):
    """Three answers to one question for every pair, NaN where they have no meaning.

    ``rank`` is Spearman's correlation of the orders, ``sign`` the share of words with the same sign
    among those to which both give one, ``top`` the share of the strongest words that both name.
    """

    rank: Float[np.ndarray, "m m"]
    sign: Float[np.ndarray, "m m"]
    top: Float[np.ndarray, "m m"]


def likeness(
    scores: Float[np.ndarray, "m d"], signed: Sequence[bool], *, noise: float = 0.0
) -> Likeness:
    """Return how alike every two rows of ``scores`` are, all of the same words.

    Where one of two rows is not ``signed``, both are ranked by size, and ``sign`` is NaN. Scores no
    further apart than ``noise``, or 1e-7 of the largest, are tied: rounding has no order. Tied
    words share their mean rank; which of them are among the strongest is left to chance,
    independently for both, so that explanations which say nothing share what guesses share,
    ``TOP``/d. ``rank`` is NaN where all words of one are tied, ``top`` where there are no more than
    ``TOP`` words.
    """
    both = np.logical_and.outer(signed, signed)
    rank, top = _order_and_top(scores, noise, signed=True)
    by_size, top_by_size = _order_and_top(scores, noise, signed=False)
    return Likeness(
        rank=np.where(both, rank, by_size),
        sign=np.where(both, _sign(scores, noise), np.nan),
        top=np.where(both, top, top_by_size),
    )


def _order_and_top(
    scores: Float[np.ndarray, "m d"], noise: float, *, signed: bool
) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    m, d = scores.shape
    strength = [strengths(row, signed=signed, noise=noise) for row in scores]
    ranks = np.array([mean_ranks(row) for row in strength]) - (d + 1) / 2
    product = ranks @ ranks.T
    norm = np.sqrt(np.outer(np.diag(product), np.diag(product)))
    rank = np.divide(product, norm, out=np.full((m, m), np.nan), where=norm > 0)
    if d <= TOP:
        return np.clip(rank, -1, 1), np.full((m, m), np.nan)
    chosen = np.array([top_chances(row, TOP) for row in strength])
    return np.clip(rank, -1, 1), chosen @ chosen.T / TOP


def _sign(scores: Float[np.ndarray, "m d"], noise: float) -> Float[np.ndarray, "m m"]:
    # A word that cannot matter, such as one that the model does not know, may have the score 1e-17:
    # it has no sign.
    least = np.array([_resolution(row, noise) for row in scores])[:, None]
    sign = np.where(np.abs(scores) <= least, 0.0, np.sign(scores))
    counted = np.abs(sign) @ np.abs(sign).T
    same = (sign @ sign.T + counted) / 2
    return np.divide(same, counted, out=np.full_like(same, np.nan), where=counted > 0)


def strengths(
    scores: Float[np.ndarray, " d"], *, signed: bool, noise: float = 0.0
) -> Float[np.ndarray, " d"]:
    """Return what words are ranked by, their scores or sizes, equal where rounding is all."""
    return levelled(scores if signed else np.abs(scores), noise=noise)


def levelled(scores: Float[np.ndarray, " d"], *, noise: float = 0.0) -> Float[np.ndarray, " d"]:
    """Return ``scores`` with each run of near neighbours replaced by the smallest of them."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts: Bool[np.ndarray, " d"] = np.diff(ranked, prepend=-np.inf) > _resolution(scores, noise)
    out = np.empty_like(scores)
    out[order] = ranked[starts][np.cumsum(starts) - 1]
    return out


def _resolution(scores: Float[np.ndarray, " d"], noise: float) -> float:
    return max(noise, _SAME * float(np.abs(scores).max(initial=0.0)))


def top_chances(strength: Float[np.ndarray, " d"], k: int) -> Float[np.ndarray, " d"]:
    """Return how probable it is that each word is among the ``k`` strongest, ties left to chance.

    The sum is ``k``: words above the k-th are in, those tied with it share the places left.
    """
    cut = np.partition(strength, len(strength) - k)[len(strength) - k]
    above, at = strength > cut, strength == cut
    return above + at * ((k - np.count_nonzero(above)) / np.count_nonzero(at))
