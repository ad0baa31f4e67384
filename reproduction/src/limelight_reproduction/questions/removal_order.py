"""Words that go one after another, and when the decision changes."""

__all__ = ["kept_along", "words_to_flip"]

import numpy as np

from limelight.shapes import Bool, Float, Int


def kept_along(order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "steps d"]:
    """Return which words stay when none, the first, the first two … of ``order`` are removed."""
    d = len(order)
    place = np.empty(d, int)
    place[order] = np.arange(d)
    return place[None, :] >= np.arange(d + 1)[:, None]


def words_to_flip(outputs: Float[np.ndarray, "steps C"]) -> int | None:
    """Return after how many removals the decision is another one for the first time.

    ``outputs`` are those with 0, 1, … d words removed; None if the decision stays to the end.
    """
    decision = outputs.argmax(axis=1) if outputs.shape[1] > 1 else outputs[:, 0] > 0
    changed = np.flatnonzero(decision != decision[0])
    return int(changed[0]) if len(changed) else None
