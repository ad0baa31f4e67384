"""Texts without some of their words, as rows of ids."""

__all__ = ["MaskedRows", "deleted", "replaced"]

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limelight.models.hugging_face.network_call import MASKED_OUT
from limelight.models.hugging_face.pieces import Pieces, feature_of_piece
from limelight.shapes import Bool, Int
from limelight.text import Features


class MaskedRows(NamedTuple):
    """From masks (n, d) to how many pieces each leaves, and to rows of ids, padded on the right."""

    sizes: Callable[[Bool[np.ndarray, "n d"]], Int[np.ndarray, " n"]]
    ids: Callable[[Bool[np.ndarray, "n d"]], Int[np.ndarray, "n T"]]


def replaced(pieces: Pieces, features: Features, other: int) -> MaskedRows:
    """Put the id ``other`` in the place of every piece of a removed word."""
    inside = pieces.inside
    ids, feature = pieces.row[inside], feature_of_piece(pieces, features)[inside]
    # Its segment stays that of the place; what is masked out has none.
    stands = ids - pieces.ids[inside] + other if other != MASKED_OUT else other

    def rows(keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, "n T"]:
        return np.where(_stays(keep, feature), ids, stands)

    return MaskedRows(lambda keep: np.full(len(keep), len(ids)), rows)


def deleted(pieces: Pieces, features: Features, *, nothing: int) -> MaskedRows:
    """Take the pieces of removed words out; what lay beyond the window moves up into it.

    ``nothing`` is the id that stands for a text of no pieces at all.
    """
    feature = feature_of_piece(pieces, features)

    def stays(keep: Bool[np.ndarray, "n d"]) -> Bool[np.ndarray, "n L"]:
        return pieces.fitting(_stays(keep, feature))

    def rows(keep: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, "n T"]:
        left = stays(keep)
        sizes = left.sum(axis=1)
        order = np.argsort(~left, axis=1, kind="stable")[:, : max(1, int(sizes.max()))]
        ids = np.where(np.arange(order.shape[1]) < sizes[:, None], pieces.row[order], MASKED_OUT)
        ids[sizes == 0, 0] = nothing
        return ids

    return MaskedRows(lambda keep: stays(keep).sum(axis=1), rows)


def _stays(
    keep: Bool[np.ndarray, "n d"], feature: Int[np.ndarray, " L"]
) -> Bool[np.ndarray, "n L"]:
    """Which pieces stay: those of kept features, and those that belong to none."""
    always = np.ones((len(keep), 1), bool)
    found: np.ndarray = np.concatenate([keep, always], axis=1)[:, feature]
    return found
