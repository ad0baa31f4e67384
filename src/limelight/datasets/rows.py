"""Rows of a data file: the cells of some columns, one file format per function."""

__all__ = ["Columns", "Row", "csv_rows", "jsonl_rows", "parquet_rows"]

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from limelight.errors import InputError, MissingExtraError
from limelight.files import bounded_bytes, bounded_json, read_at_most

Row = tuple[Any, ...]
# From the columns that a file has to those that are wanted of it.
Columns = Callable[[Sequence[str]], Sequence[str]]
_MOST_BYTES = 1 << 33  # read at once, packed or not
_LONGEST_CELL = 1 << 30  # characters; the csv module's own limit is shorter than some documents


def parquet_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Yield the wanted cells of every row, a batch in memory at a time."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("reading parquet files needs pyarrow", "data") from None
    try:
        with pq.ParquetFile(path) as file:
            wanted = _required(columns, file.schema_arrow.names, path)
            for batch in file.iter_batches(batch_size=2048, columns=wanted):
                cells = (batch.column(name).to_pylist() for name in wanted)
                yield from zip(*cells, strict=True)
    except UnicodeDecodeError:
        raise InputError(f"'{path}' holds text that is not UTF-8. Convert it first.") from None
    except pa.ArrowException as error:
        raise InputError(f"'{path}' is not a whole parquet file ({error}).") from None


def csv_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Yield the wanted cells of every row; the first line names the columns."""
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        reader = csv.DictReader(io.StringIO(_decoded(path), newline=""))
        wanted = _required(columns, reader.fieldnames or (), path)
        for row in reader:
            yield tuple(row[name] for name in wanted)
    except csv.Error as error:
        raise InputError(f"'{path}' is not a csv file ({error}).") from None
    finally:
        csv.field_size_limit(limit)


def jsonl_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Yield the wanted cells of every line, each a JSON object."""
    for number, line in enumerate(io.StringIO(_decoded(path)), start=1):
        try:
            row = bounded_json(line, "the row")
        except InputError:
            row = None
        if not isinstance(row, dict):
            raise InputError(f"row {number} of '{path}' is not a JSON object.")
        wanted = _required(columns, row, path, f"row {number} of ")
        yield tuple(row[name] for name in wanted)


def _required(columns: Columns, names: Iterable[str], path: Path, where: str = "") -> list[str]:
    names = list(names)
    wanted = list(columns(names))
    missing = [repr(name) for name in wanted if name not in names]
    if missing:
        noun = "columns" if len(missing) > 1 else "column"
        found = ", ".join(map(repr, names)) or "none"
        raise InputError(
            f"{where}'{path}' lacks the {noun} {' and '.join(missing)}; it has {found}."
        )
    return wanted


def _decoded(path: Path) -> str:
    content = bounded_bytes(path, _MOST_BYTES)
    if path.suffix == ".gz":
        try:
            with gzip.open(io.BytesIO(content)) as file:
                content = read_at_most(file, _MOST_BYTES, f"'{path}', unpacked,")
        except (OSError, EOFError, zlib.error):
            raise InputError(f"'{path}' is not a whole gzip file.") from None
    if not content.strip():
        raise InputError(f"'{path}' has no rows.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"'{path}' must be UTF-8 text; byte {error.start} is not. Convert it first."
        ) from None
