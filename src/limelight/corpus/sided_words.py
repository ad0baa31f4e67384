"""Words of pairs, kept apart by side: in a run over pairs a word bears the name of its column."""

__all__ = ["PLACED", "phrase_name", "second_starts", "with_columns"]

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limelight.corpus.run_record import DataColumns
from limelight.shapes import Int

PLACED = ("starts", "parts")  # the columns that tell on which side a word stands
_MARK = ": "


def with_columns(table: pa.Table, columns: DataColumns) -> pa.Table:
    """Return rows of a run over pairs with their words named as "premise: dog"; others as is."""
    if columns.pair is None or not len(table):
        return table
    words, starts = (_one(table[name]) for name in ("features", "starts"))
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
    edges = np.asarray(_one(table["parts"]).flatten().flatten()).astype(np.int64)
    return edges.reshape(-1, 4)[:, 2]


def phrase_name(words: Sequence[str], columns: DataColumns) -> str:
    """Return the words of a phrase, which stand on one side, with the name of that side once."""
    if columns.pair is None:
        return " ".join(words)
    side, *_ = words[0].partition(_MARK)
    return " ".join([words[0], *(word.removeprefix(side + _MARK) for word in words[1:])])


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
