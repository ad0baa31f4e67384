"""Words over a run: means over texts, and intervals that are shrunken for rare words."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.data.columns import DataColumns
from limelight.errors import InputError, nearest
from limelight.models.protocol import class_probabilities
from limelight.results.summary import Example
from limelight.runs.record import ModelRecord
from limelight.shapes import Float, Int

if TYPE_CHECKING:
    from limelight.runs.run import Run


PLACED = ("starts", "parts")  # the columns that tell on which side a word stands
_MARK = ": "


def with_columns(table: pa.Table, columns: DataColumns) -> pa.Table:
    """Return rows of a run over pairs with their words named as "premise: dog"; others as is."""
    if columns.pair is None or not len(table):
        return table
    words, starts = (_with_column(table[name]) for name in ("features", "starts"))
    lengths = np.asarray(pc.list_value_length(words)).astype(np.int64)
    places = starts.flatten()
    first = np.asarray(places.flatten())[np.asarray(places.offsets)[:-1]]
    side = first >= np.repeat(second_starts(table), lengths)
    named = pa.array(columns.texts).take(pa.array(side.astype(np.int64)))
    marked = pc.binary_join_element_wise(named, words.flatten(), _MARK)
    offsets = pa.array(np.concatenate([[0], lengths.cumsum()]).astype(np.int32))
    place = table.column_names.index("features")
    return table.set_column(place, "features", pa.ListArray.from_arrays(offsets, marked))


def second_starts(table: pa.Table) -> Int[np.ndarray, " n"]:
    """Return where the second side of each row begins; past any text where rows have no sides."""
    if "parts" not in table.column_names:
        return np.full(len(table), np.iinfo(np.int64).max)
    edges = np.asarray(_with_column(table["parts"]).flatten().flatten()).astype(np.int64)
    return edges.reshape(-1, 4)[:, 2]


def phrase_name(words: Sequence[str], columns: DataColumns) -> str:
    """Return the words of a phrase, which stand on one side, with the name of that side once."""
    if columns.pair is None:
        return " ".join(words)
    side, *_ = words[0].partition(_MARK)
    return " ".join([words[0], *(word.removeprefix(side + _MARK) for word in words[1:])])


def _with_column(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


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


_TERMS, _TINY, _WHOLE = 300, 1e-300, 400
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def two_sided_p(
    t: Float[np.ndarray, " n"], freedom: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return P(|T| > |t|) for ``freedom`` > 0 degrees of freedom; they need not be whole."""
    t, nu = np.broadcast_arrays(np.abs(np.asarray(t, float)), np.asarray(freedom, float))
    x = nu / (nu + t * t)
    return np.where(np.isinf(t), 0.0, _regularized_beta(x, nu / 2, np.full_like(nu, 0.5)))


def t_quantile(freedom: Float[np.ndarray, " n"], *, level: float = 0.95) -> Float[np.ndarray, " n"]:
    """Return q with P(|T| ≤ q) = ``level`` for ``freedom`` ≥ 1, whole; by bisection.

    Beyond ``_WHOLE`` degrees of freedom q is interpolated in 1/freedom, which is right to 1e-6.
    """
    nu = np.asarray(freedom, float)
    table = _quantiles(level)
    within = np.clip(nu, 1, _WHOLE).astype(np.int64)
    end, limit = table[_WHOLE], table[0]
    return np.where(nu <= _WHOLE, table[within], limit + (end - limit) * _WHOLE / np.maximum(nu, 1))


@lru_cache(maxsize=8)
def _quantiles(level: float) -> Float[np.ndarray, " n"]:
    """Return the quantiles for 1 … ``_WHOLE`` degrees of freedom; first the normal one's."""
    nu = np.concatenate([[1e9], np.arange(1.0, _WHOLE + 1)])
    low, high = np.zeros_like(nu), np.full_like(nu, 1e3)
    for _ in range(60):
        middle = (low + high) / 2
        inside = two_sided_p(middle, nu) > 1 - level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return (low + high) / 2


def _regularized_beta(
    x: Float[np.ndarray, " n"], a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    # The fraction converges fast for x < (a + 1)/(a + b + 2); I_x(a, b) = 1 − I_{1−x}(b, a).
    swap = x > (a + 1) / (a + b + 2)
    x, a, b = np.where(swap, 1 - x, x), np.where(swap, b, a), np.where(swap, a, b)
    with np.errstate(divide="ignore"):
        front = a * np.log(x) + b * np.log1p(-x)
    front = front + _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b)
    value = np.exp(front) * _fraction(x, a, b) / a
    return np.clip(np.where(swap, 1 - value, value), 0.0, 1.0)


def _fraction(
    x: Float[np.ndarray, " n"], a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return the continued fraction by Lentz's method; what has converged takes no more terms."""
    found = np.empty_like(x)
    c = np.ones_like(x)
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    value, place = d, np.arange(len(x))
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d, c = 1 / _away(1 + step * d), _away(1 + step / c)
            value = value * c * d
        going = ~(np.abs(c * d - 1) < 1e-15)
        if m % 4 == 0 and not going.all():
            found[place[~going]] = value[~going]
            place = place[going]
            x, a, b, c, d, value = (v[going] for v in (x, a, b, c, d, value))
        if not len(place):
            break
    found[place] = value
    return found


def _away(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _log_gamma(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return log Γ(x), x > 0, by Stirling's series at x + 8, which is then right to 1e-13."""
    shift = sum(np.log(x + k) for k in range(8))
    y = x + 8
    series = sum(c / y ** (2 * k + 1) for k, c in enumerate(_STIRLING))
    return (y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi) + series - shift


RARE = 5  # texts, below which a word is marked
_PRIOR = 4  # ν₀: the texts that the common variance stands for
SORTS = ("strength", "mean", "mean_abs", "total", "texts", "occurrences", "word")


class Shrunken(NamedTuple):
    """Means drawn towards the mean of all words, and the ends of their intervals."""

    mean: Float[np.ndarray, " V"]
    low: Float[np.ndarray, " V"]
    high: Float[np.ndarray, " V"]


def shrunken(moments: Moments) -> Shrunken:
    """Return the means and intervals of this module's formulas; zeros where no text has a word."""
    n, mean, variance = moments.texts, moments.mean, moments.variance
    freedom = np.maximum(n - 1, 0)
    common = float((freedom * variance).sum() / max(freedom.sum(), 1))
    v = (freedom * variance + _PRIOR * common) / (freedom + _PRIOR)
    error = v / np.maximum(n, 1)
    center, between = _population(n, mean, error)
    whole = between + error
    share = np.divide(between, whole, out=np.ones_like(whole), where=whole > 0)
    away = np.abs(mean - center)
    # Where a mean is that of the population there is nothing to limit, and nothing to divide by.
    moved = np.divide(np.sqrt(error), away, out=np.ones_like(away), where=away > 0)
    share = np.maximum(share, 1 - moved)
    middle = share * mean + (1 - share) * center
    reach = t_quantile(freedom + _PRIOR) * np.sqrt(share * error)
    there = n > 0
    return Shrunken(*(np.where(there, x, 0.0) for x in (middle, middle - reach, middle + reach)))


def _population(
    n: Float[np.ndarray, " V"], mean: Float[np.ndarray, " V"], error: Float[np.ndarray, " V"]
) -> tuple[float, float]:
    """Return μ and τ² by moments: the spread of the means less what sampling explains.

    Every word counts once, whatever its texts, since each is one draw of μ_j; words of a single
    text are left out, unless there are no others, for their means are mostly noise.
    """
    used = n >= 2 if (n >= 2).sum() >= 2 else n > 0
    if used.sum() < 2:
        return 0.0, float((mean[used] ** 2).sum())
    center = float(mean[used].mean())
    between = float(mean[used].var(ddof=1) - error[used].mean())
    return center, max(between, 0.0)


def word_table(
    view: View, words: Sequence[str], moments: Moments, *, sort: str = "strength"
) -> pa.Table:
    """Return one row per word that any text has, sorted by ``sort``, largest first.

    By "strength" rare words come after the others.
    """
    if sort not in SORTS:
        raise InputError(nearest("way to sort words", sort, SORTS))
    found = shrunken(moments)
    there = np.flatnonzero(moments.texts > 0)
    columns = word_columns(moments, found)
    order = there[_order(sort, there, words, columns)]
    named = {"word": pa.array([words[i] for i in order], pa.string())}
    kept = {name: pa.array(values[order]) for name, values in columns.items()}
    about = {
        "method": pa.array([view.method] * len(order), pa.string()),
        "target": pa.array([view.target] * len(order), pa.string()),
        "against": pa.array([view.against] * len(order), pa.string()),
    }
    return pa.table(about | named | kept)


def word_columns(moments: Moments, found: Shrunken) -> dict[str, Any]:
    """Return the columns of a table of words, all words by number."""
    n = np.maximum(moments.texts, 1)
    return {
        "texts": moments.texts.astype(np.int64),
        "occurrences": moments.occurrences.astype(np.int64),
        "mean": moments.mean,
        "mean_abs": moments.size / n,
        "positive": moments.positive / n,
        "shrunken": found.mean,
        "low": found.low,
        "high": found.high,
        "total": moments.total,
        "rare": moments.texts < RARE,
    }


def strength(found: Shrunken) -> Float[np.ndarray, " V"]:
    """Return how far from 0 a mean is for certain: the end of its interval that is nearer to 0.

    It is 0 where the interval holds 0.
    """
    return np.maximum(np.maximum(found.low, -found.high), 0.0)


def _order(sort: str, there: Any, words: Sequence[str], columns: dict[str, Any]) -> Any:
    if sort == "word":
        return np.array(sorted(range(len(there)), key=lambda i: words[there[i]]), dtype=np.int64)
    if sort == "strength":
        found = Shrunken(columns["shrunken"], columns["low"], columns["high"])
        first = strength(found)[there]
    else:
        first = columns[sort][there]
    rare = columns["rare"][there] & (sort == "strength")  # what one text says leads no table
    return np.lexsort((-np.abs(columns["shrunken"][there]), -first, rare))
