"""How far a run has come, and how long the rest will take."""

__all__ = ["Meter", "RunProgress", "Watcher"]

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from limelight.corpus.run_estimate import Estimate
from limelight.corpus.shard_task import Finished


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """What a callback hears: texts ``done`` of ``total``, those of them that ``failed``.

    ``per_second`` and ``left`` (seconds) are None until something is finished. ``shard`` is the one
    that has just been stored, if it is about one; ``estimate`` comes before the first, and
    ``notice`` is something that the user should know.
    """

    done: int
    failed: int
    total: int
    per_second: float | None = None
    left: float | None = None
    shard: Finished | None = None
    estimate: Estimate | None = None
    notice: str | None = None


Watcher = Callable[[RunProgress], None]


@final
class Meter:
    """Counts texts and tells a callback; shards that were there before count as done."""

    def __init__(self, watcher: Watcher | None, *, total: int, done: int, failed: int) -> None:
        self._watcher, self._total = watcher, total
        self._before, self._done, self._failed = done, done, failed
        self._start = time.perf_counter()
        self._part = (0, 0)  # of a shard in the making

    @property
    def watched(self) -> bool:
        """Whether anybody listens."""
        return self._watcher is not None

    def heard(self, texts: int, failed: int) -> None:
        """Take note of a shard in the making: so many of its texts are done."""
        self._part = texts, failed
        self._tell()

    def stored(self, shard: Finished) -> None:
        """Take note of a shard on the disk."""
        self._done += shard.texts
        self._failed += shard.failed
        self._part = 0, 0
        self._tell(shard=shard)

    def estimated(self, estimate: Estimate) -> None:
        """Pass on how long it will take."""
        self._tell(estimate=estimate)
        self._start = time.perf_counter()

    def noticed(self, notice: str) -> None:
        """Pass on what the user should know."""
        self._tell(notice=notice)

    def _tell(
        self,
        *,
        shard: Finished | None = None,
        estimate: Estimate | None = None,
        notice: str | None = None,
    ) -> None:
        if self._watcher is None:
            return
        done, failed = self._done + self._part[0], self._failed + self._part[1]
        taken, new = time.perf_counter() - self._start, done - self._before
        speed = new / taken if new and taken else None
        self._watcher(
            RunProgress(
                done=done,
                failed=failed,
                total=self._total,
                per_second=speed,
                left=None if speed is None else (self._total - done) / speed,
                shard=shard,
                estimate=estimate,
                notice=notice,
            )
        )
