"""The attention classifier as a game: thousands of masks in a few matrix products."""

import numpy as np

from limelight.models.attention.collapsed import CollapsedDocuments
from limelight.models.attention.tables import predicted_logits
from limelight.sampling.sample import Game
from limelight.shapes import Bool, Int
from limelight.text import CLS, UNK
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import denominator_range, mapped, one_document, value

_UNDERFLOW = 1e-250  # a denominator below has lost digits


def replaced_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " T_max"],
    of_position: Int[np.ndarray, " T_max"],
    removed: Int[np.ndarray, "*T_max"] | int = UNK,
) -> Int[np.ndarray, "n T_max"]:
    """Return ``ids`` with ``removed`` at places of removed features; -1 marks places that stay."""
    # At −1 a place finds the last column: what belongs to no feature is never removed.
    stays = np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1)
    return np.where(stays[:, of_position], ids, removed)


def deleted_windows(
    keep: Bool[np.ndarray, "n d"],
    ids: Int[np.ndarray, " L"],
    of_token: Int[np.ndarray, " L"],
    *,
    T_max: int,
) -> Int[np.ndarray, "n T_max"]:
    """Return [cls], then the tokens ``ids`` whose feature stays, moved together, then padding."""
    stays = np.concatenate([keep, np.ones((len(keep), 1), bool)], axis=1)[:, of_token]
    stays &= np.cumsum(stays, axis=1, dtype=np.int32) < T_max  # what does not fit is not read
    windows = np.full((len(keep), T_max), UNK, dtype=np.int32)
    windows[:, 0] = CLS
    # Row by row, both sides list the tokens that stay in their order.
    windows[:, 1:][np.arange(1, T_max) <= stays.sum(axis=1)[:, None]] = np.broadcast_to(
        ids, stays.shape
    )[stays]
    return windows


def replacement_game(one: CollapsedDocuments) -> Game:
    """Return f of the only document, with UNK for every removed word, or what stands there."""
    game = mapped(one_document(one.game, 0), host_array)
    # Where a word outweighs all others by so much, a mask may leave nothing that counts beside it.
    if denominator_range(game)[0].min() > _UNDERFLOW:
        return lambda keep: value(game, keep).T
    window = one.ids[0], one.of_position[0], one.base_ids[0]
    return lambda keep: predicted_logits(one.model.tables, replaced_windows(keep, *window))
