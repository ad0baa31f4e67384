"""Slices of a run: by length, by label or by a stored column of the data."""

import contextlib
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.errors import InputError, unknown_name_message
from limelight.runs.rows import stored_names
from limelight.runs.words import RunWords

LENGTH = "length"  # how many features a text has
BUILT_IN = "built-in "  # before a name that a column of the data has too
_MAX_SLICES, _RANGES = 12, 6
_MISSING, _OTHERS = "(no value)", "(others)"


def slice_texts(words: RunWords, by: str | None) -> pa.Table | None:
    """Assign each text, or each row, to a slice; the column ``slice`` is a dictionary array.

    ``by`` is "length", "label" or a stored column of the data; None makes no slices. A column of
    the data wins over "length" and "label". "built-in length" is never a column, and labels are
    also found by the name of their column. The Arrow type of the column decides how the ranges
    are named.
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
        raise InputError(unknown_name_message("column to slice by", by, list(columns)))
    if (column := columns.get(by)) is None:
        table = words.tables.table(f"SELECT n, len(scores)::BIGINT AS value FROM {words.rows}")
    else:
        # Any row of a text has its column: the first is taken.
        rows_per_text = run.record.rows_per_text
        parts = [
            _comparable_values(table[column].combine_chunks()[::rows_per_text])
            for table in run.tables([column])
        ]
        # By the plan, not by a column: shards that are not there have no texts.
        texts = np.concatenate([run.record.text_numbers(number) for number in run.shards])
        table = pa.table({"row": texts, "value": pa.chunked_array(parts)})
    return table.set_column(1, "slice", _name_slices(table["value"]))


def _name_slices(values: pa.ChunkedArray) -> pa.DictionaryArray:
    """Name the slice of each value, as a dictionary array of the names in order.

    Many different numbers or times are divided into ranges of equally many values. Otherwise each
    value is a slice, and rare values share one slice.
    """
    value_counts = pc.value_counts(values.drop_null())
    if pa.types.is_string(values.type) and len(value_counts) > _MAX_SLICES:
        with contextlib.suppress(pa.ArrowInvalid):  # in csv, numbers are strings too
            return _name_slices(values.cast(pa.float64()))
    distinct = value_counts.field("values")
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal
    # Booleans and words are not ranges of anything.
    is_ordered = any(is_kind(values.type) for is_kind in kinds)
    edges = _range_edges(values) if is_ordered and len(distinct) > _MAX_SLICES else ()
    if len(edges) > 2:
        # The names say where the cuts are, so that edges are rounded before anything is cut.
        edge_names = [_edge_name(edge, values.type) for edge in edges]
        names = [f"{a} to below {b}" for a, b in itertools.pairwise(edge_names)]
        names[-1] = f"{edge_names[-2]} to {edge_names[-1]}"
        range_ends = np.searchsorted(edges, _numbers(values), side="right")
        # The largest value is in the last range, whose upper end is part of it.
        numbers = np.clip(range_ends - 1, 0, len(edges) - 2)
    else:
        counts = np.asarray(value_counts.field("counts"))
        # Numbers in their order, words by how often they occur.
        order = np.argsort(_numbers(distinct) if is_ordered else -counts, kind="stable")
        frequent = distinct.take(pa.array(order[:_MAX_SLICES]))
        names = [*map(str, frequent.to_pylist()), *[_OTHERS] * (len(distinct) > _MAX_SLICES)]
        numbers = np.asarray(pc.index_in(values, frequent).fill_null(len(frequent))).astype(
            np.int64
        )
    if values.null_count:
        numbers = np.where(np.asarray(values.is_null()), len(names), numbers)
        names.append(_MISSING)
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers, pa.int64()), pa.array(names, pa.string())
    )


def _range_edges(values: pa.ChunkedArray) -> Any:
    """Return the edges of ranges that contain equally many values."""
    # Infinite values have no quantiles, but must be in the first or last range.
    numbers = _numbers(values.drop_null())
    edges = np.unique(np.quantile(numbers[np.isfinite(numbers)], np.linspace(0, 1, _RANGES + 1)))
    # Times are shown to the second, and need no rounding.
    edges = edges if pa.types.is_temporal(values.type) else np.unique(_round_edges(edges))
    edges[[0, -1]] = min(edges[0], numbers.min()), max(edges[-1], numbers.max())
    return edges


def _comparable_values(values: Any) -> Any:
    """Convert a column to values that can be compared; lists and structs become strings."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):  # NaN is no value either
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    is_nested = pa.types.is_nested(values.type)
    return pa.array(map(str, values.to_pylist()), pa.string()) if is_nested else values


def _numbers(values: Any) -> Any:
    """Convert numbers and times to float64 in their order; missing values become NaN."""
    if pa.types.is_temporal(values.type):
        kind = values.type if pa.types.is_time(values.type) else pa.timestamp("us")
        values = values.cast(kind).cast(pa.int64())
    # Whole numbers beyond 2^53 are rounded: that is near enough for an order of slices.
    return np.asarray(values.cast(pa.float64(), safe=False).fill_null(np.nan))


def _round_edges(edges: Any) -> Any:
    """Round edges to the digits that separate them from their neighbors, outer edges outwards.

    The rounded edges divide the texts, so that slices agree with their names.
    """
    gaps = np.diff(edges)
    if len(edges) < 3 or not np.isfinite(gaps).all():
        return edges
    closest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    digits = -np.floor(np.log10(closest / 3)).astype(int)  # a sixth of a gap moves an edge at most
    rounding: list[Any] = [np.floor, *[np.round] * (len(edges) - 2), np.ceil]
    # Rounded once more: 0.1 is no whole number of its units, and the product would show it.
    return np.array(
        [
            np.round(round_edge(edge * 10.0**k) / 10.0**k, max(k, 0))
            for round_edge, edge, k in zip(rounding, edges, digits.tolist(), strict=True)
        ]
    )


def _edge_name(edge: float, kind: pa.DataType) -> str:
    """Format the end of a range of numbers or dates."""
    if not pa.types.is_temporal(kind) or pa.types.is_time(kind):
        return f"{edge:.12g}"
    return str(np.datetime64(int(edge), "us").astype("datetime64[s]")).replace("T00:00:00", "")
