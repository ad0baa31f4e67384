"""The tokenizer of the paper's code (torchtext's ``basic_english``), with character offsets."""

__all__ = ["Span", "Tokens", "token_strings", "tokenize"]

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import final

Span = tuple[int, int]

_BREAK, _AS_LONG = "<br />", " " * len("<br />")  # blanks keep every offset where it is
_TOKEN = re.compile(r"[^\s'.,()!?;:]+|['.,()!?]")
_QUOTE = re.compile('"')


@final
@dataclass(frozen=True, slots=True)
class Tokens:
    """Token strings, and for each the half-open range of characters it came from."""

    strings: tuple[str, ...]
    spans: tuple[Span, ...]

    def __len__(self) -> int:
        return len(self.strings)

    def head(self, count: int) -> "Tokens":
        """Return the first ``count`` tokens."""
        return Tokens(self.strings[:count], self.spans[:count])


def token_strings(text: str) -> list[str]:
    """Return the tokens of ``text`` without their places: what counting and encoding need."""
    return _TOKEN.findall(text.lower().replace('"', "").replace(_BREAK, _AS_LONG))


def tokenize(text: str) -> Tokens:
    """Return the tokens of ``text`` with their places in it, for any Unicode string.

    Lower-case; ``'`` and ``. , ( ) ! ?`` stand alone; ``"`` vanishes; ``<br />``, ``;`` and ``:``
    are spaces. A span may be longer than its token: quotes inside a token have vanished.
    """
    lower = text.lower()
    plain = lower.replace('"', "").replace(_BREAK, _AS_LONG)
    strings = _TOKEN.findall(plain)
    spans = _places(strings, plain)
    if '"' in lower:
        spans = _with_quotes(spans, lower)
    if len(lower) != len(text):
        spans = _in_original(spans, text)
    return Tokens(tuple(strings), tuple(spans))


def _places(strings: list[str], plain: str) -> list[Span]:
    """Return where the tokens of ``plain`` stand in it.

    Between two tokens stand only characters that no token has, so the next one is found where it
    is first seen. A match object per token takes three times as long.
    """
    spans, end = [], 0
    for string in strings:
        start = plain.find(string, end)
        end = start + len(string)
        spans.append((start, end))
    return spans


def _with_quotes(spans: list[Span], text: str) -> list[Span]:
    """Return where ``spans`` of ``text`` without its quotes lie in ``text`` itself."""
    quotes = [match.start() for match in _QUOTE.finditer(text)]
    # Character i of the shorter text has as many quotes before it as stand at most i + their count.
    shorter = [place - before for before, place in enumerate(quotes)]

    def place(i: int) -> int:
        return i + bisect_right(shorter, i)

    return [(place(start), place(end - 1) + 1) for start, end in spans]


def _in_original(spans: list[Span], text: str) -> list[Span]:
    """Return where ``spans`` of the lower-cased ``text`` lie in ``text``, where some letter grew.

    One character may become several ('İ'), never with a different count than when lowered alone.
    """
    source = [i for i, character in enumerate(text) for _ in character.lower()]
    return [(source[start], source[end - 1] + 1) for start, end in spans]
