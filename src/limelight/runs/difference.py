r"""Two runs side by side: texts are matched by hash, and differences are paired by text.

For a text that both runs explain, :math:`a_j` and :math:`b_j` are the scores of word j. A word's
difference is the mean of :math:`b_j - a_j` over the texts in which both have the word, with the
interval and the test of a mean (Student's t), corrected by Holm. A text's change is
:math:`\sum_j |b_j - a_j| / \sum_j (|a_j| + |b_j|)` over the words of either: 0 where nothing
changed, 1 where every word changed sign or is in one of them only.

Scores of two methods have no common unit: between methods, :math:`a_j` stands for
:math:`a_j / \sum_k |a_k|` of its text.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limelight.errors import InputError, nearest
from limelight.results.summary import ChangedText, RunDifference
from limelight.runs.groups import Compared
from limelight.runs.summary import corrected, share_of
from limelight.runs.words import (
    Moments,
    ShardWords,
    Vocabulary,
    WordSums,
    t_quantile,
    two_sided_p,
    words_of_shards,
)
from limelight.shapes import Float, Int

if TYPE_CHECKING:
    from limelight.runs.run import Run

_FEWEST = 5


def compared_runs(
    first: "Run", second: "Run", method: str, other_method: str | None, *, top: int = 20
) -> RunDifference:
    """Return what changed from ``first`` to ``second``."""
    theirs = other_method or (method if method in second.methods else second.methods[0])
    for run, name in ((first, method), (second, theirs)):
        if name not in run.methods:
            raise InputError(nearest(f"method of '{run.path}'", name, run.methods))
    shares = method != theirs or first.record.question.scale != second.record.question.scale
    walk = _Walk(first, second, (method, theirs), shares=shares, top=top)
    walk.go()
    if not walk.texts:
        raise InputError(
            f"'{first.path}' and '{second.path}' explain no text for the same class in common."
        )
    compared, words = walk.words()
    return RunDifference(
        first=str(first.path),
        second=str(second.path),
        methods=(method, theirs),
        texts=walk.texts,
        apart=(len(first) - walk.met, len(second) - walk.met),
        shares=shares,
        compared=compared,
        predictions=share_of(walk.turned, walk.texts),
        words=tuple(words[:top]),
        changed=tuple(walk.changed),
    )


class _Joined(NamedTuple):
    """Words of texts in both runs: row in either shard, word, and both scores."""

    at: Int[np.ndarray, " m"]
    word: Int[np.ndarray, " m"]
    a: Float[np.ndarray, " m"]
    b: Float[np.ndarray, " m"]
    both: Any


class _Walk:
    """A walk over the shards of the first run, and over those of the second that have its texts.

    Runs of the same data are read once each. In another order of the texts, a shard of the second
    is read again for every shard of the first that shares a text with it.
    """

    def __init__(
        self, first: "Run", second: "Run", methods: tuple[str, str], *, shares: bool, top: int
    ) -> None:
        self.first, self.second, self.methods = first, second, methods
        self.shares, self.top = shares, top
        self.vocabulary = Vocabulary()
        self.sums = {name: WordSums(tests_only=True) for name in ("first", "second", "gap")}
        self.targets: dict[str, int] = {}
        self.texts = self.turned = self.met = 0
        self.changed: list[ChangedText] = []

    def go(self) -> None:
        known, rows = _hashes(self.second)
        size = self.second.record.shards.texts
        held: dict[int, ShardWords] = {}
        for shard in words_of_shards(
            self.first, self.vocabulary, more=("text_hash", "id"), method=self.methods[0]
        ):
            there = _found(_prefixes(shard.table["text_hash"]), known, rows)
            self.met += len(np.unique(shard.row[there >= 0]))
            needed = np.unique(there[there >= 0] // size).tolist()
            held = {number: one for number, one in held.items() if number in needed}
            for number in needed:
                if number not in held:
                    held[number] = self._other(number)
                inside = np.where(there // size == number, there, -1)
                self._meet(shard, held[number], inside)

    def words(self) -> tuple[int, Any]:
        """Return how many words were compared, and those that changed."""
        groups = []
        for target, key in self.targets.items():
            a, b, gap = (
                self.sums[name].moments([key], len(self.vocabulary))
                for name in ("first", "second", "gap")
            )
            groups.append((target, _paired(a, b, gap)))
        found = corrected(self.vocabulary.words(), groups)
        return sum(len(one.word) for _, one in groups), found

    def _other(self, number: int) -> ShardWords:
        (found,) = words_of_shards(
            self.second, self.vocabulary, method=self.methods[1], shards=[number]
        )
        return found

    def _meet(self, one: ShardWords, two: ShardWords, there: Int[np.ndarray, " n"]) -> None:
        """Add the texts of ``one`` whose row in the other run is in ``two``, class by class."""
        for v, view in enumerate(one.views):
            w = next((i for i, other in enumerate(two.views) if other[1:] == view[1:]), None)
            if w is None:
                continue
            mine = np.flatnonzero((one.view == v) & (there >= 0))
            places = {row: i for i, row in enumerate(two.row.tolist()) if two.view[i] == w}
            pairs = [(i, places[there[i]]) for i in mine.tolist() if there[i] in places]
            if pairs:
                key = self.targets.setdefault(view.target, len(self.targets))
                self._add(one, two, np.array(pairs), key, view.target)

    def _add(
        self, one: ShardWords, two: ShardWords, pairs: Int[np.ndarray, "n 2"], key: int, target: str
    ) -> None:
        joined = _joined(one, two, pairs, len(self.vocabulary), shares=self.shares)
        distinct, code = np.unique(joined.word[joined.both], return_inverse=True)
        at = joined.at[joined.both]
        for name, score in (
            ("first", joined.a),
            ("second", joined.b),
            ("gap", joined.b - joined.a),
        ):
            part = one._replace(own=distinct, at=at, word=code, score=score[joined.both])
            self.sums[name].add(
                part._replace(times=np.ones(len(at), dtype=np.int64)),
                np.zeros(len(pairs), dtype=np.int64),
                [key],
            )
        gap = np.bincount(joined.at, weights=np.abs(joined.b - joined.a), minlength=len(pairs))
        size = np.abs(joined.a) + np.abs(joined.b)
        whole = np.bincount(joined.at, weights=size, minlength=len(pairs))
        change = np.divide(gap, whole, out=np.zeros_like(gap), where=whole > 0)
        self.texts += len(pairs)
        called = [
            [run.classes[c] for c in shard.predicted[pairs[:, k]]]
            for k, (run, shard) in enumerate(((self.first, one), (self.second, two)))
        ]
        self.turned += sum(a != b for a, b in zip(*called, strict=True))
        most = np.argsort(-change, kind="stable")[: self.top]
        for i in most[change[most] > 0].tolist():
            self.changed.append(
                ChangedText(
                    row=int(one.row[pairs[i, 0]]),
                    other_row=int(two.row[pairs[i, 1]]),
                    id=one.table["id"][int(pairs[i, 0])].as_py(),
                    target=target,
                    change=float(change[i]),
                    predicted=called[0][i],
                    other_predicted=called[1][i],
                )
            )
        self.changed.sort(key=lambda text: (-text.change, text.row))
        del self.changed[self.top :]


def _joined(
    one: ShardWords, two: ShardWords, pairs: Int[np.ndarray, "n 2"], size: int, *, shares: bool
) -> _Joined:
    sides = []
    for shard, rows in ((one, pairs[:, 0]), (two, pairs[:, 1])):
        rank = np.full(len(shard.row), -1)
        rank[rows] = np.arange(len(rows))
        inside = np.flatnonzero(rank[shard.at] >= 0)
        at, score = rank[shard.at[inside]], shard.score[inside]
        if shares:
            whole = np.bincount(at, weights=np.abs(score), minlength=len(rows))
            score = score / np.where(whole > 0, whole, 1)[at]
        sides.append((at * size + shard.own[shard.word[inside]], score))
    keys = np.concatenate([key for key, _ in sides])
    distinct, inverse = np.unique(keys, return_inverse=True)
    found = np.zeros((2, len(distinct)))
    has = np.zeros((2, len(distinct)), dtype=bool)
    start = 0
    for k, (key, score) in enumerate(sides):
        place = inverse[start : start + len(key)]
        found[k, place], has[k, place] = score, True
        start += len(key)
    return _Joined(distinct // size, distinct % size, found[0], found[1], has.all(axis=0))


def _paired(a: Moments, b: Moments, gap: Moments) -> Compared:
    """Return Student's test of the mean gap for every word of enough texts."""
    word = np.flatnonzero(gap.texts >= _FEWEST)
    n, mean, variance = gap.texts[word], gap.mean[word], gap.variance[word]
    error = np.sqrt(variance / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, mean / error, np.where(mean == 0, 0.0, np.inf))
    reach = t_quantile(np.maximum(n - 1, 1)) * error
    texts = n.astype(np.int64)
    return Compared(
        word=word,
        first=a.mean[word],
        second=b.mean[word],
        difference=mean,
        low=mean - reach,
        high=mean + reach,
        p=two_sided_p(t, n - 1) if len(word) else np.zeros(0),
        texts=(texts, texts),
    )


def _hashes(run: "Run") -> tuple[Any, Any]:
    """Return the hashes of a run's texts, sorted, and their rows: 16 bytes a text."""
    known, rows = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    several = run.record.rows_per_text
    for table in run.tables(["row", "text_hash"]):
        part = table.take(list(range(0, len(table), several)))
        known.append(_prefixes(part["text_hash"]))
        rows.append(np.asarray(part["row"]))
    hashes, numbers = np.concatenate(known), np.concatenate(rows)
    order = np.lexsort((numbers, hashes))
    return hashes[order], numbers[order]


def _prefixes(column: Any) -> Any:
    """Return the first 64 bits of each hash; 0, which no row is found by, where a text is null."""
    return np.array([int(h[:16], 16) if h else 0 for h in column.to_pylist()], dtype=np.uint64)


def _found(asked: Any, known: Any, rows: Any) -> Any:
    """Return the first row that has each hash, −1 for none."""
    if not len(known):
        return np.full(len(asked), -1)
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where((known[place] == asked) & (asked != 0), rows[place], -1)
