"""A text as somebody else's model reads it."""

__all__ = ["Passage", "Pieces"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.shapes import Float, Int
from limelight.text import Tokens


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The model's own input: ids of the whole text, beyond the window too.

    ``token`` is the place of each piece's word among ``strings``, -1 at special pieces, of which
    ``before`` stand in front of the text and ``after`` behind it. ``room`` pieces of the text fit
    between them.
    """

    ids: Int[np.ndarray, " L"]
    token: Int[np.ndarray, " L"]
    strings: tuple[str, ...]
    before: int
    after: int
    room: int

    @property
    def cut(self) -> int:
        """How many pieces of the text do not fit."""
        return max(0, len(self.ids) - self.before - self.after - self.room)

    @property
    def inside(self) -> Int[np.ndarray, " T"]:
        """Which pieces the model reads when nothing is removed."""
        return self.fitting(np.arange(len(self.ids)))

    def fitting(self, pieces: Int[np.ndarray, " _"]) -> Int[np.ndarray, " _"]:
        """Return those of ``pieces`` (special ones among them) that fit the window."""
        end = len(pieces) - self.after
        return np.concatenate([pieces[:end][: self.before + self.room], pieces[end:]])


@final
@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """A text, its words inside the window with their places, and the model's pieces if it shows
    them.

    A text that was read window by window has one passage for each, with the model's ``outputs``
    there; its own pieces are those of all windows, one behind the other.
    """

    text: str
    tokens: Tokens
    pieces: Pieces | None = None
    windows: tuple["Passage", ...] = ()
    outputs: Float[np.ndarray, "windows C"] | None = None

    @property
    def own_pieces(self) -> Pieces:
        """The pieces of a model that shows them."""
        if self.pieces is None:
            raise TypeError("this passage was read by a model that shows no pieces")
        return self.pieces

    @property
    def mean_output(self) -> Float[np.ndarray, " C"]:
        """The mean of the outputs of a text that was read in windows."""
        if self.outputs is None:
            raise TypeError("this passage was not read in windows")
        return self.outputs.mean(axis=0)

    @property
    def cut(self) -> int:
        """How many pieces of the text the model does not read."""
        return 0 if self.pieces is None else self.pieces.cut

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know about how the text was read."""
        if len(self.windows) > 1:
            return (
                f"The text was read in {len(self.windows)} windows; what is explained is the mean "
                "of the model's outputs over them.",
            )
        if self.pieces is None or not self.cut:
            return ()
        total = len(self.pieces.ids) - self.pieces.before - self.pieces.after
        return (
            f"The text has {total} tokens; the model reads the first {self.pieces.room}, "
            f"the last {self.cut} were cut off; window='auto' (--window auto) explains all.",
        )
