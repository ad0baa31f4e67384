"""Which column of a data set is what, by name or by guess."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from limelight.data.labelled import chosen_pair
from limelight.errors import InputError
from limelight.runs.data_files import DataFile
from limelight.runs.record import DataColumns

# Usual names, best first.
_TEXT = ("text", "sentence", "review", "content", "document", "comment", "body", "message", "tweet")
_ID = ("id", "uid", "uuid", "guid", "key", "index", "idx")
_LABEL = ("label", "labels", "class", "sentiment", "category")


def is_text(kind: Any) -> bool:
    """Return whether a column may hold texts: strings, or bytes that may be UTF-8."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    families = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(of(kind) for of in families) or pa.types.is_large_binary(kind)


def chosen_columns(
    files: Sequence[DataFile],
    *,
    text: str | None,
    id: str | None,
    label: str | None,
    pair: str | None = None,
) -> DataColumns:
    """Return the columns that were named, usual names where none were, and what is carried along.

    Carried are all other columns that every file has, with one type.
    """
    types = files[0].columns
    texts = [name for name, kind in types.items() if is_text(kind)]
    text, pair = chosen_pair(texts, text, pair)
    text = _guessed(_TEXT, texts, files[0]) if text is None else text
    id = _usual(_ID, types) if id is None else id
    label = _usual(_LABEL, types) if label is None else label
    for file in files:
        for name in (text, pair, id, label):
            if name is not None and name not in file.columns:
                raise _missing(file, name)
        for name in (text, *([] if pair is None else [pair])):
            if not is_text(file.columns[name]):
                raise InputError(
                    f"the column {name!r} of '{file.path}' must hold texts; it holds "
                    f"{file.columns[name]}."
                )
    alike = [n for n, kind in types.items() if all(one.columns.get(n) == kind for one in files)]
    carried = [name for name in alike if name not in (text, pair, id, label)]
    return DataColumns(text=text, id=id, label=label, carried=carried, pair=pair)


def _usual(names: Sequence[str], there: Iterable[str]) -> str | None:
    by_name = {name.lower(): name for name in reversed(list(there))}
    return next((by_name[name] for name in names if name in by_name), None)


def _guessed(names: Sequence[str], there: list[str], file: DataFile) -> str:
    """Return the column of a usual name, or the only one that there is."""
    if (found := _usual(names, there)) is not None:
        return found
    if len(there) == 1:
        return there[0]
    raise _missing(file, "text")


def _missing(file: DataFile, name: str) -> InputError:
    known = ", ".join(map(repr, file.columns)) or "none"
    return InputError(
        f"'{file.path}' has no column {name!r}; it has {known}. Name the one that is meant: "
        "text_column, pair_column, id_column or label_column (--text-column …)."
    )
