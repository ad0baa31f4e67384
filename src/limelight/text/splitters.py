"""Splitters: functions that split a text into sentences, paragraphs, lines or other spans."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from limelight.errors import InputError, MissingExtraError
from limelight.text.tokens import Span

Splitter = Callable[[str], Sequence[Span]]

# Data sets of reviews mark the end of a line by <br />.
LINE_END = r"(?:\r\n?|[\n\x0b\x0c\x85\u2028]|<br\s*/?>)"
_LINES = re.compile(rf"{LINE_END}|\u2029")
_PARAGRAPHS = re.compile(rf"\u2029|{LINE_END}(?:[^\S\n\r]*{LINE_END})+")


def line_spans(text: str) -> list[Span]:
    """Return the spans of the lines of ``text`` that are not blank."""
    return split_spans(text, [(0, len(text))], _LINES)


def paragraph_spans(text: str) -> list[Span]:
    """Return the spans of the paragraphs, which blank lines or two HTML line breaks separate."""
    return split_spans(text, [(0, len(text))], _PARAGRAPHS)


def sentence_spans(text: str) -> list[Span]:
    """Return the spans of the sentences of ``text``.

    A sentence ends with its paragraph, before an item of a list, and after a stop with the closing
    quotes and brackets behind it. It does not end before a lower-case letter or a comma. The period
    of an abbreviation, an initial or the number of an item is no stop. A period inside brackets, a
    number or an address is no stop either. The documentation of features has the complete rule.
    """
    # Imported here, because it compiles many patterns, which takes a hundredth of a command.
    from limelight.text.sentences import split_sentences

    return split_sentences(text)


def split_spans(text: str, spans: Sequence[Span], separator: re.Pattern[str]) -> list[Span]:
    """Split spans at every match of ``separator``; drop blank parts and white space at the ends."""
    parts = []
    for first, last in spans:
        edges = [edge for match in separator.finditer(text, first, last) for edge in match.span()]
        for start, end in zip([first, *edges[1::2]], [*edges[::2], last], strict=True):
            part = text[start:end]
            if part.strip():
                parts.append((start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
    return parts


def icu_words(text: str) -> list[Span]:
    """Split a text into words with ICU, which has dictionaries for Chinese, Japanese and Thai.

    This splitter needs the package icu4py. Use it as ``features=limelight.text.icu_words`` or
    ``--features limelight.text:icu_words``. Punctuation and white space belong to no word.
    """
    try:
        from icu4py.breakers import WordBreaker
    except ImportError:
        raise MissingExtraError("words by ICU need the package icu4py", "icu") from None
    ends = [0]
    for part in WordBreaker(text, "en"):
        ends.append(ends[-1] + len(part))
    return [(a, b) for a, b in pairwise(ends) if any(c.isalnum() for c in text[a:b])]


SPLITTERS: Mapping[str, Splitter] = {
    "sentences": sentence_spans,
    "paragraphs": paragraph_spans,
    "lines": line_spans,
}


def splitter_name(splitter: Any) -> str:
    """Return "module:name" of a splitter, as results store it."""
    definition = splitter if hasattr(splitter, "__qualname__") else type(splitter)
    module = getattr(splitter, "__module__", None) or definition.__module__
    return f"{module}:{definition.__qualname__}"


def validate_spans(values: Any, text: str, name: str) -> list[Span]:
    """Return spans as pairs of integers.

    Parameters
    ----------
    values
        The spans (start, end), in any iterable.
    text
        The text to which the spans refer.
    name
        The source of the spans, for error messages.

    Raises
    ------
    InputError
        If a span is malformed, overlaps the previous one, or lies outside the text.
    """
    end, spans = 0, list[Span]()
    for span in values if hasattr(values, "__iter__") and not isinstance(values, str) else [values]:
        try:
            start, stop = (offset.__index__() for offset in span)
            fits = end <= start < stop <= len(text)
        except (TypeError, ValueError, AttributeError):
            fits = False
        if not fits:
            raise InputError(
                f"{name} must give the (start, end) of every unit, in order, without overlap and "
                f"inside the text of {len(text)} characters, not {span!r} after {end}."
            )
        spans.append((start, stop))
        end = stop
    return spans


def run_splitter(splitter: Splitter, text: str, name: str) -> list[Span]:
    """Return the spans that a splitter of the user finds in ``text``, validated."""
    return validate_spans(call_splitter(splitter, text, name), text, f"the splitter {name}")


def call_splitter(splitter: Callable[[Any], Any], argument: Any, name: str) -> Any:
    """Call a function of the user; raise `InputError` with its ``name`` if it fails."""
    try:
        result = splitter(argument)
        # A generator runs only when it is read.
        return list(result) if isinstance(result, Iterator) else result
    except (MemoryError, InputError):
        raise
    except Exception as error:
        raise InputError(f"the splitter {name} fails ({type(error).__name__}: {error}).") from error
