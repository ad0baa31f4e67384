"""A text as a Hugging Face model reads it: pieces of words, special pieces around them."""

__all__ = ["Pieces", "feature_of_piece", "ids_read", "pieces_in"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.shapes import Int
from limelight.text import Document, Features


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The model's own input: ids of the whole text, beyond the window too.

    ``token`` is the place of each piece's word among ``strings``, -1 at special pieces, of which
    ``before`` stand before the text and ``after`` follow it. ``room`` pieces of the text fit
    between them.
    """

    ids: Int[np.ndarray, " L"]
    token: Int[np.ndarray, " L"]
    strings: tuple[str, ...]
    before: int
    after: int
    room: int

    @property
    def cut(self) -> int:
        """How many pieces of the text do not fit."""
        return max(0, len(self.ids) - self.before - self.after - self.room)

    @property
    def inside(self) -> Int[np.ndarray, " T"]:
        """Which pieces the model reads when nothing is removed."""
        return self.fitting(np.arange(len(self.ids)))

    def fitting(self, pieces: Int[np.ndarray, " _"]) -> Int[np.ndarray, " _"]:
        """Return those of ``pieces`` (special ones among them) that fit the window."""
        end = len(pieces) - self.after
        return np.concatenate([pieces[:end][: self.before + self.room], pieces[end:]])


def pieces_in(document: Document) -> Pieces:
    """Return what a Hugging Face model made of a text."""
    found: Pieces = document.input
    return found


def ids_read(document: Document) -> Int[np.ndarray, " T"]:
    """Return the ids that the model reads when nothing is removed."""
    pieces = pieces_in(document)
    return pieces.ids[pieces.inside]


def feature_of_piece(pieces: Pieces, features: Features) -> Int[np.ndarray, " L"]:
    """Return the feature of every piece, -1 where nothing is removed.

    Words beyond the window go with the feature of the same string, if there is one.
    """
    row = {string: j for j, string in enumerate(features.strings)}
    beyond = pieces.strings[len(features.of_token) :]
    later = [row.get(string, -1) if features.unit == "words" else -1 for string in beyond]
    of_token = np.array([*features.of_token, *later, -1], dtype=np.int64)
    return of_token[pieces.token]
