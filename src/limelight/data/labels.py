"""Match labels of the data with classes: by name, and by number only if that is unambiguous."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from limelight.data.files import find_duplicate, replace_invalid_utf8
from limelight.errors import InputError, unknown_name_message

# Names of the classes in the order of the numbers, or a map from labels to classes.
Labels = str | Sequence[str] | Mapping[Any, str]
_MAX_LISTED = 8  # labels and classes in a sentence
_OPTION = "labels (--labels)"


def label_classes(label_map: Labels | None) -> dict[str, str]:
    """Parse a map from labels to classes.

    "World,Sports" and ["World", "Sports"] name the labels 0 and 1; "neg=negative,pos=positive" and
    {"neg": "negative", "pos": "positive"} name labels that are words, or any numbers. A label
    stands for one class, and a list names each class once.
    """
    if isinstance(label_map, str):
        parts = [part.strip() for part in label_map.split(",")]
        pairs = [part.partition("=") for part in parts]
        has_pairs = all(equals for _, equals, _ in pairs)
        assignments = (
            [(label, name) for label, _, name in pairs] if has_pairs else list(enumerate(parts))
        )
        is_list = not has_pairs
    elif isinstance(label_map, Mapping):
        assignments, is_list = list(label_map.items()), False
    else:
        assignments, is_list = list(enumerate(label_map or ())), True
    labels, names = (
        [normalize_label(key) for key, _ in assignments],
        [str(name).strip() for _, name in assignments],
    )
    if (duplicate := find_duplicate(labels)) is not None:
        raise InputError(f"{_OPTION} must name each label once, not {duplicate!r} twice.")
    if is_list and (duplicate := find_duplicate(names)) is not None:
        raise InputError(
            f"{_OPTION} must name each class once, not {duplicate!r} twice. To merge labels, write "
            "LABEL=CLASS for each."
        )
    return dict(zip(labels, names, strict=True))


class ClassLabels:
    """Match labels with the classes of a model.

    A label names a class if it is its name; failing that, if they differ in case or in the space
    around them only. A whole number (0, 0.0 or "0") is no name: it matches a class that is called
    by it, as "0", "LABEL_0" and "class 0" are, and "False" of "False" and "True", never the place
    of a class. ``label_map`` comes before all
    these rules.
    """

    def __init__(self, classes: Sequence[str], label_map: Labels | None = None) -> None:
        self.classes = tuple(classes)
        # Of classes that share a name the first counts.
        self._exact_names = {name: number for number, name in reversed(list(enumerate(classes)))}
        folded_names = [_fold_case(name) for name in classes]
        # Names that differ only in case are matched with their case.
        self._folded_names = {
            folded_name: i
            for i, folded_name in enumerate(folded_names)
            if folded_names.count(folded_name) == 1
        }
        for number, name in enumerate(classes):
            if match := re.fullmatch(r"(?i:label|class)[ _](\d{1,9})", name, re.ASCII):
                self._folded_names.setdefault(str(int(match[1])), number)
        if self._folded_names.keys() == {"false", "true"}:  # True and 1 are one number
            self._folded_names |= {
                "0": self._folded_names["false"],
                "1": self._folded_names["true"],
            }
        self._label_numbers = {
            label: self._class_number(name) for label, name in label_classes(label_map).items()
        }

    def _class_number(self, name: str) -> int:
        """Return the number of the class ``name``; raise an error if there is none."""
        number = self._exact_names.get(name, self._folded_names.get(_fold_case(name)))
        if number is None:
            raise InputError(unknown_name_message("class", name, self.classes))
        return number

    def number(self, label: Any) -> int | None:
        """Return the number of the class of ``label``; None if it has no class."""
        if label is None:
            return None
        label_text = normalize_label(label)
        for numbers, key in (
            (self._label_numbers, label_text),
            (self._exact_names, label),
            (self._folded_names, _fold_case(label_text)),
        ):
            if isinstance(key, str) and key in numbers:
                return numbers[key]
        return None

    def warnings(self, labels: Iterable[Any], consequence: str = "") -> Iterator[str]:
        """Yield warnings about labels that share a class and labels without a class.

        A model with one output has no classes, so labels without a class are no problem.
        """
        if (merged_warning := self.merged_warning()) is not None:
            yield merged_warning
        if len(self.classes) > 1 and (message := self.describe_unmatched(labels)) is not None:
            yield f"{message[0].upper()}{message[1:]}{consequence}"

    def merged_warning(self) -> str | None:
        """Return a warning if ``label_map`` assigns several labels to one class, else None."""
        for number, name in enumerate(self.classes):
            labels = [
                label
                for label, label_number in self._label_numbers.items()
                if label_number == number
            ]
            if len(labels) > 1:
                return (
                    f"{_OPTION} merges the labels {_join_names(labels)} into one class, {name!r}."
                )
        return None

    def describe_unmatched(self, labels: Iterable[Any]) -> str | None:
        """Describe labels without a class and how to map them; None if every label has a class."""
        unmatched_labels = {
            normalize_label(cell)
            for cell in labels
            if cell is not None and self.number(cell) is None
        }
        if not unmatched_labels:
            return None
        numbers = all(cell.isascii() and cell.isdecimal() for cell in unmatched_labels)
        sorted_labels = sorted(
            unmatched_labels, key=lambda cell: (len(cell) if numbers else 0, cell)
        )
        # A list names the classes of the numbers 0, 1, …, so that it cannot name a larger number.
        if numbers and all(int(cell) < len(self.classes) for cell in unmatched_labels):
            example = ",".join(self.classes[:2]) + ",…" * (len(self.classes) > 2)
            syntax = f"the classes in the order of the numbers, such as {example}"
        else:
            syntax = "LABEL=CLASS for each label, separated by commas"
        return (
            f"the label{'s' * (len(unmatched_labels) > 1)} {_join_names(sorted_labels)} "
            f"match{'es' * (len(unmatched_labels) == 1)} no class of the model "
            f"({_join_names(self.classes)}). Set {_OPTION} to {syntax}."
        )


def below_chance_warning(right: int, total: int, classes: int) -> str | None:
    """Return a warning that labels may be in another order, if accuracy is below chance, else None.

    Below chance means that the 95 % interval of the accuracy lies below 1/C.
    """
    if not total or classes < 2 or wilson_interval(right, total)[1] >= 1 / classes:
        return None
    return (
        f"The accuracy on {total:,} texts is {right / total:.1%}, which is below chance "
        f"({1 / classes:.1%}). Check which class each label means, and set {_OPTION}."
    )


def wilson_interval(right: int, total: int, *, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the score interval of a proportion: the p with |p̂ − p| ≤ z √(p (1 − p) / n)."""
    share, spread = right / total, z * z / total
    center = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    # At no success the ends of the interval meet 0, and at no failure 1; rounding must not hide it.
    low, high = max(0.0, center - half), min(1.0, center + half)
    return low if right else 0.0, high if right < total else 1.0


def normalize_label(label: Any) -> str:
    """Convert a label to a string; 1, 1.0, True and "1.0" give the same number."""
    label = label.item() if hasattr(label, "item") else label  # from NumPy to Python
    if isinstance(label, bool):
        return str(int(label))
    text = replace_invalid_utf8(str(label)).strip()
    if re.fullmatch(r"\d{1,18}(\.0*)?", text, re.ASCII):
        return str(int(text.partition(".")[0]))
    return text


def _fold_case(name: str) -> str:
    return normalize_label(name).casefold()


def _join_names(names: Sequence[str]) -> str:
    """Join names in quotes; of many names, show the first ones and count the others."""
    quoted = ", ".join(map(repr, names[:_MAX_LISTED]))
    return (
        quoted if len(names) <= _MAX_LISTED else f"{quoted} and {len(names) - _MAX_LISTED:,} others"
    )
