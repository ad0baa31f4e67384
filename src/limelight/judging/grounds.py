"""What orders are judged on: one text, its curves, what guessing reaches, and what is best."""

__all__ = ["Areas", "Frame", "Ground", "Judged", "Level"]

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from limelight.explainers.text_game import TextGame
from limelight.judging.greedy_search import GreedySearch
from limelight.judging.tied_words import Groups
from limelight.shapes import Bool, Float, Int


class Areas(NamedTuple):
    """The three areas of one order; of tied words, the mean over their orders."""

    deletion: float
    insertion: float
    change: float


class Judged(NamedTuple):
    """An order that was judged, under the name of its method."""

    name: str
    groups: Groups
    areas: Areas


class Level(NamedTuple):
    """Chance, its standard error (None: exact) and the ceiling of one measure."""

    chance: float
    stderr: float | None
    ceiling: float


class Frame(NamedTuple):
    """What areas lie between; ``greedy`` is the area of the greedy order, if there was time.

    ``best`` names the order that stands for the ceiling where ``kind`` says "best found".
    """

    deletion: Level
    insertion: Level
    change: Level | None
    greedy: float | None
    kind: str
    best: str = ""


@runtime_checkable
class Ground(Protocol):
    """One text."""

    @property
    def d(self) -> int:
        """Number of words."""

    @property
    def full(self) -> float:
        """The explained number of the whole text."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know about the model's answers."""

    @property
    def asks(self) -> TextGame | None:
        """What is asked about the text; None where nothing has to be."""

    @property
    def lowest(self) -> Float[np.ndarray, " d"] | None:
        """What the explained number is at least without k words; None where nothing is proven."""

    def areas(self, several: list[Groups]) -> list[Areas]:
        """Return the areas of the orders that each of ``several`` stands for."""

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words go, for each order."""

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""

    def search(self, judged: list[Judged]) -> GreedySearch | None:
        """Return the search for a good order, to be run; None where nothing need be searched."""

    def frame(
        self,
        judged: list[Judged],
        searched: GreedySearch | None,
        *,
        change: bool,
        seconds: float | None,
    ) -> Frame:
        """Return what the areas lie between; with ``change`` also for that measure.

        ``seconds`` is the time for chance, where each random order asks the model.
        """
