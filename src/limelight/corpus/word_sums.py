"""Sums over texts of the scores of every word, kept apart by group: all that tables are made of."""

__all__ = ["Moments", "WordSums"]

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, final

import numpy as np

from limelight.corpus.shard_words import ShardWords
from limelight.shapes import Float, Int

_FIELDS = 6


class Moments(NamedTuple):
    """Of every word: the texts that have it, and sums over them of its score in the text."""

    texts: Float[np.ndarray, " V"]
    total: Float[np.ndarray, " V"]
    square: Float[np.ndarray, " V"]
    size: Float[np.ndarray, " V"]
    positive: Float[np.ndarray, " V"]
    occurrences: Float[np.ndarray, " V"]

    @property
    def mean(self) -> Float[np.ndarray, " V"]:
        """The mean over texts; 0 where there are none."""
        return self.total / np.maximum(self.texts, 1)

    @property
    def variance(self) -> Float[np.ndarray, " V"]:
        """The unbiased variance over texts; 0 where fewer than two have the word."""
        spread = np.maximum(self.square - self.texts * self.mean**2, 0.0)
        # What is left after cancelling is rounding, not spread, where it is that small.
        spread[spread <= 1e-14 * self.square] = 0.0
        return spread / np.maximum(self.texts - 1, 1)


@final
class WordSums:
    """Moments by group; memory grows with the words and groups, never with the texts."""

    def __init__(self, *, tests_only: bool = False) -> None:
        # A test of two means needs the first three; sums of slices are many and need no others.
        self._fields = 3 if tests_only else _FIELDS
        self._sums: dict[Hashable, Float[np.ndarray, "f V"]] = {}

    def add(
        self, shard: ShardWords, group: Int[np.ndarray, " n"], keys: Sequence[Hashable]
    ) -> None:
        """Add a shard; row i is in ``keys[group[i]]``, or in none where that is negative."""
        of = group[shard.at]
        inside = of >= 0
        whole = bool(inside.all())
        word, score, count = (
            values if whole else values[inside] for values in (shard.word, shard.score, shard.times)
        )
        size = len(shard.own)
        code = (of if whole else of[inside]) * size + word
        cells = len(keys) * size
        weights = [None, score, score * score]
        if self._fields == _FIELDS:
            weights += [np.abs(score), score > 0, count]
        parts = [np.bincount(code, weights=w, minlength=cells) for w in weights]
        local = np.stack(parts).reshape(self._fields, len(keys), size)
        for number in np.unique(of[inside]):
            sums = self._room(keys[number], int(shard.own.max(initial=-1)) + 1)
            sums[:, shard.own] += local[:, number]  # the words of a shard are distinct

    def groups(self) -> list[Hashable]:
        """Return the groups in which there is anything."""
        return list(self._sums)

    def moments(self, keys: Iterable[Hashable], size: int) -> Moments:
        """Return the moments of some groups together, of ``size`` words."""
        found = np.zeros((_FIELDS, size))
        for key in keys:
            if key in self._sums:
                part = self._sums[key][:, :size]
                found[: self._fields, : part.shape[1]] += part
        return Moments(*found)

    def _room(self, key: Hashable, size: int) -> Float[np.ndarray, "f V"]:
        sums = self._sums.get(key, np.zeros((self._fields, 0)))
        if sums.shape[1] < size:
            grown = np.zeros((self._fields, max(size, 2 * sums.shape[1])))
            grown[:, : sums.shape[1]] = sums
            self._sums[key] = sums = grown
        return sums
