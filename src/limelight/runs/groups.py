"""Words whose scores differ between texts: wrong ones and right, a slice and the rest."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.errors import InputError, nearest
from limelight.runs.rows import stored_name
from limelight.runs.words import Moments, ShardWords, t_quantile, two_sided_p
from limelight.shapes import Float, Int

if TYPE_CHECKING:
    from limelight.runs.run import Run


_NO_SIGN = 1.95
_FEWEST = 5  # texts on either side, or a variance means little


class Mistake(NamedTuple):
    """A text whose label is not what was predicted, by numbers of classes."""

    row: int
    predicted: int
    label: int
    confidence: float


@final
class ConfidentMistakes:
    """The most confident mistakes of each view, a few at a time in memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[int, list[Mistake]] = {}

    def add(self, shard: ShardWords) -> None:
        """Take in a shard."""
        for view in np.unique(shard.view).tolist():
            here = np.flatnonzero((shard.view == view) & (shard.wrong == 1))
            best = here[np.argsort(-shard.confidence[here], kind="stable")[: self._most]]
            columns = (shard.row, shard.predicted, shard.label, shard.confidence)
            rows = [Mistake(*one) for one in zip(*(c[best].tolist() for c in columns), strict=True)]
            merged = [*self._found.get(view, []), *rows]
            merged.sort(key=lambda one: (-one.confidence, one.row))
            self._found[view] = merged[: self._most]

    def of(self, view: int) -> list[Mistake]:
        """Return the mistakes of a view, the most confident first."""
        return self._found.get(view, [])


class Compared(NamedTuple):
    """Words in two groups of texts: the difference of means, second less first, and its test."""

    word: Any
    first: Float[np.ndarray, " k"]
    second: Float[np.ndarray, " k"]
    difference: Float[np.ndarray, " k"]
    low: Float[np.ndarray, " k"]
    high: Float[np.ndarray, " k"]
    p: Float[np.ndarray, " k"]
    texts: tuple[Any, Any]


def compared_words(first: Moments, second: Moments, *, fewest: int = _FEWEST) -> Compared:
    """Return Welch's test for every word that ``fewest`` texts of either group have.

    Intervals are 95 % each, not corrected for the number of words. Where |t| < 1.95 no number of
    texts makes p smaller than 0.05; it stands as 1 there, and is computed for the others.
    """
    word = np.flatnonzero((first.texts >= fewest) & (second.texts >= fewest))
    one, two = (Moments(*(field[word] for field in m)) for m in (first, second))
    difference, error, freedom = welch(one, two)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, difference / error, np.where(difference == 0, 0.0, np.inf))
    p, able = np.ones(len(word)), np.abs(t) >= _NO_SIGN
    p[able] = two_sided_p(t[able], freedom[able])
    reach = t_quantile(np.maximum(np.floor(freedom), 1)) * error
    return Compared(
        word=word,
        first=one.mean,
        second=two.mean,
        difference=difference,
        low=difference - reach,
        high=difference + reach,
        p=p,
        texts=(one.texts.astype(np.int64), two.texts.astype(np.int64)),
    )


def welch(one: Moments, two: Moments) -> tuple[Any, Any, Any]:
    """Return the difference of means, its standard error, and Welch's degrees of freedom."""
    a, b = (m.variance / np.maximum(m.texts, 1) for m in (one, two))
    spread = a**2 / np.maximum(one.texts - 1, 1) + b**2 / np.maximum(two.texts - 1, 1)
    freedom = np.where(spread > 0, (a + b) ** 2 / np.where(spread > 0, spread, 1), 1.0)
    return two.mean - one.mean, np.sqrt(a + b), np.maximum(freedom, 1.0)


LENGTH = "length"  # how many features a text has
_MOST, _RANGES = 12, 6
_MISSING, _OTHERS = "(no value)", "(others)"


@final
@dataclass(frozen=True, kw_only=True)
class SliceRule:
    """How rows fall into slices: by ``values`` of ``column``, or between ``edges``."""

    by: str
    column: str
    names: tuple[str, ...]
    values: tuple[Any, ...] | None = None
    edges: Any = None

    def group(self, table: pa.Table) -> Int[np.ndarray, " n"]:
        """Return the slice of each row of ``table``, −1 for none."""
        column = _measured(table, self.column)
        missing = np.asarray(pc.is_null(column))
        if self.values is None:
            place = np.searchsorted(self.edges, _numbers(column), side="right")
            found = np.clip(place - 1, 0, len(self.edges) - 2)
        else:
            placed = pc.index_in(column, pa.array(self.values, column.type))
            others = self.names.index(_OTHERS) if _OTHERS in self.names else -1
            found = np.asarray(placed.fill_null(others)).astype(np.int64)
        return np.where(
            missing, self.names.index(_MISSING) if _MISSING in self.names else -1, found
        )


def slice_rule(run: "Run", by: str, lengths: Int[np.ndarray, " n"]) -> SliceRule:
    """Return the rule for "length", "label" or a column that is carried along.

    ``lengths[n]`` is how many rows have n words.
    """
    carried = run.record.data.columns.carried
    choices = [LENGTH, *(["label"] if run.record.data.columns.label else []), *carried]
    if by not in choices:
        raise InputError(nearest("column to slice by", by, choices))
    if by == LENGTH:
        return _rule(
            by, "features", pa.chunked_array([np.repeat(np.arange(len(lengths)), lengths)])
        )
    column = by if by == "label" else stored_name(by)
    several = run.record.rows_per_text
    tables = run.tables([column])
    parts = [_measured(t.take(list(range(0, len(t), several))), column) for t in tables]
    values = pa.chunked_array(parts) if parts else pa.chunked_array([], pa.int64())
    return _rule(by, column, values)


def _rule(by: str, column: str, values: pa.ChunkedArray) -> SliceRule:
    counted = pc.value_counts(values.drop_null())
    distinct = counted.field("values")
    missing = (_MISSING,) if values.null_count else ()
    ordered = _ordered(values.type)
    if ordered and len(distinct) > _MOST:
        edges = np.unique(np.quantile(_numbers(values.drop_null()), np.linspace(0, 1, _RANGES + 1)))
        if len(edges) > 2:
            ranges = (*_range_names(edges, values.type), *missing)
            return SliceRule(by=by, column=column, names=ranges, edges=edges)
    if ordered:
        order = np.argsort(_numbers(distinct), kind="stable")
    else:
        order = np.argsort(-np.asarray(counted.field("counts")), kind="stable")
    kept = distinct.take(pa.array(order[:_MOST])).to_pylist()
    others = (_OTHERS,) if len(distinct) > _MOST else ()
    names = (*map(str, kept), *others, *missing)
    return SliceRule(by=by, column=column, names=names, values=tuple(kept))


def _measured(table: pa.Table, column: str) -> Any:
    """Return the column as one array; of features, how many there are."""
    values = table[column]
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if column == "features":
        return pc.list_value_length(values).cast(pa.int64())
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    nested = pa.types.is_nested(values.type)
    return pa.array(map(str, values.to_pylist()), pa.string()) if nested else values


def _ordered(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    )


def _numbers(values: Any) -> Any:
    """Return numbers, or times as numbers in their order; NaN where there is none."""
    if pa.types.is_temporal(values.type):
        values = values.cast(
            pa.timestamp("us") if not pa.types.is_time(values.type) else values.type
        )
        values = values.cast(pa.int64())
    return np.asarray(values.cast(pa.float64()).fill_null(np.nan))


def _range_names(edges: Any, kind: pa.DataType) -> list[str]:
    shown = [_shown(edge, kind) for edge in edges]
    pairs = list(itertools.pairwise(shown))
    return [f"{a} to below {b}" for a, b in pairs[:-1]] + [f"{pairs[-1][0]} to {pairs[-1][1]}"]


def _shown(edge: float, kind: pa.DataType) -> str:
    if not pa.types.is_temporal(kind) or pa.types.is_time(kind):
        return f"{edge:.6g}"
    return str(np.datetime64(int(edge), "us").astype("datetime64[s]")).replace("T00:00:00", "")
