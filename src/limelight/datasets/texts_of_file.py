"""The texts of a data file, with or without labels."""

__all__ = ["given_of_file", "texts_of_file"]

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from limelight.datasets.pair_columns import chosen_pair
from limelight.errors import InputError, MissingExtraError


def texts_of_file(
    path: Path, column: str = "text", *, limit: int | None = None, option: str = "--text-column"
) -> list[Any]:
    """Return one column of a .parquet, .csv or .jsonl file; ``limit`` rows, evenly spread.

    ``option`` is how the column can be named, for the sentence that says there is none.
    """
    if not path.exists():
        raise InputError(f"there is no data at '{path}'; check the path.")
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1; got {limit}.")
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if kind not in _READERS:
        raise InputError(f"cannot read '{path}': give a .parquet, .csv or .jsonl file.")
    try:
        texts = _READERS[kind](path, column)
    except KeyError as error:
        raise InputError(f"{error.args[0]} Name another by {option}.") from None
    if not texts:
        raise InputError(f"'{path}' has no rows.")
    if limit is None or limit >= len(texts):
        return texts
    return [texts[i] for i in np.linspace(0, len(texts) - 1, limit).round().astype(int)]


def given_of_file(
    path: Path, text: str | None, pair: str | None, *, limit: int | None = None
) -> list[Any]:
    """Return the texts of a file, or its pairs: two columns named or of usual names."""
    if pair is None and text is None and path.exists():
        text, pair = chosen_pair(_names(path), None, None)
    texts = texts_of_file(path, text or "text", limit=limit)
    if pair is None:
        return texts
    return list(
        zip(texts, texts_of_file(path, pair, limit=limit, option="--pair-column"), strict=True)
    )


def _names(path: Path) -> list[str]:
    """Return the columns of a file, as far as its beginning tells; none of an unknown kind."""
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    try:
        if kind == ".parquet":
            import pyarrow.parquet as pq

            return list(pq.read_schema(path).names)
        if kind == ".csv":
            return list(csv.DictReader(_content(path).splitlines(keepends=True)).fieldnames or ())
        if kind == ".jsonl":
            return list(json.loads(next(filter(str.strip, _content(path).splitlines()))))
    except Exception:  # whatever it is, the reading of the texts says it better
        return []
    return []


def _parquet(path: Path, column: str) -> list[Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("reading parquet files needs pyarrow", "data") from None
    with pq.ParquetFile(path) as file:
        _need(column, file.schema_arrow.names, path)
        return list(file.read(columns=[column]).column(column).to_pylist())


def _csv(path: Path, column: str) -> list[Any]:
    reader = csv.DictReader(_content(path).splitlines(keepends=True))
    _need(column, list(reader.fieldnames or ()), path)
    return [row[column] for row in reader]


def _jsonl(path: Path, column: str) -> list[Any]:
    try:
        rows = [json.loads(line) for line in _content(path).splitlines() if line.strip()]
    except ValueError as error:
        raise InputError(f"'{path}' must hold one JSON object per line ({error}).") from None
    for row in rows:
        _need(column, list(row) if isinstance(row, dict) else [], path)
    return [row[column] for row in rows]


def _content(path: Path) -> str:
    content = path.read_bytes()
    try:
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' must be UTF-8 text; byte {error.start} is not.") from None


def _need(column: str, names: list[str], path: Path) -> None:
    if column not in names:
        raise KeyError(
            f"'{path}' has no column {column!r}; it has {', '.join(map(repr, names)) or 'none'}."
        )


_READERS: dict[str, Callable[[Path, str], list[Any]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
}
