"""The texts of a data set, in order, as shards: read from its files and never kept."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, final

import pyarrow as pa

from limelight.errors import InputError
from limelight.explainers.method import setting_value
from limelight.runs.data_columns import chosen_columns, is_text
from limelight.runs.data_files import ENDINGS, DataFile, data_file, data_table
from limelight.runs.record import DataColumns, DataFileRecord, DataRecord
from limelight.runs.rows import stored_name
from limelight.runs.work import input_schema

_LONGEST_TEXT = 1 << 26  # bytes, as for a single text


@final
class DataSet:
    """Files with the columns to use. A row is a text; rows are numbered over all files."""

    def __init__(self, files: Sequence[DataFile], columns: DataColumns) -> None:
        self._files, self.columns = files, columns

    def record(self, *, texts_kept: bool, limit: int | None = None) -> DataRecord:
        """Return what identifies the data: every file is read once, for its digest and its rows.

        Of more than ``limit`` rows the first ones are taken.
        """
        limit = cast(int | None, setting_value("limit", int | None, limit))
        if limit is not None and limit < 1:
            raise InputError(f"limit must be at least 1; got {limit}.")
        files = [
            DataFileRecord(
                path=str(file.path),
                rows=file.count(),
                bytes=file.size(),
                sha256=file.digest(),
            )
            for file in self._files
        ]
        if not (rows := sum(file.rows for file in files)):
            raise InputError(f"'{files[0].path}' has no rows.")
        cut = limit if limit is not None and limit < rows else None
        return DataRecord(files=files, columns=self.columns, texts_kept=texts_kept, limit=cut)

    @property
    def carried(self) -> list[tuple[str, Any]]:
        """Columns carried along: the name in a shard, and the type."""
        types = self._files[0].columns
        return [(stored_name(name), _plain(types[name])) for name in self.columns.carried]

    def shards(self, record: DataRecord, size: int, wanted: Collection[int]) -> Iterator[pa.Table]:
        """Yield the ``wanted`` shards of ``size`` texts each, in order."""
        schema, parts, row = input_schema(self.carried), list[pa.Table](), 0
        for whole in self._batches(record):
            batch, done = whole.slice(0, record.rows - row), 0
            while done < len(batch):
                number, place = divmod(row, size)
                part = batch.slice(done, size - place)
                if number in wanted:
                    parts.append(self._table(part, row, schema))
                row, done = row + len(part), done + len(part)
                if parts and (row % size == 0 or row == record.rows):
                    yield pa.concat_tables(parts).combine_chunks()
                    parts = []
            if row == record.limit:
                return

    def _batches(self, record: DataRecord) -> Iterator[pa.RecordBatch]:
        """Yield raw rows; a file that has other rows than were counted has been changed."""
        for file, expected in zip(self._files, record.files, strict=True):
            if not file.there:
                raise InputError(
                    f"'{file.path}' has vanished while it was read; what is finished is kept. Put "
                    "it back and start the run again."
                )
            rows = 0
            for batch in file.batches(self.columns):
                rows += len(batch)
                yield batch
            if rows != expected.rows:
                raise InputError(
                    f"'{file.path}' was changed while it was read ({rows} rows, not "
                    f"{expected.rows}); what is finished is kept."
                )

    def _table(self, batch: pa.RecordBatch, first: int, schema: pa.Schema) -> pa.Table:
        columns, rows = self.columns, range(first, first + len(batch))
        texts, errors = _texts(batch.column(columns.text))
        seconds: list[str | None] = [None] * len(batch)
        if columns.pair is not None:
            seconds, others = _texts(batch.column(columns.pair))
            errors = [one or other for one, other in zip(errors, others, strict=True)]
        ids = [None] * len(batch) if columns.id is None else _strings(batch.column(columns.id))
        labels = None if columns.label is None else _strings(batch.column(columns.label))
        arrays = [
            pa.array(rows, pa.int64()),
            pa.array([str(row) if id is None else id for row, id in zip(rows, ids, strict=True)]),
            pa.array(texts, pa.large_string()),
            pa.nulls(len(batch), pa.string()) if labels is None else pa.array(labels, pa.string()),
            pa.array(errors, pa.string()),
            pa.array(seconds, pa.large_string()),
            *(_sound(batch.column(name)) for name in columns.carried),
        ]
        return pa.Table.from_arrays(
            [array.cast(kind) for array, kind in zip(arrays, schema.types, strict=True)],
            schema=schema,
        )


def _texts(column: pa.Array) -> tuple[list[str | None], list[str | None]]:
    """Return the texts, and for each one that cannot be used the sentence that says why."""
    pairs = [_text(cell) for cell in _bytes(column)]
    return [text for text, _ in pairs], [error for _, error in pairs]


def _text(cell: bytes | None) -> tuple[str | None, str | None]:
    if cell is None:
        return None, "there is no text in this row; it must be a string."
    if len(cell) > _LONGEST_TEXT:
        return (
            None,
            f"a text must have at most {_LONGEST_TEXT:,} bytes; this one has {len(cell):,}.",
        )
    try:
        return cell.decode(), None
    except UnicodeDecodeError as error:
        return None, f"a text must be UTF-8; byte {error.start} of this one is not."


def _strings(column: pa.Array) -> list[str | None]:
    """Return ids or labels as strings, a true one as 1."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if is_text(column.type):
        cells = _bytes(column)
        return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
    return [None if cell is None else str(cell) for cell in column.to_pylist()]


def _sound(column: pa.Array) -> pa.Array:
    """Return a column of the data; bytes that are not UTF-8 are replaced in those of text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    cells = _bytes(column)
    return pa.array([None if cell is None else cell.decode("utf-8", "replace") for cell in cells])


def _bytes(column: pa.Array) -> list[bytes | None]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.large_binary()).to_pylist()


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def opened_data(
    data: Any,
    *,
    text: str | None = None,
    id: str | None = None,
    label: str | None = None,
    pair: str | None = None,
) -> DataSet:
    """Return the data: a path, several, a folder of files in order of their names, or a table."""
    files = [data_table(_table(data))] if _is_table(data) else _files(data)
    if not files:
        raise InputError("no data were given; name a file or a folder.")
    return DataSet(files, chosen_columns(files, text=text, id=id, label=label, pair=pair))


def _is_table(data: Any) -> bool:
    return isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__")


def _table(data: Any) -> pa.Table:
    """Return columns by name, or what speaks Arrow (pandas, polars, datasets), as a table."""
    try:
        return pa.table(dict(data) if isinstance(data, Mapping) else data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"these data are not a table ({reason}).") from None


def _files(data: Any) -> Sequence[DataFile]:
    given = [data] if isinstance(data, str | os.PathLike) else data
    if not isinstance(given, list | tuple) or not all(
        isinstance(one, str | os.PathLike) for one in given
    ):
        raise InputError(
            "data are the path of a file or a folder, a list of paths, or a table; got "
            f"{type(data).__name__}. Texts in memory are written {{'text': […]}}."
        )
    return [data_file(path) for one in given for path in _files_at(Path(one))]


def _files_at(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    endings = (*ENDINGS, *(f"{ending}.gz" for ending in ENDINGS[1:]))
    found = sorted(one for one in path.iterdir() if one.is_file() and one.name.endswith(endings))
    if not found:
        raise InputError(f"'{path}' has no .parquet, .csv, .tsv or .jsonl file.")
    return found
