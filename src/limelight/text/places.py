"""What is asked of a text beside the text itself: a place in it, for models that find spans."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from limelight.errors import InputError
from limelight.text.characters import one_line
from limelight.text.tokens import Span

_OFFSETS = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_SHOWN = 8  # places or spans that a sentence names


@final
@dataclass(frozen=True, slots=True)
class Place:
    """Characters of a text that a model is asked about; stored as ``{"place": [start, end]}``.

    With ``first_pieces`` only the first piece of each word there is read. Of a span that the model
    finds, ``tag`` is what it says there, ``score`` how sure it is, and ``note`` what must be said
    about that; they are no part of the question.
    """

    start: int
    end: int
    first_pieces: bool = False
    tag: str | None = field(default=None, compare=False)
    score: float = field(default=0.0, compare=False)
    note: str = field(default="", compare=False)

    def stored(self) -> dict[str, Any]:
        """Return what a file holds."""
        pieces = {"first_pieces": True} if self.first_pieces else {}
        return {"place": [self.start, self.end], **pieces}

    @staticmethod
    def read(stored: Any) -> "Place":
        """Return the place that a file holds."""
        match stored:
            case {"place": [int(start), int(end)], **rest} if rest in ({}, {"first_pieces": True}):
                return Place(start, end, bool(rest))
        raise InputError(f'asked must be {{"place": [start, end]}}; got {one_line(repr(stored))}.')

    def named(self, text: str) -> str:
        """Return the words there in quotes, with their offsets where the text has them again."""
        words = text[self.start : self.end]
        again = f" ({self.start}:{self.end})" if text.count(words) > 1 else ""
        return f"“{one_line(words, 40)}”{again}"

    def tokens(self, spans: Sequence[Span], text: str) -> list[int]:
        """Return the numbers of the tokens at this place, which must be whole."""
        found = [i for i, (a, b) in enumerate(spans) if a < self.end and b > self.start]
        cut = [spans[i] for i in found if not self.start <= spans[i][0] < spans[i][1] <= self.end]
        if cut or not found:
            a, b = cut[0] if cut else (0, 0)
            why = f"cuts {text[a:b]!r} ({a}:{b})" if cut else "holds none that the model reads"
            raise InputError(f"at must hold whole words; {self.start}:{self.end} {why}.")
        return found


@final
@dataclass(frozen=True, slots=True)
class AskedText:
    """A text or pair with the places that it is asked about, in the place of a plain text.

    Or, before a model has seen it, with what :func:`place_at` takes as ``at``.
    """

    given: Any
    places: tuple[Place, ...] = ()
    at: Any = None

    @property
    def offsets(self) -> str:
        """The first of the places as "start:end", of a pair in its second text."""
        before = 0 if isinstance(self.given, str) else len(self.given[0]) + 1
        return f"{self.places[0].start - before}:{self.places[0].end - before}"


def place_at(
    at: Any, text: str, region: Span, found: Sequence[Place], *, first_pieces: bool
) -> Place:
    """Return the place of ``text`` that ``at`` means.

    None is the only span that was ``found``, a number one of them by its place among all, a pair
    (start, end) or "start:end" characters of the ``region`` that is searched (the second text of a
    pair), and any other string words that stand there once.
    """
    if at is None or isinstance(at, int):
        all_here = _listed(found, text)
        if not found or (at is None and len(found) > 1):
            more = ", or use explain_spans (--spans) for all that are found" * bool(found)
            raise InputError(
                f"the model finds {all_here}; say which place to explain with at={more}."
            )
        if not 0 <= (at or 0) < len(found):
            raise InputError(
                f"at={at} is the number of a span, counting from 0; the model finds {all_here}."
            )
        return found[at or 0]
    place = Place(*_span(at, text, region), first_pieces)
    here = [one for one in found if one == place]
    return max(here, key=lambda one: one.score, default=place)


def _span(at: Any, text: str, region: Span) -> Span:
    first, last = region
    if isinstance(at, str):
        if not (offsets := _OFFSETS.fullmatch(at)):
            return _of_words(at, text, region)
        at = tuple(map(int, offsets.groups()))
    start, end = at
    if not 0 <= start < end <= last - first or not text[first + start : first + end].strip():
        raise InputError(
            f"at must be (start, end) with a word between them, inside the {last - first} "
            f"characters of the text; got ({start}, {end})."
        )
    words = text[first + start : first + end]
    start += first + len(words) - len(words.lstrip())
    return start, start + len(words.strip())


def _of_words(at: str, text: str, region: Span) -> Span:
    """Return the only place of the words ``at``; elsewhere they may be a part of longer ones."""
    words, (first, last) = at.strip(), region
    edges = (r"(?<!\w)" * words[:1].isalnum(), r"(?!\w)" * words[-1:].isalnum())
    pattern = re.compile(edges[0] + re.escape(words) + edges[1])
    places = [match.span() for match in pattern.finditer(text, first, last)] if words else []
    if len(places) == 1:
        return places[0]
    if not places:
        raise InputError(f"there is no {one_line(at, 40)!r} in the text; at takes words of it.")
    offsets = [(a - first, b - first) for a, b in places]
    shown = ", ".join(f"{a}:{b}" for a, b in offsets[:_SHOWN]) + ", …" * (len(places) > _SHOWN)
    raise InputError(
        f"{one_line(words, 40)!r} stands at {len(places)} places of the text, {shown}; say which: "
        f"at={offsets[0]}."
    )


def _listed(found: Sequence[Place], text: str) -> str:
    if not found:
        return "no span in this text"
    each = [f"{one.tag} {text[one.start : one.end]!r}" for one in found[:_SHOWN]]
    more = ", …" * (len(found) > _SHOWN)
    return f"{len(found)} span{'s' * (len(found) > 1)} here ({', '.join(each)}{more})"
