"""Where sentences, paragraphs and lines of a text stand, and the spans of anybody's cutter."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from limelight.errors import InputError, MissingExtraError
from limelight.text.tokens import Span

Cutter = Callable[[str], Sequence[Span]]

# Data of reviews write <br /> where a line ends.
_LINE_END = r"(?:\r\n?|[\n\x0b\x0c\x85\u2028]|<br\s*/?>)"
_LINES = re.compile(rf"{_LINE_END}|\u2029")
_PARAGRAPHS = re.compile(rf"\u2029|{_LINE_END}(?:[^\S\n\r]*{_LINE_END})+")
_ITEM = re.compile(rf"{_LINE_END}\s*(?=(?:[-*•‣◦–—]|\(?(?:\d{{1,3}}|[a-zA-Z])[.)])\s)")

# Stops that end a sentence before a lower-case letter too; after the wide ones no space follows.
_STOPS, _WIDE = "!?‼‽⁇⁈⁉։؟۔।॥።။។៕", "。！？｡"
_EMOJI = r"[\u2600-\u27bf\U0001f000-\U0001faff\ufe0f\u200d]"
_CLOSING = rf"[\"'”’»›)\]}}」』）】》〉]|\[\d+\]|\s?{_EMOJI}"
_STOP = re.compile(
    rf"(?:(?P<wide>[{_WIDE}]+)|[.…．{_STOPS}]+)(?P<closed>(?:{_CLOSING})*)(?P<space>\s*)"
)
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|（[^（）]*）")
_OPENING = "\"'“‘«‹„¿¡([{「『（"
_GOES_ON = frozenset(",;:-–—)]、，；：と" + _STOPS + _WIDE + ".…")
_WORD_BEFORE = re.compile(r"[^\s\"'“‘«(\[{/—–-]*$")
_NEAR = 40  # characters around a stop that are looked at: time is to grow with the text alone
_MARKER = re.compile(r"[(\[]?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)]+$")
_CAPITAL = re.compile(rf"[.{_STOPS}][\"'”’)]*\s+[\"'“‘«(\[]?[A-Z]")
_GLUED = re.compile(r"[A-ZÀ-ÖØ-Þ](?:[a-zß-öø-ÿ]|\s)")  # "the end.The next": no space between
_NEVER, _SOMETIMES, _BEGINS = (
    frozenset(re.findall(r"\S+", listed))
    for listed in (
        # Before a name or a number: no sentence ends with them.
        """mr mrs ms mx dr prof rev fr hon pres gov sen rep gen col maj capt cpt lt sgt cmdr adm
        messrs mme mlle hr frl sra srta dra sig e.g i.e eg ie cf viz vs v fig figs eq eqs sec ch vol
        nos art pp nr bzw z.b d.h u.a p.ex approx ca a.k.a al ed eds mt ft st""",
        # These end one where a word follows with which sentences begin.
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
    """Return where the lines of ``text`` stand that are not blank."""
    return _trimmed(text, [(0, len(text))], _LINES)


def paragraph_spans(text: str) -> list[Span]:
    """Return where paragraphs stand: what blank lines part, or two line ends of HTML."""
    return _trimmed(text, [(0, len(text))], _PARAGRAPHS)


def sentence_spans(text: str) -> list[Span]:
    """Return where the sentences of ``text`` stand, by the rule of ``docs/units.md``.

    A sentence ends with its paragraph, before an item of a list, and after a stop with the quotes
    and brackets that close there, unless what follows goes on: a lower-case letter, a comma. A
    point behind an abbreviation, an initial or the number of an item is no stop, nor is one inside
    brackets, a number or an address.
    """
    blocks = _trimmed(text, paragraph_spans(text), _ITEM)
    found = [(a + i, a + j) for a, b in blocks for i, j in _sentences(text[a:b])]
    return _trimmed(text, found, _THAI)  # there spaces part sentences, and nothing else does


def _sentences(block: str) -> list[Span]:
    brackets = [match.span() for match in _BRACKETS.finditer(block)]
    opened = [start for start, _ in brackets]
    # Where no stop is followed by a capital letter, small ones begin sentences.
    small = block[:1].islower() and not _CAPITAL.search(block)
    starts = [0]
    for stop in _STOP.finditer(block):
        end = stop.end("closed")
        i = bisect_right(opened, stop.start()) - 1
        inside = i >= 0 and stop.start() < brackets[i][1] - 1
        inside = inside and bool(block[starts[-1] : min(starts[-1] + _NEAR, opened[i])].strip())
        if not inside and _ends(block, starts[-1], stop, small=small):
            starts.append(end)
    return list(pairwise([*starts, len(block)]))


def _ends(block: str, start: int, stop: re.Match[str], *, small: bool) -> bool:
    """Whether the sentence that began at ``start`` ends at this stop."""
    after = block[stop.end() : stop.end() + _NEAR].lstrip(_OPENING)
    if not after:
        return False
    first, closed = after[0], bool(stop["closed"])
    if stop["wide"]:
        return first not in _GOES_ON and not (closed and first.islower())
    signs = block[stop.start() : stop.start("closed")]
    near = max(start, stop.start() - _NEAR)
    word = _WORD_BEFORE.search(block, near, stop.start()).group()  # type: ignore[union-attr]
    if not stop["space"]:
        known = "/" in word or "@" in word or not (word[-2:].islower() or signs != ".")
        return not known and bool(_GLUED.match(after))
    marker = near == start and _MARKER.fullmatch(block[start : stop.end("closed")].strip())
    if block[stop.end()] in _GOES_ON or marker:
        return False
    if first.islower() and (closed or signs.strip(_STOPS) == signs):
        return small and not closed and signs == "." and not _shortened(word, after)
    return signs != "." or closed or not _shortened(word, after)


def _shortened(word: str, after: str) -> bool:
    """Whether the point behind ``word`` is that of an abbreviation, and no stop."""
    if (known := word.lower()) in _NEVER:
        return True
    if known in ("no", "p"):  # "No. 5", and the answer "No."
        return after[0].isdigit()
    follows = re.match(r"\w*", after).group().lower()  # type: ignore[union-attr]
    initial = len(word) == 1 and word.isupper()
    may = initial or known in _SOMETIMES or bool(_ACRONYM.fullmatch(word))
    return may and follows not in _BEGINS


def _trimmed(text: str, within: Sequence[Span], between: re.Pattern[str]) -> list[Span]:
    """Return the spans cut at every match of ``between``, without white space at their ends."""
    found = []
    for first, last in within:
        cuts = [edge for match in between.finditer(text, first, last) for edge in match.span()]
        for start, end in zip([first, *cuts[1::2]], [*cuts[::2], last], strict=True):
            inner = text[start:end]
            if inner.strip():
                found.append(
                    (start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip()))
                )
    return found


def icu_words(text: str) -> list[Span]:
    """Return where words stand by ICU, whose dictionaries know Chinese, Japanese, Thai and more.

    A cutter that needs the package icu4py: ``features=limelight.text.icu_words``, or
    ``--features limelight.text:icu_words``; signs and white space between words are left alone.
    """
    try:
        from icu4py.breakers import WordBreaker
    except ImportError:
        raise MissingExtraError("words by ICU need the package icu4py", "icu") from None
    ends = [0]
    for part in WordBreaker(text, "en"):
        ends.append(ends[-1] + len(part))
    return [(a, b) for a, b in pairwise(ends) if any(c.isalnum() for c in text[a:b])]


CUTTERS: Mapping[str, Cutter] = {
    "sentences": sentence_spans,
    "paragraphs": paragraph_spans,
    "lines": line_spans,
}


def cutter_name(cutter: Any) -> str:
    """Return what a stored result calls a cutter: where it is defined, as module:name."""
    own = cutter if hasattr(cutter, "__qualname__") else type(cutter)
    return f"{getattr(cutter, '__module__', None) or own.__module__}:{own.__qualname__}"


def checked_spans(found: Any, text: str, name: str) -> list[Span]:
    """Return spans as pairs of whole numbers; refuse what overlaps or lies outside the text."""
    end, spans = 0, list[Span]()
    for span in found if hasattr(found, "__iter__") and not isinstance(found, str) else [found]:
        try:
            start, stop = (one.__index__() for one in span)
            fits = end <= start < stop <= len(text)
        except (TypeError, ValueError, AttributeError):
            fits = False
        if not fits:
            raise InputError(
                f"{name} must give the (start, end) of every unit, in order, without overlap and "
                f"inside the text of {len(text)} characters; got {span!r} after {end}."
            )
        spans.append((start, stop))
        end = stop
    return spans


def called(cutter: Cutter, text: str, name: str) -> list[Span]:
    """Return the units that somebody's own function finds in ``text``."""
    return checked_spans(cut_by(cutter, text, name), text, f"the cutter {name}")


def cut_by(cutter: Callable[[Any], Any], given: Any, name: str) -> Any:
    """Return what somebody's own function says; if it fails, the error names it."""
    try:
        units = cutter(given)
        # A generator runs only when it is read.
        return list(units) if isinstance(units, Iterator) else units
    except (MemoryError, InputError):
        raise
    except Exception as error:
        raise InputError(f"the cutter {name} fails ({type(error).__name__}: {error}).") from error
