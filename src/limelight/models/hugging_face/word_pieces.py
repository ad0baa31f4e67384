"""Words of a text by the model's own tokenizer, with their places."""

__all__ = ["document_of", "lowers", "pieces_of"]

from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.failing_texts import said
from limelight.models.given_text import checked_text
from limelight.models.hugging_face.pieces import Pieces
from limelight.models.hugging_face.untouched import untouched_tokenizer
from limelight.text import Document, Span, Tokens, one_line


def document_of(tokenizer: Any, text: str, *, limit: int, apart: bool) -> Document:
    """Return ``text`` in words (what the pre-tokenizer says), or with pieces kept ``apart``."""
    pieces, spans = pieces_of(tokenizer, text, limit=limit, apart=apart)
    count = 1 + pieces.token[pieces.inside].max(initial=-1)
    if not count:
        raise InputError("the text has no words; give at least one word.")
    return Document(
        text,
        Tokens(pieces.strings[:count], tuple(spans[:count])),
        cut=spans[count - 1][1] if pieces.cut else None,
        notices=_cut_off(pieces) + _unknown(pieces, tokenizer),
        input=pieces,
    )


def _cut_off(pieces: Pieces) -> tuple[str, ...]:
    if not pieces.cut:
        return ()
    total = len(pieces.ids) - pieces.before - pieces.after
    return (
        f"The text has {total} tokens; the model reads the first {pieces.room}, "
        f"and the last {pieces.cut} were cut off; window='auto' (--window auto) explains all.",
    )


def _unknown(pieces: Pieces, tokenizer: Any) -> tuple[str, ...]:
    """Say how much of the text the model cannot tell from any other that it does not know."""
    read = pieces.inside[pieces.token[pieces.inside] >= 0]
    unknown = int(np.count_nonzero(pieces.ids[read] == tokenizer.unk_token_id))  # None: none
    if not unknown:
        return ()
    if unknown == len(read):
        return (
            "No word of the text is in the model's vocabulary: it sees only "
            f"{tokenizer.unk_token}.",
        )
    return (
        f"{unknown} of {len(read)} tokens are not in the vocabulary; the model sees "
        f"{tokenizer.unk_token}.",
    )


def pieces_of(
    tokenizer: Any, text: str, *, limit: int, apart: bool = False
) -> tuple[Pieces, list[Span]]:
    """Return all pieces of ``text`` and the place of every word."""
    checked_text(text)
    encoded = _encoded(tokenizer, text)
    ids, words = np.array(encoded["input_ids"], dtype=np.int64), encoded.word_ids()
    places = [_stripped(text, span) for span in encoded["offset_mapping"]]
    token, spans = _tokens(words, places, apart=apart)
    special = [word is None for word in words]
    before = next((i for i, s in enumerate(special) if not s), len(special))
    after = next((i for i, s in enumerate(special[::-1]) if not s), 0)
    strings = [text[start:end] for start, end in spans]
    if lowers(tokenizer):
        strings = [string.lower() for string in strings]
    room = max(limit - before - after, 0)
    return Pieces(ids, token, tuple(strings), before, after, room), spans


def _encoded(tokenizer: Any, text: str) -> Any:
    """Return what the tokenizer makes of ``text``; it may fail on one where it reads others."""
    try:
        with untouched_tokenizer(tokenizer):
            return tokenizer(text, return_offsets_mapping=True, truncation=False, verbose=False)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        raise InputError(
            f"the tokenizer fails on the text {one_line(text, 80)!r} ({said(error)})."
        ) from error


def lowers(tokenizer: Any) -> bool:
    """Whether upper and lower case are the same to the tokenizer."""
    normalizer = getattr(tokenizer.backend_tokenizer, "normalizer", None)
    return normalizer is not None and normalizer.normalize_str("AbC") == "abc"


def _tokens(
    words: list[int | None], places: list[Span], *, apart: bool
) -> tuple[np.ndarray, list[Span]]:
    """Number the words (or, ``apart``, the pieces) that show in the text, and join their places.

    A piece that is only white space belongs to its word if that has other pieces, else to none.
    Pieces of the same character, such as the bytes of an emoji, are one: a page could not show
    them apart.
    """
    token, spans = np.full(len(words), -1), list[Span]()
    number: dict[int, int] = {}
    for i, (word, (start, end)) in enumerate(zip(words, places, strict=True)):
        if word is None or start == end:
            continue
        shared = bool(spans) and start < spans[-1][1]
        j = len(spans) - shared if apart else number.setdefault(word, len(spans))
        if j == len(spans):
            spans.append((start, end))
        spans[j] = (min(spans[j][0], start), max(spans[j][1], end))
        token[i] = j
    if not apart:
        token = np.array([-1 if word is None else number.get(word, -1) for word in words])
    return token, spans


def _stripped(text: str, span: Span) -> Span:
    """Return the place without the white space that byte-level tokenizers include."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
