"""Slices of a run: its texts by length, by label, or by a column of the data."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.errors import InputError, nearest
from limelight.runs.rows import stored_names
from limelight.shapes import Int

if TYPE_CHECKING:
    from limelight.runs.words import RunWords

LENGTH = "length"  # how many features a text has
_MOST, _RANGES = 12, 6
_MISSING, _OTHERS = "(no value)", "(others)"


@dataclass(frozen=True, kw_only=True)
class Slices:
    """How texts fall into slices: by ``values`` of a column, or between ``edges``."""

    by: str
    names: tuple[str, ...]
    values: tuple[Any, ...] | None = None
    edges: Any = None

    def numbers(self, column: Any) -> Int[np.ndarray, " n"]:
        """Return the slice of each value of ``column``, −1 for none."""
        missing = np.asarray(pc.is_null(column))
        if self.values is None:
            place = np.searchsorted(self.edges, _numbers(column), side="right")
            found = np.clip(place - 1, 0, len(self.edges) - 2)
        else:
            placed = pc.index_in(column, pa.array(self.values, column.type))
            others = self.names.index(_OTHERS) if _OTHERS in self.names else -1
            found = np.asarray(placed.fill_null(others)).astype(np.int64)
        none = self.names.index(_MISSING) if _MISSING in self.names else -1
        return np.where(missing, none, found)


def sliced(words: "RunWords", by: str) -> tuple[Slices, pa.Table]:
    """Return slices by "length", "label" or a column that is carried along, and that of each row.

    Arrow reads the column: its kinds of numbers and times say how ranges are named.
    """
    run = words.run
    data = run.record.data.columns
    choices = [LENGTH, *(["label"] if data.label else []), *data.carried]
    if by not in choices:
        raise InputError(nearest("column to slice by", by, choices))
    if by == LENGTH:
        table = words.tables.table(f"SELECT n, len(scores)::BIGINT AS words FROM {words.rows}")
        slices = _slices(by, table["words"])
        return slices, _numbered(table["n"], slices.numbers(table["words"].combine_chunks()))
    stored = dict(zip(data.carried, stored_names(data.carried), strict=True))
    column, several = by if by == "label" else stored[by], run.record.rows_per_text
    parts = [_plain(table[column].combine_chunks()) for table in run.tables([column])]
    slices = _slices(by, pa.chunked_array([part[::several] for part in parts]))
    first = [run.record.texts_of(number).start * several for number in run.shards]
    numbers = [np.arange(a, a + len(part)) for a, part in zip(first, parts, strict=True)]
    return slices, _numbered(
        np.concatenate(numbers), np.concatenate([slices.numbers(part) for part in parts])
    )


def _numbered(n: Any, numbers: Int[np.ndarray, " n"]) -> pa.Table:
    return pa.table({"n": n, "slice": numbers})


def _slices(by: str, values: pa.ChunkedArray) -> Slices:
    counted = pc.value_counts(values.drop_null())
    distinct = counted.field("values")
    missing = (_MISSING,) if values.null_count else ()
    ordered = _ordered(values.type)
    if ordered and len(distinct) > _MOST:
        found = np.quantile(_numbers(values.drop_null()), np.linspace(0, 1, _RANGES + 1))
        edges = np.unique(found)
        edges = edges if pa.types.is_temporal(values.type) else np.unique(_readable(edges))
        if len(edges) > 2:
            ranges = (*_range_names(edges, values.type), *missing)
            return Slices(by=by, names=ranges, edges=edges)
    if ordered:
        order = np.argsort(_numbers(distinct), kind="stable")
    else:
        order = np.argsort(-np.asarray(counted.field("counts")), kind="stable")
    kept = distinct.take(pa.array(order[:_MOST])).to_pylist()
    others = (_OTHERS,) if len(distinct) > _MOST else ()
    names = (*map(str, kept), *others, *missing)
    return Slices(by=by, names=names, values=tuple(kept))


def _plain(values: Any) -> Any:
    """Return a column as values that can be compared; of lists and the like, what they print."""
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


def _readable(edges: Any) -> Any:
    """Return edges with as many digits as tell them from their neighbours, the outer ones outwards.

    Texts are cut where the name of a slice says, and not at the quantile that was rounded.
    """
    gaps = np.diff(edges)
    if not np.isfinite(gaps).all():
        return edges
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    digits = -np.floor(np.log10(nearest / 3)).astype(int)  # a sixth of a gap moves an edge at most
    rounding: list[Any] = [np.floor, *[np.round] * (len(edges) - 2), np.ceil]
    # Rounded once more: 0.1 is no whole number of its units, and the product would show it.
    return np.array(
        [
            np.round(one(edge * 10.0**k) / 10.0**k, max(k, 0))
            for one, edge, k in zip(rounding, edges, digits.tolist(), strict=True)
        ]
    )


def _range_names(edges: Any, kind: pa.DataType) -> list[str]:
    shown = [_shown(edge, kind) for edge in edges]
    pairs = list(itertools.pairwise(shown))
    return [f"{a} to below {b}" for a, b in pairs[:-1]] + [f"{pairs[-1][0]} to {pairs[-1][1]}"]


def _shown(edge: float, kind: pa.DataType) -> str:
    if not pa.types.is_temporal(kind) or pa.types.is_time(kind):
        return f"{edge:.12g}"
    return str(np.datetime64(int(edge), "us").astype("datetime64[s]")).replace("T00:00:00", "")
