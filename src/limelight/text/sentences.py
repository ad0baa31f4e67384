"""The rules that tell where sentences end."""

import re
from bisect import bisect_right
from itertools import pairwise

from limelight.text.splitters import LINE_END, paragraph_spans, split_spans
from limelight.text.tokens import Span

_ITEM = re.compile(rf"{LINE_END}\s*(?=(?:[-*•‣◦–—]|\(?(?:\d{{1,3}}|[a-zA-Z])[.)])\s)")
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


def split_sentences(text: str) -> list[Span]:
    """Return the spans of the sentences of ``text``, by the rules of `sentence_spans`."""
    blocks = split_spans(text, paragraph_spans(text), _ITEM)
    spans = [(a + i, a + j) for a, b in blocks for i, j in _split_block(text[a:b])]
    return split_spans(text, spans, _THAI)  # in Thai only spaces separate sentences


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
