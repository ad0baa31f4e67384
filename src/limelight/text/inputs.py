"""Inputs: what users pass, and a text, pair or image as a model reads it."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from limelight.errors import InputError, add_text_number
from limelight.shapes import Float
from limelight.text.characters import LONE_SURROGATE
from limelight.text.conversations import Conversation, Part, is_message_list, part_index
from limelight.text.images import (
    ENDINGS,
    ImageInput,
    ImageLike,
    PatchedImage,
    is_address,
    is_pillow,
)
from limelight.text.queries import QueriedText, Query
from limelight.text.tokens import Span, Tokens

Pair = tuple[str, str]
# An input that a model can read: a text, a pair of texts, an image, or a conversation.
UserInput = str | Pair | ImageInput | Conversation
# What public functions take. An image may be a path, an array or bytes. A conversation may be a
# list of messages.
Input = UserInput | ImageLike | list[dict[str, Any]]
SIDES = ("first", "second")


def join_pair(user_input: UserInput) -> tuple[str, tuple[Part, ...]]:
    """Join the texts of a pair by a newline, and return the result with both as parts.

    A single text is returned without parts. For an image or a conversation, its label is returned.
    """
    if isinstance(user_input, ImageInput | Conversation):
        return user_input.label, ()
    if isinstance(user_input, str):
        return user_input, ()
    texts = first, second = user_input
    spans = (0, len(first)), (len(first) + 1, len(first) + 1 + len(second))
    parts = zip(SIDES, spans, strict=True)
    return "\n".join(texts), tuple(Part(side, side, span, span) for side, span in parts)


def side_index(position: int, parts: Sequence[Part]) -> int:
    """Return the index of the part that contains a character; 0 if there are no parts."""
    return sum(part.span[0] <= position for part in parts[1:])


def part_names(spans: Sequence[Sequence[Span]], parts: Sequence[Part]) -> tuple[str, ...]:
    """Return for each feature the id of the part in which it begins, such as "first" in a pair.

    Without parts, the names are empty.
    """
    if not parts:
        return ("",) * len(spans)
    indices = [part_index(occurrences[0][0], parts) if occurrences else 0 for occurrences in spans]
    return tuple("" if index < 0 else parts[index].id for index in indices)


def append_parts(strings: Sequence[str], parts: Sequence[str]) -> tuple[str, ...]:
    """Append the part to each feature of an input with parts, as in "good (first)"."""
    pairs = zip(strings, parts, strict=True)
    return tuple(
        f"{string} ({part})" if part and part != string else string for string, part in pairs
    )


class Windows(NamedTuple):
    """The windows in which a long text was read, and the model's outputs for each of them."""

    size: int  # the maximal number of subword tokens, special tokens included
    spans: tuple[Span | None, ...]  # None for a window without a word of the text
    outputs: Float[np.ndarray, "windows C"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class ModelInput:
    """An input as a model reads it.

    Parameters
    ----------
    text
        The text, the texts of a pair joined by a newline, or the label of an image.
    tokens
        The tokens that the model reads: words of the text, or patches or segments of the image.
    cutoff
        The character at which the model stops reading. None if it reads the complete text.
    warnings
        What the user must know about the reading.
    encoding
        Data for the model alone, such as ids, subword tokens or windows.
    windows
        The windows, if the text was read in several of them.
    parts
        The two texts of a pair, the documents or the messages in ``text``. Empty for a single text.
    source
        The conversation, or the text in a chat, whose prompt is ``text``. None for other inputs.
    queries
        The queries of the text. The model returns an output for each of them in turn. Empty if the
        outputs belong to the complete text.
    is_divisible
        Whether words may be divided at any position, because the model reads any string.
    image
        The image with its patches or segments, if the input is an image.
    is_checked
        Whether exact results for this text rest on removals that were tried, and not on a proof.
    fallback
        The model that is called for this text, if the model that read it does not know the outputs
        of removals exactly.
    """

    text: str
    tokens: Tokens
    cutoff: int | None = None
    warnings: tuple[str, ...] = ()
    encoding: Any = None
    windows: Windows | None = None
    parts: tuple[Part, ...] = ()
    source: UserInput | None = None
    queries: tuple[Query, ...] = ()
    is_divisible: bool = False
    image: PatchedImage | None = None
    is_checked: bool = False
    fallback: Any = None

    @staticmethod
    def from_image(image: PatchedImage, **fields: Any) -> "ModelInput":
        """Return the input for an image whose patches or segments are the tokens.

        Parameters
        ----------
        image
            The image with its patches or segments.
        **fields
            Other fields of `ModelInput`.
        """
        warnings = (*image.source.warnings, *fields.pop("warnings", ()))
        empty = ModelInput(image.source.label, Tokens((), ()), warnings=warnings, **fields)
        return empty.with_patches(image)

    def with_patches(self, image: PatchedImage) -> "ModelInput":
        """Return the input with the same image split into other patches."""
        names = image.token_names()
        return replace(self, tokens=Tokens(names, ((0, 0),) * len(names)), image=image)

    def split_words(self, positions: Iterable[int]) -> "ModelInput":
        """Return the input with its tokens also divided at ``positions`` of the text."""
        edges = sorted(positions)
        spans = tuple(
            part
            for start, end in self.tokens.spans
            for inner_edges in [edges[bisect_right(edges, start) : bisect_left(edges, end)]]
            for part in pairwise([start, *inner_edges, end])
        )
        strings = tuple(self.text[start:end] for start, end in spans)
        return replace(self, tokens=Tokens(strings, spans))

    @property
    def is_text(self) -> bool:
        """Whether the input is a text or a pair, so that words can be deleted or replaced."""
        return self.image is None

    @property
    def user_input(self) -> UserInput:
        """The input of the user: the text, the pair of texts, the image, or the conversation."""
        if self.image is not None:
            return self.image.source
        if self.source is not None:
            return self.source
        if not self.parts:
            return self.text
        first, second = (self.text[slice(*part.span)] for part in self.parts)
        return first, second

    @property
    def part_kind(self) -> str:
        """The features that the parts are, such as "documents"; "" for other inputs."""
        return self.source.part_kind if isinstance(self.source, Conversation) else ""

    def is_word(self, i: int) -> bool:
        """Return whether token ``i`` is part of a word that an author wrote.

        Prompts also have tokens for white space and for the marks of a chat.
        """
        if self.source is None:
            return True
        start, end = self.tokens.spans[i]
        contents = [part.content for part in self.parts]
        is_content = any(first <= start and end <= last for first, last in contents)
        return is_content and bool(self.tokens.strings[i].strip())

    @property
    def queried_text(self) -> Any:
        """The input of the user with its queries, for another model to read."""
        return QueriedText(self.user_input, self.queries) if self.queries else self.user_input


def validate_text(text: Any) -> str:
    """Return ``text``; raise `InputError` if it is no string or contains a lone surrogate."""
    if not isinstance(text, str):
        raise InputError(f"a text must be a string, not {type(text).__name__}.")
    if match := LONE_SURROGATE.search(text):
        raise InputError(
            f"a text must have no lone surrogates, but character {match.start()} (counting from "
            "0) is one. Replace it: text.encode('utf-8', 'replace').decode()."
        )
    return text


def validate_text_or_pair(value: Any) -> str | Pair:
    """Return a text or a pair of texts; raise `InputError` for any other tuple."""
    if not isinstance(value, tuple):
        return validate_text(value)
    if len(value) != 2 or not all(isinstance(side, str) for side in value):
        kinds = ", ".join(type(side).__name__ for side in value[:3]) + ", …" * (len(value) > 3)
        raise InputError(
            f"a tuple must be a pair of two texts, but this one has {len(value)} entries "
            f"({kinds}). Write several texts as a list: [...]."
        )
    return validate_text(value[0]), validate_text(value[1])


def is_single(value: Any) -> bool:
    """Return whether ``value`` is one input and no list; a tuple is a pair.

    A list of messages is one conversation.
    """
    return (
        isinstance(value, str | tuple | Conversation) or is_message_list(value) or is_image(value)
    )


def parse_input(value: Any) -> Any:
    """Return a list of messages as a conversation, and any other value unchanged."""
    return Conversation.from_messages(value) if is_message_list(value) else value


def is_image(value: Any) -> bool:
    """Return whether ``value`` is certainly an image.

    A string is an image only if it is a data URL or an absolute path with an image's extension.
    Other strings count as texts.
    """
    if isinstance(value, str):  # rows of data have such strings instead of images
        # Look at the beginning first: most strings are long texts, and `lower` copies a string.
        if not value.startswith(("data:", "/", "\\\\")) and value[1:2] != ":":
            return False
        is_path = value.lower().endswith(ENDINGS) and Path(value).is_absolute()
        return is_path or is_address(value)
    if isinstance(value, np.ndarray):
        return value.ndim > 1 and value.dtype.kind in "buif"
    is_row = isinstance(value, Mapping) and ("bytes" in value or "path" in value)
    return is_row or isinstance(value, ImageInput | Path | bytes) or is_pillow(value)


def check_text_list(texts: Any) -> None:
    """Raise `InputError` if ``texts`` is a string or contains anything but texts and pairs."""
    if isinstance(texts, str):
        raise InputError("logits needs a list of texts, not a string. Write [text].")
    for i, text in enumerate(texts):
        if not isinstance(text, str | tuple):
            raise InputError(f"text {i} must be a string, not {type(text).__name__}.")
        with add_text_number(i if len(texts) > 1 else None):
            validate_text_or_pair(text)


# Parts in which warnings of the same kind differ, because each text has its own number of tokens.
_VARYING = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?|'[^']*'|“[^”]*”")


@final
class WarningCounts:
    """Counter of the warnings of many texts; its size does not grow with the number of texts."""

    def __init__(self) -> None:
        self._texts = 0
        self._count: dict[str, int] = {}
        self._example: dict[str, tuple[str, str]] = {}

    def add(self, location: str, warnings: Iterable[str]) -> None:
        """Count the warnings of one more text; ``location`` names it, such as "line 3"."""
        self._texts += 1
        kinds = {_VARYING.sub("#", warning): warning for warning in warnings}
        for kind, warning in kinds.items():
            self._count[kind] = self._count.get(kind, 0) + 1
            self._example.setdefault(kind, (location, warning))

    def sentences(self) -> list[str]:
        """Return one line per kind of warning, the most frequent first."""
        lines = []
        for kind, count in sorted(self._count.items(), key=lambda pair: -pair[1]):
            location, warning = self._example[kind]
            if self._texts == 1:
                lines.append(f"Warning: {warning}")
            elif count == 1:
                lines.append(f"Warning on {location}: {warning}")
            else:
                texts = f"{count:,} of {self._texts:,} texts, such as {location}"
                lines.append(f"Warning on {texts}: {warning}")
        return lines
