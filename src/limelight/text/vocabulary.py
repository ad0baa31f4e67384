"""Words and their row numbers."""

__all__ = ["CLS", "UNK", "Vocabulary"]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int

CLS, UNK = 0, 1
_SPECIALS = ("[cls]", "UNK")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Rows of the embedding: ``[cls]``, ``UNK``, then words by descending frequency."""

    words: tuple[str, ...]
    _row: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.words[:2] != _SPECIALS:
            raise InputError(
                f"a vocabulary starts with [cls] and UNK; this one starts with {self.words[:2]}."
            )
        # Special rows have no entry: a text that spells "[cls]" out is still only text.
        row = {word: i for i, word in enumerate(self.words) if i > UNK}
        if len(row) != len(self.words) - 2:
            raise InputError("a vocabulary lists every word once; this one repeats some.")
        object.__setattr__(self, "_row", row)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._row

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, size: int | None = None) -> "Vocabulary":
        """Return the ``size`` most frequent words (specials included), ties alphabetical."""
        if size is not None and size < len(_SPECIALS):
            raise InputError(f"a vocabulary needs a size of at least 2; got {size}.")
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = [*_SPECIALS, *(word for word in ranked if word not in _SPECIALS)]
        return cls(tuple(words[:size]))

    def encode(self, strings: Iterable[str]) -> Int[np.ndarray, " T"]:
        """Return the row of each string, ``UNK`` for those not in the vocabulary."""
        row = self._row.get
        return np.array([row(word, UNK) for word in strings], dtype=np.int32)
