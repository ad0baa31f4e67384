"""The words that a scikit-learn vectorizer reads in a text, and how removed words affect others.

For exact games, removed words must not change how the other words are read. This is proven for
known token patterns. It is checked on each text if other code takes part: a tokenizer, an analyzer,
a preprocessor or another pattern. The check removes many sets of words, and the remaining words
must be read as before.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple

import numpy as np

from limelight.models.bags import blank_spans
from limelight.models.functions import word_spans
from limelight.sampling.masks import Masks, text_rng
from limelight.shapes import Bool
from limelight.text import Span
from limelight.theory.enumeration import enumerate_masks
from limelight.threads import cached_property


class Words(NamedTuple):
    """The words of a text, the tokens that the vectorizer reads, and the word of each token."""

    names: Sequence[str]
    spans: Sequence[Span]
    tokens: Sequence[str]
    word: Sequence[int]


# One character of a token: a shorthand, or a bracket without other escapes.
_CHARACTER = r"(?:\\[wdS]|\[\^?(?:[A-Za-z0-9_'-]|\\[wds])+\])"
_COUNT = r"(?:[+*?]|\{\d+(?:,\d*)?\})?"
# A whole run of word characters: \b\w\w+\b.
_WHOLE_RUN = re.compile(rf"(?:\(\?u\))?\\b(?P<body>(?:{_CHARACTER}{_COUNT})+)\\b")
# The longest run of characters of one kind: \S+, [a-z]{2,}.
_LONGEST_RUN = re.compile(rf"(?:\(\?u\))?(?P<kind>{_CHARACTER})(?P=kind)*(?:\+|\{{\d+,\}})")
# In lower case, the form of a capital sigma depends on its neighbors, and a dotted capital I
# becomes two characters. Every other letter becomes one letter, whatever its neighbors are.
_CONTEXTUAL_LETTERS = re.compile("[\u03a3\u0130]")
_MAX_WORDS_FOR_ALL_SUBSETS = 8
_MAX_GAP = 6  # largest number of adjacent words that are removed together
_RANDOM_SETS = 32  # random sets of each kind for longer texts


def is_known_pattern(pattern: Any) -> bool:
    """Tell whether the tokens that a pattern finds never depend on the text around them."""
    if not isinstance(pattern, str):
        return False
    characters = [chr(code) for code in range(128)]
    if match := _WHOLE_RUN.fullmatch(pattern):
        # Between word boundaries each token is a whole run of word characters. Whether a run is a
        # token depends only on the run.
        kinds = [re.compile(kind) for kind in re.findall(_CHARACTER, match["body"])]
        return not any("^" in kind.pattern or r"\S" in kind.pattern for kind in kinds) and all(
            re.fullmatch(r"\w", character)
            for character in characters
            for kind in kinds
            if kind.fullmatch(character)
        )
    if match := _LONGEST_RUN.fullmatch(pattern):
        kind = re.compile(match["kind"])
        # Spaces replace a removed token, so they must not be part of another token.
        spaces = [chr(code) for code in range(0x3001) if chr(code).isspace()]
        return not any(kind.fullmatch(space) for space in spaces)
    return False


class WordReader:
    """Reader of the words of a text, as a fitted vectorizer splits it."""

    def __init__(self, vectorizer: Any) -> None:
        self.vectorizer = vectorizer

    @cached_property
    def is_known(self) -> bool:
        """Whether only code of scikit-learn, with a known pattern, splits a text."""
        accents = self.vectorizer.strip_accents
        return (
            self._splits_by_pattern
            and (accents is None or isinstance(accents, str))
            and is_known_pattern(self.vectorizer.token_pattern)
        )

    def read(self, text: str) -> tuple[Words, bool] | None:
        """Return the words of a text, and whether removals were checked instead of proven.

        Return None if removed words change how others are read.
        """
        if self.is_known and self._is_prepared_by_character(text):
            # A text of single letters and marks may have no token. Its words have no effect then.
            words = self._pattern_matches(text)
            if not words.names:
                spans = word_spans(text)
                words = Words([text[start:end] for start, end in spans], spans, (), ())
            return words, False
        try:
            tokens = list(self._analyze(text))
            for words in self._candidate_splits(text):
                if not words.names or list(words.tokens) != tokens:
                    continue
                if self._survives_removals(text, words):
                    return words, True
        except Exception:  # the user's code may not accept a shorter text, such as an empty one
            return None
        return None

    def _is_prepared_by_character(self, text: str) -> bool:
        """Tell whether each character of a text is prepared alone and stays one character."""
        if text.isascii():
            return True
        return self.vectorizer.strip_accents is None and (
            not self.vectorizer.lowercase or _CONTEXTUAL_LETTERS.search(text) is None
        )

    def _candidate_splits(self, text: str) -> Iterator[Words]:
        """Yield ways to split the text into words that may be right, with the tokens of each."""
        # Positions in a prepared text are those of the text only if both have the same length.
        if self._splits_by_pattern and len(self._prepare(text)) == len(text):
            yield self._pattern_matches(text)
        # Words and marks, or runs between spaces: most tokenizers begin with one of these splits.
        # Each word is read alone. Different spellings of one token are one word.
        for spans in (word_spans(text), [match.span() for match in re.finditer(r"\S+", text)]):
            token_lists = [list(self._analyze(text[start:end])) for start, end in spans]
            yield Words(
                [
                    " ".join(tokens) or text[start:end]
                    for (start, end), tokens in zip(spans, token_lists, strict=True)
                ],
                spans,
                [token for tokens in token_lists for token in tokens],
                [i for i, tokens in enumerate(token_lists) for _ in tokens],
            )

    def _pattern_matches(self, text: str) -> Words:
        """Return the matches of the token pattern in the prepared text.

        The text must keep its length when it is prepared.
        """
        matches, group = list(self._pattern.finditer(self._prepare(text))), self._pattern.groups
        # These loops run in C, which takes half the time.
        names = list(map(re.Match.group, matches, repeat(group)))
        spans = list(map(re.Match.span, matches, repeat(group)))
        if not all(names):  # a match may be empty
            names, spans = list(compress(names, names)), list(compress(spans, names))
        stop_words = self._stop_words
        if stop_words.isdisjoint(names):
            return Words(names, spans, names, range(len(names)))
        word = [i for i, name in enumerate(names) if name not in stop_words]
        return Words(names, spans, [names[i] for i in word], word)

    def _survives_removals(self, text: str, words: Words) -> bool:
        """Tell whether words are read as before under all removals that are tried."""
        for keep in removal_masks(words.names, text):
            expected = [token for token, i in zip(words.tokens, words.word, strict=True) if keep[i]]
            spans = list(compress(words.spans, ~keep))
            # With a gap and without: a tokenizer may join the strings on both sides.
            for shortened in (blank_spans(text, spans), _close_up(text, spans)):
                if list(self._analyze(shortened)) != expected:
                    return False
        return True

    @cached_property
    def _splits_by_pattern(self) -> bool:
        """Whether only a regular expression splits a text, and no function of the user."""
        functions = (getattr(self.vectorizer, name, None) for name in ("tokenizer", "preprocessor"))
        return not any(functions) and not callable(self.vectorizer.analyzer)

    @cached_property
    def _analyze(self) -> Callable[[str], list[str]]:
        """The vectorizer's function from a text to its words."""
        analyze: Callable[[str], list[str]] = self.vectorizer.build_analyzer()
        return analyze

    @cached_property
    def _prepare(self) -> Callable[[str], str]:
        """The vectorizer's function that changes a text before splitting it."""
        prepare: Callable[[str], str] = self.vectorizer.build_preprocessor()
        return prepare

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The regular expression of words."""
        return re.compile(self.vectorizer.token_pattern)

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        """The words that the vectorizer drops."""
        return frozenset(self.vectorizer.get_stop_words() or ())


def removal_masks(names: Sequence[str], text: str) -> Masks:
    """Return the masks under which the reading of a text is checked, True where a word stays.

    For up to eight words these are all masks. For more words they are periodic masks, in which runs
    of words are removed between words that stay, and random sets of words and of occurrences.

    Parameters
    ----------
    names
        The words in the order of the text. Occurrences of a word have the same name.
    text
        Seed of the random masks, so that a text always has the same masks.
    """
    n = len(names)
    if n <= _MAX_WORDS_FOR_ALL_SUBSETS:
        return enumerate_masks(n)
    position, masks = np.arange(n), list[Bool[np.ndarray, " n"]]()
    for gap in range(1, _MAX_GAP + 1):
        for run in (1, 2):
            period = gap + run
            masks += [(position + shift) % period < run for shift in range(period)]
    rng = text_rng(0, text)
    _, name_index = np.unique(np.array(names), return_inverse=True)
    for number in range(_RANDOM_SETS):
        # All sizes are equally likely. Some masks have only about three words, far from each other.
        share = rng.random()
        masks.append(rng.random(name_index.max() + 1)[name_index] < share)
        masks.append(rng.random(n) < (share if number % 2 else 3 / n))
        single_removal = np.ones(n, bool)
        single_removal[rng.integers(n)] = False
        masks.append(single_removal)
    return np.array([*masks, np.zeros(n, bool)])


def _close_up(text: str, spans: Sequence[Span]) -> str:
    """Return the text without some words, and without the spaces on one side of each."""
    shortened, last = "", 0
    for start, end in [*spans, (len(text), len(text))]:
        between = text[last:start]
        ends_open = not shortened or shortened[-1].isspace()
        shortened += between.lstrip() if last and ends_open else between
        last = end
    return shortened
