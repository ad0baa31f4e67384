"""Explanations as rows of a shard, and rows as explanations."""

import hashlib
import io
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import accumulate, chain
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from limelight.data.columns import INPUT
from limelight.errors import InputError
from limelight.results import Counterfactual, Explanation
from limelight.results.differences import decode_ranges, encode_ranges
from limelight.results.explanation import Anchor, Pairs, image_fields
from limelight.results.values import decode_value, encode_value
from limelight.runs.record import RunRecord
from limelight.text import AnswerQuery, Conversation, Part, Query, UserInput, join_pair, parse_query
from limelight.text.conversations import is_conversation_cell

Outcome = Explanation | str  # an explanation, or the message of an error


def _list_type(kind: Any) -> pa.DataType:
    """Return a list type with the element name of Parquet, so that files keep their type."""
    return pa.list_(pa.field("element", kind))


_PAIR = pa.struct(
    {"first": pa.uint32(), "second": pa.uint32(), "score": pa.float32(), "stderr": pa.float32()}
)
_PART = pa.struct(
    {
        "id": pa.string(),
        "role": pa.string(),
        "span": _list_type(pa.uint32()),
        "content": _list_type(pa.uint32()),
    }
)
_SHARES = dict.fromkeys(("precision", "low", "high", "coverage"), pa.float64())
_ANCHOR = pa.struct({"features": _list_type(pa.uint32()), "guarantee": pa.string()} | _SHARES)


_COUNTERFACTUAL = pa.struct(
    {
        "size": pa.uint32(),
        "lower_bound": pa.uint32(),
        "bound_kind": pa.string(),
        "certified_radius": pa.uint32(),
        "is_robust": pa.bool_(),
        "removed": _list_type(pa.uint32()),
        "removed_features": _list_type(pa.string()),
        "predicted_class": pa.string(),
        "predicted_class_after": pa.string(),
        "error": pa.string(),
    }
)


# The columns: their types and how to compute them from an explanation. Columns without a function
# describe the text or are computed for all rows at once (:func:`shard_table`).
_COLUMNS: dict[str, tuple[pa.DataType, Callable[[Explanation], Any] | None]] = {
    "row": (pa.int64(), None),
    "id": (pa.string(), None),
    "text_hash": (pa.string(), None),
    # Offsets of 64 bits: the texts of a shard may have more than 2 GiB together.
    "text": (pa.large_string(), None),
    "label": (pa.string(), None),
    "method": (pa.string(), None),
    "target": (pa.string(), None),
    "against": (pa.string(), lambda e: e.against),
    "prediction": (_list_type(pa.float32()), lambda e: list(e.prediction.values())),
    "base_value": (pa.float32(), lambda e: e.base_value),
    "starts": (_list_type(_list_type(pa.uint32())), None),
    "ends": (_list_type(_list_type(pa.uint32())), None),
    "features": (_list_type(pa.string()), lambda e: list(e.features)),
    "scores": (_list_type(pa.float32()), lambda e: _floats(e.scores)),
    "stderr": (_list_type(pa.float32()), lambda e: _map_optional(_floats, e.stderr)),
    "bound": (pa.float32(), lambda e: _stored_bound(e)),
    "bound_kind": (pa.string(), lambda e: None if e.bound_kind == "proven" else e.bound_kind),
    "certain_tops": (pa.string(), lambda e: _map_optional(_top_ranges, e.certain_tops)),
    "intercept": (pa.float32(), lambda e: e.intercept),
    "cut": (pa.uint32(), lambda e: e.cut),
    "parts": (
        _list_type(_PART),
        lambda e: [asdict(part) for part in e.parts] or None,
    ),
    "query": (pa.string(), None),
    "image": (pa.string(), None),
    "pairs": (_list_type(_PAIR), lambda e: _map_optional(_pair_rows, e.pairs)),
    "anchor": (_ANCHOR, lambda e: _map_optional(_anchor_row, e.anchor)),
    "warnings": (_list_type(pa.string()), lambda e: e.warnings),
    # As JSON: methods differ in their settings, and a column for each would be empty in most rows.
    "settings": (pa.string(), lambda e: _encode_json(e.settings)),
    "diagnostics": (
        pa.string(),
        lambda e: _encode_json(_stored_diagnostics(e)) if e.diagnostics else None,
    ),
    "error": (pa.string(), None),
}
# Their order is that of the file, which is known by its bytes.
SHARD_COLUMNS: dict[str, pa.DataType] = {name: kind for name, (kind, _) in _COLUMNS.items()}
COUNTERFACTUAL = "counterfactual"  # a column of runs that store counterfactuals


def shard_columns(record: RunRecord) -> dict[str, pa.DataType]:
    """Return the columns of the shards of a run and their types, without those of the data."""
    return SHARD_COLUMNS | ({COUNTERFACTUAL: _COUNTERFACTUAL} if record.counterfactual else {})


# Scores hardly ever repeat, so a dictionary of them only costs; the bytes of like significance
# side by side compress to two thirds.
_BYTE_SPLIT_COLUMNS = ("scores.list.element", "stderr.list.element", "pairs.list.element.score")
_DICTIONARY_COLUMNS = (
    "id", "text_hash", "text", "label", "method", "target", "against", "features.list.element",
    "warnings.list.element", "settings", "error", "image", "bound_kind",
)  # fmt: skip
_DICTIONARY_BYTES = 1 << 26  # texts stand in the rows of every method, and are stored once
_RESERVED_NAMES = (*SHARD_COLUMNS, COUNTERFACTUAL, *INPUT)


def stored_names(
    columns: Sequence[str],
    *,
    reserved: Sequence[str] = _RESERVED_NAMES,
    key: Callable[[str], str] = str,
) -> list[str]:
    """Return the names under which columns of the data are carried along.

    None is ``taken`` and none occurs twice; two names are one if they have the same ``key``.
    """
    # A column of the data may be called "scores", too, or as another one is once renamed.
    stored, used = list[str](), set(reserved)
    for name in columns:
        while key(name) in used:
            name = f"data.{name}"
        used.add(key(name))
        stored.append(name)
    return stored


# The footer of a shard has two keys. The first holds the identity of the run, the number of the
# shard and its size. The second is the SHA-256 of the file, computed with zeros in its place. It
# covers the first, so a shard of another run, or one copied over another, does not pass.
_PLACE, _NO_PLACE = "limelight.shard", f"{0:064d} {0:018d} {0:018d}"
_DIGEST, _ZEROS = "limelight.sha256", b"0" * 64


def shard_bytes(table: pa.Table) -> bytes:
    """Write ``table`` as a Parquet file; the same rows always give the same bytes.

    The file has room for its run, its number and its digest, which :func:`stamp_shard` fills in.
    """
    table, buffer = table.replace_schema_metadata(None), io.BytesIO()  # an old digest among it
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        use_dictionary=list(_DICTIONARY_COLUMNS),
        use_byte_stream_split=list(_BYTE_SPLIT_COLUMNS),
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_page_checksum=True,  # for others who read it; ours know the digest
    ) as writer:
        # One group of rows: a shard is read whole, and its dictionaries are stored once.
        writer.write_table(table, row_group_size=max(len(table), 1))
        writer.add_key_value_metadata({_PLACE: _NO_PLACE, _DIGEST: _ZEROS.decode()})
    return buffer.getvalue()


def stamp_shard(content: bytes, identity: str, number: int) -> bytes:
    """Write the identity of the run, the number of the shard and the digest into a shard."""
    if not (place := _value_offset(content, _PLACE, len(_NO_PLACE))):
        raise ValueError("content must come from shard_bytes.")
    stamped = bytearray(content)
    stamp = f"{identity:0>64} {number:018d} {len(content):018d}"
    stamped[place : place + len(stamp)] = stamp.encode()
    place, digits = _digest(stamped)
    stamped[place : place + len(digits)] = digits
    return bytes(stamped)


def has_valid_digest(content: bytes) -> bool:
    """Return whether a shard matches the digest in it, or has none (written by other programs)."""
    place, digits = _digest(content)
    return content.startswith(digits, place)


def _value_offset(content: bytes | bytearray, key: str, length: int) -> int:
    """Find the offset of the value of a footer key; 0 if the key is missing."""
    # Thrift writes the type and the length of a string before it.
    prefix = key.encode() + bytes([0x18, length])
    position = content.rfind(prefix)  # the footer is at the end: no text comes after it
    return position + len(prefix) if position >= 0 else 0


def _digest(content: bytes | bytearray) -> tuple[int, bytes]:
    """Return the offset of a shard's digest and its correct digits; 0 and b"" without a digest."""
    if not (place := _value_offset(content, _DIGEST, len(_ZEROS))):
        return 0, b""
    view = memoryview(content)
    digest = hashlib.sha256(view[:place])
    # The digits cannot be part of what they are the digest of.
    digest.update(_ZEROS)
    digest.update(view[place + len(_ZEROS) :])
    return place, digest.hexdigest().encode()


_MAX_FOOTER = 1 << 28  # bytes; a footer grows with the columns of the data
_MAX_UNSTAMPED = 1 << 32  # bytes of a shard that does not say how large it is


def check_shard_file(file: BinaryIO, size: int) -> None:
    """Raise an error if the footer of a shard contains another size; only the footer is read.

    Raises
    ------
    pyarrow.ArrowInvalid
        If it is no Parquet file, or larger or smaller than it says.
    """
    if size < 12:
        raise pa.ArrowInvalid(f"it has {size} bytes")
    file.seek(size - 8)
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic != b"PAR1" or length > min(size - 12, _MAX_FOOTER):
        raise pa.ArrowInvalid("it does not end like a Parquet file")
    file.seek(size - 8 - length)
    footer = file.read(length)
    # Not by Arrow where it can be avoided: of a damaged footer it may end the whole process.
    if place := _value_offset(footer, _PLACE, len(_NO_PLACE)):
        digits = footer[place : place + len(_NO_PLACE)].rpartition(b" ")[2]
        stored = int(digits) if digits.isdigit() else 0
        if stored != size:
            raise pa.ArrowInvalid(f"it has {size:,} bytes, but its footer says {stored:,}")
    elif size > _MAX_UNSTAMPED:  # written by others
        raise pa.ArrowInvalid(f"it has {size:,} bytes, and its footer has no size")


def check_shard(content: bytes, record: RunRecord, number: int, identity: str | None) -> pa.Schema:
    """Raise an error if a shard is damaged, belongs to another run, or has impossible rows.

    Parameters
    ----------
    content
        The whole file.
    record, number
        The plan of the run, and the number of the shard.
    identity
        The identity that the shard must carry; None where it is not checked.

    Returns
    -------
    pyarrow.Schema
        The columns of the shard.

    Raises
    ------
    pyarrow.ArrowException
        If the shard is damaged, or belongs to another run or place.
    InputError
        If the plan is at fault.
    """
    if not has_valid_digest(content):
        raise pa.ArrowInvalid("its contents changed after it was written")
    metadata = pq.read_metadata(pa.BufferReader(content))
    stamp = (metadata.metadata or {}).get(_PLACE.encode())
    if stamp is not None:
        _check_stamp(stamp, number, identity)
    schema, texts = metadata.schema.to_arrow_schema(), record.text_numbers(number)
    _check_columns(schema, record)
    # Before the numbers of texts are compared: a plan may name more than memory holds.
    if metadata.num_rows != len(texts) * record.rows_per_text:
        raise pa.ArrowInvalid(f"it has {metadata.num_rows} rows")
    if stamp is None and identity is not None:
        raise pa.ArrowInvalid("it does not name its run")
    # Strings that repeat are checked once: this halves the time. The digest covers the pages.
    coded = [name for name in _DICTIONARY_COLUMNS if name.partition(".")[0] in _CHECKED_COLUMNS]
    with pq.ParquetFile(pa.BufferReader(content), metadata=metadata, read_dictionary=coded) as file:
        _check_rows(file.read(columns=_CHECKED_COLUMNS, use_threads=False), record, texts)
    return schema


def _check_stamp(stamp: bytes, number: int, identity: str | None) -> None:
    """Raise an error if a shard belongs to another run or has another number."""
    run, place, _ = f"{stamp.decode('ascii', 'replace')}  ".split(" ", 2)
    if identity not in (None, run):
        raise pa.ArrowInvalid("it belongs to another run")
    if place != f"{number:018d}":
        raise pa.ArrowInvalid(f"it is a copy of shard {place.lstrip('0') or '0'}")


def _check_columns(schema: pa.Schema, record: RunRecord) -> None:
    """Raise an error if the columns of a shard or their types differ from the plan."""
    columns = shard_columns(record)
    for name in columns:
        if name not in schema.names:
            raise pa.ArrowInvalid(f"it has no column {name!r}")
    if schema.names != [*columns, *stored_names(record.data.columns.carried)]:
        raise pa.ArrowInvalid("its columns differ from the columns of the run")
    for name, kind in columns.items():
        stored_kind = schema.field(name).type
        if stored_kind != kind and _plain_type(stored_kind) != _plain_type(kind):
            raise pa.ArrowInvalid(
                f"its column {name!r} must have the type {kind}, not {stored_kind}"
            )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without its memory layout, which other programs may choose differently."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_type(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct({field.name: _plain_type(field.type) for field in kind})
    return kind


# Columns used by SQL views and word tables; ``Explanation`` itself checks the others.
_CHECKED_COLUMNS = [
    "row", "id", "text_hash", "method", "target", "prediction", "features", "scores", "stderr",
    "starts", "ends", "parts", "settings", "warnings", "error",
]  # fmt: skip
_PER_FEATURE = ("features", "scores", "starts", "ends")


def _check_rows(table: pa.Table, record: RunRecord, texts: range) -> None:
    """Raise an error for rows of other texts or methods, and for lists of different lengths."""
    table = table.combine_chunks()
    per_text, methods = record.rows_per_text, [method.id for method in record.methods]
    numbers = np.asarray(table["row"].fill_null(-1))
    if not np.array_equal(numbers, np.repeat(np.arange(texts.start, texts.stop), per_text)):
        raise pa.ArrowInvalid(f"its texts are not {texts[0]} to {texts[-1]}")
    method_numbers = pc.index_in(table["method"], pa.array(methods)).fill_null(-1)
    if unknown_methods := sorted(
        set(table["method"].filter(pc.less(method_numbers, 0)).to_pylist()), key=str
    ):
        raise InputError(
            f"the run has explanations by {', '.join(map(str, unknown_methods))}, but its run.json "
            f"names {', '.join(methods)}. Restore the original run.json."
        )
    order = np.repeat(np.arange(len(methods)), record.targets_per_text)
    if not np.array_equal(np.asarray(method_numbers), np.tile(order, len(texts))):
        raise pa.ArrowInvalid("its rows are not in the order of the methods")
    explained = table
    if table["error"].null_count < len(table):  # else nothing is copied: that halves the time
        explained = table.filter(table["error"].is_null()).combine_chunks()
    if record.request.all_classes:
        targets = np.tile(record.model.classes, len(texts) * len(methods)).tolist()
        if table["target"].to_pylist() != targets:
            raise pa.ArrowInvalid("its rows are not in the order of the classes")
    if table["id"].null_count:
        raise pa.ArrowInvalid("a text has no 'id'")
    for name in ("text_hash", "target", "prediction", "settings", "warnings", *_PER_FEATURE):
        if explained[name].null_count:
            raise pa.ArrowInvalid(f"an explanation has no {name!r}")
    lengths = {name: pc.list_value_length(explained[name]) for name in _PER_FEATURE}
    for name in ("scores", "starts", "ends"):
        if not lengths[name].equals(lengths["features"]):
            raise pa.ArrowInvalid(f"an explanation has fewer or more {name} than features")
    errors = pc.list_value_length(explained["stderr"])
    if not pc.all(pc.equal(errors, lengths["features"]), min_count=0).as_py():  # nulls are skipped
        raise pa.ArrowInvalid("an explanation has fewer or more standard errors than features")
    outputs = pc.list_value_length(explained["prediction"])
    fits = pc.and_(pc.greater(outputs, 0), pc.less_equal(outputs, len(record.model.classes)))
    if not pc.all(fits, min_count=0).as_py():
        raise pa.ArrowInvalid("a prediction has no outputs, or more outputs than classes")
    for name in ("scores", "stderr", "prediction"):
        values = explained[name].combine_chunks().flatten()
        if values.null_count or not pc.all(pc.is_finite(values), min_count=0).as_py():
            raise pa.ArrowInvalid(f"its column {name!r} must contain finite numbers")
    for name in ("features", "warnings"):
        if explained[name].combine_chunks().flatten().null_count:
            raise pa.ArrowInvalid(f"its column {name!r} must contain texts")
    starts, ends = (explained[name].combine_chunks().flatten() for name in ("starts", "ends"))
    places = [values.flatten() for values in (starts, ends)]
    if starts.null_count or ends.null_count or any(values.null_count for values in places):
        raise pa.ArrowInvalid("an occurrence of a feature has no position")
    if not pc.list_value_length(starts).equals(pc.list_value_length(ends)):
        raise pa.ArrowInvalid("an occurrence of a feature has no start or no end")
    if not pc.all(pc.less_equal(*places), min_count=0).as_py():
        raise pa.ArrowInvalid("an occurrence of a feature ends before it begins")
    if record.data.columns.pair is not None:
        counts = pc.list_value_length(explained["parts"]).fill_null(0)
        if not pc.all(pc.equal(counts, 2), min_count=0).as_py():
            raise pa.ArrowInvalid("an explanation of a pair does not have two sides")


_LARGEST = float(np.finfo(np.float32).max)


def text_hash(text: str) -> str:
    """Return the first 128 bits of the SHA-256 of ``text``, in hexadecimal."""
    # Half of the digest: among 10^12 texts two share it by chance with a probability below 10^-14.
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def input_texts(texts: pa.Table) -> list[UserInput | None]:
    """Return the text, pair or conversation of each row; None if it has no usable text."""
    sides = (texts[name].to_pylist() for name in ("text", "pair"))
    return [
        text if text is None else _parse_input_cells(text, pair)
        for text, pair in zip(*sides, strict=True)
    ]


def _parse_input_cells(text: str, pair: str | None) -> UserInput:
    """Return the input of the cells of a row."""
    if pair is not None:
        return text, pair
    return Conversation.from_cell(text) if is_conversation_cell(text) else text


def shard_table(
    texts: pa.Table,
    kinds: Sequence[tuple[str, str | None]],
    outcomes: Sequence[Sequence[Outcome]],
    *,
    keep_texts: bool,
    counterfactuals: Sequence[Counterfactual | str | None] | None = None,
) -> pa.Table:
    """Build the table of a shard, with a row per text and kind: a method and a class.

    Parameters
    ----------
    texts
        The texts of the shard.
    kinds
        The method and the class of each row of a text.
    outcomes
        An explanation or an error message for every text and kind.
    keep_texts
        Whether the table contains the texts.
    counterfactuals
        The counterfactual of each text, or an error message; None if the run stores none.

    Returns
    -------
    The table. The columns of the data come last.
    """
    text_indices = pa.array([i for i in range(len(texts)) for _ in kinds], pa.int64())
    checked = [_check_range(outcome) for text_outcomes in outcomes for outcome in text_outcomes]
    explained = [None if isinstance(outcome, str) else outcome for outcome in checked]
    input_strings = [
        _map_optional(lambda outcome: join_pair(outcome)[0], outcome)
        for outcome in input_texts(texts)
    ]
    # The text of an explanation may differ from the input, for example be a name.
    stored_texts = [
        input_strings[i] if isinstance(outcome, str) else outcome.text
        for i, outcome in zip(text_indices.to_pylist(), chain.from_iterable(outcomes), strict=True)
    ]
    row_kinds = [kind for _ in outcomes for kind in kinds]
    columns: dict[str, Any] = {
        **{name: texts[name].take(text_indices) for name in ("row", "id", "label")},
        "text_hash": [_map_optional(text_hash, text) for text in stored_texts],
        "text": [text if keep_texts else None for text in stored_texts],
        "method": [method for method, _ in row_kinds],
        # A failed row names the requested class, so that each class has a row.
        "target": [
            target if e is None else e.target
            for (_, target), e in zip(row_kinds, explained, strict=True)
        ],
        "image": [
            _map_optional(lambda e: e.image_json(with_pixels=keep_texts), e) for e in explained
        ],
        "query": [
            None if e is None or e.query is None else _query_json(e.query, keep_texts=keep_texts)
            for e in explained
        ],
        "error": [outcome if isinstance(outcome, str) else None for outcome in checked],
        **_span_columns(explained),
    }
    for name, (kind, value) in _COLUMNS.items():
        if value is not None:
            columns[name] = [_map_optional(value, e) for e in explained]
        if isinstance(columns[name], list):
            columns[name] = pa.array(columns[name], kind)
    carried = {name: texts[name].take(text_indices) for name in texts.column_names[len(INPUT) :]}
    stored = {name: columns[name] for name in _COLUMNS}
    if counterfactuals is not None:
        rows = [_map_optional(_counterfactual_row, result) for result in counterfactuals]
        stored[COUNTERFACTUAL] = pa.array(rows, _COUNTERFACTUAL).take(text_indices)
    return pa.table(stored | carried)


def _query_json(query: Query, *, keep_texts: bool) -> str:
    """Return a query as JSON; the prompt and the question around an answer are texts."""
    if isinstance(query, AnswerQuery) and not keep_texts:
        query = replace(query, prompt="", question="")
    return json.dumps(query.to_dict())


def _counterfactual_row(result: Counterfactual | str) -> dict[str, Any]:
    """Return a counterfactual as a row, or a row with an error message."""
    if isinstance(result, str):
        return {"error": result}
    names = [field.name for field in _COUNTERFACTUAL if field.name != "error"]
    return {name: getattr(result, name) for name in names}


def explanation_from_row(row: Mapping[str, Any], record: RunRecord, *, text: str) -> Explanation:
    """Return the explanation of ``text`` that a ``row`` without an error stores."""
    # The plan stores the label and the sign of a method once for all rows.
    method = next(candidate for candidate in record.methods if candidate.id == row["method"])
    classes = tuple(record.model.classes)
    scores = row["scores"]
    spans = zip(row["starts"], row["ends"], strict=True)
    return Explanation(
        text=text,
        features=tuple(row["features"]),
        spans=tuple(tuple(zip(starts, ends, strict=True)) for starts, ends in spans),
        scores=np.array(scores, dtype=np.float64),
        stderr=_map_optional(_doubles, row["stderr"]),
        bound=row["bound"],
        bound_kind=row["bound_kind"] or "proven",
        certain_tops=_map_optional(
            lambda stored: decode_ranges(json.loads(stored), len(scores)), row["certain_tops"]
        ),
        method=method.id,
        label=method.label,
        signed=method.signed,
        target=row["target"],
        against=row["against"],
        classes=classes,
        link=record.model.link,
        scale=record.request.scale,
        # A single output is that of the last class.
        prediction=dict(zip(classes[-len(row["prediction"]) :], row["prediction"], strict=True)),
        base_value=row["base_value"],
        intercept=row["intercept"],
        pairs=_map_optional(_pairs_from_rows, row["pairs"]),
        anchor=_map_optional(_anchor_from_row, row["anchor"]),
        cut=row["cut"],
        parts=tuple(map(_part_from_row, row["parts"] or ())),
        query=_map_optional(lambda stored: parse_query(json.loads(stored)), row["query"]),
        **image_fields(row["image"]),
        warnings=tuple(row["warnings"]),
        settings=decode_value(json.loads(row["settings"])),
        diagnostics=decode_value(json.loads(row["diagnostics"] or "{}")),
        model=record.model.fingerprint,
        version=record.version,
    )


def _part_from_row(row: Mapping[str, Any]) -> Part:
    """Return a part of an input from its row."""
    return Part(row["id"], row["role"], tuple(row["span"]), tuple(row["content"]))


def _check_range(e: Outcome) -> Outcome:
    """Return the explanation, or an error message if its numbers do not fit into float32."""
    if isinstance(e, str):
        return e
    numbers = [*e.prediction.values(), e.base_value or 0.0, e.intercept or 0.0]
    arrays = [
        np.array(numbers),
        e.scores,
        e.stderr,
        _map_optional(lambda pairs: pairs.scores, e.pairs),
    ]
    largest = max(float(np.abs(array).max(initial=0)) for array in arrays if array is not None)
    # As float32 it would be infinite, and so would every sum over texts that it is part of.
    if largest > _LARGEST:
        return f"the number {largest:.3g} is too large for a run, which stores numbers as float32."
    return e


def _stored_bound(e: Explanation) -> float | None:
    """Return the bound of the stored scores, which includes the error of rounding them."""
    if e.bound is None or math.isinf(e.bound):
        return e.bound
    # Upwards, for the sum is rounded to float32 as well.
    rounded = np.abs(e.scores - e.scores.astype(np.float32)).max(initial=0.0)
    return float(np.nextafter(np.float32(e.bound + rounded), np.float32(np.inf)))


def _stored_diagnostics(e: Explanation) -> Mapping[str, Any]:
    """Return the diagnostics; the bound of the intercept includes its rounding error."""
    if e.intercept is None or "intercept_bound" not in e.diagnostics:
        return e.diagnostics
    rounded = abs(e.intercept - float(np.float32(e.intercept)))
    bound = math.nextafter(e.diagnostics["intercept_bound"] + rounded, math.inf)
    return {**e.diagnostics, "intercept_bound": bound}


def _top_ranges(sizes: Sequence[int]) -> str:
    """Return sizes of certain top sets as ranges in JSON."""
    return _COMPACT_JSON.encode(encode_ranges(sizes))


def _span_columns(explained: Sequence[Explanation | None]) -> dict[str, pa.Array]:
    """Return the starts and the ends of the spans of each feature as columns."""
    # Flat arrays: a list for each feature took a tenth of a run, most of it in garbage collection.
    spans_of_features = [spans for e in explained if e is not None for spans in e.spans]
    edges = np.fromiter(
        chain.from_iterable(chain.from_iterable(spans_of_features)), dtype=np.uint32
    ).reshape(-1, 2)
    span_offsets = pa.array(list(accumulate(map(len, spans_of_features), initial=0)), pa.int32())
    feature_counts = [0 if e is None else len(e.spans) for e in explained]
    # A null in place of an offset makes the row null.
    feature_offsets = pa.array(
        [
            None if e is None else offset
            for e, offset in zip(
                [*explained, ()], accumulate(feature_counts, initial=0), strict=True
            )
        ],
        pa.int32(),
    )
    columns = {}
    for name, side in (("starts", 0), ("ends", 1)):
        kind, _ = _COLUMNS[name]
        lists = pa.ListArray.from_arrays(
            span_offsets, pa.array(np.ascontiguousarray(edges[:, side])), type=kind.value_type
        )
        columns[name] = pa.ListArray.from_arrays(feature_offsets, lists, type=kind)
    return columns


def _pair_rows(pairs: Pairs) -> list[dict[str, Any]]:
    """Convert pairs to rows of a file."""
    stderr = [None] * len(pairs.scores) if pairs.stderr is None else pairs.stderr.tolist()
    rows = zip(pairs.features.tolist(), pairs.scores.tolist(), stderr, strict=True)
    return [{"first": i, "second": j, "score": s, "stderr": error} for (i, j), s, error in rows]


def _pairs_from_rows(rows: list[dict[str, Any]]) -> Pairs:
    """Convert rows of a file to pairs."""
    errors = [row["stderr"] for row in rows]
    features = np.array([(row["first"], row["second"]) for row in rows], dtype=np.int64)
    return Pairs(
        # Of no pairs, too: an empty list has no second axis.
        features=features.reshape(-1, 2),
        scores=_doubles([row["score"] for row in rows]),
        stderr=None if None in errors or not rows else _doubles(errors),
    )


def _anchor_row(anchor: Anchor) -> dict[str, Any]:
    """Convert an anchor to a row of a file."""
    low, high = anchor.precision_interval
    shares = {"precision": anchor.precision, "low": low, "high": high, "coverage": anchor.coverage}
    return {"features": list(anchor.features), "guarantee": anchor.guarantee, **shares}


def _anchor_from_row(row: dict[str, Any]) -> Anchor:
    """Convert a row of a file to an anchor."""
    return Anchor(
        features=tuple(row["features"]),
        precision=row["precision"],
        precision_interval=(row["low"], row["high"]),
        coverage=row["coverage"],
        guarantee=row.get("guarantee"),  # shards of earlier versions lack it
    )


# Sorted: the same settings are the same bytes, however they were made.
_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True)
_COMPACT_JSON = json.JSONEncoder(separators=(",", ":"))


def _encode_json(values: Mapping[str, Any]) -> str:
    """Encode values as JSON that is equal for equal values."""
    return _JSON.encode(encode_value(dict(values)))


def _doubles(values: Any) -> np.ndarray:
    """Convert values to an array of float64."""
    return np.array(values, dtype=np.float64)


def _floats(values: Any) -> np.ndarray:
    """Convert values to an array of float32."""
    return np.asarray(values, dtype=np.float32)  # of another type Arrow takes ten times as long


def _map_optional(function: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else function(value)
