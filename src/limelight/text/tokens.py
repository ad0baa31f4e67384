"""The tokenizer of the paper's code (torchtext's ``basic_english``), and a vocabulary."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Bool, Int, Num
from limelight.threads import cached_property

Span = tuple[int, int]

_LINE_BREAK = "<br />"
_BLANKS = " " * len(_LINE_BREAK)  # as many as it has characters, so that no offset changes
_MARKS = "'.,()!?"  # each is a token of its own
_SEPARATOR = re.compile(r"[\s;:]")
_IN_TOKEN = np.array([_SEPARATOR.match(chr(code)) is None for code in range(128)])
_LAST_SEPARATOR = 0x3000  # the space of East Asian scripts


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of a text.

    Parameters
    ----------
    strings
        The string of each token.
    span_source
        The half-open range of characters of each token, or the text in which `spans` finds these
        ranges when it is first read. The tokens are then the first ones of the text. Finding the
        spans takes twice as long as finding the strings, and predictions do not need them.
    """

    strings: tuple[str, ...]
    span_source: tuple[Span, ...] | str

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The range of characters of each token."""
        if isinstance(self.span_source, str):
            return _find_spans(self.strings, self.span_source)
        return self.span_source

    @property
    def end(self) -> int:
        """The end of the last token."""
        if isinstance(self.span_source, str):  # faster than finding the spans of all tokens
            count = len("".join(self.strings))
            return int(_token_character_positions(self.span_source)[count - 1]) + 1
        return self.span_source[-1][1]

    def __len__(self) -> int:
        return len(self.strings)


def token_strings(text: str) -> list[str]:
    """Return the strings of the tokens of ``text``, without spans."""
    # A few passes over the text in C take half as long as a search for the pattern of a token.
    text = text.lower().replace('"', "").replace(_LINE_BREAK, " ")
    text = text.replace(";", " ").replace(":", " ")
    for mark in _MARKS:
        text = text.replace(mark, f" {mark} ")
    return text.split()


def tokenize(text: str) -> Tokens:
    """Split any Unicode string into tokens with their spans.

    Tokens are in lower case. ``'`` and each of ``. , ( ) ! ?`` is a token. ``"`` is removed.
    ``<br />``, ``;`` and ``:`` count as spaces. A span can be longer than its token, because
    quotes inside a token are removed.
    """
    return Tokens(tuple(token_strings(text)), text)


def _find_spans(strings: tuple[str, ...], text: str) -> tuple[Span, ...]:
    """Find the spans of the tokens ``strings``, which are the first ones of ``text``."""
    # The characters between two tokens belong to no token, so the tokens consist of all other
    # characters in their order. A match object per token takes ten times as long.
    positions = _token_character_positions(text)
    lengths = np.fromiter(map(len, strings), int, len(strings))
    last = np.cumsum(lengths) - 1
    # The end follows from the last character. The one after it may lie behind a quote.
    starts, ends = positions[last - lengths + 1], positions[last] + 1
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


def _token_character_positions(text: str) -> Int[np.ndarray, " n"]:
    """Return the positions in ``text`` of the characters of all tokens, in their order."""
    lower = text.lower()
    plain = lower.replace('"', "").replace(_LINE_BREAK, _BLANKS)
    positions = np.flatnonzero(_are_token_characters(plain))
    if '"' not in lower and len(lower) == len(text):
        return positions
    # Quotes were removed, and lower case can turn one letter into several ('İ'). `source` is the
    # position in `text` of each letter.
    source = np.arange(len(text))
    if len(lower) != len(text):
        source = np.repeat(source, [len(character.lower()) for character in text])
    return source[_code_points(lower) != ord('"')][positions]


def _code_points(text: str) -> Num[np.ndarray, " L"]:
    """Return the number of each character of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _are_token_characters(text: str) -> Bool[np.ndarray, " L"]:
    """Return which characters belong to tokens; the others separate them."""
    if text.isascii():
        return _IN_TOKEN[np.frombuffer(text.encode(), np.uint8)]
    # All characters behind the last separator belong to tokens, as the last row of the table does.
    return _wide_token_characters()[np.minimum(_code_points(text), _LAST_SEPARATOR + 1)]


@lru_cache  # computed at the first use, because it takes a millisecond
def _wide_token_characters() -> Bool[np.ndarray, " codes"]:
    """Return which characters up to the one behind the last separator belong to tokens."""
    characters = map(chr, range(_LAST_SEPARATOR + 2))
    return np.array([_SEPARATOR.match(character) is None for character in characters])


CLS, UNK = 0, 1
_SPECIALS = ("[cls]", "UNK")


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of an embedding by row: ``[cls]``, ``UNK``, then words by falling frequency."""

    words: tuple[str, ...]
    _row: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.words[:2] != _SPECIALS:
            raise InputError(f"a vocabulary must start with [cls] and UNK, not {self.words[:2]}.")
        # Special rows have no entry, because "[cls]" in a text is an ordinary string.
        first = len(_SPECIALS)
        row = dict(zip(self.words[first:], range(first, len(self.words)), strict=True))
        if len(row) != len(self.words) - first:
            raise InputError("a vocabulary must have each word once, but this one repeats some.")
        object.__setattr__(self, "_row", row)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._row

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, size: int | None = None) -> "Vocabulary":
        """Return the ``size`` most frequent words (specials included), ties alphabetical."""
        if size is not None and size < len(_SPECIALS):
            raise InputError(f"the size of a vocabulary must be at least 2, not {size}.")
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = [*_SPECIALS, *(word for word in ranked if word not in _SPECIALS)]
        return cls(tuple(words[:size]))

    def encode(self, strings: Iterable[str]) -> Int[np.ndarray, " T"]:
        """Return the row of each string, ``UNK`` for those not in the vocabulary."""
        return np.fromiter(map(self._row.get, strings, repeat(UNK)), np.int32)
