"""What orders are judged on: one text, its curves, what guessing reaches, and what is best."""

__all__ = ["Areas", "Frame", "Ground", "Level"]

from typing import NamedTuple, Protocol, runtime_checkable

from limelight.judging.tied_words import Groups


class Areas(NamedTuple):
    """The three areas of one order; of tied words, the mean over their orders."""

    deletion: float
    insertion: float
    change: float


class Level(NamedTuple):
    """Chance, its standard error (None: exact) and the ceiling of one measure."""

    chance: float
    stderr: float | None
    ceiling: float


class Frame(NamedTuple):
    """What areas lie between; ``greedy`` is the area of the greedy order, if there was time."""

    deletion: Level
    insertion: Level
    change: Level | None
    greedy: float | None
    kind: str


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

    def areas(self, groups: Groups) -> Areas:
        """Return the areas of the order that ``groups`` stand for."""

    def frame(
        self, judged: list[tuple[Groups, Areas]], *, change: bool, seconds: float | None
    ) -> Frame:
        """Return what the areas lie between; with ``change`` also for that measure.

        ``seconds`` is the time for greedy search, where each step asks the model.
        """
