"""The words of a shard as flat arrays: what every summary of a run is added up from.

A text is the unit: features of one text that bear the same name are one word of it, whose score is
the sum of theirs. Rows that failed are left out and counted. In a run over pairs a word of the one
column is another than that of the other.
"""

__all__ = ["ShardWords", "View", "Vocabulary", "words_of_shards"]

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.corpus.run_record import ModelRecord
from limelight.corpus.sided_words import PLACED, with_columns
from limelight.models.protocol import class_probabilities
from limelight.shapes import Float, Int

if TYPE_CHECKING:
    from limelight.corpus.stored_run import Run

_READ = ("row", "method", "target", "against", "label", "prediction", "features", "scores", "error")
_UNKNOWN = -1  # a label that is not there, or is not a class


class View(NamedTuple):
    """A method and the class it explains: scores of different views are never averaged."""

    method: str
    target: str
    against: str | None = None


@final
class Vocabulary:
    """Words, or anything else that is counted, and their numbers in the order they are met in."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, words: Sequence[Any]) -> Int[np.ndarray, " n"]:
        """Return the numbers of ``words``; new ones get the next."""
        known = self._numbers
        found = list(map(known.get, words))  # most are known, and a loop in Python is slow
        for place in (i for i, number in enumerate(found) if number is None):
            found[place] = known.setdefault(words[place], len(known))
        return np.array(found, dtype=np.int64)

    def words(self) -> list[Any]:
        """Return all words by number."""
        return list(self._numbers)


class ShardWords(NamedTuple):
    """Rows of a shard that did not fail, and their words, one entry per row and word.

    Of row i: its text ``row``, ``view`` (a number in ``views``), ``predicted`` class, ``label``
    (−1 where it is not known) and ``confidence``, the probability of the predicted class or, for a
    model without probabilities, its margin. Of an entry: its row ``at``, its ``word`` (a number in
    ``vocabulary``, or in ``own``, the words of this shard), ``score`` and the
    ``times`` it occurs.
    """

    views: tuple[View, ...]
    failed: int
    row: Int[np.ndarray, " n"]
    view: Int[np.ndarray, " n"]
    predicted: Int[np.ndarray, " n"]
    label: Int[np.ndarray, " n"]
    confidence: Float[np.ndarray, " n"]
    own: Int[np.ndarray, " L"]
    at: Int[np.ndarray, " m"]
    word: Int[np.ndarray, " m"]
    score: Float[np.ndarray, " m"]
    times: Int[np.ndarray, " m"]
    table: Any

    @property
    def wrong(self) -> Int[np.ndarray, " n"]:
        """1 where the prediction is not the label, 0 where it is, −1 where no label is known."""
        return np.where(self.label == _UNKNOWN, -1, (self.predicted != self.label).astype(int))


def words_of_shards(
    run: "Run",
    vocabulary: Vocabulary,
    *,
    counts: bool = False,
    more: Sequence[str] = (),
    method: str | None = None,
    shards: Sequence[int] | None = None,
) -> Iterator[ShardWords]:
    """Yield the words of every shard, in order; nothing of one is kept when the next is read.

    ``counts`` reads how often each word occurs; ``more`` are further columns of ``table``, which
    holds the rows that did not fail. ``method`` leaves out the others, and ``shards``, numbers, are
    all if none are given.
    """
    views: dict[View, int] = {}
    of_data = run.record.data.columns
    placed = () if of_data.pair is None else PLACED
    columns = [*dict.fromkeys((*_READ, *(("starts",) if counts else ()), *placed, *more))]
    for table in _read_ahead(run.tables(columns, shards=shards)):
        if method is not None:
            table = table.filter(pc.equal(table["method"], method))
        good = pc.is_null(table["error"])
        failed = len(table) - int(pc.sum(good).as_py() or 0)
        kept = with_columns(table.filter(good) if failed else table, of_data)
        kept = kept.combine_chunks()
        yield _shard_words(kept, run.record.model, vocabulary, views, failed, counts)


def _read_ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables while a thread reads the next one: Arrow decodes without Python's lock."""
    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = reader.submit(next, tables, None)
            yield table


def _shard_words(
    table: pa.Table,
    model: ModelRecord,
    vocabulary: Vocabulary,
    views: dict[View, int],
    failed: int,
    counts: bool,
) -> ShardWords:
    named = pc.dictionary_encode(_one(table["features"]).flatten())
    codes, own = _numpy(named.indices, np.int64), vocabulary.numbers(named.dictionary.to_pylist())
    lengths = _numpy(pc.list_value_length(table["features"]), np.int64)
    at = np.repeat(np.arange(len(table)), lengths)
    score = _numpy(_one(table["scores"]).flatten(), np.float64)
    times = np.ones(len(at), dtype=np.int64)
    if counts:
        times = _numpy(pc.list_value_length(_one(table["starts"]).flatten()), np.int64)
    at, codes, score, times = _once_per_text(at, codes, score, times, len(own))
    classes = tuple(model.classes)
    predicted, confidence = predictions(_one(table["prediction"]), len(classes), model.link)
    return ShardWords(
        views=(),  # all are known once those of the rows are
        failed=failed,
        row=_numpy(table["row"], np.int64),
        view=_view_numbers(table, views),
        predicted=predicted,
        label=label_numbers(_one(table["label"]), classes),
        confidence=confidence,
        own=own,
        at=at,
        word=codes,
        score=score,
        times=times,
        table=table,
    )._replace(views=tuple(views))


def _once_per_text(at: Any, codes: Any, score: Any, times: Any, size: int) -> tuple[Any, ...]:
    """Add up the entries of one row that name the same word."""
    key = at * max(size, 1) + codes
    small = len(key) and int(key[-1]) < 2**31 - size  # rows come in order; half the bytes to sort
    ordered = np.sort(key.astype(np.int32) if small else key)
    if not (ordered[1:] == ordered[:-1]).any():  # words of a text are distinct, as nearly always
        return at, codes, score, times
    distinct, inverse = np.unique(key, return_inverse=True)
    score = np.bincount(inverse, weights=score, minlength=len(distinct))
    times = np.bincount(inverse, weights=times, minlength=len(distinct)).astype(np.int64)
    return distinct // size, distinct % size, score, times


def _view_numbers(table: pa.Table, views: dict[View, int]) -> Int[np.ndarray, " n"]:
    """Return the number of each row's view; there are a few kinds and thousands of rows."""
    names = ("method", "target", "against")
    encoded = [pc.dictionary_encode(_one(table[name]).fill_null("\0")) for name in names]
    sizes = [max(len(one.dictionary), 1) for one in encoded]
    joint = np.zeros(len(table), dtype=np.int64)
    for one, size in zip(encoded, sizes, strict=True):
        joint = joint * size + _numpy(one.indices, np.int64)
    kinds, first, inverse = np.unique(joint, return_index=True, return_inverse=True)
    numbers = np.zeros(len(kinds), dtype=np.int64)
    for kind in np.argsort(first):  # in the order of the rows, which is that of the methods
        found = [table[name][int(first[kind])].as_py() for name in names]
        numbers[kind] = views.setdefault(View(*found), len(views))
    return numbers[inverse]


def predictions(
    logits: Any, classes: int, link: str
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the predicted class of each row, and how sure the model is of it.

    That is its probability by ``link``, softmax or sigmoid; for a model without probabilities it is
    the margin: how far the output lies above the next largest. One output for two classes is that
    of the last, against 0. Without outputs the class is −1.
    """
    lengths = _numpy(pc.list_value_length(logits).fill_null(0), np.int64)
    width = int(lengths.max(initial=0))
    if not width or (lengths != width).any():
        return np.full(len(lengths), _UNKNOWN), np.full(len(lengths), np.nan)
    outputs = _numpy(logits.flatten(), np.float64).reshape(-1, width)
    sureness = _sureness(outputs, link)
    if width == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
    return outputs.argmax(axis=1) + max(classes - outputs.shape[1], 0), sureness


def _sureness(outputs: Float[np.ndarray, "n C"], link: str) -> Float[np.ndarray, " n"]:
    if link != "none":
        return class_probabilities(outputs, link).max(axis=1)
    if outputs.shape[1] == 1:
        return np.abs(outputs[:, 0])
    ordered = np.sort(outputs, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def label_numbers(labels: Any, classes: tuple[str, ...]) -> Int[np.ndarray, " n"]:
    """Return labels as numbers of classes: by name, else by number; −1 where they are neither."""
    encoded = pc.dictionary_encode(labels.fill_null("\0"))
    known = {name: number for number, name in enumerate(classes)}
    numbers = {str(number): number for number in range(len(classes))}
    table = [
        known.get(label, numbers.get(label, _UNKNOWN)) for label in encoded.dictionary.to_pylist()
    ]
    return np.array(table or [_UNKNOWN], dtype=np.int64)[_numpy(encoded.indices, np.int64)]


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numpy(values: Any, kind: Any) -> Any:
    return _one(values).to_numpy(zero_copy_only=False).astype(kind, copy=False)
