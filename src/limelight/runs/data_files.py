"""Data files, read a few rows at a time: Parquet, csv, tsv and lines of JSON."""

import contextlib
import csv
import gzip
import hashlib
import io
import itertools
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast, final

import pyarrow as pa
import pyarrow.parquet as pq

from limelight.errors import InputError
from limelight.files import is_device
from limelight.runs.record import DataColumns

ENDINGS = (".parquet", ".csv", ".tsv", ".jsonl")
_BATCH = 1000  # rows
_LONGEST = 1 << 28  # bytes of a line, characters of a cell
_SAMPLED = 1000  # lines of JSON that say which columns there are


class DataFile(ABC):
    """Rows of one file. Columns come as Arrow arrays; those of text as bytes, decoded or not."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def columns(self) -> dict[str, pa.DataType]:
        """The columns that there are, with their types."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def batches(self, columns: DataColumns) -> Iterator[pa.RecordBatch]:
        """Yield the columns in use of all rows, in order, a few rows at a time."""

    @property
    def there(self) -> bool:
        """Whether the data are where they were."""
        return self.path.exists()

    def size(self) -> int:
        """Return the number of bytes."""
        return self.path.stat().st_size

    def digest(self) -> str:
        """Return the SHA-256 of the contents."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@final
class _Table(DataFile):
    """Rows of an Arrow table in memory."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(Path("memory"))
        self._table = table

    @property
    def columns(self) -> dict[str, pa.DataType]:
        return dict(zip(self._table.column_names, self._table.schema.types, strict=True))

    @property
    def there(self) -> bool:
        return True

    def count(self) -> int:
        return len(self._table)

    def size(self) -> int:
        return int(self._table.nbytes)

    def digest(self) -> str:
        digest = hashlib.sha256(repr(self.columns).encode())
        for batch in self._table.to_batches(max_chunksize=_BATCH):
            digest.update(repr(batch.to_pylist()).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def batches(self, columns: DataColumns) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(columns.used).to_batches(max_chunksize=_BATCH)


@final
class _Parquet(DataFile):
    @cached_property
    def columns(self) -> dict[str, pa.DataType]:
        with self._opened() as file:
            schema = file.schema_arrow
            return dict(zip(schema.names, schema.types, strict=True))

    def count(self) -> int:
        with self._opened() as file:
            return int(file.metadata.num_rows)

    def batches(self, columns: DataColumns) -> Iterator[pa.RecordBatch]:
        with self._opened() as file:
            yield from file.iter_batches(batch_size=_BATCH, columns=columns.used)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            # A buffer: otherwise a whole row group, which may be the whole file, is read at once.
            with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
                yield file
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"'{self.path}' is not a whole parquet file ({reason}).") from None


class _Rows(DataFile):
    """A file whose rows are read in Python; its columns are strings, and the texts bytes."""

    @abstractmethod
    def rows(self, columns: DataColumns) -> Iterator[Sequence[bytes | str | None]]:
        """Yield the cells of every row; the text as it is in the file, UTF-8 or not."""

    def batches(self, columns: DataColumns) -> Iterator[pa.RecordBatch]:
        rows = self.rows(columns)
        while part := list(itertools.islice(rows, _BATCH)):
            cells = zip(columns.used, zip(*part, strict=True), strict=True)
            arrays = {
                name: pa.array(column, pa.large_binary() if name in columns.texts else pa.string())
                for name, column in cells
            }
            yield pa.record_batch(arrays)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        packed = self.path.suffix == ".gz"
        try:
            with gzip.open(self.path) if packed else self.path.open("rb") as file:
                yield cast(BinaryIO, file)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise InputError(f"'{self.path}' is not a whole gzip file.") from None


@final
class _Separated(_Rows):
    def __init__(self, path: Path, delimiter: str) -> None:
        super().__init__(path)
        self._delimiter = delimiter

    @cached_property
    def columns(self) -> dict[str, pa.DataType]:
        with contextlib.closing(self._records()) as records:
            names = next(records, [])
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"'{self.path}' has two columns {twice!r}; rename one of them.")
        return dict.fromkeys(names, pa.string())

    def count(self) -> int:
        with contextlib.closing(self._records()) as records:
            return max(sum(1 for _ in records) - 1, 0)

    def rows(self, columns: DataColumns) -> Iterator[Sequence[bytes | str | None]]:
        places = [list(self.columns).index(name) for name in columns.used]
        with contextlib.closing(self._records()) as records:
            next(records, None)
            for cells in records:
                there = [cells[i] if i < len(cells) else None for i in places]
                yield _text_in_bytes(there, len(columns.texts))

    def _records(self) -> Generator[list[str], None, None]:
        """Yield the rows that are not blank, the names of the columns first."""
        limit = csv.field_size_limit(_LONGEST)
        try:
            with self._opened() as file:
                # Bytes that are not UTF-8 are escaped here, and refused text by text later.
                text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
                yield from filter(None, csv.reader(text, delimiter=self._delimiter))
        except csv.Error as error:
            raise InputError(f"'{self.path}' is not a csv file ({error}).") from None
        finally:
            csv.field_size_limit(limit)


@final
class _JsonLines(_Rows):
    @cached_property
    def columns(self) -> dict[str, pa.DataType]:
        found: dict[str, pa.DataType] = {}
        with contextlib.closing(self._lines()) as lines:
            for line in itertools.islice(lines, _SAMPLED):
                found |= dict.fromkeys(_object(line), pa.string())
        return found

    def count(self) -> int:
        with contextlib.closing(self._lines()) as lines:
            return sum(1 for _ in lines)

    def rows(self, columns: DataColumns) -> Iterator[Sequence[bytes | str | None]]:
        with contextlib.closing(self._lines()) as lines:
            for line in lines:
                row = _object(line)
                for name in columns.texts:
                    if not isinstance(row.get(name), str):  # a list of words is not a text
                        row.pop(name, None)
                cells = [_cell(row.get(name)) for name in columns.used]
                yield _text_in_bytes(cells, len(columns.texts))

    def _lines(self) -> Generator[bytes, None, None]:
        with self._opened() as file:
            number = 0
            while line := file.readline(_LONGEST + 1):
                number += 1
                if len(line) > _LONGEST:
                    raise InputError(
                        f"line {number} of '{self.path}' must have at most {_LONGEST:,} bytes."
                    )
                if line.strip():
                    yield line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line; what is not one has no columns, so its text is missing."""
    try:
        found = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _cell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _text_in_bytes(cells: Sequence[str | None], texts: int) -> Sequence[bytes | str | None]:
    """Return the texts, which come first, as the bytes that were read, and the rest sound."""
    found = [None if cell is None else _encoded(cell) for cell in cells]
    rest = (None if one is None else one.decode("utf-8", "replace") for one in found[texts:])
    return [*found[:texts], *rest]


def _encoded(text: str) -> bytes:
    """Return the bytes that were read; half a character becomes bytes that are not UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def data_table(table: pa.Table) -> DataFile:
    """Return a table in memory as if it were a file."""
    return _Table(table)


def data_file(path: Path) -> DataFile:
    """Return the file at ``path``, by the ending of its name."""
    if not path.exists():
        raise InputError(f"there is no data at '{path}'; check the path.")
    if path.is_dir() or is_device(path):
        raise InputError(f"'{path}' must be a file; it is a folder, a device or a pipe.")
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    match ending:
        case ".parquet" if path.suffix != ".gz":
            return _Parquet(path)
        case ".csv" | ".tsv":
            return _Separated(path, "," if ending == ".csv" else "\t")
        case ".jsonl":
            return _JsonLines(path)
    raise InputError(
        f"cannot read '{path}': data are .parquet, .csv, .tsv or .jsonl files, the last three also "
        "packed as .gz."
    )
