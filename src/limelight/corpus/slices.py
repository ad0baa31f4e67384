"""Slices of a run: texts of like length, or of one value of a column, in order.

Numbers and times of many values are cut at their quantiles, so that slices have about as many
texts each; by a time column they show drift. Names are in the order of their frequency.
"""

__all__ = ["LENGTH", "SliceRule", "slice_rule"]

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.corpus.shard_schema import stored_name
from limelight.errors import InputError, nearest
from limelight.shapes import Int

if TYPE_CHECKING:
    from limelight.corpus.stored_run import Run

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
