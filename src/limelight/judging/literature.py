"""Faithfulness as two well-known packages measure it, for comparison with what they print.

Both look at the probability of the class: what it loses without the top words (comprehensiveness)
and what it loses when only they are left (sufficiency). They differ in which sets of words are
"top". Written from their definitions; neither package is used.
"""

__all__ = ["eraser_sets", "ferret_sets"]

import numpy as np

from limelight.shapes import Bool, Float, Int

_ERASER_BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
_FERRET_SHARES = np.arange(0.1, 1.1, 0.1)


def eraser_sets(order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "bins d"]:
    """The top 1, 5, 10, 20 and 50 % of the words, rounded up: every bin holds a word."""
    place = np.argsort(order)
    counts = np.ceil(np.array(_ERASER_BINS) * len(order) - 1e-9)
    return place[None, :] < counts[:, None]


def ferret_sets(
    scores: Float[np.ndarray, " d"], order: Int[np.ndarray, " d"]
) -> Bool[np.ndarray, "steps d"]:
    """The words of positive score among the top 10, 20, … 100 %, rounded down.

    A step that adds no word is left out, and so is one of no words at all where the text is short:
    how many steps there are depends on how many words a method calls positive.
    """
    place = np.argsort(order)
    counts = (_FERRET_SHARES * len(order)).astype(int)
    sets = (place[None, :] < counts[counts > 0, None]) & (scores > 0)
    new = np.ones(len(sets), bool)
    new[1:] = (sets[1:] != sets[:-1]).any(axis=1)
    return sets[new]
