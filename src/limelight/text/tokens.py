"""The tokenizer of the paper's code (torchtext's ``basic_english``), and a vocabulary."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int

Span = tuple[int, int]

_BREAK, _AS_LONG = "<br />", " " * len("<br />")  # blanks keep every offset where it is
_TOKEN = re.compile(r"[^\s'.,()!?;:]+|['.,()!?]")
_QUOTE = re.compile('"')


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token strings, and for each the half-open range of characters it came from.

    Where tokens stand takes four times as long to find as what they are, and predicting never asks:
    ``places`` may be a function, which is called when ``spans`` are first wanted.
    """

    strings: tuple[str, ...]
    places: tuple[Span, ...] | Callable[[], tuple[Span, ...]]

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The range of characters of each token."""
        return self.places() if callable(self.places) else self.places

    def __len__(self) -> int:
        return len(self.strings)

    def head(self, count: int) -> "Tokens":
        """Return the first ``count`` tokens."""
        return Tokens(self.strings[:count], self.spans[:count])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokens):
            return NotImplemented
        return (self.strings, self.spans) == (other.strings, other.spans)

    def __hash__(self) -> int:
        return hash(self.strings)


def token_strings(text: str) -> list[str]:
    """Return the tokens of ``text`` without their places: what counting and encoding need."""
    return _TOKEN.findall(text.lower().replace('"', "").replace(_BREAK, _AS_LONG))


def tokenize(text: str) -> Tokens:
    """Return the tokens of ``text`` with their places in it, for any Unicode string.

    Lower-case; ``'`` and ``. , ( ) ! ?`` stand alone; ``"`` vanishes; ``<br />``, ``;`` and ``:``
    are spaces. A span may be longer than its token: quotes inside a token have vanished.
    """
    return placed_tokens(tuple(token_strings(text)), text)


def placed_tokens(strings: tuple[str, ...], text: str) -> Tokens:
    """Return the first tokens of ``text``, which are ``strings``, with their places in it."""
    return Tokens(strings, partial(_spans, strings, text))


def _spans(strings: tuple[str, ...], text: str) -> tuple[Span, ...]:
    lower = text.lower()
    plain, end, spans = lower.replace('"', "").replace(_BREAK, _AS_LONG), 0, list[Span]()
    # What lies between two tokens has no character of a token in it, so the next one starts where
    # it is first found. A match object per token takes three times as long.
    for string in strings:
        start = plain.find(string, end)
        end = start + len(string)
        spans.append((start, end))
    if '"' in lower:
        spans = _with_quotes(spans, lower)
    if len(lower) != len(text):
        spans = _in_original(spans, text)
    return tuple(spans)


def _with_quotes(spans: list[Span], text: str) -> list[Span]:
    """Return where ``spans`` of ``text`` without its quotes lie in ``text`` itself."""
    quotes = np.array([match.start() for match in _QUOTE.finditer(text)])
    # Character i of the shorter text has as many quotes before it as stand at most i + their count.
    shorter = quotes - np.arange(len(quotes))
    ends = np.array(spans).reshape(-1, 2) - [0, 1]  # the last character, not the one after it
    placed = ends + np.searchsorted(shorter, ends, side="right") + [0, 1]
    return [(start, end) for start, end in placed.tolist()]


def _in_original(spans: list[Span], text: str) -> list[Span]:
    """Return where ``spans`` of the lower-cased ``text`` lie in ``text``, where some letter grew.

    One character may become several ('İ'), never with a different count than when lowered alone.
    """
    source = [i for i, character in enumerate(text) for _ in character.lower()]
    return [(source[start], source[end - 1] + 1) for start, end in spans]


CLS, UNK = 0, 1
_SPECIALS = ("[cls]", "UNK")


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Rows of the embedding: ``[cls]``, ``UNK``, then words by descending frequency."""

    words: tuple[str, ...]
    _row: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.words[:2] != _SPECIALS:
            raise InputError(
                f"a vocabulary starts with [cls] and UNK; this one starts with {self.words[:2]}."
            )
        # Special rows have no entry: a text that spells "[cls]" out is still only text.
        row = {word: i for i, word in enumerate(self.words) if i > UNK}
        if len(row) != len(self.words) - 2:
            raise InputError("a vocabulary lists every word once; this one repeats some.")
        object.__setattr__(self, "_row", row)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._row

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, size: int | None = None) -> "Vocabulary":
        """Return the ``size`` most frequent words (specials included), ties alphabetical."""
        if size is not None and size < len(_SPECIALS):
            raise InputError(f"a vocabulary needs a size of at least 2; got {size}.")
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = [*_SPECIALS, *(word for word in ranked if word not in _SPECIALS)]
        return cls(tuple(words[:size]))

    def encode(self, strings: Iterable[str]) -> Int[np.ndarray, " T"]:
        """Return the row of each string, ``UNK`` for those not in the vocabulary."""
        row = self._row.get
        return np.array([row(word, UNK) for word in strings], dtype=np.int32)
