"""Texts as rows of a vocabulary inside a window of fixed length."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int
from limelight.text import CLS, UNK, ModelInput, Tokens, Vocabulary, token_strings
from limelight.text.characters import LONE_SURROGATE


class EncodedTokens(NamedTuple):
    """The tokens of an input as rows of the vocabulary.

    Parameters
    ----------
    ids
        The row of each token that the model reads, without [cls] and padding.
    beyond
        The tokens behind the window. They move into the window if words before them are deleted.
    removed
        The row that replaces each token when it is removed. None means UNK for all tokens.
    """

    ids: Int[np.ndarray, " T"]
    beyond: tuple[str, ...] = ()
    removed: Int[np.ndarray, " T"] | None = None


def encode_text(text: str, vocabulary: Vocabulary, *, T_max: int) -> ModelInput:
    """Encode the ``T_max - 1`` tokens of a text that fit behind [cls].

    Raises
    ------
    InputError
        If ``text`` is no string, or has no words.
    """
    if not isinstance(text, str):
        raise InputError(f"a text must be a string, not {type(text).__name__}.")
    # Most texts are ASCII. Python knows this without looking at the characters.
    text, replaced = (text, 0) if text.isascii() else LONE_SURROGATE.subn("\ufffd", text)
    strings = tuple(token_strings(text))
    if not strings:
        raise InputError("the text has no words. Give at least one word.")
    inside, beyond = Tokens(strings[: T_max - 1], text), strings[T_max - 1 :]
    ids = vocabulary.encode(inside.strings)
    seen, unknown = len(ids), int(np.count_nonzero(ids == UNK))
    warnings = []
    if replaced:
        # A lone surrogate is half a character, which no file can hold.
        warnings.append(
            f"The text has {replaced} lone surrogate(s), which are not characters. Each was read "
            "as U+FFFD."
        )
    if beyond:
        warnings.append(
            f"The text has {seen + len(beyond)} tokens. The model reads the first {seen}, and the "
            f"last {len(beyond)} were cut off."
        )
    if not any(character.isalnum() for string in inside.strings for character in string):
        warnings.append("The text has no letters and no digits, only other signs.")
    if unknown == seen:
        warnings.append(
            "No word of the text is in the model's vocabulary, so the model reads only UNK."
        )
    elif unknown:
        warnings.append(
            f"{unknown} of {seen} tokens are not in the vocabulary. The model reads UNK instead."
        )
    cutoff = inside.end if beyond else None
    return ModelInput(
        text, inside, cutoff=cutoff, warnings=tuple(warnings), encoding=EncodedTokens(ids, beyond)
    )


def padded_ids(rows: Sequence[Int[np.ndarray, " _"]], *, T_max: int) -> Int[np.ndarray, "n T_max"]:
    """Return a row of ``T_max`` ids for each text: [cls], its tokens, then UNK as padding."""
    # Padding is UNK and takes part in attention, so the window is as long as in training.
    ids = np.full((len(rows), T_max), UNK, dtype=np.int32)
    ids[:, 0] = CLS
    for line, row in zip(ids, rows, strict=True):
        tokens = row[: T_max - 1]
        line[1 : 1 + len(tokens)] = tokens
    return ids
