"""Labeled texts, to train a classifier and to evaluate it."""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from limelight.data.columns import check_role, find_text_fault, open_data
from limelight.data.files import data_files, read_text_file
from limelight.data.labels import ClassLabels, Labels, label_classes, normalize_label
from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text import Conversation, UserInput, join_pair


@dataclass(frozen=True, slots=True, eq=False)
class LabeledTexts:
    """Texts, their class numbers, the names of the classes if known, and the name of the source.

    ``warnings`` are warnings about the match of labels with classes.
    Labels count from 0; ``classes[label]`` is the name. A text may be a pair, a tuple of two.
    """

    texts: Sequence[UserInput]
    labels: Int[np.ndarray, " n"]
    classes: tuple[str, ...] | None = None
    source: str = "memory"
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        numbers = np.array(self.labels, dtype=np.int64)
        if len(numbers) != len(self.texts):
            raise InputError(
                f"texts and labels must have the same length, not {len(self.texts)} and "
                f"{len(numbers)}."
            )
        if len(numbers) and numbers.min() < 0:
            raise InputError(f"labels must be at least 0, not {numbers.min()}.")
        if self.classes is not None and len(numbers) and numbers.max() >= len(self.classes):
            raise InputError(
                f"classes must have a name for label {numbers.max()}, but there are only "
                f"{len(self.classes)}: {', '.join(self.classes)}."
            )
        numbers.setflags(write=False)
        object.__setattr__(self, "labels", numbers)
        object.__setattr__(self, "texts", tuple(self.texts))
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(self.classes))

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, or their numbers if they have no names."""
        if self.classes is not None:
            return self.classes
        return tuple(str(label) for label in range(int(self.labels.max(initial=0)) + 1))

    def with_classes(self, classes: Sequence[str], labels: Labels | None = None) -> "LabeledTexts":
        """Convert the labels to numbers of ``classes``, matched by name."""
        class_labels, names = ClassLabels(classes, labels), self.class_names
        number_of = [class_labels.number(name) for name in names]
        numbers = [number_of[label] for label in self.labels]
        if None in numbers:
            clause = class_labels.describe_unmatched(
                names[label] for label in np.unique(self.labels)
            )
            first = numbers.index(None) + 1
            raise InputError(f"row {first} of '{self.source}': {clause}")
        warnings = (*self.warnings, *filter(None, [class_labels.merged_warning()]))
        return replace(self, labels=np.array(numbers), classes=tuple(classes), warnings=warnings)

    @property
    def digest(self) -> str:
        """SHA-256 of texts and labels, in their order."""
        digest = hashlib.sha256(self.labels.tobytes())
        for text in self.texts:
            # A zero between them: "ab", "c" and "a", "bc" are different data.
            string = text.cell if isinstance(text, Conversation) else join_pair(text)[0]
            digest.update(string.encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()


_IMDB_CLASSES = {"neg": "negative", "pos": "positive"}


def read_labeled(
    path: Any,
    classes: Sequence[str] | None = None,
    *,
    part: Literal["train", "test"] = "train",
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    labels: Labels | None = None,
) -> LabeledTexts:
    """Read labeled texts from files, a folder or a table in memory.

    A label is a name or a number. A number only matches a class whose name is that number, such as
    "0", "LABEL_0" or "class 0". It is never the position of a class in ``classes``.

    Parameters
    ----------
    path
        Files, a folder or a table, as in :func:`limelight.explain_data`. A folder without data
        files must be ``aclImdb``, the folder of the IMDB archive, or its ``train`` or ``test``
        folder.
    classes
        The names of the classes, in order. Every label must be one of them. Upper and lower case
        make no difference. Without ``classes``, the classes are the sorted names in the data. If
        the labels are numbers, the classes have no names.
    part
        For the folder ``aclImdb``: "train" or "test".
    text_column, pair_column, label_column
        The columns of the texts, of the second texts of pairs, and of the labels. Default: columns
        with common names, such as "text" or "review", and "label" or "class".
    labels
        The class of each label, if labels are numbers or differ from the class names: the classes
        in the order of the numbers, ["World", "Sports"], or {"neg": "negative"}.

    Returns
    -------
    The texts with their class numbers, and the names of the classes.

    Raises
    ------
    InputError
        If a file cannot be read, a column is missing, or a text or a label cannot be used.

    Examples
    --------
    >>> import limelight
    >>> reviews = {"text": ["A superb film.", "Dull and long."], "label": ["good", "bad"]}
    >>> labeled = limelight.read_labeled(reviews)
    >>> labeled.class_names, labeled.labels.tolist()
    (('bad', 'good'), [1, 0])
    """
    if classes is None and labels is not None:
        classes = list(dict.fromkeys(label_classes(labels).values()))
    texts, cells = list[UserInput](), list[Any]()
    if isinstance(path, str | os.PathLike) and _is_imdb_folder(folder := Path(path), part):
        texts, cells = _read_archive(folder, part)
        classes, name = tuple(_IMDB_CLASSES.values()) if classes is None else classes, str(path)
    else:
        data = open_data(path, text=text_column, label=label_column, pair=pair_column)
        check_role(data.files, label_column := data.columns.label or "label", "label")
        for row in data.rows(label_column):
            (label,) = row.cells
            if isinstance(label, str) and (problem := find_text_fault(label, "label")):
                raise InputError(f"{row.where}: {problem}")
            texts.append(row.text)
            cells.append(label)
        name = data.name
    source = Path(name).name
    if classes is None:
        return LabeledTexts(texts, *_number_labels(cells, name), source)
    if None in cells:
        raise InputError(
            f"row {cells.index(None) + 1} of '{name}' has no label. Add a label, or remove the row."
        )
    names = [label if isinstance(label, str) else normalize_label(label) for label in cells]
    number_of = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbers = np.array([number_of[name] for name in names])
    labeled = LabeledTexts(texts, numbers, tuple(number_of), source)
    return labeled.with_classes(classes, labels)


def _is_imdb_folder(path: Path, part: str) -> bool:
    """Return whether to read a folder as the IMDB archive, ``aclImdb`` or one of its parts.

    These folders contain neither data files nor images, or they contain a folder ``neg``.
    """
    if not path.is_dir():
        return False
    from limelight.data.images import find_images

    has_reviews = (path / "neg").is_dir() or (path / part / "neg").is_dir()
    return (has_reviews or not data_files(path)) and find_images(path) is None


def _read_archive(path: Path, part: str) -> tuple[list[UserInput], list[Any]]:
    """Read the reviews of a part of the IMDB archive, with their labels."""
    home = path if (path / "pos").is_dir() else path / part
    texts, labels = list[UserInput](), []
    for name, label in _IMDB_CLASSES.items():
        if not (home / name).is_dir():
            raise InputError(
                f"'{path}' has no data files, and '{home / name}' is missing. Check the path."
            )
        for file in sorted((home / name).glob("*.txt")):
            texts.append(text := read_text_file(file))
            if not text.strip():
                raise InputError(f"'{file}' is empty. Remove it.")
            labels.append(label)
    if not texts:
        raise InputError(f"'{path}' has no rows.")
    return texts, labels


def _number_labels(
    labels: list[Any], path: str
) -> tuple[Int[np.ndarray, " n"], tuple[str, ...] | None]:
    """Convert labels to class numbers, and return the names of the classes if there are names."""
    is_number = [
        label is not None and re.fullmatch(r"[0-9]{1,18}", normalize_label(label))
        for label in labels
    ]
    if all(is_number):
        numbers = np.array([int(normalize_label(label)) for label in labels])
        if (present := np.unique(numbers)).tolist() != list(range(len(present))):
            raise InputError(
                f"numbers as labels must be 0, 1, … without gaps, but '{path}' has "
                f"{', '.join(map(str, present[:10]))}. Set labels (--labels) to NUMBER=CLASS for "
                "each, separated by commas."
            )
        return numbers, None
    nameless = [i for i, cell in enumerate(labels) if not isinstance(cell, str) or not cell.strip()]
    if nameless:  # report a label that is no number, if there is one
        row = next((i for i in nameless if not is_number[i]), nameless[0])
        raise InputError(
            f"the label of row {row + 1} of '{path}' must be a name or a whole number from 0, not "
            f"{labels[row]!r}."
        )
    # Not ``numpy.unique``: it makes all strings as wide as the longest.
    number_of = {name: number for number, name in enumerate(sorted(set(labels)))}
    return np.array([number_of[name] for name in labels]), tuple(number_of)
