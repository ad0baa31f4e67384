"""Texts in which the words of a table score most, each with what stands around the word."""

__all__ = ["WordExamples"]

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np

from limelight.corpus.shard_words import ShardWords
from limelight.results.summary import Example
from limelight.shapes import Int

_AROUND = 60  # characters
EXAMPLES = 5


@final
class WordExamples:
    """The strongest texts of chosen words: view and word give the sign that is looked for."""

    def __init__(self, chosen: Mapping[int, Mapping[int, int]], names: Sequence[str]) -> None:
        self._chosen, self._names = chosen, names
        self._sides = {view: np.zeros(len(names), dtype=np.int64) for view in chosen}
        for view, sides in chosen.items():
            self._sides[view][list(sides)] = list(sides.values())
        self._found: dict[tuple[int, int], list[Example]] = {}

    def add(self, shard: ShardWords) -> None:
        """Take in a shard whose table has texts and places."""
        for view, sides in self._sides.items():
            side = sides[shard.own]
            inside = np.flatnonzero((shard.view[shard.at] == view) & (side[shard.word] != 0))
            word, score = shard.word[inside], shard.score[inside] * side[shard.word[inside]]
            order = inside[np.lexsort((shard.at[inside], -score, word))]
            for first in _first_of_each(shard.word[order]):
                self._take(view, shard, order[first : first + EXAMPLES])

    def of(self, view: int, word: int) -> tuple[Example, ...]:
        """Return the examples of a word, the strongest first."""
        return tuple(self._found.get((view, word), ()))

    def _take(self, view: int, shard: ShardWords, entries: Int[np.ndarray, " k"]) -> None:
        number = int(shard.own[shard.word[entries[0]]])
        side = self._chosen[view][number]
        kept = self._found.setdefault((view, number), [])
        floor = side * kept[-1].score if len(kept) == EXAMPLES else -np.inf
        for entry in entries.tolist():
            score = float(shard.score[entry])
            if shard.word[entry] == shard.word[entries[0]] and side * score > floor:
                kept.append(_example(shard, entry, score, self._names[number]))
        kept.sort(key=lambda one: (-side * one.score, one.row))
        del kept[EXAMPLES:]


def _first_of_each(values: Int[np.ndarray, " m"]) -> list[int]:
    if not len(values):
        return []
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])).tolist()


def _example(shard: ShardWords, entry: int, score: float, name: str) -> Example:
    """Return where the word first stands in its text; around it nothing where none is stored."""
    place, table = int(shard.at[entry]), shard.table
    row, identifier, text = (table[column][place].as_py() for column in ("row", "id", "text"))
    feature = table["features"][place].as_py().index(name)
    start, end = (table[column][place][feature][0].as_py() for column in ("starts", "ends"))
    before, found, after = "", name, ""
    if text is not None:
        before, found = text[max(start - _AROUND, 0) : start], text[start:end]
        after = text[end : end + _AROUND]
    return Example(row=row, id=identifier, score=score, before=before, found=found, after=after)
