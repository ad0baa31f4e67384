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
# Signs that stack the next consonant below, and vowels that Unicode counts among the letters.
_STACKS = frozenset("\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u1039\u17d2")
_VOWELS = frozenset("\u0e33\u0eb3")
# Scripts that put no space between words: Thai, Lao, Burmese, Khmer, Tai, Hiragana and Han. Words
# in Katakana are foreign ones, written together, as Unicode takes them (UAX 29).
UNSPACED = (
    "\u0e01-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u1950-\u19df"
    "\u1a20-\u1a5e\ua9e0-\ua9ef\uaa60-\uaadf\u3005-\u3007\u3021-\u3029\u3041-\u309f\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{UNSPACED}\u3001-\u303f\uff01-\uff0f\uff1a-\uff1f]")  # with its stops


def is_unspaced_script(character: str) -> bool:
    """Whether a character is of a script that puts no space between words."""
    return _UNSPACED.match(character) is not None


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
    adds = unicodedata.category(after)[0] == "M" or after in (_JOINER, "\u200c", *_VOWELS)
    adds = adds or (before in _STACKS and after.isalpha())
    tone_or_tag = "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f"
    return not before.isspace() and (adds or tone_or_tag or before == _JOINER)


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
