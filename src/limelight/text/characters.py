"""Texts and names cut to fit one line, and halves of characters that files cannot hold."""

import re
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


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
