"""The tokenizer of the paper's code (torchtext's ``basic_english``), and a vocabulary."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Int
from limelight.threads import cached_property

Span = tuple[int, int]

_BREAK, _AS_LONG = "<br />", " " * len("<br />")  # blanks keep every offset where it is
_TOKEN = re.compile(r"[^\s'.,()!?;:]+|['.,()!?]")


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
    if '"' not in lower and len(lower) == len(text):
        return tuple(spans)
    # Quotes have vanished, and a letter may have become several ('İ'): from where each came.
    letters = np.frombuffer(lower.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    source = np.arange(len(text))
    if len(lower) != len(text):
        source = np.repeat(source, [len(character.lower()) for character in text])
    source = source[letters != ord('"')]
    # By the last character, not the one after it, which may lie behind a quote.
    ends = source[np.array(spans, dtype=int).reshape(-1, 2) - [0, 1]] + [0, 1]
    return tuple((start, end) for start, end in ends.tolist())


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
