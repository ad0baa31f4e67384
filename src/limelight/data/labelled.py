"""Labelled texts: what a classifier learns from and is measured on, and the files they come in."""

import csv
import gzip
import hashlib
import io
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.files import bounded_bytes, bounded_json, is_device, read_at_most
from limelight.shapes import Int
from limelight.text import Given, joined
from limelight.text.characters import LONE_SURROGATE


@final
@dataclass(frozen=True, slots=True, eq=False)
class LabelledTexts:
    """Texts, the class number of each, the names of the classes if known, and where it came from.

    Labels count from 0; ``classes[label]`` is the name. A text may be a pair, a tuple of two.
    """

    texts: Sequence[Given]
    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...] | None = None
    source: str = "memory"

    def __post_init__(self) -> None:
        own = np.array(self.labels, dtype=np.int64)
        if len(own) != len(self.texts):
            raise InputError(
                f"got {len(self.texts)} texts and {len(own)} labels; they must pair up."
            )
        if len(own) and own.min() < 0:
            raise InputError(f"labels count from 0; got {own.min()}.")
        if self.classes is not None and len(own) and own.max() >= len(self.classes):
            raise InputError(
                f"label {own.max()} has no name; the classes are {', '.join(self.classes)}."
            )
        own.setflags(write=False)
        object.__setattr__(self, "labels", own)
        object.__setattr__(self, "texts", tuple(self.texts))
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(self.classes))

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; their numbers where nobody named them."""
        if self.classes is not None:
            return self.classes
        return tuple(str(label) for label in range(int(self.labels.max(initial=0)) + 1))

    @property
    def digest(self) -> str:
        """SHA-256 of texts and labels, in their order."""
        digest = hashlib.sha256(self.labels.tobytes())
        for text in self.texts:
            digest.update(joined(text)[0].encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()


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


_USUAL = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("question", "passage"),
    ("question", "sentence"),
    ("query", "document"),
    ("query", "passage"),
)


def usual_pair(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the two columns whose names are usual for pairs; None where one is called "text"."""
    by_name = {name.lower(): name for name in reversed(list(names))}
    if "text" in by_name:
        return None
    return next(
        ((by_name[a], by_name[b]) for a, b in _USUAL if a in by_name and b in by_name), None
    )


def chosen_pair(
    names: Iterable[str], text: str | None, pair: str | None
) -> tuple[str | None, str | None]:
    """Return the columns of the texts and of their second texts, by name or by guess.

    Nothing is guessed where the column of the texts was named: it may be meant to stand alone. One
    column for both is refused: every text would be paired with itself.
    """
    if pair is not None and pair == (text or "text"):
        raise InputError(
            f"the two texts of a pair stand in two columns; text_column and pair_column are both "
            f"{pair!r}."
        )
    found = usual_pair(names)
    if text is not None or found is None:
        return text, pair
    return found if pair in (None, found[1]) else (None, pair)


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
