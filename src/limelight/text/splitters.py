"""Splitters: functions that split a text into sentences, paragraphs, lines or other spans."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from limelight.errors import InputError, MissingExtraError
from limelight.text.tokens import Span

Splitter = Callable[[str], Sequence[Span]]

# Data sets of reviews mark the end of a line by <br />.
_LINE_END = r"(?:\r\n?|[\n\x0b\x0c\x85\u2028]|<br\s*/?>)"
_LINES = re.compile(rf"{_LINE_END}|\u2029")
_PARAGRAPHS = re.compile(rf"\u2029|{_LINE_END}(?:[^\S\n\r]*{_LINE_END})+")
_ITEM = re.compile(rf"{_LINE_END}\s*(?=(?:[-*•‣◦–—]|\(?(?:\d{{1,3}}|[a-zA-Z])[.)])\s)")

# Stops that end a sentence even before a lower-case letter. No space follows the wide ones.
_STOPS, _WIDE = "!?‼‽⁇⁈⁉։؟۔।॥።။។៕", "。！？｡"
_EMOJI = r"[\u2600-\u27bf\U0001f000-\U0001faff\ufe0f\u200d]"
_CLOSING = rf"[\"'”’»›)\]}}」』）】》〉]|\[\d+\]|\s?{_EMOJI}"
_STOP = re.compile(
    rf"(?:(?P<wide>[{_WIDE}]+)|[.…．{_STOPS}]+)(?P<closed>(?:{_CLOSING})*)(?P<space>\s*)"
)
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|（[^（）]*）")
_OPENING = "\"'“‘«‹„¿¡([{「『（"
_CONTINUES = frozenset(",;:-–—)]、，；：と" + _STOPS + _WIDE + ".…")
_WORD_BEFORE = re.compile(r"[^\s\"'“‘«(\[{/—–-]*$")
_CONTEXT = 40  # characters around a stop that are examined, so that time is linear in the length
_MARKER = re.compile(r"[(\[]?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)]+$")
_CAPITAL = re.compile(rf"[.{_STOPS}][\"'”’)]*\s+[\"'“‘«(\[]?[A-Z]")
_NO_SPACE = re.compile(r"[A-ZÀ-ÖØ-Þ](?:[a-zß-öø-ÿ]|\s)")  # as in "the end.The next"
_ABBREVIATIONS, _POSSIBLE_ENDS, _FIRST_WORDS = (
    frozenset(re.findall(r"\S+", words))
    for words in (
        # Abbreviations before a name or a number. No sentence ends with them.
        """mr mrs ms mx dr prof rev fr hon pres gov sen rep gen col maj capt cpt lt sgt cmdr adm
        messrs mme mlle hr frl sra srta dra sig e.g i.e eg ie cf viz vs v fig figs eq eqs sec ch vol
        nos art pp nr bzw z.b d.h u.a p.ex approx ca a.k.a al ed eds mt ft st""",
        # Abbreviations that end a sentence if the next word is one of the third list.
        """etc inc ltd co corp bros jr sr ph.d m.d b.a m.a d.c esq ave blvd rd dept est assn usw jan
        feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun""",
        """a an the this that these those i he she it we you they his her its our your their my here
        there what who when where why how if in on at as but and or so for from with after before
        then now however meanwhile although because since while no not yes one some many most all
        both""",
    )
)
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")  # U.S, p.m
_THAI = re.compile(r"(?<=[\u0e00-\u0eff])\s+(?=[\u0e00-\u0e3f\u0e40-\u0e44\u0e80-\u0eff])")


def line_spans(text: str) -> list[Span]:
    """Return the spans of the lines of ``text`` that are not blank."""
    return _split_spans(text, [(0, len(text))], _LINES)


def paragraph_spans(text: str) -> list[Span]:
    """Return the spans of the paragraphs, which blank lines or two HTML line breaks separate."""
    return _split_spans(text, [(0, len(text))], _PARAGRAPHS)


def sentence_spans(text: str) -> list[Span]:
    """Return the spans of the sentences of ``text``.

    A sentence ends with its paragraph, before an item of a list, and after a stop with the closing
    quotes and brackets behind it. It does not end before a lower-case letter or a comma. The period
    of an abbreviation, an initial or the number of an item is no stop. A period inside brackets, a
    number or an address is no stop either. The documentation of features has the complete rule.
    """
    blocks = _split_spans(text, paragraph_spans(text), _ITEM)
    spans = [(a + i, a + j) for a, b in blocks for i, j in _split_block(text[a:b])]
    return _split_spans(text, spans, _THAI)  # in Thai only spaces separate sentences


def _split_block(block: str) -> list[Span]:
    """Return the spans of the sentences of a paragraph or an item of a list."""
    brackets = [match.span() for match in _BRACKETS.finditer(block)]
    bracket_starts = [start for start, _ in brackets]
    # If no stop is followed by a capital letter, sentences may begin with a lower-case letter.
    lower_case = block[:1].islower() and not _CAPITAL.search(block)
    starts = [0]
    for stop in _STOP.finditer(block):
        end = stop.end("closed")
        i = bisect_right(bracket_starts, stop.start()) - 1
        is_inside = i >= 0 and stop.start() < brackets[i][1] - 1
        # A sentence that consists of brackets alone is split inside them.
        is_inside = is_inside and bool(
            block[starts[-1] : min(starts[-1] + _CONTEXT, bracket_starts[i])].strip()
        )
        if not is_inside and _ends_sentence(block, starts[-1], stop, lower_case=lower_case):
            starts.append(end)
    return list(pairwise([*starts, len(block)]))


def _ends_sentence(block: str, start: int, stop: re.Match[str], *, lower_case: bool) -> bool:
    """Return whether the sentence that begins at ``start`` ends at ``stop``.

    ``lower_case`` says whether sentences of this block may begin with a lower-case letter.
    """
    after = block[stop.end() : stop.end() + _CONTEXT].lstrip(_OPENING)
    if not after:
        return False
    first, is_closed = after[0], bool(stop["closed"])
    if stop["wide"]:
        return first not in _CONTINUES and not (is_closed and first.islower())
    signs = block[stop.start() : stop.start("closed")]
    first_examined = max(start, stop.start() - _CONTEXT)
    word = _WORD_BEFORE.search(block, first_examined, stop.start()).group()  # type: ignore[union-attr]
    if not stop["space"]:
        is_name = "/" in word or "@" in word or not (word[-2:].islower() or signs != ".")
        return not is_name and bool(_NO_SPACE.match(after))
    is_marker = first_examined == start and _MARKER.fullmatch(
        block[start : stop.end("closed")].strip()
    )
    if block[stop.end()] in _CONTINUES or is_marker:
        return False
    if first.islower() and (is_closed or signs.strip(_STOPS) == signs):
        return lower_case and not is_closed and signs == "." and not _is_abbreviation(word, after)
    return signs != "." or is_closed or not _is_abbreviation(word, after)


def _is_abbreviation(word: str, after: str) -> bool:
    """Return whether the period behind ``word`` belongs to an abbreviation and is no stop."""
    if (lower := word.lower()) in _ABBREVIATIONS:
        return True
    if lower in ("no", "p"):  # "No. 5", and the answer "No."
        return after[0].isdigit()
    next_word = re.match(r"\w*", after).group().lower()  # type: ignore[union-attr]
    is_initial = len(word) == 1 and word.isupper()
    can_be = is_initial or lower in _POSSIBLE_ENDS or bool(_ACRONYM.fullmatch(word))
    return can_be and next_word not in _FIRST_WORDS


def _split_spans(text: str, spans: Sequence[Span], separator: re.Pattern[str]) -> list[Span]:
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
