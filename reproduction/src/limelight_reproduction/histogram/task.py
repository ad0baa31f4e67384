"""The Histogram task: count the occurrences of every letter of a word."""

__all__ = ["LENGTH", "LETTERS", "WORD", "count_occurrences", "draw_words", "letter_numbers"]

import numpy as np

from limelight.shapes import Int

LETTERS = "ADEGILMT"
WORD = "DATAIAIAIA"  # the example of the authors' talk
LENGTH = len(WORD)


def draw_words(rng: np.random.Generator, count: int) -> Int[np.ndarray, "n T"]:
    """Draw random words of independent letters, as letter numbers."""
    return rng.integers(0, len(LETTERS), (count, LENGTH))


def letter_numbers(word: str) -> Int[np.ndarray, " T"]:
    """Return the letter numbers of a word, which are positions in ``LETTERS``."""
    return np.array([LETTERS.index(letter) for letter in word])


def count_occurrences(word: Int[np.ndarray, "*n T"]) -> Int[np.ndarray, "*n T"]:
    """Count the letter of every position: DATAIAIAIA becomes 1 5 1 5 3 5 3 5 3 5."""
    return (word[..., :, None] == word[..., None, :]).sum(-1)
