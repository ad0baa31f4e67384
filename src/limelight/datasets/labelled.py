"""Texts with labels: what a classifier learns from and is measured on."""

__all__ = ["LabelledTexts"]

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text import Given, joined


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
