"""The Histogram task: for every letter of a word, how often it occurs in it."""

__all__ = ["LENGTH", "LETTERS", "WORD", "letters_of", "occurrences", "words"]

import numpy as np

from limelight.shapes import Int

LETTERS = "ADEGILMT"
WORD = "DATAIAIAIA"  # the talk's
LENGTH = len(WORD)


def words(rng: np.random.Generator, count: int) -> Int[np.ndarray, "n T"]:
    """Return random words, every letter drawn by itself, as numbers of letters."""
    return rng.integers(0, len(LETTERS), (count, LENGTH))


def letters_of(word: str) -> Int[np.ndarray, " T"]:
    """Return the numbers of the letters of ``word``."""
    return np.array([LETTERS.index(letter) for letter in word])


def occurrences(word: Int[np.ndarray, "*n T"]) -> Int[np.ndarray, "*n T"]:
    """Return at every place how often its letter occurs: DATAIAIAIA ↦ 1 5 1 5 3 5 3 5 3 5."""
    return (word[..., :, None] == word[..., None, :]).sum(-1)
