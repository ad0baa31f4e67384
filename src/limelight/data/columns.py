"""A data set: files or a table, which column is what, and its rows."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from limelight.data.files import Batch, Source, is_text, sources_of
from limelight.data.labels import Labels, label_classes
from limelight.errors import InputError, check_count
from limelight.results.values import Record
from limelight.text import Given
from limelight.text.characters import LONE_SURROGATE

# Usual names, best first.
_TEXT = ("text", "sentence", "review", "content", "document", "comment", "body", "message", "tweet",
         "image", "img", "picture")  # fmt: skip
_ID = ("id", "uid", "uuid", "guid", "key", "index", "idx")
_LABEL = ("label", "labels", "class", "sentiment", "category")
_PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"), ("text1", "text2"), ("text_a", "text_b"),
    ("question1", "question2"), ("question", "passage"), ("question", "sentence"),
    ("query", "document"), ("query", "passage"),
)  # fmt: skip
# What a worker gets of every text: its number, and why it cannot be used, among others.
INPUT = {
    "row": "int64", "id": "string", "text": "large_string", "label": "string", "error": "string",
    "pair": "large_string", "at": "string",
}  # fmt: skip
_LONGEST_TEXT = 1 << 26  # bytes, as for a single text
_MOST_TEXT = 1 << 33  # characters in memory at once


class DataFileRecord(Record, frozen=True, kw_only=True):
    """A data file: where it was, and the digest of its bytes, which is what it is known by."""

    path: str
    rows: int
    bytes: int
    sha256: str


class DataColumns(Record, frozen=True, kw_only=True):
    """Columns of the data; ``carried`` ones are stored as they are.

    Where a text is a pair, ``pair`` is the column of its second side; ``at`` is that of the place
    that each text is asked about, for models that find spans.
    """

    text: str
    id: str | None
    label: str | None
    carried: list[str]
    pair: str | None = None
    at: str | None = None

    @property
    def texts(self) -> list[str]:
        """The column of the texts, and that of their second sides if there is one."""
        return [self.text] if self.pair is None else [self.text, self.pair]

    @property
    def named(self) -> list[str]:
        """Those that have a meaning, each once."""
        chosen = (*self.texts, self.id, self.label, self.at)
        return list(dict.fromkeys(name for name in chosen if name is not None))


class DataRecord(Record, frozen=True, kw_only=True):
    """The data files, in order; with a ``limit``, only so many rows from the first on."""

    files: list[DataFileRecord]
    columns: DataColumns
    texts_kept: bool
    limit: int | None = None
    labels: dict[str, str] | None = None  # classes of labels, where somebody said which is which

    @property
    def rows(self) -> int:
        """The number of texts."""
        return sum(file.rows for file in self.files) if self.limit is None else self.limit


def _by_lower_name(names: Iterable[str]) -> dict[str, str]:
    """Return the first of the columns whose names differ in case alone, by that name."""
    return {name.lower(): name for name in reversed(list(names))}


def _first(usual: Sequence[str], there: Mapping[str, str]) -> str | None:
    return next((there[name] for name in usual if name in there), None)


_NO_NAME = re.compile(f"{LONE_SURROGATE.pattern}|\0")  # UTF-16 has a NUL beside every letter
_NAMED = (
    "text_column, pair_column, id_column, label_column, at_column or answer_column "
    "(--text-column …)"
)


def check_column(files: Iterable[Source], name: str, option: str = _NAMED) -> None:
    """Refuse files that lack a column; ``option`` is how another could be named."""
    for file in files:
        if name not in file.columns:
            if any(map(_NO_NAME.search, file.columns)):
                raise InputError(_header_sentence(file))
            known = ", ".join(map(repr, file.columns))
            raise InputError(
                f"'{file.path}' has no column {name!r}; it has {known}. "
                f"Name the one that is meant: {option}."
            )


def _header_sentence(file: Source) -> str:
    return f"'{file.path}' must be UTF-8 text; its header is not. Convert it first."


def fault(text: Any, noun: str = "text") -> str | None:
    """Return the sentence that says why a text cannot be used; None where it can."""
    if not isinstance(text, str):
        return f"there is no {noun} in this row; it must be a string."
    # What most texts are, and then each character is a byte.
    if text.isascii():
        size, wrong = len(text), None
    else:
        size = len(text.encode("utf-8", "surrogatepass"))
        wrong = LONE_SURROGATE.search(text)
    if size > _LONGEST_TEXT:
        return f"a {noun} must have at most {_LONGEST_TEXT:,} bytes; this one has {size:,}."
    if wrong is not None:
        start = len(text[: wrong.start()].encode())
        return f"a {noun} must be UTF-8; byte {start} of this one is not."
    return None


class Row(NamedTuple):
    """A text, the cells of other columns, and where they stand, such as "row 3 of 'a.csv'"."""

    text: Given
    cells: Sequence[Any]
    where: str


class DataSet:
    """Files with the columns to use. A row is a text; rows are numbered over all files."""

    def __init__(self, files: Sequence[Source], columns: DataColumns, name: str) -> None:
        self.files, self.columns, self.name = files, columns, name

    def rows(self, *others: str, limit: int | None = None, empty: bool = False) -> Iterator[Row]:
        """Yield every text with the cells of ``others``; one that cannot be used is an error.

        Of more than ``limit`` rows, so many are taken, evenly spread. ``empty`` texts may be
        allowed: what is judged text by text says there which could not be.
        """
        wanted = None
        if (limit := _checked_limit(limit)) is not None:
            # Evenly spread: files are often sorted by label, and begin with one class.
            total = sum(file.count() for file in self.files)
            wanted = frozenset(
                np.linspace(0, total - 1, min(limit, total)).round().astype(int).tolist()
            )
        names, sides = [*self.columns.texts, *others], len(self.columns.texts)
        batches = (cells for file in self.files for cells, _ in file.batches(names))
        every = (row for cells in batches for row in zip(*cells, strict=True))
        number, size = 0, 0
        for number, row in enumerate(every, start=1):
            if wanted is not None and number - 1 not in wanted:
                continue
            where = f"row {number} of '{self.name}'"
            for text in row[:sides]:
                if sentence := fault(text):
                    raise InputError(f"{where}: {sentence}")
                if not empty and (not text or text.isspace()):
                    raise InputError(f"{where} has an empty text; remove the row.")
                size += len(text)
            if size > _MOST_TEXT:
                raise InputError(
                    f"'{self.name}' must have at most {_MOST_TEXT:,} characters of text; it has "
                    "more. Give a part of it."
                )
            yield Row(row[:sides] if sides == 2 else row[0], row[sides:], where)
        if not number:
            raise InputError(f"'{self.name}' has no rows.")

    def record(
        self, *, texts_kept: bool, limit: int | None = None, labels: Labels | None = None
    ) -> DataRecord:
        """Return what identifies the data: every file is read once, for its digest and its rows.

        Of more than ``limit`` rows the first ones are taken.
        """
        if labels is not None and self.columns.label is None:
            raise InputError(
                "labels (--labels) says which class a label is, but these data have no column of "
                "labels; name it: label_column (--label-column)."
            )
        limit = _checked_limit(limit)
        files = [
            DataFileRecord(
                path=str(file.path), rows=file.count(), bytes=file.size(), sha256=file.digest()
            )
            for file in self.files
        ]
        if not (rows := sum(file.rows for file in files)):
            raise InputError(f"'{files[0].path}' has no rows.")
        cut = limit if limit is not None and limit < rows else None
        return DataRecord(
            files=files,
            columns=self.columns,
            texts_kept=texts_kept,
            limit=cut,
            labels=label_classes(labels) or None,
        )

    def shards(self, record: DataRecord, size: int, wanted: Collection[int]) -> Iterator[Any]:
        """Yield the ``wanted`` shards of ``size`` texts each, in order, as Arrow tables.

        A text that cannot be used has a sentence in the column "error"; the rest is not touched.
        """
        import pyarrow as pa

        parts, row = [], 0
        for file, batch in self._batches(record):
            done, end = 0, min(len(batch[0][0]), record.rows - row)
            while done < end:
                number, place = divmod(row, size)
                part = slice(done, min(done + size - place, end))
                # What is stored already is read over, and nothing is made of it.
                if number in wanted:
                    parts.append(self._table(file, batch, part, row))
                row, done = row + part.stop - part.start, part.stop
                if parts and (row % size == 0 or row == record.rows):
                    yield pa.concat_tables(parts).combine_chunks()
                    parts = []
            if row == record.limit:
                return

    def _batches(self, record: DataRecord) -> Iterator[tuple[Source, Batch]]:
        """Yield raw rows; a file that has other rows than were counted has been changed."""
        columns = self.columns
        for file, expected in zip(self.files, record.files, strict=True):
            rows = 0
            try:
                for batch in file.batches(columns.named, columns.carried):
                    rows += len(batch[0][0])
                    yield file, batch
            except FileNotFoundError:
                raise InputError(
                    f"'{file.path}' has vanished while it was read; what is finished is kept. Put "
                    "it back and start the run again."
                ) from None
            if rows != expected.rows:
                raise InputError(
                    f"'{file.path}' was changed while it was read ({rows} rows, not "
                    f"{expected.rows}); what is finished is kept."
                )

    def _table(self, file: Source, batch: Batch, part: slice, first: int) -> Any:
        import pyarrow as pa

        columns, rows = self.columns, range(first, first + part.stop - part.start)
        cells, carried = ([column[part] for column in some] for some in batch)
        of: dict[str | None, list[Any]] = dict(zip(columns.named, cells, strict=True))
        sides = [of[name] for name in columns.texts]
        faults = [[fault(text) for text in side] for side in sides]
        usable = [
            [None if wrong else text for text, wrong in zip(*both, strict=True)]
            for both in zip(sides, faults, strict=True)
        ]
        none: list[str | None] = [None] * len(rows)
        ids, labels, at = (
            file.strings(of.get(name, none)) for name in (columns.id, columns.label, columns.at)
        )
        found = {
            "row": rows,
            "id": [str(row) if id is None else id for row, id in zip(rows, ids, strict=True)],
            "text": usable[0],
            "label": labels,
            "error": [next(filter(None, wrong), None) for wrong in zip(*faults, strict=True)],
            "pair": none if columns.pair is None else usable[1],
            # An empty cell asks nothing: what the model finds or writes is explained.
            "at": [cell if cell and cell.strip() else None for cell in at],
        }
        arrays = [pa.array(found[name], kind) for name, kind in INPUT.items()]
        return pa.Table.from_arrays([*arrays, *carried], names=[*INPUT, *columns.carried])


def _checked_limit(limit: Any) -> int | None:
    if limit is None:
        return None
    # A cell of a table, or a quotient, may be 100.0.
    whole = isinstance(limit, float) and limit.is_integer()
    return check_count("limit", int(limit) if whole else limit)


def opened_data(
    data: Any,
    *,
    text: str | None = None,
    id: str | None = None,
    label: str | None = None,
    pair: str | None = None,
    at: str | None = None,
) -> DataSet:
    """Return the data that :func:`limelight.explain_data` takes, with the columns to use.

    They are those that were named, usual names where none were, and what is carried along: all
    other columns that every file has, with one type. Nothing is guessed about pairs where the
    column of the texts was named, which may be meant to stand alone, or is called "text".
    """
    files = sources_of(data)
    types = files[0].columns
    id = _first(_ID, _by_lower_name(types)) if id is None else id
    label = _first(_LABEL, _by_lower_name(types)) if label is None else label
    texts = _by_lower_name(name for name, kind in types.items() if is_text(kind))
    if text is None:
        both = next((both for both in _PAIRS if texts.keys() >= {*both}), None)
        if both is not None and "text" not in texts and pair in (None, texts[both[1]]):
            text, pair = (texts[name] for name in both)
        else:  # one of a usual name, or the only one that there is
            others = [name for name in texts.values() if name not in (id, label)]
            only = others[0] if len(others) == 1 else None
            # A usual name without texts is what was meant, and what is told about.
            text = _first(_TEXT, texts) or only or _first(_TEXT, _by_lower_name(types)) or "text"
    if pair == text:  # every text would be paired with itself
        raise InputError(
            f"the two texts of a pair stand in two columns; text_column and pair_column are both "
            f"{pair!r}."
        )
    columns = DataColumns(text=text, id=id, label=label, carried=[], pair=pair, at=at)
    for name in columns.named:
        if _NO_NAME.search(name):  # of UTF-16 the only column would be taken for the texts
            raise InputError(_header_sentence(files[0]))
        check_column(files, name)
    for name in columns.texts:
        for file in files:
            if not is_text(kind := file.columns[name]) and file.count():
                raise InputError(
                    f"the column {name!r} of '{file.path}' must hold texts; it holds {kind}."
                )
    # Others would make shards of two schemas, which no query reads together.
    alike = [n for n, kind in types.items() if all(one.columns.get(n) == kind for one in files)]
    # A name that is not UTF-8 could not be stored.
    carried = [n for n in alike if n not in columns.named and not LONE_SURROGATE.search(n)]
    path = data.path if isinstance(data, Source) else data
    named = isinstance(path, str | os.PathLike)
    whole = os.fspath(path) if named else ", ".join(file.path.name for file in files)
    return DataSet(files, msgspec.structs.replace(columns, carried=carried), whole)


class LabelledRows(NamedTuple):
    """Texts, and the label of each as the data have it; no labels where there is no column."""

    texts: list[Given]
    labels: list[Any]


def read_rows(
    data: Any,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    limit: int | None = None,
) -> LabelledRows:
    """Return the texts of a file or table, or its pairs; ``limit`` of them, evenly spread.

    ``data`` and columns are what :func:`limelight.explain_data` takes.
    """
    found = opened_data(data, text=text_column, pair=pair_column, label=label_column)
    label = [found.columns.label] if found.columns.label is not None else []
    rows = list(found.rows(*label, limit=limit, empty=True))
    return LabelledRows([row.text for row in rows], [cell for row in rows for cell in row.cells])


def read_texts(
    data: Any,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    limit: int | None = None,
) -> list[Given]:
    """Return the texts of :func:`read_rows` alone."""
    return read_rows(data, text_column=text_column, pair_column=pair_column, limit=limit).texts
