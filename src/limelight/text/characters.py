"""Characters and lines: borders between characters, and strings truncated to one line."""

import re
import unicodedata
from collections.abc import Sequence

_MAX_NAMES_LENGTH = 60  # characters


def truncate_line(text: str, length: int = 60) -> str:
    """Return ``text`` on one line, truncated to ``length`` characters."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length and len(text) <= 4 * length else line[: length - 1] + "…"


def abbreviate_names(names: Sequence[str]) -> str:
    """Return the names of classes as "negative | positive".

    If this is too long for a line, return the first name and the number of classes.
    """
    line = " | ".join(names)
    if len(line) <= _MAX_NAMES_LENGTH:
        return truncate_line(line, _MAX_NAMES_LENGTH)
    return f"{truncate_line(names[0], 30)} | … ({len(names)} classes)"


_JOINER = "\u200d"  # joins several emoji into one
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")  # two of these letters are a flag
# Signs that put the next consonant below, and vowels that are letters according to Unicode.
_STACKS = frozenset("\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u1039\u17d2")
_VOWELS = frozenset("\u0e33\u0eb3")
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Tai, Hiragana and Han. Katakana
# is not among them, because Unicode (UAX 29) treats a run of Katakana as one word.
UNSPACED = (
    "\u0e01-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u1950-\u19df"
    "\u1a20-\u1a5e\ua9e0-\ua9ef\uaa60-\uaadf\u3005-\u3007\u3021-\u3029\u3041-\u309f\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# With the punctuation of these scripts.
_UNSPACED = f"[{UNSPACED}\u3001-\u303f\uff01-\uff0f\uff1a-\uff1f]"


def is_unspaced_script(character: str) -> bool:
    """Return whether a character is of a script without spaces between words."""
    # Compiled at the first use, which takes a hundredth of a short command.
    return not character.isascii() and re.match(_UNSPACED, character) is not None


def splits_character(text: str, position: int) -> bool:
    """Return whether dividing ``text`` at ``position`` would divide a visible character.

    Such a character is a letter with its accents, an emoji with its skin tone, joined emoji, the
    two letters of a flag, or a keycap. Unicode calls it a grapheme cluster. Only Hangul letters are
    not joined here.
    """
    if not 0 < position < len(text) or text[position].isascii():
        return False
    before, after = text[position - 1], text[position]
    if _FLAG_LETTER.match(before) and _FLAG_LETTER.match(after):
        first = position
        while first and _FLAG_LETTER.match(text[first - 1]):
            first -= 1
        return (position - first) % 2 == 1
    extends = unicodedata.category(after)[0] == "M" or after in (_JOINER, "\u200c", *_VOWELS)
    extends = extends or (before in _STACKS and after.isalpha())
    tone_or_tag = "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f"
    return not before.isspace() and (extends or tone_or_tag or before == _JOINER)


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
