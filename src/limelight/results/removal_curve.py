"""What a model says while words go, in the order of one method."""

__all__ = ["RemovalCurve"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float, Int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCurve:
    """The explained number after the first words of an order are gone, read at even steps.

    Kept as bytes, little-endian 16-bit numbers of words and 32-bit values: a data set has millions
    of points, which as objects would fill the memory, and bytes can be neither changed nor unequal
    to themselves.
    """

    order: bytes
    values: bytes

    @staticmethod
    def of(order: Int[np.ndarray, " d"], values: Float[np.ndarray, " steps"]) -> "RemovalCurve":
        """Return the curve of words ``order``, whose first value is that of the whole text."""
        return RemovalCurve(
            order=order.astype("<u2").tobytes(), values=values.astype("<f4").tobytes()
        )

    def __post_init__(self) -> None:
        if len(self.order) % 2 or len(self.values) % 4 or not self.values:
            raise InputError("a curve is 2 bytes for each word and 4 bytes for each value.")

    @property
    def words(self) -> Int[np.ndarray, " d"]:
        """The words, first removed first, by their place in the list of words."""
        return np.frombuffer(self.order, "<u2").astype(np.int64)

    @property
    def points(self) -> Float[np.ndarray, " steps"]:
        """The explained number: of the whole text, then after every step."""
        return np.frombuffer(self.values, "<f4").astype(np.float64)

    @property
    def removed(self) -> Int[np.ndarray, " steps"]:
        """How many words are gone at each point: evenly spread from none to all."""
        steps = len(self.values) // 4 - 1
        return np.linspace(0, len(self.order) // 2, steps + 1).round().astype(np.int64)
