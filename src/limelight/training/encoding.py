"""Texts as rows of word numbers, tokenised once."""

__all__ = ["EncodedTexts", "encode_texts", "training_vocabulary"]

from collections import Counter
from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.datasets.labelled import LabelledTexts
from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text import Vocabulary, token_strings, window


@final
@dataclass(frozen=True, slots=True, eq=False)
class EncodedTexts:
    """One row per text: [cls], words, padding; and its label."""

    ids: Int[np.ndarray, "n T_max"]
    labels: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: Int[np.ndarray, " m"]) -> "EncodedTexts":
        """Return the texts at ``index``."""
        return EncodedTexts(self.ids[index], self.labels[index])


def training_vocabulary(
    data: LabelledTexts, *, T_max: int, size: int | None, min_count: int
) -> tuple[Vocabulary, EncodedTexts]:
    """Return the vocabulary of all words of ``data``, and ``data`` encoded with it."""
    counts: Counter[str] = Counter()
    number: dict[str, int] = {}  # of each word, in the order of first appearance
    rows = []
    for i, text in enumerate(data.texts):
        strings = _words(text, i, data.source)
        counts.update(strings)
        kept = strings[: T_max - 1]
        rows.append(np.array([number.setdefault(w, len(number)) for w in kept], dtype=np.int32))
    common = {word: count for word, count in counts.items() if count >= min_count}
    vocabulary = Vocabulary.from_counts(common, size=size)
    row_of_number = vocabulary.encode(number)
    encoded = [row_of_number[row] for row in rows]
    return vocabulary, EncodedTexts(window(encoded, T_max=T_max), data.labels)


def encode_texts(data: LabelledTexts, vocabulary: Vocabulary, *, T_max: int) -> EncodedTexts:
    """Return ``data`` encoded with a vocabulary that exists already."""
    rows = [
        vocabulary.encode(_words(text, i, data.source)[: T_max - 1])
        for i, text in enumerate(data.texts)
    ]
    return EncodedTexts(window(rows, T_max=T_max), data.labels)


def _words(text: str, row: int, source: str) -> list[str]:
    strings = token_strings(text)
    if not strings:
        raise InputError(f"row {row + 1} of {source} has a text without words; remove the row.")
    return strings
