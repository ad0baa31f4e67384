"""The columns of a shard, and how they are stored."""

__all__ = ["OWN_COLUMNS", "shard_bytes", "stored_name"]

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def _list(kind: Any) -> pa.DataType:
    """Return a list type whose items have the name that Parquet gives them, written and read."""
    return pa.list_(pa.field("element", kind))


_PAIR = pa.struct(
    [
        ("first", pa.uint32()),
        ("second", pa.uint32()),
        ("score", pa.float32()),
        ("stderr", pa.float32()),
    ]
)
_ANCHOR = pa.struct(
    [
        ("features", _list(pa.uint32())),
        ("precision", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("coverage", pa.float64()),
    ]
)
OWN_COLUMNS: dict[str, pa.DataType] = {
    "row": pa.int64(),
    "id": pa.string(),
    "text_hash": pa.string(),
    "text": pa.large_string(),
    "label": pa.string(),
    "method": pa.string(),
    "target": pa.string(),
    "against": pa.string(),
    "prediction": _list(pa.float32()),
    "base_value": pa.float32(),
    "starts": _list(_list(pa.uint32())),
    "ends": _list(_list(pa.uint32())),
    "features": _list(pa.string()),
    "scores": _list(pa.float32()),
    "stderr": _list(pa.float32()),
    "bound": pa.float32(),
    "intercept": pa.float32(),
    "cut": pa.uint32(),
    "parts": _list(_list(pa.uint32())),
    "pairs": _list(_PAIR),
    "anchor": _ANCHOR,
    "notices": _list(pa.string()),
    "settings": pa.string(),
    "diagnostics": pa.string(),
    "error": pa.string(),
}
# Scores hardly ever repeat, so a dictionary of them only costs; the bytes of like significance
# side by side compress to two thirds.
_SPLIT = ("scores.list.element", "stderr.list.element", "pairs.list.element.score")
_REPEATED = (
    "id", "text_hash", "text", "label", "method", "target", "against", "features.list.element",
    "notices.list.element", "settings", "error",
)  # fmt: skip
_DICTIONARY_BYTES = 1 << 26  # texts stand in the rows of every method, and are stored once


def stored_name(column: str) -> str:
    """Return the name under which a column of the data is carried along."""
    return f"data.{column}" if column in OWN_COLUMNS else column


def shard_bytes(table: pa.Table) -> bytes:
    """Return ``table`` as a Parquet file; the same rows always give the same bytes."""
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="zstd",
        use_dictionary=list(_REPEATED),
        use_byte_stream_split=list(_SPLIT),
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_page_checksum=True,  # a shard that rots on the disk is noticed when it is read
        row_group_size=max(len(table), 1),
    )
    return buffer.getvalue()
