"""Labelled texts from files: parquet, csv, jsonl, and the folder of the original IMDB archive."""

__all__ = ["read_labelled"]

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from limelight.datasets.labelled import LabelledTexts
from limelight.datasets.pair_columns import chosen_pair
from limelight.datasets.rows import Row, csv_rows, jsonl_rows, parquet_rows
from limelight.errors import InputError
from limelight.files import is_device
from limelight.shapes import Int
from limelight.text import Given
from limelight.text.characters import LONE_SURROGATE

_READERS = {".parquet": parquet_rows, ".csv": csv_rows, ".jsonl": jsonl_rows}
_IMDB_CLASSES = {"neg": "negative", "pos": "positive"}


def read_labelled(
    path: str | os.PathLike[str],
    classes: Sequence[str] | None = None,
    *,
    part: Literal["train", "test"] = "train",
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str = "label",
) -> LabelledTexts:
    """Return the texts and labels stored at ``path``.

    A file (``.parquet``, ``.csv``, ``.jsonl``, the last two also ``.gz``) has the columns ``text``
    and ``label``, unless others are named; with a ``pair_column`` every text is a pair. Two columns
    of usual names, such as ``premise`` and ``hypothesis``, are found without. A label is a name or
    a number from 0; with ``classes`` given it must be one of these names or their numbers,
    otherwise names are sorted and numbers stay without names. A folder is the IMDB archive's
    ``aclImdb/train`` or ``aclImdb/test``; for ``aclImdb`` itself, ``part`` says which.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"there is no data at '{path}'; check the path.")
    if is_device(path):
        raise InputError(f"'{path}' must be a file or a folder; it is a device or a pipe.")
    if path.is_dir():
        texts, raw, names = _folder(path, part)
        classes = names if classes is None else classes
    else:

        def wanted(names: Sequence[str]) -> Sequence[str]:
            first, second = chosen_pair(names, text_column, pair_column)
            return [first or "text", *([] if second is None else [second]), label_column]

        texts, raw = _columns(_reader(path)(path, wanted), path)
    if not texts:
        raise InputError(f"'{path}' has no rows.")
    labels, found = _numbered(raw, path, None if classes is None else tuple(classes))
    return LabelledTexts(texts, labels, found, path.name)


def _reader(path: Path) -> Any:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in _READERS or (path.suffix == ".gz" and suffix == ".parquet"):
        raise InputError(
            f"cannot read '{path}': give a .parquet, .csv, .jsonl, .csv.gz or .jsonl.gz file, "
            "or an aclImdb folder."
        )
    return _READERS[suffix]


def _columns(rows: Iterable[Row], path: Path) -> tuple[list[Given], list[Any]]:
    texts, labels = list[Given](), []
    for number, (*sides, label) in enumerate(rows, start=1):
        first, *second = (_checked(text, number, path) for text in sides)
        texts.append((first, second[0]) if second else first)
        labels.append(label)
    return texts, labels


def _checked(text: Any, number: int, path: Path) -> str:
    if text is not None and not isinstance(text, str):
        raise InputError(f"row {number} of '{path}' has a text that is not a string: {text!r}.")
    if not text or text.isspace():
        raise InputError(f"row {number} of '{path}' has an empty text; remove the row.")
    if not text.isascii() and LONE_SURROGATE.search(text):
        raise InputError(f"row {number} of '{path}' holds half a surrogate pair; remove it.")
    return str(text)


def _folder(path: Path, part: str) -> tuple[list[Given], list[Any], tuple[str, ...]]:
    home = path if (path / "pos").is_dir() else path / part
    texts, labels = list[Given](), []
    for name, label in _IMDB_CLASSES.items():
        if not (home / name).is_dir():
            raise InputError(f"'{path}' is not an aclImdb folder: '{home / name}' is missing.")
        for file in sorted((home / name).glob("*.txt")):
            try:
                text = file.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"'{file}' must be UTF-8 text; byte {error.start} is not."
                ) from None
            if not text.strip():
                raise InputError(f"'{file}' is empty; remove it.")
            texts.append(text)
            labels.append(label)
    return texts, labels, tuple(_IMDB_CLASSES.values())


def _numbered(
    raw: list[Any], path: Path, classes: tuple[str, ...] | None
) -> tuple[Int[np.ndarray, " n"], tuple[str, ...] | None]:
    """Return labels as numbers, and the names of the classes if file or caller name them."""
    if classes is not None:
        return _looked_up(raw, path, classes), classes
    numbers = [_whole(label) for label in raw]
    if None not in numbers:
        present = sorted({number for number in numbers if number is not None})
        if present != list(range(len(present))):
            raise InputError(
                f"labels that are numbers must count from 0 without gaps; '{path}' has "
                f"{', '.join(map(str, present[:10]))}. Name the classes instead."
            )
        return np.array(numbers), None
    named = any(isinstance(label, str) and label.strip() for label in raw)
    for i, label in enumerate(raw):
        usable = isinstance(label, str) and label.strip() if named else numbers[i] is not None
        if not usable:
            raise InputError(
                f"row {i + 1} of '{path}' has the label {label!r}; "
                "labels are names, or whole numbers from 0."
            )
    names = tuple(sorted(set(raw)))
    return _looked_up(raw, path, names), names


def _looked_up(raw: list[Any], path: Path, classes: tuple[str, ...]) -> Int[np.ndarray, " n"]:
    """Return the number of each label, which may be a name or that number itself."""
    number_of = {name: number for number, name in enumerate(classes)}
    numbers = []
    for i, label in enumerate(raw):
        number = number_of.get(label) if isinstance(label, str) else None
        number = _whole(label) if number is None else number
        if number is None or number >= len(classes):
            raise InputError(
                f"row {i + 1} of '{path}' has the unknown label {label!r}; "
                f"the classes are {', '.join(classes)}."
            )
        numbers.append(number)
    return np.array(numbers)


def _whole(label: Any) -> int | None:
    """Return ``label`` as a whole number from 0, ``None`` where it is not one."""
    if isinstance(label, str):
        return int(label) if label.isascii() and label.isdecimal() else None
    if isinstance(label, int | float) and 0 <= label < math.inf and label == int(label):
        return int(label)
    return None
