"""Texts as rows of word numbers, tokenised once."""

__all__ = ["Corpus", "EncodedTexts", "encode_texts", "training_vocabulary"]

from collections import Counter
from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.data.labelled import LabelledTexts
from limelight.errors import InputError
from limelight.models.attention import padded_ids
from limelight.shapes import Int
from limelight.text import Given, Vocabulary, token_strings


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

    def followed_by(self, other: "EncodedTexts") -> "EncodedTexts":
        """Return these texts, then those of ``other``."""
        return EncodedTexts(
            np.concatenate([self.ids, other.ids]), np.concatenate([self.labels, other.labels])
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Texts as the model sees them, and the ends of those that do not fit its window.

    ``tail_of`` is the row of the text that each tail ends.
    """

    heads: EncodedTexts
    tails: EncodedTexts
    tail_of: Int[np.ndarray, " m"]

    @property
    def T_max(self) -> int:
        """How many tokens the model reads, [cls] among them."""
        return self.heads.ids.shape[1]

    def part(self, index: Int[np.ndarray, " m"], *, tails: bool) -> EncodedTexts:
        """Return the texts at ``index``, with ``tails`` also the ends of those among them."""
        heads = self.heads.rows(index)
        if not tails:
            return heads
        return heads.followed_by(self.tails.rows(np.flatnonzero(np.isin(self.tail_of, index))))


def training_vocabulary(
    data: LabelledTexts, *, T_max: int, fitted: bool, size: int | None, min_count: int
) -> tuple[Vocabulary, Corpus]:
    """Return the vocabulary of all words of ``data``, and ``data`` encoded with it.

    ``fitted``: the window is no longer than the longest text needs.
    """
    counts: Counter[str] = Counter()
    number: dict[str, int] = {}  # of each word, in the order of first appearance
    rows = []
    for i, text in enumerate(data.texts):
        strings = _words(text, i, data.source)
        counts.update(strings)
        rows.append(np.array([number.setdefault(w, len(number)) for w in strings], dtype=np.int32))
    common = {word: count for word, count in counts.items() if count >= min_count}
    vocabulary = Vocabulary.from_counts(common, size=size)
    row_of_number = vocabulary.encode(number)
    if fitted:
        T_max = min(T_max, 1 + max(map(len, rows)))
    return vocabulary, _corpus([row_of_number[row] for row in rows], data.labels, T_max)


def _corpus(rows: list[np.ndarray], labels: Int[np.ndarray, " n"], T_max: int) -> Corpus:
    tail_of = np.flatnonzero([len(row) >= T_max for row in rows])
    ends = [rows[i][-(T_max - 1) :] for i in tail_of]
    return Corpus(
        heads=EncodedTexts(padded_ids(rows, T_max=T_max), labels),
        tails=EncodedTexts(padded_ids(ends, T_max=T_max), labels[tail_of]),
        tail_of=tail_of,
    )


def encode_texts(data: LabelledTexts, vocabulary: Vocabulary, *, T_max: int) -> EncodedTexts:
    """Return ``data`` encoded with a vocabulary that exists already."""
    rows = [
        vocabulary.encode(_words(text, i, data.source)[: T_max - 1])
        for i, text in enumerate(data.texts)
    ]
    return EncodedTexts(padded_ids(rows, T_max=T_max), data.labels)


def _words(text: Given, row: int, source: str) -> list[str]:
    if not isinstance(text, str):
        raise InputError(f"{source} holds pairs of texts, and the classifier learns from one text.")
    strings = token_strings(text)
    if not strings:
        raise InputError(f"row {row + 1} of {source} has a text without words; remove the row.")
    return strings
