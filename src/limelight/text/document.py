"""A text as a model reads it."""

__all__ = ["Document", "Windows"]

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from limelight.shapes import Float
from limelight.text.parts import Given, given_again
from limelight.text.tokenizer import Span, Tokens


class Windows(NamedTuple):
    """The windows in which a long text was read, and the model's outputs for each of them."""

    size: int  # pieces in a window at most, special ones included
    spans: tuple[Span | None, ...]  # None where no word of the text stands
    outputs: Float[np.ndarray, "windows C"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """The tokens of ``text`` that the model reads, and what a reader must know about the reading.

    ``cut`` is the character at which the model stops reading; None if it reads everything.
    ``input`` is the model's own business: ids, pieces, windows. ``windows`` is set if the text
    was read in several windows. ``parts`` are the places of the two sides of a pair in ``text``;
    there are none where it is one text.
    """

    text: str
    tokens: Tokens
    cut: int | None = None
    notices: tuple[str, ...] = ()
    input: Any = None
    windows: Windows | None = None
    parts: tuple[Span, ...] = ()

    @property
    def given(self) -> Given:
        """What was read: the text, or the pair of texts."""
        return given_again(self.text, self.parts)
