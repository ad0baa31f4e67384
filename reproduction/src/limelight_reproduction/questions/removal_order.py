"""Removal of words one after another, until the decision changes."""

__all__ = ["masks_along_order", "words_to_flip"]

import numpy as np

from limelight.shapes import Bool, Float, Int


def masks_along_order(order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "steps d"]:
    """Return the masks of kept words when 0, 1, 2, … words of ``order`` are removed."""
    d = len(order)
    rank = np.empty(d, int)
    rank[order] = np.arange(d)
    return rank[None, :] >= np.arange(d + 1)[:, None]


def words_to_flip(outputs: Float[np.ndarray, "steps C"]) -> int | None:
    """Return the number of removals after which the decision changes for the first time.

    ``outputs`` are those with 0, 1, … d words removed. None if the decision never changes.
    """
    decision = outputs.argmax(axis=1) if outputs.shape[1] > 1 else outputs[:, 0] > 0
    changed = np.flatnonzero(decision != decision[0])
    return int(changed[0]) if len(changed) else None
