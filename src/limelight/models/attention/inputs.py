"""Texts as the attention classifier reads them: vocabulary rows inside a fixed window."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text import CLS, UNK, ModelInput, Vocabulary, token_strings
from limelight.text.characters import LONE_SURROGATE
from limelight.text.tokens import placed_tokens


class Encoded(NamedTuple):
    """The classifier's own input: rows of the tokens it reads, and the tokens it does not read.

    ``ids`` pairs with the document's tokens; [cls] and padding are not among them. When words are
    deleted, those ``beyond`` the window move into it. ``removed`` are the rows that stand in the
    place of removed tokens, one for each, where that is not UNK for all.
    """

    ids: Int[np.ndarray, " T"]
    beyond: tuple[str, ...] = ()
    removed: Int[np.ndarray, " T"] | None = None


def read_document(text: str, vocabulary: Vocabulary, *, T_max: int) -> ModelInput:
    """Return ``text`` cut to the ``T_max - 1`` tokens that fit after [cls]."""
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}.")
    # Most texts are ASCII, which Python knows of a string without looking at its characters.
    text, replaced = (text, 0) if text.isascii() else LONE_SURROGATE.subn("\ufffd", text)
    strings = tuple(token_strings(text))
    if not strings:
        raise InputError("the text has no words; give at least one word.")
    inside, beyond = placed_tokens(strings[: T_max - 1], text), strings[T_max - 1 :]
    ids = vocabulary.encode(inside.strings)
    seen, unknown = len(ids), int(np.count_nonzero(ids == UNK))
    notices = []
    if replaced:
        # A lone surrogate is half a character, which no file can hold.
        notices.append(
            f"The text holds {replaced} lone surrogate(s), which are not characters; "
            "each was read as U+FFFD."
        )
    if beyond:
        notices.append(
            f"The text has {seen + len(beyond)} tokens; the model reads the first {seen}, "
            f"and the last {len(beyond)} were cut off."
        )
    if not any(character.isalnum() for string in inside.strings for character in string):
        notices.append("The text has no letters and no digits, only other signs.")
    if unknown == seen:
        notices.append("No word of the text is in the model's vocabulary: it sees only UNK.")
    elif unknown:
        notices.append(f"{unknown} of {seen} tokens are not in the vocabulary; the model sees UNK.")
    cut = inside.spans[-1][1] if beyond else None
    return ModelInput(text, inside, cut=cut, notices=tuple(notices), input=Encoded(ids, beyond))


def padded_ids(rows: Sequence[Int[np.ndarray, " _"]], *, T_max: int) -> Int[np.ndarray, "n T_max"]:
    """Return one row of ``T_max`` ids per document: [cls], its tokens, then UNK as padding."""
    # Padding is UNK and takes part in attention: a window is as long as it was in training.
    ids = np.full((len(rows), T_max), UNK, dtype=np.int32)
    ids[:, 0] = CLS
    for line, row in zip(ids, rows, strict=True):
        kept = row[: T_max - 1]
        line[1 : 1 + len(kept)] = kept
    return ids
