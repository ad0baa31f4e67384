"""Which class a label of the data is: by name, and by number only where that is no guess."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from limelight.data.files import repaired, repeated
from limelight.errors import InputError, nearest

# What a caller may say: names of the classes in the order of the numbers, or the class of a label.
Labels = str | Sequence[str] | Mapping[Any, str]
_LISTED = 8  # labels and classes in a sentence
_OPTION = "--labels (labels= in Python)"


def label_classes(given: Labels | None) -> dict[str, str]:
    """Return the class of each label that a caller named.

    "World,Sports" and ["World", "Sports"] name the labels 0 and 1; "neg=negative,pos=positive" and
    {"neg": "negative", "pos": "positive"} name labels that are words, or any numbers. A label
    stands for one class, and a list names each class once.
    """
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(",")]
        pairs = [part.partition("=") for part in parts]
        paired = all(equals for _, equals, _ in pairs)
        named = [(label, name) for label, _, name in pairs] if paired else list(enumerate(parts))
        listed = not paired
    elif isinstance(given, Mapping):
        named, listed = list(given.items()), False
    else:
        named, listed = list(enumerate(given or ())), True
    labels, names = [spelled(one) for one, _ in named], [str(name).strip() for _, name in named]
    if (twice := repeated(labels)) is not None:
        raise InputError(f"{_OPTION} must name each label once; {twice!r} is there twice.")
    if listed and (twice := repeated(names)) is not None:
        raise InputError(
            f"{_OPTION} must name each class once; {twice!r} is there twice. To make labels one "
            "class, write LABEL=CLASS for each."
        )
    return dict(zip(labels, names, strict=True))


class ClassLabels:
    """The classes of a model as labels name them.

    A label names a class if it is its name; failing that, if they differ in case or in the space
    around them only. A whole number (0, 0.0 or "0") is no name: it matches a class that is called
    by it, as "0", "LABEL_0" and "class 0" are, and "False" of "False" and "True", never the place
    of a class. ``given`` comes before all that.
    """

    def __init__(self, classes: Sequence[str], given: Labels | None = None) -> None:
        self.classes = tuple(classes)
        # Of classes that share a name the first counts.
        self._exact = {name: number for number, name in reversed(list(enumerate(classes)))}
        folded = [_folded(name) for name in classes]
        # Names that differ by case alone are told apart by it.
        self._folded = {one: i for i, one in enumerate(folded) if folded.count(one) == 1}
        for number, name in enumerate(classes):
            if called := re.fullmatch(r"(?i:label|class)[ _](\d{1,9})", name, re.ASCII):
                self._folded.setdefault(str(int(called[1])), number)
        if self._folded.keys() == {"false", "true"}:  # True and 1 are one number
            self._folded |= {"0": self._folded["false"], "1": self._folded["true"]}
        self._given = {label: self._named(name) for label, name in label_classes(given).items()}

    def _named(self, name: str) -> int:
        found = self._exact.get(name, self._folded.get(_folded(name)))
        if found is None:
            raise InputError(nearest("class", name, self.classes))
        return found

    def number(self, label: Any) -> int | None:
        """Return the number of the class that ``label`` names; None where it names none."""
        if label is None:
            return None
        said = spelled(label)
        for known, key in (
            (self._given, said),
            (self._exact, label),
            (self._folded, _folded(said)),
        ):
            if isinstance(key, str) and key in known:
                return known[key]
        return None

    def notices(self, labels: Iterable[Any], then: str = "") -> Iterator[str]:
        """Yield what a reader must know: labels made one class, and those that are none.

        A model of one output has no classes, and what stands in a column of labels is not for it.
        """
        if (merged := self.merged()) is not None:
            yield merged
        if len(self.classes) > 1 and (said := self.unmatched(labels)) is not None:
            yield f"{said[0].upper()}{said[1:]}.{then}"

    def merged(self) -> str | None:
        """Return the notice that several of the labels given are one class; None without any."""
        for number, name in enumerate(self.classes):
            labels = [label for label, given in self._given.items() if given == number]
            if len(labels) > 1:
                return f"{_OPTION} makes the labels {_list(labels)} one class, {name!r}."
        return None

    def unmatched(self, labels: Iterable[Any]) -> str | None:
        """Return the clause that lists labels without a class, the classes, and what to do.

        None comes back where every label has a class.
        """
        wrong = {spelled(one) for one in labels if one is not None and self.number(one) is None}
        if not wrong:
            return None
        numbers = all(one.isascii() and one.isdecimal() for one in wrong)
        shown = sorted(wrong, key=lambda one: (len(one) if numbers else 0, one))
        which = "the classes in the order of the numbers" if numbers else "LABEL=CLASS"
        return (
            f"the label{'s' * (len(wrong) > 1)} {_list(shown)} match{'es' * (len(wrong) == 1)} no "
            f"class of the model (its classes are {_list(self.classes)}); say which is which by "
            f"{_OPTION}: {which}, separated by commas"
        )


def below_chance(right: int, total: int, classes: int) -> str | None:
    """Return the notice that labels may be in another order; None where nothing says so.

    It takes more than bad luck: the 95 % interval of the share that is right lies below 1/C.
    """
    if not total or classes < 2 or wilson_interval(right, total)[1] >= 1 / classes:
        return None
    return (
        f"The model is right on {right / total:.1%} of {total:,} texts, less than guessing would "
        f"be ({1 / classes:.1%}): are the labels in another order? Say which is which by {_OPTION}."
    )


def wilson_interval(right: int, total: int, *, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the score interval of a proportion: the p with |p̂ − p| ≤ z √(p (1 − p) / n)."""
    share, spread = right / total, z * z / total
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    # At no success the ends of the interval meet 0, and at no failure 1; rounding must not hide it.
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return low if right else 0.0, high if right < total else 1.0


def spelled(label: Any) -> str:
    """Return a label as a string: 1, 1.0, True and "1.0" are one number."""
    label = label.item() if hasattr(label, "item") else label  # NumPy's are Python's
    if isinstance(label, bool):
        return str(int(label))
    said = repaired(str(label)).strip()
    if re.fullmatch(r"\d{1,18}(\.0*)?", said, re.ASCII):
        return str(int(said.partition(".")[0]))
    return said


def _folded(name: str) -> str:
    return spelled(name).casefold()


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_LISTED]))
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED:,} others"
