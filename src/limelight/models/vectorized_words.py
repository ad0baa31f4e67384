"""How a vectorizer of scikit-learn cuts a text into words, and why removed words change no other.

With a known token pattern this is proven. Whatever other code takes part (a tokenizer, an analyzer,
a preprocessor, another pattern) is tried on each text: many words are removed at once, and what is
left must be read as before.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from limelight.models.bags import blank_spans
from limelight.models.functions import word_spans
from limelight.sampling.masks import Masks, text_rng
from limelight.shapes import Bool
from limelight.text import Span
from limelight.theory.enumeration import all_keeps
from limelight.threads import cached_property

# A span, its name, and the tokens that the vectorizer makes of it.
Words = list[tuple[Span, str, list[str]]]

# One character of a token: a shorthand, or a bracket without other escapes.
_CHARACTER = r"(?:\\[wdS]|\[\^?(?:[A-Za-z0-9_'-]|\\[wds])+\])"
_COUNT = r"(?:[+*?]|\{\d+(?:,\d*)?\})?"
# A whole run of word characters: \b\w\w+\b.
_WHOLE_RUN = re.compile(rf"(?:\(\?u\))?\\b(?P<body>(?:{_CHARACTER}{_COUNT})+)\\b")
# The longest run of characters of one kind: \S+, [a-z]{2,}.
_LONGEST_RUN = re.compile(rf"(?:\(\?u\))?(?P<kind>{_CHARACTER})(?P=kind)*(?:\+|\{{\d+,\}})")
# Python writes a capital sigma in lower case by what stands around it, and a dotted capital I as
# two characters. All other letters become small one by one.
_UNEVEN = re.compile("[\u03a3\u0130]")
_ALL_SUBSETS = 8  # words of which every set is removed once
_GAPS = 6  # words in a row that are removed between two that stay
_RANDOM = 32  # sets of each kind that are drawn for longer texts


def is_known_pattern(pattern: Any) -> bool:
    """Return whether what stands around a token cannot change which tokens this pattern finds."""
    if not isinstance(pattern, str):
        return False
    characters = [chr(code) for code in range(128)]
    if match := _WHOLE_RUN.fullmatch(pattern):
        # Between word boundaries each token is a whole run of word characters, and such a run is
        # a token or not by itself.
        kinds = [re.compile(kind) for kind in re.findall(_CHARACTER, match["body"])]
        return not any("^" in kind.pattern or r"\S" in kind.pattern for kind in kinds) and all(
            re.fullmatch(r"\w", character)
            for character in characters
            for kind in kinds
            if kind.fullmatch(character)
        )
    if match := _LONGEST_RUN.fullmatch(pattern):
        kind = re.compile(match["kind"])
        # Spaces stand where a token was removed, and must not be part of another.
        spaces = [chr(code) for code in range(0x3001) if chr(code).isspace()]
        return not any(kind.fullmatch(space) for space in spaces)
    return False


class WordReader:
    """The words of a text as a fitted vectorizer cuts it."""

    def __init__(self, vectorizer: Any) -> None:
        self.vectorizer = vectorizer

    @cached_property
    def is_known(self) -> bool:
        """Whether nothing but scikit-learn's own code with a known pattern cuts a text."""
        accents = self.vectorizer.strip_accents
        return (
            self._cuts_by_pattern
            and (accents is None or isinstance(accents, str))
            and is_known_pattern(self.vectorizer.token_pattern)
        )

    def read(self, text: str) -> tuple[Words, bool] | None:
        """Return the words of a text, and whether they were checked and not proven.

        None if removed words change how others are read.
        """
        if self.is_known and self._is_even(text):
            # A text of single letters and marks may hold no token. Its words then do nothing.
            words = self._matches(text)
            return words or [(span, text[slice(*span)], []) for span in word_spans(text)], False
        try:
            tokens = list(self._analyze(text))
            for words in self._cuts(text):
                if words and _tokens(words) == tokens and self._survives_removals(text, words):
                    return words, True
        except Exception:  # the user's own code may refuse a shorter text, such as an empty one
            return None
        return None

    def _is_even(self, text: str) -> bool:
        """Whether every character of a text is prepared by itself, and stays one character."""
        if text.isascii():
            return True
        return self.vectorizer.strip_accents is None and (
            not self.vectorizer.lowercase or _UNEVEN.search(text) is None
        )

    def _cuts(self, text: str) -> Iterator[Words]:
        """Yield the text cut into words in each way that may be right, with the tokens of each."""
        # Places in a prepared text are those of the text only if it is as long.
        if self._cuts_by_pattern and len(self._prepare(text)) == len(text):
            yield self._matches(text)
        # Words and marks, or what stands between spaces: most tokenizers begin with one of them.
        # Each word is read alone. Spellings of one token are one word.
        for spans in (word_spans(text), [match.span() for match in re.finditer(r"\S+", text)]):
            tokens = [list(self._analyze(text[start:end])) for start, end in spans]
            yield [
                ((start, end), " ".join(parts) or text[start:end], parts)
                for (start, end), parts in zip(spans, tokens, strict=True)
            ]

    def _matches(self, text: str) -> Words:
        """Return the matches of the token pattern in a text that is as long when prepared."""
        group = self._pattern.groups
        return [
            (match.span(group), token, [] if token in self._stop_words else [token])
            for match in self._pattern.finditer(self._prepare(text))
            if (token := match[group])
        ]

    def _survives_removals(self, text: str, words: Words) -> bool:
        """Return whether no set of removed words was found that changes how others are read."""
        names = [name for _, name, _ in words]
        for keep in removed_together(names, text):
            expected = _tokens([word for word, stays in zip(words, keep, strict=True) if stays])
            spans = [span for (span, _, _), stays in zip(words, keep, strict=True) if not stays]
            # With a gap and closed up: a tokenizer may join what stood on both sides.
            for shortened in (blank_spans(text, spans), _close_up(text, spans)):
                if list(self._analyze(shortened)) != expected:
                    return False
        return True

    @cached_property
    def _cuts_by_pattern(self) -> bool:
        custom = (getattr(self.vectorizer, name, None) for name in ("tokenizer", "preprocessor"))
        return not any(custom) and not callable(self.vectorizer.analyzer)

    @cached_property
    def _analyze(self) -> Callable[[str], list[str]]:
        analyze: Callable[[str], list[str]] = self.vectorizer.build_analyzer()
        return analyze

    @cached_property
    def _prepare(self) -> Callable[[str], str]:
        prepare: Callable[[str], str] = self.vectorizer.build_preprocessor()
        return prepare

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.vectorizer.token_pattern)

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        return frozenset(self.vectorizer.get_stop_words() or ())


def removed_together(names: Sequence[str], text: str) -> Masks:
    """Return sets of words to try without the others, a row each, True where a word stays.

    Of a few words these are all sets. Of more they are runs of removed words between others that
    stay, at every place, and random sets of words and of occurrences.

    Parameters
    ----------
    names
        The words in the order of the text. Occurrences of a word have the same name.
    text
        What the random sets follow from, so that a text always gets the same ones.
    """
    n = len(names)
    if n <= _ALL_SUBSETS:
        return all_keeps(n)
    place, rows = np.arange(n), list[Bool[np.ndarray, " n"]]()
    for gap in range(1, _GAPS + 1):
        for run in (1, 2):
            period = gap + run
            rows += [(place + shift) % period < run for shift in range(period)]
    rng = text_rng(0, text)
    _, kind = np.unique(np.array(names), return_inverse=True)
    for number in range(_RANDOM):
        # Evenly many of all sizes, and a few words alone, which stood far apart.
        share = rng.random()
        rows.append(rng.random(kind.max() + 1)[kind] < share)
        rows.append(rng.random(n) < (share if number % 2 else 3 / n))
        alone = np.ones(n, bool)
        alone[rng.integers(n)] = False
        rows.append(alone)
    return np.array([*rows, np.zeros(n, bool)])


def _tokens(words: Words) -> list[str]:
    return [token for _, _, tokens in words for token in tokens]


def _close_up(text: str, spans: Sequence[Span]) -> str:
    """Return the text without some words; of the spaces beside a removed word one side stays."""
    shortened, last = "", 0
    for start, end in [*spans, (len(text), len(text))]:
        between = text[last:start]
        ends_open = not shortened or shortened[-1].isspace()
        shortened += between.lstrip() if last and ends_open else between
        last = end
    return shortened
