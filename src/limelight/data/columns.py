"""A data set: files or a table, the meaning of its columns, and its rows."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from limelight.data.conversations import is_conversation_list, read_conversation
from limelight.data.files import Batch, Source, is_list, is_text, open_sources
from limelight.data.labels import Labels, label_classes
from limelight.errors import InputError, check_count
from limelight.results.schema import Record
from limelight.text import Conversation, UserInput
from limelight.text.characters import LONE_SURROGATE
from limelight.text.conversations import is_conversation_cell

# Common names, best first.
_TEXT_NAMES = (
    "text", "sentence", "review", "content", "document", "comment", "body", "message", "tweet",
    "image", "img", "picture",
)  # fmt: skip
_ID_NAMES = ("id", "uid", "uuid", "guid", "key", "index", "idx")
_LABEL_NAMES = ("label", "labels", "class", "sentiment", "category")
_QUESTION_NAMES = ("question", "query", "prompt")  # of texts with documents
_PAIR_NAMES = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"), ("text1", "text2"), ("text_a", "text_b"),
    ("question1", "question2"), ("question", "passage"), ("question", "sentence"),
    ("query", "document"), ("query", "passage"),
)  # fmt: skip
# The columns that a worker gets for every text; ``error`` is the reason if it cannot be used.
INPUT = {
    "row": "int64", "id": "string", "text": "large_string", "label": "string", "error": "string",
    "pair": "large_string", "at": "string",
}  # fmt: skip
_MAX_TEXT_BYTES = 1 << 26  # bytes, as for a single text
_MAX_TOTAL_CHARACTERS = 1 << 33  # characters in memory at once


class DataFileRecord(Record, frozen=True, kw_only=True):
    """A data file: its path when it was read, and the digest that identifies it."""

    path: str
    rows: int
    bytes: int
    sha256: str


class DataColumns(Record, frozen=True, kw_only=True):
    """The columns of the data; ``carried`` columns are stored with the results.

    For pairs, ``pair`` is the column of the second texts. ``at`` is the column of the query of
    each text: a span, or an answer. ``documents`` is the column of the documents of each question.
    With ``messages``, the column of chats, ``text`` is the same column.
    """

    text: str
    id: str | None
    label: str | None
    carried: list[str]
    pair: str | None = None
    at: str | None = None
    documents: str | None = None
    messages: str | None = None

    @property
    def texts(self) -> list[str]:
        """The column of the texts, and that of their second sides or their documents."""
        return [name for name in (self.text, self.pair, self.documents) if name is not None]

    @property
    def has_conversations(self) -> bool:
        """Whether a row is a conversation, not a text or a pair."""
        return self.documents is not None or self.messages is not None

    @property
    def used_columns(self) -> list[str]:
        """The columns with a meaning, each once."""
        chosen = (*self.texts, self.id, self.label, self.at)
        return list(dict.fromkeys(name for name in chosen if name is not None))


class DataRecord(Record, frozen=True, kw_only=True):
    """The data files, in order; with a ``limit``, only their first rows."""

    files: list[DataFileRecord]
    columns: DataColumns
    store_texts: bool
    limit: int | None = None
    labels: dict[str, str] | None = None  # the class of each label, if the user mapped labels

    @property
    def rows(self) -> int:
        """The number of texts."""
        return sum(file.rows for file in self.files) if self.limit is None else self.limit


def _index_by_lowercase(names: Iterable[str]) -> dict[str, str]:
    """Map lowercase names to column names; of names that differ only in case, the first wins."""
    return {name.lower(): name for name in reversed(list(names))}


def _find_column(common_names: Sequence[str], columns: Mapping[str, str]) -> str | None:
    """Return the column that has the first of the common names, or None."""
    return next((columns[name] for name in common_names if name in columns), None)


_INVALID_NAME = re.compile(f"{LONE_SURROGATE.pattern}|\0")  # UTF-16 has a NUL beside every letter
_COLUMN_OPTIONS = {  # by the fields of `DataColumns`
    "text": "text_column (--text-column)",
    "pair": "pair_column (--pair-column)",
    "id": "id_column (--id-column)",
    "label": "label_column (--label-column)",
    "at": "at_column (--at-column) or answer_column (--answer-column)",
    "documents": "documents_column (--documents-column)",
    "messages": "messages_column (--messages-column)",
}


def check_role(files: Sequence[Source], name: str, role: str) -> None:
    """Raise an error if a file lacks the column of a role, a field of `DataColumns`."""
    check_column(files, name, f"Rename a column, or choose one with {_COLUMN_OPTIONS[role]}.")


def check_column(files: Sequence[Source], name: str, advice: str) -> None:
    """Raise an error that ends with ``advice`` if a file lacks a column."""
    for file in files:
        if name not in file.columns:
            if any(map(_INVALID_NAME.search, file.columns)):
                raise InputError(_header_error(file))
            column_list = ", ".join(map(repr, file.columns))
            raise InputError(f"'{file.path}' has no column {name!r}, only {column_list}. {advice}")


def _header_error(file: Source) -> str:
    """Return the error message for a file whose header is not UTF-8."""
    return f"'{file.path}' must be UTF-8, but its header is not. Convert the file to UTF-8."


def find_text_fault(text: Any, noun: str = "text") -> str | None:
    """Return the reason why a text cannot be used; None if it can."""
    if not isinstance(text, str):
        return f"the {noun} is missing or not a string."
    # Most texts are ASCII, and then each character is a byte.
    if text.isascii():
        size, surrogate = len(text), None
    else:
        size = len(text.encode("utf-8", "surrogatepass"))
        surrogate = LONE_SURROGATE.search(text)
    if size > _MAX_TEXT_BYTES:
        return f"the {noun} must have at most {_MAX_TEXT_BYTES:,} bytes, not {size:,}."
    if surrogate is not None:
        start = len(text[: surrogate.start()].encode())
        return f"the {noun} must be UTF-8, but its byte {start} is not."
    return None


def _cell_fault(text: str) -> str | None:
    """Return the reason why a text cannot be a cell of a run; None if it can."""
    if is_conversation_cell(text):
        return "the text must not begin with the mark that limelight writes before messages."
    return None


class Row(NamedTuple):
    """A text, the cells of other columns, and their location, such as "row 3 of 'a.csv'"."""

    text: UserInput
    cells: Sequence[Any]
    where: str


class DataSet:
    """Files with the columns to use. A row is a text; rows are numbered over all files."""

    def __init__(self, files: Sequence[Source], columns: DataColumns, name: str) -> None:
        self.files, self.columns, self.name = files, columns, name

    def rows(
        self, *other_columns: str, limit: int | None = None, allow_empty: bool = False
    ) -> Iterator[Row]:
        """Yield every text with its cells of ``other_columns``; raise an error for an unusable one.

        If there are more than ``limit`` rows, that number of rows is taken, evenly spread. Empty
        texts raise an error unless ``allow_empty``, for callers that report them text by text.
        """
        selected_rows = None
        if (limit := _check_limit(limit)) is not None:
            # Evenly spread: files are often sorted by label, and begin with one class.
            total = sum(file.count() for file in self.files)
            selected_rows = frozenset(
                np.linspace(0, total - 1, min(limit, total)).round().astype(int).tolist()
            )
        names, sides = [*self.columns.texts, *other_columns], len(self.columns.texts)
        batches = (cells for file in self.files for cells, _ in file.batches(names))
        all_rows = (row for cells in batches for row in zip(*cells, strict=True))
        number, size = 0, 0
        for number, row in enumerate(all_rows, start=1):
            if selected_rows is not None and number - 1 not in selected_rows:
                continue
            where = f"row {number} of '{self.name}'"
            if self.columns.has_conversations:
                conversation, fault = self._read_conversation(row[:sides])
                if conversation is None:
                    raise InputError(f"{where}: {fault}")
                size += len(conversation.cell)
                self._check_size(size)
                yield Row(conversation, row[sides:], where)
                continue
            for text in row[:sides]:
                if sentence := find_text_fault(text):
                    raise InputError(f"{where}: {sentence}")
                if not allow_empty and (not text or text.isspace()):
                    raise InputError(f"{where} has an empty text. Remove the row.")
                size += len(text)
            self._check_size(size)
            yield Row(row[:sides] if sides == 2 else row[0], row[sides:], where)
        if not number:
            raise InputError(f"'{self.name}' has no rows.")

    def _check_size(self, size: int) -> None:
        """Raise an error if texts have too many characters for the memory."""
        if size > _MAX_TOTAL_CHARACTERS:
            raise InputError(
                f"'{self.name}' has more than {_MAX_TOTAL_CHARACTERS:,} characters of text. "
                "Give a part of it."
            )

    def _read_conversation(
        self, cells: Sequence[Any]
    ) -> tuple[Conversation, None] | tuple[None, str]:
        """Return the conversation of a row, or the reason why it cannot be used."""
        try:
            has_messages = self.columns.messages is not None
            conversation = read_conversation(cells, has_messages=has_messages)
        except InputError as error:
            return None, str(error)
        if fault := find_text_fault(conversation.cell, "conversation"):
            return None, fault
        return conversation, None

    def record(
        self, *, store_texts: bool, limit: int | None = None, labels: Labels | None = None
    ) -> DataRecord:
        """Return the identity of the data; every file is read once, for its digest and row count.

        If there are more than ``limit`` rows, the first ones are taken.
        """
        if labels is not None and self.columns.label is None:
            raise InputError(
                "labels (--labels) needs a column of labels, and the data have none. Choose it "
                "with label_column (--label-column)."
            )
        limit = _check_limit(limit)
        files = [
            DataFileRecord(
                path=str(file.path), rows=file.count(), bytes=file.size(), sha256=file.digest()
            )
            for file in self.files
        ]
        if not (rows := sum(file.rows for file in files)):
            raise InputError(f"'{files[0].path}' has no rows.")
        used_limit = limit if limit is not None and limit < rows else None
        return DataRecord(
            files=files,
            columns=self.columns,
            store_texts=store_texts,
            limit=used_limit,
            labels=label_classes(labels) or None,
        )

    def shards(
        self, record: DataRecord, size: int, shard_numbers: Collection[int]
    ) -> Iterator[Any]:
        """Yield the shards ``shard_numbers`` of ``size`` texts each, in order, as Arrow tables.

        A text that cannot be used has its reason in the column "error".
        """
        import pyarrow as pa

        parts, row = [], 0
        for file, batch in self._batches(record):
            start, end = 0, min(len(batch[0][0]), record.rows - row)
            while start < end:
                number, place = divmod(row, size)
                part = slice(start, min(start + size - place, end))
                # Shards that are stored already are skipped.
                if number in shard_numbers:
                    parts.append(self._make_table(file, batch, part, row))
                row, start = row + part.stop - part.start, part.stop
                if parts and (row % size == 0 or row == record.rows):
                    yield pa.concat_tables(parts).combine_chunks()
                    parts = []
            if row == record.limit:
                return

    def _batches(self, record: DataRecord) -> Iterator[tuple[Source, Batch]]:
        """Yield raw rows; raise an error if a file changed after its rows were counted."""
        columns = self.columns
        for file, expected in zip(self.files, record.files, strict=True):
            rows = 0
            try:
                for batch in file.batches(columns.used_columns, columns.carried):
                    rows += len(batch[0][0])
                    yield file, batch
            except FileNotFoundError:
                raise InputError(
                    f"'{file.path}' was removed during the run. Put it back, and start the run "
                    "again to continue."
                ) from None
            if rows != expected.rows:
                raise InputError(
                    f"'{file.path}' changed during the run ({rows} rows, not {expected.rows}). "
                    "Restore it, and start the run again to continue."
                )

    def _usable_cells(
        self, sides: Sequence[Sequence[Any]]
    ) -> tuple[list[list[str | None]], list[str | None]]:
        """Return the texts of each column, None for unusable ones, and the fault of each row."""
        if self.columns.has_conversations:
            rows = [self._read_conversation(row) for row in zip(*sides, strict=True)]
            cells = [
                None if conversation is None else conversation.cell for conversation, _ in rows
            ]
            return [cells], [fault for _, fault in rows]
        faults = [[find_text_fault(text) or _cell_fault(text) for text in side] for side in sides]
        usable = [
            [None if fault else text for text, fault in zip(*column, strict=True)]
            for column in zip(sides, faults, strict=True)
        ]
        return usable, [next(filter(None, row), None) for row in zip(*faults, strict=True)]

    def _make_table(self, file: Source, batch: Batch, part: slice, first: int) -> Any:
        """Build an Arrow table of some rows of a batch; ``first`` is the number of their first."""
        import pyarrow as pa

        columns, rows = self.columns, range(first, first + part.stop - part.start)
        cells, carried = ([column[part] for column in group] for group in batch)
        cells_by_name: dict[str | None, list[Any]] = dict(
            zip(columns.used_columns, cells, strict=True)
        )
        sides = [cells_by_name[name] for name in columns.texts]
        usable, faults = self._usable_cells(sides)
        empty_cells: list[str | None] = [None] * len(rows)
        ids, labels, at = (
            file.strings(cells_by_name.get(name, empty_cells))
            for name in (columns.id, columns.label, columns.at)
        )
        input_columns = {
            "row": rows,
            "id": [str(row) if id is None else id for row, id in zip(rows, ids, strict=True)],
            "text": usable[0],
            "label": labels,
            "error": faults,
            "pair": empty_cells if columns.pair is None else usable[1],
            # An empty cell is no query: the model's own spans or answer are explained.
            "at": [cell if cell and cell.strip() else None for cell in at],
        }
        arrays = [pa.array(input_columns[name], kind) for name, kind in INPUT.items()]
        return pa.Table.from_arrays([*arrays, *carried], names=[*INPUT, *columns.carried])


def _check_limit(limit: Any) -> int | None:
    """Return the limit on the number of texts after a check."""
    if limit is None:
        return None
    # A cell of a table, or a quotient, may be 100.0.
    is_whole = isinstance(limit, float) and limit.is_integer()
    return check_count("limit", int(limit) if is_whole else limit)


def open_data(
    data: Any,
    *,
    text: str | None = None,
    id: str | None = None,
    label: str | None = None,
    pair: str | None = None,
    at: str | None = None,
    documents: str | None = None,
    messages: str | None = None,
) -> DataSet:
    """Open the data of :func:`limelight.explain_data` and choose the columns to use.

    Columns without a name in the arguments are found by common names. All other columns that
    every file has with the same type are stored with the results. Pairs are not guessed if the
    column of the texts is named or is called "text".

    Parameters
    ----------
    data
        A path, a list of paths, a table or a list of texts.
    text, pair
        The columns of the texts and of the second texts of pairs.
    id, label
        The columns of ids and of labels.
    at
        The column of the queries.
    documents
        The column of the documents of each text, which is a question.
    messages
        The column of chats, instead of ``text``.

    Returns
    -------
    The data set with its columns.

    Raises
    ------
    InputError
        If there are no such data or columns, or if the texts are not strings.
    """
    _check_input_columns(text=text, pair=pair, documents=documents, messages=messages)
    if is_conversation_list(data):
        cells = [
            chat.cell if isinstance(chat, Conversation) else Conversation.from_messages(chat).cell
            for chat in data
        ]
        data, messages = {"messages": cells}, "messages"
    files = open_sources(data)
    types = files[0].columns
    id = _find_column(_ID_NAMES, _index_by_lowercase(types)) if id is None else id
    label = _find_column(_LABEL_NAMES, _index_by_lowercase(types)) if label is None else label
    texts = _index_by_lowercase(name for name, kind in types.items() if is_text(kind))
    if messages is not None:
        text = messages
    elif documents is not None and text is None:
        other_names = [name for name in texts.values() if name not in (id, label, documents, at)]
        text = (
            _find_column((*_QUESTION_NAMES, *_TEXT_NAMES), texts)
            or (other_names[0] if len(other_names) == 1 else None)
            or "question"
        )
    elif text is None:
        pair_names = next(
            (pair_names for pair_names in _PAIR_NAMES if texts.keys() >= {*pair_names}), None
        )
        if pair_names is not None and "text" not in texts and pair in (None, texts[pair_names[1]]):
            text, pair = (texts[name] for name in pair_names)
        else:  # a column with a common name, or the only column of texts
            other_names = [name for name in texts.values() if name not in (id, label)]
            single_name = other_names[0] if len(other_names) == 1 else None
            # A column with a common name but without texts gives the clearest error.
            text = (
                _find_column(_TEXT_NAMES, texts)
                or single_name
                or _find_column(_TEXT_NAMES, _index_by_lowercase(types))
                or "text"
            )
    if pair == text:  # every text would be paired with itself
        raise InputError(
            f"text_column and pair_column must be different columns, but both are {pair!r}."
        )
    columns = DataColumns(
        text=text,
        id=id,
        label=label,
        carried=[],
        pair=pair,
        at=at,
        documents=documents,
        messages=messages,
    )
    # The column of chats is checked as such, and not as that of the texts.
    roles = [role for role in _COLUMN_OPTIONS if role != "text" or messages is None]
    for role in roles:
        if (role_column := getattr(columns, role)) is not None:
            if _INVALID_NAME.search(role_column):  # UTF-16 has one column, taken for the texts
                raise InputError(_header_error(files[0]))
            check_role(files, role_column, role)
    for name in columns.texts:
        has_lists = name in (documents, messages)
        for file in files:
            kind = file.columns[name]
            if not (is_text(kind) or (has_lists and is_list(kind))) and file.count():
                noun = "lists" if has_lists else "texts"
                raise InputError(
                    f"the column {name!r} of '{file.path}' must contain {noun}, not {kind}."
                )
    # Other columns would give shards two schemas, which no query reads together.
    shared_names = [
        n for n, kind in types.items() if all(source.columns.get(n) == kind for source in files)
    ]
    # A name that is not UTF-8 could not be stored.
    carried = [
        n for n in shared_names if n not in columns.used_columns and not LONE_SURROGATE.search(n)
    ]
    path = data.path if isinstance(data, Source) else data
    is_path = isinstance(path, str | os.PathLike)
    name_of_data = os.fspath(path) if is_path else ", ".join(file.path.name for file in files)
    return DataSet(files, msgspec.structs.replace(columns, carried=carried), name_of_data)


def _check_input_columns(
    *, text: str | None, pair: str | None, documents: str | None, messages: str | None
) -> None:
    """Raise an error if options name columns of different kinds of inputs."""
    if messages is not None and text is not None:
        raise InputError(
            "give text_column (--text-column) or messages_column (--messages-column), not both."
        )
    if pair is not None and (documents or messages) is not None:
        raise InputError(
            "pair_column (--pair-column) is for pairs of texts. Leave it out, because documents "
            "and messages are no pairs."
        )


class LabeledRows(NamedTuple):
    """Texts and their labels as in the data; no labels if there is no column of labels."""

    texts: list[UserInput]
    labels: list[Any]


def read_rows(
    data: Any,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    documents_column: str | None = None,
    messages_column: str | None = None,
    limit: int | None = None,
) -> LabeledRows:
    """Read the texts, pairs or conversations of a file or table with their labels.

    Parameters
    ----------
    data, text_column, pair_column, label_column, documents_column, messages_column
        The data and their columns, as in :func:`limelight.explain_data`.
    limit
        The maximal number of rows, evenly spread; by default all.

    Returns
    -------
    LabeledRows
        The texts and their labels.
    """
    data_set = open_data(
        data,
        text=text_column,
        pair=pair_column,
        label=label_column,
        documents=documents_column,
        messages=messages_column,
    )
    label = [data_set.columns.label] if data_set.columns.label is not None else []
    rows = list(data_set.rows(*label, limit=limit, allow_empty=True))
    return LabeledRows([row.text for row in rows], [cell for row in rows for cell in row.cells])


def read_texts(
    data: Any,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    limit: int | None = None,
) -> list[UserInput]:
    """Read the texts of a file or table as :func:`read_rows` does, without labels.

    Parameters
    ----------
    data
        A file, a folder, a table or a list of texts.
    text_column, pair_column
        The columns of the texts, and of the second texts of pairs.
    limit
        Number of texts to read. None reads all.

    Returns
    -------
    The texts or pairs.
    """
    return read_rows(data, text_column=text_column, pair_column=pair_column, limit=limit).texts
