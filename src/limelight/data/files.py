"""Data files and tables in memory, read a few rows at a time. Only Arrow's kinds need pyarrow."""

import csv
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from limelight.errors import InputError, MissingExtraError, read_all
from limelight.files import is_device
from limelight.text.characters import LONE_SURROGATE
from limelight.threads import cached_property

_ENDINGS = (".parquet", ".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz")
_BATCH = 1000  # rows
_MAX_CHARACTERS = 1 << 28  # characters of a line or of a cell
_SAMPLE_LINES = 1000  # lines of JSON that say which columns there are
_TEXT_TYPE = re.compile(r"(dictionary<values=)?(large_)?(string|binary)(_view)?(,|$)")
_LIST_TYPE = re.compile(r"(large_|fixed_size_)?list(_view)?<")
_IMAGE_TYPE = re.compile(r"struct<(path: (large_)?string, )?bytes: (large_)?binary\b")
# Columns as lists of Python values, and stored columns as Arrow arrays.
Batch = tuple[list[list[Any]], list[Any]]
_Row = dict[str, Any]


def is_text(kind: str) -> bool:
    """Return whether a column of this type may hold texts: strings, or bytes that may be UTF-8.

    Or images, which come as strings too.
    """
    return (_TEXT_TYPE.match(kind) or _IMAGE_TYPE.match(kind)) is not None


def is_list(kind: str) -> bool:
    """Return whether a column of this type contains lists."""
    return _LIST_TYPE.match(kind) is not None


def replace_invalid_utf8(text: str) -> str:
    """Replace lone surrogates, which stand for bytes that are not UTF-8, by U+FFFD."""
    if text.isascii() or not LONE_SURROGATE.search(text):
        return text
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character that JSON has spelled
        raw = text.encode("utf-8", "surrogatepass")
    return raw.decode("utf-8", "replace")


def read_text_file(path: Path) -> str:
    """Read a file that contains one text."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' must be UTF-8, but its byte {error.start} is not.") from None


class Source(ABC):
    """Rows of one file, or of a table in memory.

    Bytes that are not UTF-8 come as lone surrogates: whoever uses such a text refuses it, and the
    other rows are not touched by it. ``format_cell`` writes an id or a label that is not a string.
    """

    format_cell: Callable[[Any], str] = staticmethod(str)

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def columns(self) -> dict[str, str]:
        """The columns, with the names of their Arrow types."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def batches(self, names: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield all rows in order: the cells of ``names``, and ``carried`` columns as arrays."""

    def size(self) -> int:
        """Return the number of bytes."""
        return self.path.stat().st_size

    def digest(self) -> str:
        """Return the SHA-256 of the contents."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def strings(self, cells: Iterable[Any]) -> list[str | None]:
        """Return ids, labels or a carried column of text as strings that can be stored."""
        return [
            cell
            if cell is None
            else replace_invalid_utf8(cell if isinstance(cell, str) else self.format_cell(cell))
            for cell in cells
        ]


class _Arrow(Source):
    """Rows that Arrow reads: columns have types, and stored columns keep them."""

    format_cell = staticmethod(lambda cell: str(int(cell) if isinstance(cell, bool) else cell))
    schema: Any

    @abstractmethod
    def read(self, names: list[str]) -> Iterator[Any]:
        """Yield the columns as record batches."""

    @cached_property
    def columns(self) -> dict[str, str]:
        """The columns, with the names of their Arrow types."""
        if (duplicate := find_duplicate(self.schema.names)) is not None:
            raise InputError(f"'{self.path}' has two columns {duplicate!r}. Rename one of them.")
        return {field.name: str(field.type) for field in self.schema}

    def batches(self, names: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield all rows in order as cells of ``names`` and arrays of ``carried`` columns."""
        # Each once: Arrow may refuse a column that is asked for twice, as one that is text and id.
        for batch in self.read(list(dict.fromkeys([*names, *carried]))):
            cells = [_column_cells(_decode_dictionary(batch.column(name))) for name in names]
            yield (
                cells,
                [self._carried_array(_decode_dictionary(batch.column(name))) for name in carried],
            )

    def _carried_array(self, column: Any) -> Any:
        """Return a carried column as an array that can be stored; strings become valid UTF-8."""
        if str(column.type) not in ("string", "large_string"):
            return column
        return _import_pyarrow().array(self.strings(_column_cells(column)), column.type)


class _ArrowTable(_Arrow):
    """Rows of a table in memory."""

    def __init__(self, table: Any) -> None:
        super().__init__(Path("memory"))
        self._table, self.schema = table, table.schema

    def count(self) -> int:
        """Return the number of rows."""
        return len(self._table)

    def size(self) -> int:
        """Return the number of bytes in memory."""
        return int(self._table.nbytes)

    def digest(self) -> str:
        """Return the SHA-256 of the values."""
        # Of values, not of Arrow's buffers, which differ where the same table was cut or joined.
        types = dict(zip(self.schema.names, self.schema.types, strict=True))
        digest = hashlib.sha256(repr(types).encode())
        for batch in self._table.to_batches(max_chunksize=_BATCH):
            digest.update(repr(batch.to_pylist()).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def read(self, names: list[str]) -> Iterator[Any]:
        """Yield the columns as record batches."""
        yield from self._table.select(names).to_batches(max_chunksize=_BATCH)


class _Parquet(_Arrow):
    @cached_property
    def schema(self) -> Any:
        """The Arrow schema of the file."""
        with self._open_file() as file:
            return file.schema_arrow

    def count(self) -> int:
        """Return the number of rows."""
        with self._open_file() as file:
            return int(file.metadata.num_rows)

    def read(self, names: list[str]) -> Iterator[Any]:
        """Yield the columns as record batches."""
        with self._open_file() as file:
            yield from file.iter_batches(batch_size=_BATCH, columns=names)

    @contextmanager
    def _open_file(self) -> Iterator[Any]:
        """Open the Parquet file for a block; raise `InputError` if it is damaged."""
        pa = _import_pyarrow("reading parquet files")
        import pyarrow.parquet as pq

        try:
            # A buffer: otherwise a whole row group, which may be the whole file, is read at once.
            with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of Arrow
                raise
            reason = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"'{self.path}' is not a complete Parquet file ({reason}).") from None


def _import_pyarrow(purpose: str = "a table in memory") -> Any:
    """Import PyArrow, or raise an error that names the extra to install."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(f"{purpose} needs pyarrow", "data") from None
    return pyarrow


def _decode_dictionary(column: Any) -> Any:
    """Return a dictionary-encoded column as plain values, and other columns unchanged."""
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def _column_cells(column: Any) -> list[Any]:
    """Convert an Arrow column to a list; images and bytes become strings."""
    if _IMAGE_TYPE.match(str(column.type)):
        from limelight.data.images import encode_cell

        return [encode_cell(cell) for cell in column.to_pylist()]
    if not is_text(str(column.type)):
        return list(column.to_pylist())
    try:
        return list(column.cast("large_string").to_pylist())
    except ValueError:  # Arrow's and Python's way to say that bytes are not UTF-8
        from limelight.data.images import decode_cell

        return [decode_cell(cell) for cell in column.cast("large_binary").to_pylist()]


class _Lines(Source):
    """A file of lines, packed or not, whose columns are strings."""

    format_cell = staticmethod(json.dumps)

    def __init__(
        self, path: Path, parse: Callable[[Iterator[str]], Iterator[_Row]], newline: str
    ) -> None:
        super().__init__(path)
        self._parse_cell, self._newline = parse, newline

    @cached_property
    def columns(self) -> dict[str, str]:
        """The columns, all of them strings; for JSON those of the first lines."""
        with closing(self._rows()) as rows:
            sample = list(itertools.islice(rows, 1 + _SAMPLE_LINES))
        if not any(sample):
            problem = "must have one JSON object per line" if len(sample) > 1 else "has no rows"
            raise InputError(f"'{self.path}' {problem}.")
        return {name: "string" for row in sample for name in row}

    def count(self) -> int:
        """Return the number of rows."""
        with closing(self._rows()) as rows:
            return sum(1 for _ in rows) - 1

    def batches(self, names: Sequence[str], carried: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield all rows in order as cells of ``names`` and arrays of ``carried`` columns."""
        with closing(self._rows()) as rows:
            next(rows)
            while part := list(itertools.islice(rows, _BATCH)):
                cells, carried_columns = (
                    [[row.get(name) for row in part] for name in group]
                    for group in (names, carried)
                )
                yield (
                    cells,
                    [
                        _import_pyarrow().array(self.strings(column), "string")
                        for column in carried_columns
                    ],
                )

    def _rows(self) -> Generator[_Row, None, None]:
        """Yield a row that names the columns, then the rows of the file."""
        try:
            with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as raw:
                file: Any = raw
                text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", self._newline)
                yield from self._parse_cell(self._lines(text))
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise InputError(f"'{self.path}' is not a complete gzip file.") from None
        except csv.Error as error:
            raise InputError(f"'{self.path}' cannot be read: {error}.") from None

    def _lines(self, text: io.TextIOBase) -> Iterator[str]:
        """Yield the lines of a file; raise `InputError` for a line that is too long."""
        # Not the file's own iterator, which would take in a line without an end whole.
        lines = iter(partial(text.readline, _MAX_CHARACTERS + 1), "")
        for number, line in enumerate(lines, start=1):
            if len(line) > _MAX_CHARACTERS:  # some have no end
                raise InputError(
                    f"line {number} of '{self.path}' must have at most {_MAX_CHARACTERS:,} "
                    "characters."
                )
            yield line


def find_duplicate(names: Sequence[str]) -> str | None:
    """Return the first name that occurs twice, or None."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _parse_separated(
    lines: Iterator[str], read_records: Callable[[Iterator[str]], Iterator[tuple[int, list[str]]]]
) -> Iterator[_Row]:
    """Parse separated values: yield a row with the names of the columns, then all data rows.

    Blank rows are skipped. A row may have fewer cells than columns, but not more.

    Parameters
    ----------
    lines
        The lines of the file.
    read_records
        Splits the lines into records. It yields the number of the first line and the cells.
    """
    # The limit is the module's own, for the whole program: it is put back.
    limit = csv.field_size_limit(_MAX_CHARACTERS)  # the module's own is shorter than some documents
    try:
        rows = ((line, cells) for line, cells in read_records(lines) if cells)
        _, names = next(rows, (1, []))
        if (duplicate := find_duplicate(names)) is not None:
            raise csv.Error(f"it has two columns {duplicate!r}. Rename one of them")
        yield dict.fromkeys(names)
        for line, cells in rows:
            if any(cells[len(names) :]):
                raise csv.Error(
                    f"the row that begins in line {line} has {len(cells)} cells for {len(names)} "
                    "columns. Put quotes around cells that contain a separator"
                )
            yield dict(zip(names, cells, strict=False))
    finally:
        csv.field_size_limit(limit)


def _read_record(reader: Any, line: int) -> list[str] | None:
    """Read the cells of the record that begins in this line; None at the end."""
    try:
        cells: list[str] | None = next(reader, None)
        return cells
    except csv.Error as error:
        raise csv.Error(
            f"the row that begins in line {line} has an unclosed quote, or text after a closing "
            f"quote ({error}). Write each quote inside a quoted cell twice"
        ) from None


def _read_quoted_records(
    lines: Iterator[str], delimiter: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line in which each record begins, and its cells, which may be quoted."""
    reader, line = csv.reader(lines, delimiter=delimiter, strict=True), 1
    while (cells := _read_record(reader, line)) is not None:
        yield line, cells
        line = reader.line_num + 1


_WHOLLY_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def _read_tabbed_records(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line in which each record begins, and its cells.

    Quotes are part of a text here, unless a writer of csv put them there: all cells are quoted,
    those of the header too, or a quoted cell has its quotes doubled, or it contains a tab or a line
    break, so that the line has not as many cells as there are columns.
    """
    number, header = 0, [""]
    while header == [""]:  # blank lines come before the names of some files
        if (line := next(lines, None)) is None:
            return
        number, header = number + 1, line.rstrip("\r\n").split("\t")
    if all(map(_WHOLLY_QUOTED.fullmatch, header)):
        yield from _read_quoted_records(itertools.chain(["\t".join(header) + "\n"], lines), "\t")
        return
    yield number, header
    for line in lines:
        number, first_line = number + 1, number + 1
        cells = line.rstrip("\r\n").split("\t")
        if len(cells) != len(header) and any(cell.startswith('"') for cell in cells):
            reader = csv.reader(itertools.chain([line], lines), delimiter="\t", strict=True)
            cells = _read_record(reader, first_line) or []
            number += reader.line_num - 1
        else:
            is_quoted = (_WHOLLY_QUOTED.fullmatch(cell) and '""' in cell[1:-1] for cell in cells)
            cells = [
                cell[1:-1].replace('""', '"') if quoted else cell
                for cell, quoted in zip(cells, is_quoted, strict=True)
            ]
        yield first_line, cells if line.strip("\r\n") else []


def _parse_json_lines(lines: Iterator[str]) -> Iterator[_Row]:
    """Yield an empty row, then the object of each line; a line without one gives no cells."""
    yield {}
    for line in filter(str.strip, lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        yield value if isinstance(value, dict) else {}


def is_table(data: Any) -> bool:
    """Return whether ``data`` are columns by name: a mapping, a frame, an Arrow table, a Dataset.

    A single column, such as a series, speaks Arrow too; it is a list of texts.
    """
    streams = hasattr(data, "__arrow_c_stream__") and _list_method(data) is None
    return isinstance(data, Mapping) or streams or _is_dataset(data)


def open_sources(data: Any) -> list[Source]:
    """Open a path, a list of paths, a folder of files, a table, or a list of texts."""
    if isinstance(data, Source):
        return [data]
    if is_table(data):
        return [_ArrowTable(_make_table(data))]
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data))
    entries = list(data) if isinstance(data, list | tuple) else (_list_method(data) or list)()
    existing = {i for i, element in enumerate(entries) if _is_existing_path(element)}
    other_entries = [
        element
        for i, element in enumerate(entries)
        if i not in existing and not _is_file_name(element)
    ]
    if existing and other_entries:  # a mistyped path among others is no text
        raise InputError(
            f"{other_entries[0]!r} is not a file, but {os.fspath(entries[min(existing)])!r} is. "
            "Check the path, or write {'text': […]} if these are texts."
        )
    if entries and not other_entries:
        return [source for element in entries for source in _open_path(Path(element))]
    if entries and all(isinstance(element, str) for element in entries):
        return open_sources({"text": entries})
    if entries and all(isinstance(element, tuple) and len(element) == 2 for element in entries):
        return open_sources(dict(zip(("text1", "text2"), zip(*entries, strict=True), strict=True)))
    if isinstance(data, list | tuple) and not data:
        raise InputError("the data are empty. Give a file, a folder, a table or a list of texts.")
    types = ", ".join(sorted({type(element).__name__ for element in entries}))
    kind = f"{type(data).__name__} of {types}" if types else type(data).__name__
    raise InputError(
        f"data must be a path, a list of paths, a table or a list of texts, not {kind}. Write "
        "texts in memory as {'text': […]}."
    )


def _list_method(data: Any) -> Callable[[], list[Any]] | None:
    """Return the method that converts a column to a list; None if it has no such method."""
    return getattr(data, "tolist", None) or getattr(data, "to_list", None)


def _is_file_name(element: Any) -> bool:
    """Return whether an element of a list must be the name of a file, which may not exist."""
    return (
        element.endswith(_ENDINGS) if isinstance(element, str) else isinstance(element, os.PathLike)
    )


def _is_existing_path(element: Any) -> bool:
    """Return whether an element of a list is the path of an existing file or folder."""
    try:
        return isinstance(element, str | os.PathLike) and bool(element) and Path(element).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


def _is_dataset(data: Any) -> bool:
    """Return whether ``data`` is a data set of Hugging Face."""
    # By name: to import the library takes seconds, and who has a Dataset has it already.
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "with_format")


def _make_table(data: Any) -> Any:
    """Convert a mapping, a frame or a Dataset to an Arrow table."""
    pa = _import_pyarrow()
    if isinstance(data, Mapping):
        data = {
            name: read_all(values, f"the column {name!r}")
            if isinstance(values, Iterator)
            else values
            for name, values in data.items()
        }
    try:
        if _is_dataset(data):
            return data.with_format("arrow")[:]  # with its selections, unlike the table beneath
        if hasattr(data, "to_arrow"):  # of polars, whose stream has types that Parquet lacks
            return data.to_arrow()
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, LookupError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"the data cannot be read as a table ({reason}).") from None


def data_files(folder: Path) -> list[Path]:
    """Return the data files of a folder, in the order of their names."""
    return sorted(
        file for file in folder.iterdir() if file.is_file() and file.name.endswith(_ENDINGS)
    )


def _open_path(path: Path) -> list[Source]:
    """Open a file, or all data files or images of a folder."""
    if not path.is_dir():
        return [_open_source(path)]
    if not (files := data_files(path)):
        from limelight.data.images import find_images

        if (images := find_images(path)) is not None:
            return [images]
        raise InputError(f"'{path}' has no .parquet, .csv, .tsv or .jsonl file, and no images.")
    return [_open_source(file) for file in files]


def _open_source(path: Path) -> Source:
    """Open the file at ``path`` by its extension."""
    if not path.exists():
        raise InputError(f"there is no data at '{path}'. Check the path.")
    if is_device(path):  # a pipe that nobody writes to would be waited for, /dev/zero never ends
        raise InputError(f"'{path}' must be a file, not a folder, a device or a pipe.")
    ending = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    match ending:
        case ".parquet" if path.suffix != ".gz":
            return _Parquet(path)
        case ".csv" | ".tsv":
            records = _read_quoted_records if ending == ".csv" else _read_tabbed_records
            return _Lines(path, partial(_parse_separated, read_records=records), newline="")
        case ".jsonl":
            return _Lines(path, _parse_json_lines, newline="\n")
        case ".npz":
            from limelight.data.images import read_image_arrays

            return read_image_arrays(path)
    raise InputError(
        f"cannot read '{path}'. Use .parquet, .csv, .tsv or .jsonl (the last three may end in "
        ".gz), or for images a folder or an .npz file."
    )
