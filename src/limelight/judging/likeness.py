"""How alike two explanations of one text are: order, signs, strongest words."""

__all__ = ["TOP", "Likeness", "levelled", "likeness", "strengths", "top_chances"]

from typing import NamedTuple

import numpy as np

from limelight.results.agreement import rank_correlation
from limelight.shapes import Float

TOP = 5  # strongest words that two explanations are asked to share
_SAME = 1e-7  # of the largest score: float32 models differ by this much from run to run


class Likeness(NamedTuple):
    """Three answers to one question, each None where it has no meaning.

    ``rank`` is Spearman's correlation of the orders, ``sign`` the share of words with the same sign
    among those to which both give one, ``top`` the share of the strongest words that both name.
    """

    rank: float | None
    sign: float | None
    top: float | None


def likeness(
    a: Float[np.ndarray, " d"],
    b: Float[np.ndarray, " d"],
    *,
    signed: bool = True,
    noise: float = 0.0,
) -> Likeness:
    """Return how alike the scores ``a`` and ``b`` of the same words are.

    Without ``signed`` (one of the two has no signs) words are ranked by size. Scores no further
    apart than ``noise``, or 1e-7 of the largest, are tied: rounding has no order. Tied words share
    their mean rank; which of them are among the strongest is left to chance, independently for
    both, so that explanations which say nothing share what guesses share, ``TOP``/d. ``rank`` is
    None where all words of one are tied, ``top`` where a text has no more than ``TOP`` words.
    """
    a, b = (_levelled_around_zero(x, noise) for x in (a, b))
    x, y = strengths(a, signed=signed, noise=noise), strengths(b, signed=signed, noise=noise)
    both = (a != 0) & (b != 0)
    return Likeness(
        rank=rank_correlation(x, y),
        sign=float(np.mean(a[both] * b[both] > 0)) if signed and both.any() else None,
        top=float(top_chances(x, TOP) @ top_chances(y, TOP)) / TOP if len(x) > TOP else None,
    )


def strengths(
    scores: Float[np.ndarray, " d"], *, signed: bool, noise: float = 0.0
) -> Float[np.ndarray, " d"]:
    """Return what words are ranked by, their scores or sizes, equal where rounding is all."""
    return levelled(scores if signed else np.abs(scores), noise=noise)


def levelled(scores: Float[np.ndarray, " d"], *, noise: float = 0.0) -> Float[np.ndarray, " d"]:
    """Return ``scores`` with each run of near neighbours replaced by the smallest of them."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts = np.concatenate([[True], np.diff(ranked) > _resolution(scores, noise)])
    out = np.empty_like(scores)
    out[order] = ranked[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    return out


def _levelled_around_zero(x: Float[np.ndarray, " d"], noise: float) -> Float[np.ndarray, " d"]:
    # A word that cannot matter, such as one that the model does not know, may have the score 1e-17:
    # it has no sign.
    return np.where(np.abs(x) <= _resolution(x, noise), 0.0, x)


def _resolution(scores: Float[np.ndarray, " d"], noise: float) -> float:
    return max(noise, _SAME * float(np.abs(scores).max(initial=0.0)))


def top_chances(strength: Float[np.ndarray, " d"], k: int) -> Float[np.ndarray, " d"]:
    """Return how probable it is that each word is among the ``k`` strongest, ties left to chance.

    The sum is ``k``: words above the k-th are in, those tied with it share the places left.
    """
    cut = np.partition(strength, len(strength) - k)[len(strength) - k]
    above, at = strength > cut, strength == cut
    return above + at * ((k - np.count_nonzero(above)) / np.count_nonzero(at))
