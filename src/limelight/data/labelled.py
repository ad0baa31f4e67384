"""Labelled texts: what a classifier learns from and is measured on."""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from limelight.data.columns import check_column, fault, opened_data
from limelight.data.files import data_files, whole_text
from limelight.data.labels import ClassLabels, Labels, label_classes, spelled
from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text import Given, joined


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTexts:
    """Texts, the class number of each, the names of the classes if known, and where it came from.

    ``notices`` are what a reader must know of how labels were matched with classes.
    Labels count from 0; ``classes[label]`` is the name. A text may be a pair, a tuple of two.
    """

    texts: Sequence[Given]
    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...] | None = None
    source: str = "memory"
    notices: tuple[str, ...] = ()

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

    def in_classes(self, classes: Sequence[str], labels: Labels | None = None) -> "LabelledTexts":
        """Return the same texts with labels that count ``classes``, matched by their names."""
        named, names = ClassLabels(classes, labels), self.class_names
        number_of = [named.number(name) for name in names]
        numbers = [number_of[label] for label in self.labels]
        if None in numbers:
            said = named.unmatched(names[label] for label in np.unique(self.labels))
            first = numbers.index(None) + 1
            raise InputError(f"in '{self.source}', from row {first} on, {said}.")
        notices = (*self.notices, *filter(None, [named.merged()]))
        return replace(self, labels=np.array(numbers), classes=tuple(classes), notices=notices)

    @property
    def digest(self) -> str:
        """SHA-256 of texts and labels, in their order."""
        digest = hashlib.sha256(self.labels.tobytes())
        for text in self.texts:
            # A zero between them: "ab", "c" and "a", "bc" are different data.
            digest.update(joined(text)[0].encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()


_IMDB_CLASSES = {"neg": "negative", "pos": "positive"}


def read_labelled(
    path: Any,
    classes: Sequence[str] | None = None,
    *,
    part: Literal["train", "test"] = "train",
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    labels: Labels | None = None,
) -> LabelledTexts:
    """Return the texts and labels stored at ``path``, or of a table in memory.

    Files, tables and columns are those of :func:`limelight.explain_data`: without their names,
    columns such as "text" or "review" and "label" or "class" are found. A label is a name or a
    number from 0; with ``classes`` given it must be one of these names, in any case of letters.
    Numbers are matched with classes that are numbers ("0", "LABEL_0", "class 0"), never with the
    places of classes: ``labels`` says what they stand for, in their order (["World", "Sports"]), or
    what any label stands for ({"neg": "negative"}). Without ``classes`` names are sorted, and
    numbers that ``labels`` does not name stay without names. A folder without data files is the
    IMDB archive's ``aclImdb/train`` or ``aclImdb/test``; for ``aclImdb`` itself, ``part`` says
    which.
    """
    if classes is None and labels is not None:
        classes = list(dict.fromkeys(label_classes(labels).values()))
    texts, raw = list[Given](), list[Any]()
    if isinstance(path, str | os.PathLike) and _is_archive(folder := Path(path), part):
        texts, raw = _folder(folder, part)
        classes, name = tuple(_IMDB_CLASSES.values()) if classes is None else classes, str(path)
    else:
        data = opened_data(path, text=text_column, label=label_column, pair=pair_column)
        check_column(data.files, label_column := data.columns.label or "label")
        for row in data.rows(label_column):
            (label,) = row.cells
            if isinstance(label, str) and (wrong := fault(label, "label")):
                raise InputError(f"{row.where}: {wrong}")
            texts.append(row.text)
            raw.append(label)
        name = data.name
    source = Path(name).name
    if classes is None:
        return LabelledTexts(texts, *_numbered(raw, name), source)
    if None in raw:
        raise InputError(f"row {raw.index(None) + 1} of '{name}' has no label.")
    names = [label if isinstance(label, str) else spelled(label) for label in raw]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbers = np.array([place[name] for name in names])
    found = LabelledTexts(texts, numbers, tuple(place), source)
    return found.in_classes(classes, labels)


def _is_archive(path: Path, part: str) -> bool:
    """Return whether a folder is IMDB's; one without any data files can be nothing else."""
    if not path.is_dir():
        return False
    from limelight.data.images import find_images

    known = (path / "neg").is_dir() or (path / part / "neg").is_dir()
    return (known or not data_files(path)) and find_images(path) is None


def _folder(path: Path, part: str) -> tuple[list[Given], list[Any]]:
    home = path if (path / "pos").is_dir() else path / part
    texts, labels = list[Given](), []
    for name, label in _IMDB_CLASSES.items():
        if not (home / name).is_dir():
            raise InputError(f"'{path}' is not an aclImdb folder: '{home / name}' is missing.")
        for file in sorted((home / name).glob("*.txt")):
            texts.append(text := whole_text(file))
            if not text.strip():
                raise InputError(f"'{file}' is empty; remove it.")
            labels.append(label)
    if not texts:
        raise InputError(f"'{path}' has no rows.")
    return texts, labels


def _numbered(raw: list[Any], path: str) -> tuple[Int[np.ndarray, " n"], tuple[str, ...] | None]:
    """Return labels as numbers, and the names of the classes where they have any."""
    whole = [label is not None and re.fullmatch(r"[0-9]{1,18}", spelled(label)) for label in raw]
    if all(whole):
        numbers = np.array([int(spelled(label)) for label in raw])
        if (present := np.unique(numbers)).tolist() != list(range(len(present))):
            raise InputError(
                f"labels that are numbers must count from 0 without gaps; '{path}' has "
                f"{', '.join(map(str, present[:10]))}. Name the classes instead."
            )
        return numbers, None
    nameless = [i for i, one in enumerate(raw) if not isinstance(one, str) or not one.strip()]
    if nameless:  # where there are no names at all, it is not the numbers that are wrong
        row = next((i for i in nameless if not whole[i]), nameless[0])
        raise InputError(
            f"row {row + 1} of '{path}' has the label {raw[row]!r}; "
            "labels are names, or whole numbers from 0."
        )
    # Not NumPy's unique, which makes all strings as wide as the longest.
    place = {name: number for number, name in enumerate(sorted(set(raw)))}
    return np.array([place[name] for name in raw]), tuple(place)
