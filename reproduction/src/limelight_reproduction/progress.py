"""The progress of a run, reported so that it never decreases."""

__all__ = ["PartProgress", "PartReporter", "Progress"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class PartProgress:
    """The position of a run: the part that it measures, and the share of the part that is done."""

    part: str
    number: int
    parts: int
    share: float
    is_finished: bool
    """Whether the part is finished. ``share`` may reach 1 before."""
    source: str
    """Source of the numbers: "measured" now, "kept" from before, "stored" in the package, or
    "missing"."""


Progress = Callable[[PartProgress], None]


@final
class PartReporter:
    """Reports the progress of one part over all its stages.

    Each stage of a part counts from 0 to its total. A count that decreases begins the next stage.
    If a part has more stages than announced, its progress stops until the part ends.
    """

    def __init__(
        self, progress: Progress | None, *, part: str, number: int, parts: int, stages: int
    ) -> None:
        self._progress, self._part, self._number, self._parts = progress, part, number, parts
        self._stages, self._stage, self._last, self._share = stages, 0, 0.0, 0.0

    def tick(self, done: int, total: int) -> None:
        """Report that the stage has done ``done`` of ``total`` steps."""
        stage_share = done / total
        self._stage += stage_share < self._last
        self._last = stage_share
        share = (min(self._stage, self._stages - 1) + stage_share) / self._stages
        self._share = max(self._share, share)
        self._report("measured", self._share, is_finished=False)

    def end(self, source: str) -> None:
        """Report that the part is finished, and the source of its numbers."""
        self._report(source, 1.0, is_finished=True)

    def _report(self, source: str, share: float, *, is_finished: bool) -> None:
        if self._progress is not None:
            self._progress(
                PartProgress(
                    part=self._part,
                    number=self._number,
                    parts=self._parts,
                    share=share,
                    is_finished=is_finished,
                    source=source,
                )
            )
