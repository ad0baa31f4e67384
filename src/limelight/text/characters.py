"""Where characters begin, names cut to fit one line, and halves of characters."""

import re
import unicodedata
from collections.abc import Sequence

_NAMES = 60  # characters


def one_line(text: str, length: int = 60) -> str:
    """Return ``text`` on one line of at most ``length`` characters."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length and len(text) <= 4 * length else line[: length - 1] + "…"


def few_names(names: Sequence[str]) -> str:
    """Return names as "negative | positive", or the first of many and how many there are."""
    whole = " | ".join(names)
    if len(whole) <= _NAMES:
        return one_line(whole, _NAMES)
    return f"{one_line(names[0], 30)} | … ({len(names)} classes)"


_JOINER = "\u200d"  # makes one emoji of several
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")  # two of these letters are a flag


def inside_character(text: str, place: int) -> bool:
    """Whether a cut at ``place`` would part what a reader sees as one character.

    A letter and its accents, an emoji and its skin tone, emoji that are joined, the two letters of
    a flag, a keycap: what Unicode calls a grapheme cluster, Hangul in letters apart.
    """
    if not 0 < place < len(text) or text[place].isascii():
        return False
    before, after = text[place - 1], text[place]
    if _FLAG.match(before) and _FLAG.match(after):
        first = place
        while first and _FLAG.match(text[first - 1]):
            first -= 1
        return (place - first) % 2 == 1
    adds = unicodedata.category(after)[0] == "M" or after in (_JOINER, "\u200c")
    tone_or_tag = "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f"
    return not before.isspace() and (adds or tone_or_tag or before == _JOINER)


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
