"""Where a text that is too long for a model is cut: after sentences, else after words."""

__all__ = ["sentence_ends", "window_ends"]

from collections.abc import Collection, Sequence

from limelight.text import Span

_STOPS = frozenset(".!?…")
_WIDE_STOPS = frozenset("。！？")  # no space follows them
_CLOSING = "\"'”’»)]"


def sentence_ends(text: str, spans: Sequence[Span]) -> list[int]:
    """Return the numbers of the words that end a sentence.

    A word ends one if it ends in a stop, quotes and brackets aside, with white space after it.
    """
    ends = []
    for i, (_, end) in enumerate(spans):
        behind, last = text[end : end + 1], end - 1
        while last > 0 and text[last] in _CLOSING:
            last -= 1
        wide = text[last] in _WIDE_STOPS and behind not in _WIDE_STOPS
        if wide or (text[last] in _STOPS and (not behind or behind.isspace())):
            ends.append(i)
    return ends


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
