"""Slices of a run: by length, by label or by a column that was carried along."""

import contextlib
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.errors import InputError, nearest
from limelight.runs.rows import stored_names
from limelight.runs.words import RunWords

LENGTH = "length"  # how many features a text has
BUILT_IN = "built-in "  # before a name that a column of the data has too
_MOST, _RANGES = 12, 6
_MISSING, _OTHERS = "(no value)", "(others)"


def slice_texts(words: RunWords, by: str | None) -> pa.Table | None:
    """Return the ``slice`` of each text, or of each row, as a dictionary of the slices' names.

    ``by`` is "length", "label" or a column that is carried along; None makes no slices. A column
    of the data wins over "length" and "label": "built-in length" is never a column, and labels
    also have the name of their column. Arrow reads the column: its kinds of numbers and times say
    how ranges are named.
    """
    if by is None:
        return None
    run = words.run
    data = run.record.data.columns
    columns: dict[str, str | None] = {LENGTH: None}
    if data.label:
        columns |= {"label": "label", data.label: "label"}
    # Under the names that they have in the data, and under those of `Run.texts` and `Run.sql`.
    stored = stored_names(data.carried)
    columns |= dict(zip(stored, stored, strict=True))
    columns |= dict(zip(data.carried, stored, strict=True))
    if columns[LENGTH] is not None:
        columns[BUILT_IN + LENGTH] = None
    if by not in columns and by != BUILT_IN + LENGTH:
        raise InputError(nearest("column to slice by", by, list(columns)))
    if (column := columns.get(by)) is None:
        table = words.tables.table(f"SELECT n, len(scores)::BIGINT AS value FROM {words.rows}")
    else:
        # Any row of a text has its column: the first is taken.
        several = run.record.rows_per_text
        parts = [
            _plain(table[column].combine_chunks()[::several]) for table in run.tables([column])
        ]
        # By the plan, not by a column: shards that are not there have no texts.
        texts = np.concatenate([run.record.texts_of(number) for number in run.shards])
        table = pa.table({"row": texts, "value": pa.chunked_array(parts)})
    return table.set_column(1, "slice", _name_slices(table["value"]))


def _name_slices(values: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the name of the slice of each value, as a dictionary of the names in their order.

    Many numbers or times are cut into ranges that have equally many of them; else each value is a
    slice, and the less frequent of many values are one together.
    """
    counted = pc.value_counts(values.drop_null())
    if pa.types.is_string(values.type) and len(counted) > _MOST:
        with contextlib.suppress(pa.ArrowInvalid):  # in csv, numbers are strings too
            return _name_slices(values.cast(pa.float64()))
    distinct = counted.field("values")
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal
    # Booleans and words are not ranges of anything.
    ordered = any(is_kind(values.type) for is_kind in kinds)
    edges = _edges(values) if ordered and len(distinct) > _MOST else ()
    if len(edges) > 2:
        # The names say where the cuts are, so that edges are rounded before anything is cut.
        shown = [_shown(edge, values.type) for edge in edges]
        names = [f"{a} to below {b}" for a, b in itertools.pairwise(shown)]
        names[-1] = f"{shown[-2]} to {shown[-1]}"
        place = np.searchsorted(edges, _numbers(values), side="right")
        # The largest value is in the last range, whose upper end is part of it.
        numbers = np.clip(place - 1, 0, len(edges) - 2)
    else:
        counts = np.asarray(counted.field("counts"))
        # Numbers in their order, words by how often they occur.
        order = np.argsort(_numbers(distinct) if ordered else -counts, kind="stable")
        kept = distinct.take(pa.array(order[:_MOST]))
        names = [*map(str, kept.to_pylist()), *[_OTHERS] * (len(distinct) > _MOST)]
        numbers = np.asarray(pc.index_in(values, kept).fill_null(len(kept))).astype(np.int64)
    if values.null_count:
        numbers = np.where(np.asarray(values.is_null()), len(names), numbers)
        names.append(_MISSING)
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers, pa.int64()), pa.array(names, pa.string())
    )


def _edges(values: pa.ChunkedArray) -> Any:
    """Return where ranges of as many values each begin and end."""
    # Infinite values have no quantiles, but must be in the first or last range.
    every = _numbers(values.drop_null())
    edges = np.unique(np.quantile(every[np.isfinite(every)], np.linspace(0, 1, _RANGES + 1)))
    # Times are shown to the second, and need no rounding.
    edges = edges if pa.types.is_temporal(values.type) else np.unique(_readable(edges))
    edges[[0, -1]] = min(edges[0], every.min()), max(edges[-1], every.max())
    return edges


def _plain(values: Any) -> Any:
    """Return a column as values that can be compared; of lists and the like, what they print."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):  # NaN is no value either
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    nested = pa.types.is_nested(values.type)
    return pa.array(map(str, values.to_pylist()), pa.string()) if nested else values


def _numbers(values: Any) -> Any:
    """Return numbers, or times as numbers in their order; NaN where there is none."""
    if pa.types.is_temporal(values.type):
        kind = values.type if pa.types.is_time(values.type) else pa.timestamp("us")
        values = values.cast(kind).cast(pa.int64())
    # Whole numbers beyond 2^53 are rounded: that is near enough for an order of slices.
    return np.asarray(values.cast(pa.float64(), safe=False).fill_null(np.nan))


def _readable(edges: Any) -> Any:
    """Return edges with as many digits as tell them from their neighbours, the outer ones outwards.

    Texts are cut where the name of a slice says, and not at the quantile that was rounded.
    """
    gaps = np.diff(edges)
    if len(edges) < 3 or not np.isfinite(gaps).all():
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


def _shown(edge: float, kind: pa.DataType) -> str:
    if not pa.types.is_temporal(kind) or pa.types.is_time(kind):
        return f"{edge:.12g}"
    return str(np.datetime64(int(edge), "us").astype("datetime64[s]")).replace("T00:00:00", "")
