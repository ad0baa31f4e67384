"""A text as a model reads it: one string, or a pair of them with the place of each."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from limelight.errors import InputError, about_text
from limelight.shapes import Float
from limelight.text.characters import LONE_SURROGATE
from limelight.text.images import (
    ENDINGS,
    ImageInput,
    ImageLike,
    PatchedImage,
    is_address,
    is_pillow,
)
from limelight.text.places import QueriedText, Query
from limelight.text.tokens import Span, Tokens

Pair = tuple[str, str]
# What may be explained: a text, two that belong together, or an image.
UserInput = str | Pair | ImageInput
# What the functions of the package take: an image may be a path, an array or bytes.
Input = UserInput | ImageLike
SIDES = ("first", "second")


def join_pair(given: UserInput) -> tuple[str, tuple[Span, ...]]:
    """Return a text without parts, or both sides of a pair joined by a newline with their spans.

    Of an image it is the label.
    """
    if isinstance(given, ImageInput):
        return given.label, ()
    if isinstance(given, str):
        return given, ()
    first, second = given
    start = len(first) + 1
    return f"{first}\n{second}", ((0, len(first)), (start, start + len(second)))


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


class Windows(NamedTuple):
    """The windows in which a long text was read, and the model's outputs for each of them."""

    size: int  # pieces in a window at most, special ones included
    spans: tuple[Span | None, ...]  # None where no word of the text stands
    outputs: Float[np.ndarray, "windows C"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class ModelInput:
    """The tokens of ``text`` that the model reads, and what a reader must know about the reading.

    ``cut`` is the character at which the model stops reading; None if it reads everything.
    ``input`` is the model's own business: ids, pieces, windows. ``windows`` is set if the text
    was read in several windows. ``parts`` are the places of the two sides of a pair in ``text``;
    there are none where it is one text. ``asked`` is what is asked of the text: nothing more where
    it is empty, else a place of it or an answer to it each, and the model then answers for each of
    them in turn. Words of a ``divisible`` one may be cut anywhere: the model reads whatever is left
    of a text. Of an ``image`` the tokens are patches or segments, and ``text`` is its label. What
    is exact about a ``checked`` text rests on removals that were tried, and is not proven. If the
    model does not know removals of this text exactly, ``fallback`` is the model that is called
    about it instead, by which it was read.
    """

    text: str
    tokens: Tokens
    cut: int | None = None
    notices: tuple[str, ...] = ()
    input: Any = None
    windows: Windows | None = None
    parts: tuple[Span, ...] = ()
    asked: tuple[Query, ...] = ()
    divisible: bool = False
    image: PatchedImage | None = None
    checked: bool = False
    fallback: Any = None

    @staticmethod
    def from_image(cut: PatchedImage, **rest: Any) -> "ModelInput":
        """Return an image as a model reads it, its tokens patches of a grid or segments."""
        notices = (*cut.source.notices, *rest.pop("notices", ()))
        return ModelInput(cut.source.label, Tokens((), ()), notices=notices, **rest).with_cut(cut)

    def with_cut(self, cut: PatchedImage) -> "ModelInput":
        """Return the same image in other parts."""
        names = cut.names()
        return replace(self, tokens=Tokens(names, ((0, 0),) * len(names)), image=cut)

    def cut_at(self, edges: Iterable[int]) -> "ModelInput":
        """Return the same with its words cut at ``edges`` too."""
        cuts = sorted(edges)
        spans = tuple(
            piece
            for start, end in self.tokens.spans
            for inside in [cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]]
            for piece in pairwise([start, *inside, end])
        )
        strings = tuple(self.text[start:end] for start, end in spans)
        return replace(self, tokens=Tokens(strings, spans))

    @property
    def is_text(self) -> bool:
        """Whether it can be cut shorter and its words replaced: an image cannot."""
        return self.image is None

    @property
    def given(self) -> UserInput:
        """What was read: the text, the pair of texts that :func:`joined` joined, or the image."""
        if self.image is not None:
            return self.image.source
        if not self.parts:
            return self.text
        (a, b), (c, d) = self.parts
        return self.text[a:b], self.text[c:d]

    @property
    def queried_text(self) -> Any:
        """The text that was read with its queries, for another model to read."""
        return QueriedText(self.given, self.asked) if self.asked else self.given


def checked_text(text: Any) -> str:
    """Return ``text`` if it is a string of characters; half a character is not one."""
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}.")
    if half := LONE_SURROGATE.search(text):
        raise InputError(
            f"a text must hold whole characters; character {half.start()} (counting from 0) is a "
            "lone surrogate. Replace it: text.encode('utf-8', 'replace').decode()."
        )
    return text


def checked_text_or_pair(given: Any) -> str | Pair:
    """Return ``given`` if it is a text or a pair of them; any other tuple is refused."""
    if not isinstance(given, tuple):
        return checked_text(given)
    if len(given) != 2 or not all(isinstance(side, str) for side in given):
        kinds = ", ".join(type(one).__name__ for one in given[:3]) + ", …" * (len(given) > 3)
        raise InputError(
            f"a tuple is a pair of two texts; got a tuple of {len(given)} ({kinds}). Several texts "
            "must be a list: write [...]."
        )
    return checked_text(given[0]), checked_text(given[1])


def is_single(given: Any) -> bool:
    """Whether one text, pair or image is meant, and not a list: a tuple is always a pair."""
    return isinstance(given, str | tuple) or is_image(given)


def is_image(given: Any) -> bool:
    """Whether ``given`` can only be an image; other strings may be the path of one too."""
    if isinstance(given, str):  # what rows of data have in its place
        # By its beginning first: most strings are long texts, and are not to be copied for this.
        if not given.startswith(("data:", "/", "\\\\")) and given[1:2] != ":":
            return False
        path = given.lower().endswith(ENDINGS) and Path(given).is_absolute()
        return path or is_address(given)
    if isinstance(given, np.ndarray):
        return given.ndim > 1 and given.dtype.kind in "buif"
    file = isinstance(given, Mapping) and ("bytes" in given or "path" in given)
    return file or isinstance(given, ImageInput | Path | bytes) or is_pillow(given)


def check_listed(texts: Any) -> None:
    """Refuse one string for a list of texts, and by its number what is neither text nor pair."""
    if isinstance(texts, str):
        raise InputError("logits takes a list of texts; got one string. Write [text].")
    for i, text in enumerate(texts):
        if not isinstance(text, str | tuple):
            raise InputError(f"text {i} must be a string; got {type(text).__name__}.")
        with about_text(i if len(texts) > 1 else None):
            checked_text_or_pair(text)


# Notices that differ in these alone are one: each text has its own number of tokens.
_VARYING = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?|'[^']*'|“[^”]*”")


@final
class NoticeCounts:
    """Counts notices as texts come; what it keeps does not grow with their number."""

    def __init__(self) -> None:
        self._texts = 0
        self._count: dict[str, int] = {}
        self._example: dict[str, tuple[str, str]] = {}

    def add(self, place: str, notices: Iterable[str]) -> None:
        """Count the notices of one more text, which stands at ``place``, such as "line 3"."""
        self._texts += 1
        kinds = {_VARYING.sub("#", notice): notice for notice in notices}
        for kind, notice in kinds.items():
            self._count[kind] = self._count.get(kind, 0) + 1
            self._example.setdefault(kind, (place, notice))

    def sentences(self) -> list[str]:
        """Return one line per kind of notice, the most frequent first."""
        lines = []
        for kind, count in sorted(self._count.items(), key=lambda item: -item[1]):
            place, notice = self._example[kind]
            if self._texts == 1:
                lines.append(f"Notice: {notice}")
            elif count == 1:
                lines.append(f"Notice on {place}: {notice}")
            else:
                of = f"{count:,} of {self._texts:,} texts, such as {place}"
                lines.append(f"Notice on {of}: {notice}")
        return lines
