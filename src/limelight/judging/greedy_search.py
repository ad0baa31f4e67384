"""The search for a good order: at every step, the words without which the output is lowest."""

__all__ = ["EVERY_WORD", "STEPS", "GreedySearch", "searched_together"]

import math
import time
from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Bool, Float

EVERY_WORD = 256  # words; curves of more are read, and searched, at so many even steps
STEPS = 64


@final
class GreedySearch:
    """An order that grows step by step; ``start`` is the order of the words not yet reached."""

    def __init__(self, start: Sequence[int]) -> None:
        self._order, self._left, self.d = list[int](), list(start), len(start)
        self._a_step = 1 if self.d <= EVERY_WORD else math.ceil(self.d / STEPS)
        self.refused: InputError | None = None  # by the model, which ends the search

    @property
    def going_on(self) -> bool:
        """Whether there is another step to take."""
        return not self.finished and self.refused is None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to choose."""
        return len(self._left) <= self._a_step

    @property
    def order(self) -> list[int]:
        """The words chosen so far, then the others as they came."""
        return self._order + self._left

    def masks(self) -> Bool[np.ndarray, "left d"]:
        """Return the question of this step: the text without each of the words that are left."""
        masks = np.zeros((len(self._left), self.d), bool)
        masks[:, self._left] = True
        masks[np.arange(len(self._left)), self._left] = False
        return masks

    def hear(self, values: Float[np.ndarray, " left"]) -> None:
        """Choose the words whose removal leaves the least."""
        chosen = [self._left[i] for i in np.argsort(values, kind="stable")[: self._a_step]]
        gone = set(chosen)
        self._order += chosen
        self._left = [j for j in self._left if j not in gone]


# From the searches that go on, each with its question, to their answers, or to refusals.
Ask = Callable[
    [Sequence[GreedySearch], Sequence[Bool[np.ndarray, "_ _d"]]],
    Sequence[Float[np.ndarray, " _"] | InputError],
]


def searched_together(searches: Sequence[GreedySearch], ask: Ask, *, seconds: float | None) -> None:
    """Take the next step of every search, all in one question, as long as there is time."""
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    while (going := [one for one in searches if one.going_on]) and time.monotonic() < deadline:
        answers = ask(going, [one.masks() for one in going])
        for one, answer in zip(going, answers, strict=True):
            if isinstance(answer, InputError):
                one.refused = answer
            else:
                one.hear(answer)
