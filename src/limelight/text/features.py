"""What an explanation scores: distinct words, or single positions."""

__all__ = ["FEATURES", "Features", "features_of"]

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np

from limelight.errors import InputError, nearest
from limelight.shapes import Int
from limelight.text.tokenizer import Span, Tokens

FEATURES = ("words", "positions")


@runtime_checkable
class Tokenized(Protocol):
    """Any text with its tokens."""

    @property
    def tokens(self) -> Tokens:
        """The tokens inside the window."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Feature strings, every place of each in the text, and the feature of each token.

    ``of_token`` is -1 at protected words, which stay as they are and are no features.
    """

    kind: str
    strings: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    of_token: Int[np.ndarray, " T"]

    def __len__(self) -> int:
        return len(self.strings)


def features_of(
    document: Tokenized, kind: str = "words", *, protect: Collection[str] = ()
) -> Features:
    """Return one feature per distinct token string ("words") or per token ("positions").

    Features stand in the order of their first occurrence. Strings outside the vocabulary stay
    distinct, although the model sees UNK for each.
    """
    if kind not in FEATURES:
        raise InputError(nearest("features", kind, FEATURES))
    row: dict[str | int, int] = {}
    of_token = np.full(len(document.tokens), -1)
    strings: list[str] = []
    places: list[list[Span]] = []
    tokens = zip(document.tokens.strings, document.tokens.spans, strict=True)
    for t, (string, span) in enumerate(tokens):
        if string in protect:
            continue
        j = row.setdefault(string if kind == "words" else t, len(row))
        if j == len(strings):
            strings.append(string)
            places.append([])
        places[j].append(span)
        of_token[t] = j
    if not strings:
        raise InputError("every word of the text is protected; leave at least one to explain.")
    return Features(kind, tuple(strings), tuple(map(tuple, places)), of_token)
