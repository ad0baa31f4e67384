"""A pair of texts as one text: both sides in one string, and the place of each in it.

Everything that comes after the reading of a text, offsets, scores, pages and files, knows one
string; only ``parts``, which is empty where there is a single text, tells that it is two.
"""

__all__ = [
    "SIDES",
    "Given",
    "Pair",
    "given_again",
    "joined",
    "side_at",
    "side_names",
    "with_sides",
]

from collections.abc import Sequence

from limelight.text.tokenizer import Span

Pair = tuple[str, str]
Given = str | Pair  # what may be explained: a text, or two that belong together
SIDES = ("first", "second")


def joined(given: Given) -> tuple[str, tuple[Span, ...]]:
    """Return a text without parts, or both sides of a pair joined by a newline with their spans."""
    if isinstance(given, str):
        return given, ()
    first, second = given
    start = len(first) + 1
    return f"{first}\n{second}", ((0, len(first)), (start, start + len(second)))


def given_again(text: str, parts: tuple[Span, ...]) -> Given:
    """Return what :func:`joined` joined."""
    if not parts:
        return text
    (a, b), (c, d) = parts
    return text[a:b], text[c:d]


def side_at(place: int, parts: tuple[Span, ...]) -> int:
    """Return the number of the part in which a character stands; 0 where there are no parts."""
    return sum(start <= place for start, _ in parts[1:])


def side_names(spans: Sequence[Sequence[Span]], parts: tuple[Span, ...]) -> tuple[str, ...]:
    """Return the side on which each feature begins, "first" or "second"; "" of a single text."""
    if not parts:
        return ("",) * len(spans)
    return tuple(SIDES[side_at(places[0][0] if places else 0, parts)] for places in spans)


def with_sides(strings: Sequence[str], sides: Sequence[str]) -> tuple[str, ...]:
    """Return features as a reader can tell them apart: those of a pair with their side."""
    named = zip(strings, sides, strict=True)
    return tuple(f"{string} ({side})" if side else string for string, side in named)
