"""What a model reads when words are removed: the window of each mask, as rows of word numbers."""

__all__ = ["deleted_windows", "replaced_windows"]

import numpy as np

from limelight.shapes import Bool, Int
from limelight.text import CLS, UNK


def replaced_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " T_max"],
    of_position: Int[np.ndarray, " T_max"],
) -> Int[np.ndarray, "n T_max"]:
    """Return ``ids`` with UNK at every place of a removed feature; -1 marks places that stay."""
    stays = np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1)
    return np.where(stays[:, of_position], ids, UNK)


def deleted_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " L"],
    of_token: Int[np.ndarray, " L"],
    *,
    T_max: int,
) -> Int[np.ndarray, "n T_max"]:
    """Return [cls], then the tokens ``ids`` whose feature stays, moved together, then padding."""
    stays = np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1)[:, of_token]
    place = np.cumsum(stays, axis=1)
    rows, tokens = np.nonzero(stays & (place < T_max))
    windows = np.full((len(keep), T_max), UNK, dtype=np.int32)
    windows[:, 0] = CLS
    windows[rows, place[rows, tokens]] = ids[tokens]
    return windows
