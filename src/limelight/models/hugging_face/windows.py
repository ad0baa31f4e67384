"""Long texts under a Hugging Face model, which reads them window by window."""

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.hugging_face.pieces import Pieces, document_of, pieces_in, pieces_of
from limelight.text import Document, Span, sentence_spans

_ENDLESS = 1 << 62  # what limits a text that is cut later


def window_size(window: Any, limit: int) -> int:
    """Return how many tokens a window has: "auto" as many as a model reads, or fewer."""
    size = limit if window == "auto" else window
    whole = isinstance(size, int) and not isinstance(size, bool)
    if not whole or not 1 <= size <= limit:
        raise InputError(
            f"window must be 'auto' or a number of tokens up to {limit}, all that this model "
            f"reads; got {window!r}."
        )
    return int(size)


def in_windows(
    tokenizer: Any, text: str, size: int, *, apart: bool
) -> tuple[Document, tuple[Span | None, ...]]:
    """Return all of a text, its input the pieces of each window, and where these stand in it.

    Each window has the special pieces of the whole around it. Windows adjoin, each word belongs to
    one, and where they end does not depend on which words are removed.
    """
    whole = document_of(tokenizer, text, limit=_ENDLESS, apart=apart)
    pieces = pieces_in(whole)
    special = int(np.count_nonzero(pieces.side < 0))
    if (room := size - special) < 1:
        raise InputError(f"a window must have at least {special + 1} tokens; got {size}.")
    words, spans = pieces, list(whole.tokens.spans)
    if apart:  # words are whole whatever is explained
        words, spans = pieces_of(tokenizer, text, limit=_ENDLESS)
    inner = words.token[words.text]
    last = np.flatnonzero(np.diff(inner, append=-2))  # the last piece of every word
    starts = [first for first, _ in spans]
    stops = {bisect_left(starts, stop) - 1 for _, stop in sentence_spans(text)}
    ends = window_ends(
        len(inner),
        room,
        words=[int(i) + 1 for i in last],
        sentences=[int(i) + 1 for i in last if inner[i] in stops],
    )
    window = np.full(len(pieces.ids), -1)  # the number of each piece's own
    window[pieces.text] = np.searchsorted(ends, np.arange(len(inner)), side="right")
    parts = []
    for number in range(len(ends)):
        own = (window == number) | (window < 0)
        some = {name: getattr(pieces, name)[own] for name in ("ids", "token", "side")}
        parts.append(replace(pieces, **some, room=room))
    several: tuple[str, ...] = ()
    if len(parts) > 1:
        several = (
            f"The text was read in {len(parts)} windows; what is explained is the mean of "
            "the model's outputs over them.",
        )
    whole = replace(whole, input=tuple(parts), notices=several + whole.notices)
    return whole, tuple(_span(whole, part) for part in parts)


def _span(whole: Document, window: Pieces) -> Span | None:
    """Return the first and last character of the words of a window."""
    words, spans = window.token[window.token >= 0], whole.tokens.spans
    return (spans[words[0]][0], spans[words[-1]][1]) if len(words) else None


def window_ends(
    total: int, room: int, *, words: Collection[int], sentences: Collection[int]
) -> list[int]:
    """Return the ends of windows of at most ``room`` pieces that together hold all ``total``.

    ``words`` and ``sentences`` are the numbers of pieces before their ends. Windows are made
    alike: of the sentence ends in the second half of what fits, the one nearest to an equal share
    of the rest is taken, else such a word end, else the last piece that fits.
    """
    ends, start = [], 0
    while (rest := total - start) > room:
        # An equal share of what is left: a full window and a rest of three words would give those
        # three as much say as all the others.
        share = start + rest / -(-rest // room)
        half, most = start + room // 2, start + room
        for choices in (sentences, words):
            if inside := [end for end in choices if half < end <= most]:
                start = min(inside, key=lambda end: abs(end - share))
                break
        else:
            start = most
        ends.append(start)
    return [*ends, total]
