"""How far a run is, told so that it never goes back."""

__all__ = ["At", "Progress", "Teller"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class At:
    """Where a run stands: in which part, and which share of it is done."""

    part: str
    number: int
    parts: int
    share: float
    ended: bool
    """Whether the part is done with; ``share`` may reach 1 before."""
    source: str
    """"measured" now, "kept" from before, "stored" in the package, or "missing"."""


Progress = Callable[[At], None]


@final
class Teller:
    """Tells how far one part is, over all its stages.

    A part ticks from nothing to a total in every stage, one after another; a tick that falls back
    begins the next one. Of stages that nobody announced only the end is seen.
    """

    def __init__(
        self, progress: Progress | None, *, part: str, number: int, parts: int, stages: int
    ) -> None:
        self._progress, self._part, self._number, self._parts = progress, part, number, parts
        self._stages, self._stage, self._last, self._share = stages, 0, 0.0, 0.0

    def tick(self, done: int, total: int) -> None:
        """Hear that the stage is at ``done`` of ``total``."""
        now = done / total
        self._stage += now < self._last
        self._last = now
        share = (min(self._stage, self._stages - 1) + now) / self._stages
        self._share = max(self._share, share)
        self._tell("measured", self._share, ended=False)

    def end(self, source: str) -> None:
        """Hear that the part is done with, and where its numbers are from."""
        self._tell(source, 1.0, ended=True)

    def _tell(self, source: str, share: float, *, ended: bool) -> None:
        if self._progress is not None:
            self._progress(
                At(
                    part=self._part,
                    number=self._number,
                    parts=self._parts,
                    share=share,
                    ended=ended,
                    source=source,
                )
            )
