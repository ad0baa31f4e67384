"""The texts that benchmarks read: IMDB's test reviews, or stand-ins where they are absent."""

__all__ = ["Reviews", "reviews"]

from pathlib import Path
from typing import NamedTuple

import numpy as np

from limelight.data import read_labeled
from limelight.models.attention import AttentionClassifier
from limelight.text import token_strings

IMDB = Path(__file__).resolve().parents[2] / "shared" / "data" / "imdb" / "test.parquet"


class Reviews(NamedTuple):
    """Texts, and what they are."""

    texts: list[str]
    source: str
    path: Path | None

    def of_tokens(self, count: int) -> str:
        """Return the first review of ``count`` tokens, or of the nearest number there is."""
        return min(self.texts, key=lambda text: abs(len(token_strings(text)) - count))

    def median(self, *, T_max: int) -> str:
        """Return the first review whose number of distinct words is the median of all."""
        d = np.array([len(set(token_strings(text)[: T_max - 1])) for text in self.texts])
        middle = np.sort(d)[len(d) // 2]
        return self.texts[int(np.flatnonzero(d == middle)[0])]


def reviews(model: AttentionClassifier, *, count: int | None = None) -> Reviews:
    """Return ``count`` test reviews; without the data, texts of random words, and say so."""
    if IMDB.exists():
        texts = list(read_labeled(IMDB, labels=model.classes).texts[:count])
        return Reviews(texts, f"IMDB test reviews ({len(texts)})", IMDB)
    print(f"There is no data at '{IMDB}'; texts of random words stand in for the reviews.")
    rng = np.random.default_rng(0)
    rank = rng.zipf(1.3, size=(count or 1000, 300)) % (len(model.vocabulary) - 2) + 2
    length = rng.integers(60, 300, size=len(rank))
    words = model.vocabulary.words
    texts = [" ".join(words[i] for i in row[:n]) for row, n in zip(rank, length, strict=True)]
    return Reviews(texts, f"texts of random words ({len(texts)})", None)
