"""What people marked in texts: character spans, checked, and the places that they touch."""

__all__ = ["Marks", "Rationale", "checked_rationales", "marks_of", "usual_share"]

import math
import re
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Bool, Int
from limelight.text import Features, Span, one_line

# Characters that one person marked: spans in their order, none touching another's inside.
Rationale = tuple[Span, ...]


class Marks(NamedTuple):
    """The places of a text's words in their order, and which of them each annotator marked.

    ``word`` is the word of each place, ``times`` how many places each word has, ``inside`` which
    places a rationale touches, ``runs`` each of its spans as first and last + 1 place.
    """

    word: Int[np.ndarray, " n"]
    times: Int[np.ndarray, " d"]
    inside: Bool[np.ndarray, "a n"]
    runs: tuple[tuple[Span, ...], ...]

    def marked(self, annotator: int) -> Int[np.ndarray, " d"]:
        """Return how many places of each word an annotator marked."""
        return np.bincount(self.word[self.inside[annotator]], minlength=len(self.times))


def checked_rationales(given: Any, texts: Sequence[Any]) -> list[tuple[Rationale, ...] | str]:
    """Return what each annotator marked in each text, or a sentence that says why nothing is known.

    Something that is not a rationale at all is refused; spans that do not fit their text are such a
    sentence, so that one bad row does not cost the others.
    """
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise InputError("rationales must be a list with one entry per text.")
    if len(given) != len(texts):
        raise InputError(
            f"rationales must have one entry per text; got {len(given)} for {len(texts)} texts."
        )
    return [_of_text(one, text, i) for i, (one, text) in enumerate(zip(given, texts, strict=True))]


def _of_text(given: Any, text: Any, number: int) -> tuple[Rationale, ...] | str:
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return "no rationale was given for this text."
    annotators = _annotators(given, number)
    if not isinstance(text, str):
        return "rationales are spans of one string, and this text is not one."
    for start, end in (span for one in annotators for span in one):
        if not 0 <= start <= end:
            return f"a span must start at 0 or later and before it ends; got [{start}, {end}]."
        if end > len(text):
            return (
                f"a span must end within the text, which has {len(text)} characters; "
                f"got [{start}, {end}]."
            )
    return tuple(_joined(sorted(span for span in one if span[0] < span[1])) for one in annotators)


def _annotators(given: Any, number: int) -> list[list[Span]]:
    if _is_list(given):
        entries = list(given)
        if all(map(_is_span, entries)):
            return [[_span(one) for one in entries]]
        if all(_is_list(one) and all(map(_is_span, one)) for one in entries):
            return [[_span(one) for one in several] for several in entries]
    raise InputError(
        f"the rationale of text {number} must be a list of [start, end] in characters, or one such "
        f"list per annotator; got {one_line(repr(given), 60)}."
    )


def _is_list(one: Any) -> bool:
    return hasattr(one, "__len__") and hasattr(one, "__iter__") and not isinstance(one, str | dict)


def _is_span(one: Any) -> bool:
    return _is_list(one) and len(one) == 2 and all(_is_whole(x) for x in one)


def _is_whole(x: Any) -> bool:
    number = isinstance(x, Real) and not isinstance(x, bool | np.bool_)
    return number and math.isfinite(x) and x == int(x)


def _span(one: Any) -> Span:
    return int(one[0]), int(one[1])


def _joined(spans: list[Span]) -> Rationale:
    """Return spans that overlap as one."""
    out: list[Span] = []
    for start, end in spans:
        if out and start < out[-1][1]:
            start, end = out[-1][0], max(end, out.pop()[1])
        out.append((start, end))
    return tuple(out)


def usual_share(texts: Sequence[Any], rationales: Sequence[tuple[Rationale, ...] | str]) -> float:
    """Return which part of a text people mark, in the mean over annotators and texts.

    Counted are stretches without white space, whatever the model reads: the number is the data's.
    """
    shares = [
        float(np.mean(_touched([m.span() for m in re.finditer(r"\S+", text)], one)))
        for text, several in zip(texts, rationales, strict=True)
        if not isinstance(several, str) and text.strip()
        for one in several
        if one
    ]
    return float(np.mean(shares)) if shares else 0.0


def marks_of(features: Features, rationales: tuple[Rationale, ...]) -> Marks:
    """Return the places of all words in the order of the text, with what was marked.

    A place is marked where a span touches at least one of its characters. What the model does not
    read, past its window, is not a place.
    """
    found = sorted((span, j) for j, spans in enumerate(features.spans) for span in spans)
    places = [span for span, _ in found]
    word = np.array([j for _, j in found])
    return Marks(
        word=word,
        times=np.bincount(word, minlength=len(features)),
        inside=np.array([_touched(places, one) for one in rationales]).reshape(-1, len(places)),
        runs=tuple(_runs(places, one) for one in rationales),
    )


def _touched(places: list[Span], rationale: Rationale) -> Bool[np.ndarray, " n"]:
    inside = np.zeros(len(places), bool)
    for first, last in _runs(places, rationale):
        inside[first:last] = True
    return inside


def _runs(places: list[Span], rationale: Rationale) -> tuple[Span, ...]:
    starts, ends = np.array(places).reshape(-1, 2).T
    firsts = np.searchsorted(ends, [start for start, _ in rationale], side="right")
    lasts = np.searchsorted(starts, [end for _, end in rationale], side="left")
    return tuple((int(a), int(b)) for a, b in zip(firsts, lasts, strict=True) if a < b)
