"""A text as a Hugging Face model reads it: pieces of words, special pieces around them."""

__all__ = ["Pieces", "feature_of_piece", "ids_read", "pieces_in", "rooms"]

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from limelight.models.hugging_face.segments import with_segments
from limelight.shapes import Bool, Int
from limelight.text import Document, Features


@final
@dataclass(frozen=True, eq=False)
class Pieces:
    """The model's own input: ids of the whole text, beyond the window too.

    ``token`` is the place of each piece's word among ``strings``, -1 at special pieces, of which
    ``before`` stand before the text and ``after`` follow it. ``room`` pieces of the text fit
    among them. Of a pair, ``side`` is 0 or 1 at the pieces of either text and -1 at special ones,
    ``side_of_word`` the same of each of ``strings``, and ``segment`` what the tokenizer calls the
    type of a token; of a single text none of them is there.
    """

    ids: Int[np.ndarray, " L"]
    token: Int[np.ndarray, " L"]
    strings: tuple[str, ...]
    before: int
    after: int
    room: int
    side: Int[np.ndarray, " L"] | None = None
    side_of_word: tuple[int, ...] = ()
    segment: Int[np.ndarray, " L"] | None = None

    @cached_property
    def row(self) -> Int[np.ndarray, " L"]:
        """The ids with their segments, as networks are asked about them."""
        return self.ids if self.segment is None else with_segments(self.ids, self.segment)

    @property
    def cut(self) -> int:
        """How many pieces of the text do not fit."""
        return max(0, int(self._lengths.sum()) - self.room)

    @property
    def inside(self) -> Int[np.ndarray, " T"]:
        """Which pieces the model reads when nothing is removed."""
        return np.flatnonzero(self.fitting(np.ones((1, len(self.ids)), bool))[0])

    def fitting(self, left: Bool[np.ndarray, "n L"]) -> Bool[np.ndarray, "n L"]:
        """Return which of the pieces that are ``left`` fit: special ones, and the first of a text.

        Of a pair, each text keeps its first pieces, as many as :func:`rooms` says.
        """
        if not self.cut:
            return left
        counts = np.stack([left[:, own].sum(axis=1) for own in self._sides], axis=1)
        room = rooms(counts, self.room)
        fits = left.copy()
        for own, most in zip(self._sides, room.T, strict=True):
            fits[:, own] &= np.cumsum(left[:, own], axis=1) <= most[:, None]
        return fits

    @property
    def shares(self) -> tuple[tuple[int, int], ...]:
        """Of each text, how many of its pieces are read, and how many there are."""
        read = rooms(self._lengths[None], self.room)[0]
        return tuple(zip(map(int, read), map(int, self._lengths), strict=True))

    @cached_property
    def _sides(self) -> tuple[Bool[np.ndarray, " L"], ...]:
        """Where the pieces of each text stand."""
        if self.side is not None:
            return self.side == 0, self.side == 1
        place = np.arange(len(self.ids))
        return ((place >= self.before) & (place < len(place) - self.after),)

    @property
    def _lengths(self) -> Int[np.ndarray, " sides"]:
        return np.array([np.count_nonzero(own) for own in self._sides])


def rooms(lengths: Int[np.ndarray, "n sides"], room: int) -> Int[np.ndarray, "n sides"]:
    """Return how many pieces of each text are read where ``room`` fit.

    Of a pair the longer text is cut first, down to the length of the shorter one, then both to a
    half (the larger half is the longer text's): what tokenizers call "longest_first".
    """
    room = min(room, int(lengths.sum(axis=1).max(initial=0)))  # a model without a limit has 10³⁰
    if lengths.shape[1] == 1:
        return np.minimum(lengths, room)
    first, second = lengths.T
    swapped = first > second
    short, long = np.minimum(first, second), np.maximum(first, second)
    rest = np.maximum(short, room - short)
    both = short + rest > room
    short = np.where(both, room // 2, short)
    long = np.minimum(long, np.where(both, room - room // 2, rest))
    return np.stack([np.where(swapped, long, short), np.where(swapped, short, long)], axis=1)


def pieces_in(document: Document) -> Pieces:
    """Return what a Hugging Face model made of a text."""
    found: Pieces = document.input
    return found


def ids_read(document: Document) -> Int[np.ndarray, " T"]:
    """Return the row that the model reads when nothing is removed."""
    pieces = pieces_in(document)
    return pieces.row[pieces.inside]


def feature_of_piece(pieces: Pieces, features: Features) -> Int[np.ndarray, " L"]:
    """Return the feature of every piece, -1 where nothing is removed.

    Words beyond the window go with the feature of the same string, if there is one; of a pair, of
    the same string on the same side.
    """
    sides = pieces.side_of_word or (0,) * len(pieces.strings)
    words = list(zip(sides, pieces.strings, strict=True))
    count = len(features.of_token)
    row = dict(zip(words[:count], features.of_token.tolist(), strict=True))
    later = [row.get(word, -1) if features.unit == "words" else -1 for word in words[count:]]
    of_token = np.array([*features.of_token, *later, -1], dtype=np.int64)
    return of_token[pieces.token]
