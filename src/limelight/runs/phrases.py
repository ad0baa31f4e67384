r"""Phrases of two or three words, and the scores that their words carry together.

An occurrence of a word carries its score in the text over the times it occurs there; a phrase in a
text has the sum of that over its occurrences and their words. Words are neighbours where at most
one character stands between them, so that no phrase reaches over a comma and a space.

There are far more phrases than words, and most occur once. A first pass counts occurrences in
buckets (Park, Chen and Yu, 1995): a phrase of at least ``FEWEST`` texts is in a bucket of at least
as many occurrences, so the second pass adds up what may be frequent, exactly, in little memory.
Then, too, it is known what a word carries per occurrence, over all texts. A phrase is one that all
its words carry: each is in the quarter of words that carry most, all are on one side, and none has
less than a fifth of the sum. Most phrases would otherwise be a strong word after an article.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.runs.words import Moments, ShardWords, Vocabulary, second_starts
from limelight.shapes import Bool, Float, Int

FEWEST = 5  # texts
_BITS = 21  # of a word's number in a phrase's; later words of larger vocabularies join none
_NONE = (1 << _BITS) - 1
_BUCKETS = 22  # bits
_MIX = np.uint64(0x9E3779B97F4A7C15)
_PART = 0.2  # of a phrase's score that each of its words must carry


@final
class PhraseCounts:
    """Occurrences by bucket: never fewer than those of any phrase in it."""

    def __init__(self) -> None:
        self._counts = np.zeros(1 << _BUCKETS, dtype=np.int64)

    def add(self, shard: ShardWords) -> None:
        """Count the phrases of a shard, once for every text."""
        first = np.zeros(len(shard.row), dtype=bool)
        first[np.unique(shard.row, return_index=True)[1]] = True
        kept = first[shard.at]
        alone = shard._replace(
            row=shard.row[first],
            at=(np.cumsum(first) - 1)[shard.at[kept]],
            word=shard.word[kept],
            table=shard.table.filter(pa.array(first)),
        )
        found = _neighbours(_places(alone, shard.table))
        np.add.at(self._counts, _bucket(found.key), 1)

    def frequent(self, key: Int[np.ndarray, " m"]) -> Bool[np.ndarray, " m"]:
        """Return which phrases may be in ``FEWEST`` texts."""
        return self._counts[_bucket(key)] >= FEWEST


def carrying(words: Moments) -> Float[np.ndarray, " V"]:
    """Return what an occurrence of each word carries in the mean; 0 for three quarters of them.

    The quarter is of the words that ``FEWEST`` texts have; without any, of all.
    """
    each = words.total / np.maximum(words.occurrences, 1)
    usual = words.texts >= FEWEST
    known = np.abs(each[usual if usual.any() else words.texts > 0])
    floor = float(np.quantile(known, 0.75)) if len(known) else 0.0
    return np.where(np.abs(each) >= floor, each, 0.0)


def phrases_of(
    shard: ShardWords,
    counts: PhraseCounts,
    phrases: Vocabulary,
    carried: Mapping[int, Float[np.ndarray, " V"]],
) -> ShardWords:
    """Return the shard with its frequent phrases in the place of its words.

    ``carried`` is what :func:`carrying` says of the words, by view.
    """
    places = _places(shard, shard.table)
    view = shard.view[places.at]
    parts, last, found = [], None, None
    for v in np.unique(shard.view).tolist():
        here = places.only(view == v)
        # Methods mostly explain the same words: their phrases are looked for once.
        if last is None or found is None or not here.alike(last):
            found = _neighbours(here)
            found = found.only(counts.frequent(found.key))
        last = here
        strong = carried[v][here.word] != 0
        able = np.flatnonzero((strong[found.place] | ~found.inside).all(axis=1))
        kept = found.only(able)
        kept = kept.only(_together(kept.key, carried[v]))
        share = here.share[kept.place].sum(axis=1, where=kept.inside)
        parts.append((kept.key, here.at[kept.place[:, 0]], share))
    key, at, share = (np.concatenate(one) for one in zip(*parts, strict=True))
    distinct, code = np.unique(key, return_inverse=True)
    joint, inverse = np.unique(at * max(len(distinct), 1) + code, return_inverse=True)
    return shard._replace(
        own=phrases.numbers(distinct.tolist()),
        at=joint // max(len(distinct), 1),
        word=joint % max(len(distinct), 1),
        score=np.bincount(inverse, weights=share, minlength=len(joint)),
        times=np.bincount(inverse, minlength=len(joint)),
    )


def phrase_words(key: int) -> tuple[int, ...]:
    """Return the numbers of the words of a phrase."""
    parts = (key >> 2 * _BITS, key >> _BITS & _NONE, key & _NONE)
    return parts if parts[2] != _NONE else parts[:2]


def _together(
    key: Int[np.ndarray, " m"], carried: Float[np.ndarray, " V"]
) -> Bool[np.ndarray, " m"]:
    """Return which phrases all of their words carry."""
    numbers = np.stack([key >> 2 * _BITS, key >> _BITS & _NONE, key & _NONE])
    inside = numbers != _NONE
    parts = np.where(inside, carried[np.where(inside, numbers, 0)], 0.0)
    whole = parts.sum(axis=0)
    least = np.where(inside, parts * np.sign(whole), np.inf).min(axis=0)
    return (whole != 0) & (least >= _PART * np.abs(whole))


class _Places(NamedTuple):
    """Occurrences of words: where each stands, what it is, and the score it carries."""

    start: Int[np.ndarray, " m"]
    end: Int[np.ndarray, " m"]
    at: Int[np.ndarray, " m"]
    word: Int[np.ndarray, " m"]
    share: Float[np.ndarray, " m"]
    second: Bool[np.ndarray, " m"]  # whether it stands on the second side of a pair

    def only(self, kept: Bool[np.ndarray, " m"]) -> "_Places":
        return self if kept.all() else _Places(*(values[kept] for values in self))

    def alike(self, other: "_Places") -> bool:
        """Return whether the same words stand at the same places, in as many rows."""
        return all(
            np.array_equal(a, b)
            for a, b in (
                (self.start, other.start), (self.end, other.end), (self.word, other.word),
                (np.diff(self.at) > 0, np.diff(other.at) > 0),
            )
        )  # fmt: skip


class _Neighbours(NamedTuple):
    """Phrases, and the places of their words; ``inside`` is False where there is no third."""

    key: Int[np.ndarray, " m"]
    place: Int[np.ndarray, "m 3"]
    inside: Bool[np.ndarray, "m 3"]

    def only(self, kept: Any) -> "_Neighbours":
        return _Neighbours(*(values[kept] for values in self))


def _places(shard: ShardWords, whole: Any) -> _Places:
    """Return the occurrences in ``shard.table``, which is ``whole`` or some rows of it."""
    table = shard.table
    outer = _lengths(table["starts"])
    starts, ends = (_flat(table[name]) for name in ("starts", "ends"))
    inner = _lengths(starts)
    codes = shard.word
    if len(codes) != len(inner):  # names that a text has twice: its features are not its entries
        # The same strings in the same order as when the shard was read: the numbers are its own.
        named = pc.dictionary_encode(_flat(whole["features"])).dictionary
        codes = np.asarray(pc.index_in(_flat(table["features"]), named)).astype(np.int64)
    word = shard.own[codes] if len(codes) else np.zeros(0, dtype=np.int64)
    score = _flat(table["scores"]).to_numpy(zero_copy_only=False).astype(np.float64)
    entry = np.repeat(np.arange(len(inner)), inner)
    at = np.repeat(np.arange(len(table)), outer)[entry]
    start = _flat(starts).to_numpy(zero_copy_only=False).astype(np.int64)
    return _Places(
        start=start,
        end=_flat(ends).to_numpy(zero_copy_only=False).astype(np.int64),
        at=at,
        word=word[entry],
        share=(score / np.maximum(inner, 1))[entry],
        second=start >= second_starts(table)[at],
    )


def _neighbours(places: _Places) -> _Neighbours:
    """Return all phrases of two and of three words, with their places in ``places``."""
    order = np.argsort(places.at << 32 | places.start)
    start, end, at, word = (values[order] for values in places[:4])
    joined = np.zeros(len(order), dtype=bool)
    if len(order) > 1:
        gap = start[1:] - end[:-1]
        known = (word[1:] < _NONE) & (word[:-1] < _NONE)
        aside = places.second[order]  # only a newline stands between the sides of a pair
        same = (at[1:] == at[:-1]) & (aside[1:] == aside[:-1])
        joined[:-1] = same & (gap >= 0) & (gap <= 1) & known
    two = np.flatnonzero(joined)
    three = two[joined[two + 1]] if len(two) else two
    pairs = (word[two] << 2 * _BITS) | (word[two + 1] << _BITS) | _NONE
    triples = (word[three] << 2 * _BITS) | (word[three + 1] << _BITS) | word[three + 2]
    first = np.concatenate([two, three])
    inside = np.ones((len(first), 3), dtype=bool)
    inside[: len(two), 2] = False
    steps = first[:, None] + np.where(inside, np.arange(3), 0)
    return _Neighbours(np.concatenate([pairs, triples]), order[steps], inside)


def _flat(column: Any) -> Any:
    return (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).flatten()


def _lengths(column: Any) -> Any:
    return np.asarray(pc.list_value_length(column)).astype(np.int64)


def _bucket(key: Any) -> Any:
    return ((key.astype(np.uint64) * _MIX) >> np.uint64(64 - _BUCKETS)).astype(np.int64)
