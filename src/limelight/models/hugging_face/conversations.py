"""A conversation as a Hugging Face model reads it: the subwords and words of its prompt."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.hugging_face.subwords import Subwords, ignores_case, number_tokens
from limelight.shapes import Int
from limelight.text import ModelInput, Span, Tokens, UserInput, part_index, truncate_line
from limelight.text.prompts import Prompt

_NO_LIMIT = 1 << 62  # a prompt is never cut


def read_prompt(
    tokenizer: Any,
    prompt: Prompt,
    source: UserInput,
    *,
    limit: int,
    per_subword: bool = False,
) -> ModelInput:
    """Tokenize a prompt, and return its subwords and words as an input.

    Every subword that begins in a part belongs to a word of it, also white space and the marks of a
    chat, so that nothing of a removed part is left.

    Parameters
    ----------
    tokenizer
        The tokenizer of the prompt.
    prompt
        The prompt with its parts.
    source
        The conversation, or the text of the only message.
    limit
        Maximum number of subwords that the model reads before an answer.
    per_subword
        Return subwords instead of words as tokens.

    Raises
    ------
    InputError
        If the prompt has more subwords. The message names the parts that do not fit.
    """
    encoding = tokenizer.encode_prompt(prompt.text)
    ids = np.array(encoding.ids, dtype=np.int64)
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    part = np.array([_part_of_subword(prompt, start, end) for start, end in offsets.tolist()])
    if len(ids) > limit:
        raise _length_error(prompt, part, len(ids), limit)
    is_inside = part >= 0
    words = [-1 if word is None else word for word in encoding.word_ids]
    token, spans = _number_parts(
        np.where(is_inside, words, -1), offsets, part, prompt.text, per_subword=per_subword
    )
    normalize = str.lower if ignores_case(tokenizer) else str
    strings = tuple(normalize(prompt.text[start:end]) for start, end in spans)
    subwords = Subwords(
        ids,
        token,
        side=np.where(token >= 0, 0, -1),
        strings=strings,
        side_of_word=(0,) * len(strings),
        room=_NO_LIMIT,
    )
    return ModelInput(
        prompt.text,
        Tokens(strings, tuple(spans)),
        warnings=prompt.warnings,
        encoding=subwords,
        parts=prompt.parts,
        source=source,
    )


def _part_of_subword(prompt: Prompt, start: int, end: int) -> int:
    """Return the index of the part in which the first letter of a subword lies, or -1."""
    if start >= end:
        return -1
    string = prompt.text[start:end]
    return part_index(
        start + len(string) - len(string.lstrip()) if string.strip() else start, prompt.parts
    )


def _number_parts(
    word: Int[np.ndarray, " L"],
    offsets: Int[np.ndarray, "L 2"],
    part: Int[np.ndarray, " L"],
    text: str,
    *,
    per_subword: bool,
) -> tuple[Int[np.ndarray, " L"], list[Span]]:
    """Number the words of all parts, and white space and marks in them, in the order of the text.

    Parameters
    ----------
    word
        Index of each subword's word according to the tokenizer, -1 outside the parts.
    offsets
        First character of each subword, and the character after its last one.
    part
        Index of each subword's part, -1 outside the parts.
    text
        The prompt.
    per_subword
        Number subwords instead of words.

    Returns
    -------
    The number of each subword's token, -1 outside the parts, and the spans of the tokens.
    """
    one_text = np.zeros_like(word)
    token, ends = number_tokens(word, one_text, offsets, text, per_subword=per_subword)
    spans = [tuple(span) for span in ends.tolist()]
    # White space and marks have no number yet. Each becomes a token.
    unnumbered = np.flatnonzero((token < 0) & (part >= 0))
    token = token.copy()
    token[unnumbered] = len(spans) + np.arange(len(unnumbered))
    spans = spans + [tuple(span) for span in offsets[unnumbered].tolist()]
    first_subword = np.full(len(spans), len(token))
    np.minimum.at(first_subword, token[token >= 0], np.flatnonzero(token >= 0))
    order = np.argsort(first_subword, kind="stable")
    new_number = np.append(np.argsort(order), -1)
    return new_number[token], [spans[i] for i in order]


def _length_error(
    prompt: Prompt, part: Sequence[int] | Int[np.ndarray, " L"], length: int, limit: int
) -> InputError:
    """Return the error for a prompt that is too long, with the parts that do not fit."""
    missing = dict.fromkeys(int(index) for index in np.asarray(part)[limit:] if index >= 0)
    names = [prompt.parts[index].id for index in missing]
    unread = truncate_line(", ".join(map(repr, names)), 200)
    advice = f" These parts do not fit: {unread}." if names else ""
    return InputError(
        f"the prompt has {length:,} tokens, and the model reads {limit:,} before the answer."
        f"{advice} Leave parts out, or shorten them."
    )
