"""A text as the classifier sees it: tokens inside the window, and what did not fit."""

__all__ = ["Document", "read_document", "window"]

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text.tokenizer import Tokens, tokenize
from limelight.text.vocabulary import CLS, UNK, Vocabulary

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """The tokens of ``text`` that fit the window, their vocabulary rows, and how many did not fit.

    ``ids`` pairs with ``tokens``; [cls] and padding are not among them. ``replaced`` counts the
    lone surrogates of the text as it was given: they are no characters, and no file holds them.
    """

    text: str
    tokens: Tokens
    ids: Int[np.ndarray, " T"]
    cut: int
    replaced: int = 0

    @property
    def unknown(self) -> int:
        """How many tokens the model sees as UNK."""
        return int(np.count_nonzero(self.ids == UNK))

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of a prediction must know about how the text was read."""
        total, seen = len(self.tokens) + self.cut, len(self.tokens)
        notices = []
        if self.replaced:
            notices.append(
                f"{self.replaced} lone surrogate(s) in the text are no characters; "
                "each was read as U+FFFD."
            )
        if self.cut:
            notices.append(
                f"The text has {total} tokens; the model reads the first {seen}, "
                f"the last {self.cut} were cut off."
            )
        if not any(character.isalnum() for string in self.tokens.strings for character in string):
            notices.append("The text holds no letters and no digits, only other signs.")
        if self.unknown == seen:
            notices.append("No word of the text is in the model's vocabulary: it sees only UNK.")
        elif self.unknown:
            notices.append(
                f"{self.unknown} of {seen} tokens are not in the vocabulary; the model sees UNK."
            )
        return tuple(notices)


def read_document(text: str, vocabulary: Vocabulary, *, T_max: int) -> Document:
    """Return ``text`` cut to the ``T_max - 1`` tokens that fit behind [cls]."""
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}.")
    text, replaced = (text, 0) if text.isascii() else _LONE_SURROGATE.subn("\ufffd", text)
    tokens = tokenize(text)
    if not len(tokens):
        raise InputError("the text has no words; give at least one word.")
    inside = tokens.head(T_max - 1)
    ids = vocabulary.encode(inside.strings)
    return Document(text, inside, ids, cut=len(tokens) - len(inside), replaced=replaced)


def window(rows: Sequence[Int[np.ndarray, " _"]], *, T_max: int) -> Int[np.ndarray, "n T_max"]:
    """Return one row of ``T_max`` ids per document: [cls], its tokens, then UNK as padding."""
    ids = np.full((len(rows), T_max), UNK, dtype=np.int32)
    ids[:, 0] = CLS
    for line, row in zip(ids, rows, strict=True):
        kept = row[: T_max - 1]
        line[1 : 1 + len(kept)] = kept
    return ids
