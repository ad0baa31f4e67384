"""How long a run will take, how far it has come, and what would be quicker."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from limelight.explainers.budget import duration
from limelight.explainers.registry import configure_method, usable_methods
from limelight.runs.work import Finished, ShardWork, method_record

_SAMPLED = 5  # texts
_LONG = 3600.0  # seconds
_PATIENCE = 5.0  # seconds for a short text, after which one of middling length stands for all
# One or a few passes through a model: what to use where asking it a thousand times takes too long.
_QUICK = ("lrp", "gxi", "loo", "alpha-avg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds for ``texts`` texts; a method that is ``quicker``, if they are more than an hour."""

    seconds: float
    texts: int
    workers: int
    quicker: tuple[str, float] | None = None

    @property
    def sentence(self) -> str:
        """What a user reads before it starts."""
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        said = f"About {duration(self.seconds)} for {self.texts:,} texts with {workers}."
        if self.quicker is None:
            return said
        method, seconds = self.quicker
        return f"{said} The method {method!r} would take about {duration(seconds)}."


def estimate(work: ShardWork, texts: pa.Table, *, count: int, workers: int) -> Estimate:
    """Return how long ``count`` texts will take if they are like some of ``texts``."""
    # Texts that cannot be used cost nothing.
    usable = texts.filter(texts.column("error").is_null())
    # By length, for a text of ten times the words may cost ten times as much, or more.
    lengths = [len(text) for text in usable.column("text").to_pylist()]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    steps = min(_SAMPLED, len(order))  # from the shortest to the longest
    sample = usable.take([order[(2 * i + 1) * len(order) // (2 * steps)] for i in range(steps)])
    seconds = _seconds(work, sample) * count / workers
    quicker = _quicker(work, sample, count / workers, seconds) if seconds > _LONG else None
    return Estimate(seconds=seconds, texts=count, workers=workers, quicker=quicker)


def _seconds(work: ShardWork, sample: pa.Table) -> float:
    """Return seconds per text; the first text is not counted, for much is made ready with it."""
    if not len(sample):
        return 0.0
    # With the first text kernels are compiled and caches filled, once for the whole run.
    if len(sample) > 1:
        start = time.perf_counter()
        work(sample.slice(0, 1))
        slow = time.perf_counter() - start > _PATIENCE
        sample = sample.slice(len(sample) // 2, 1) if slow else sample.slice(1)
    start = time.perf_counter()
    work(sample)
    return (time.perf_counter() - start) / len(sample)


def _quicker(
    work: ShardWork, sample: pa.Table, share: float, seconds: float
) -> tuple[str, float] | None:
    """Return the first quick method that takes less than a tenth, measured on the same texts."""
    usable = usable_methods(work.model)
    for name in _QUICK:
        # What the run does already cannot be quicker than it.
        if name not in usable or name in (one.method.id for one in work.chosen):
            continue
        # With its defaults: settings of another method are not its own.
        quick = configure_method(name, work.model, {})
        record = msgspec.structs.replace(work.record, methods=[method_record(quick)])
        other = _seconds(ShardWork(work.model, record), sample.slice(0, 3)) * share
        if other < seconds / 10:
            return name, other
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """What a callback hears: texts ``done`` of ``total``, those of them that ``failed``.

    ``per_second`` and ``left`` (seconds) are None until something is finished. ``shard`` is the one
    that has just been stored, if it is about one; ``estimate`` comes before the first, and
    ``notice`` is something that the user should know. ``finding`` says that spans or answers
    are looked for, before the run begins.
    """

    done: int
    failed: int
    total: int
    per_second: float | None = None
    left: float | None = None
    shard: Finished | None = None
    estimate: Estimate | None = None
    notice: str | None = None
    finding: bool = False

    @property
    def sentence(self) -> str:
        """How far it is."""
        found = " read for what is explained" * self.finding
        failed = f", {self.failed:,} failed" if self.failed else ""
        rate = self.per_second
        speed = f", {rate:{',.0f' if rate >= 10 else '.2g'}} a second" if rate else ""
        return f"{self.done:,} of {self.total:,} texts{found}{failed}{speed}"


Watcher = Callable[[RunProgress], None]
_BETWEEN = 0.2  # seconds


class ProgressLine:
    """What a run says in Python: one line of standard error, written again and again.

    Where that is neither a terminal nor a notebook, only notices are written.
    """

    def __init__(self) -> None:
        # A log would keep every state of a line that is meant to be written over.
        self.moves = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._last, self._written = 0.0, 0

    def __call__(self, progress: RunProgress) -> None:
        """Write a notice or the estimate on a line of its own, and how far the run is."""
        said = progress.notice or (progress.estimate and progress.estimate.sentence)
        if said and (progress.notice or self.moves):
            print("\r" * self.moves + said.ljust(self._written), file=sys.stderr)
        # The last texts are told of twice: when they are done, and when they are on the disk.
        ended = progress.done == progress.total and progress.shard is not None
        now = time.monotonic()
        if not self.moves or (now - self._last < _BETWEEN and not ended) or not progress.done:
            return
        left = f", about {duration(progress.left)} left" if progress.left else ""
        told = progress.sentence + left
        print("\r" + told.ljust(self._written), end="\n" * ended, file=sys.stderr, flush=True)
        self._last, self._written = now, len(told)


class Meter:
    """Counts texts and tells a callback; shards that were there before count as done."""

    def __init__(self, watcher: Watcher | None, *, total: int, done: int, failed: int) -> None:
        self.watcher, self._total = watcher, total
        self._before, self._done, self._failed = done, done, failed
        self._start = time.perf_counter()

    @property
    def estimates(self) -> bool:
        """Whether an estimate, which costs a few texts, would be shown."""
        return self.watcher is not None and getattr(self.watcher, "moves", True)

    def __call__(
        self, texts: int = 0, failed: int = 0, *, shard: Finished | None = None, **said: Any
    ) -> None:
        """Tell of so many texts of a shard in the making, or of a shard that is on the disk now.

        What is ``said`` beside, an estimate or a notice, is passed on.
        """
        # Only what is on the disk counts: the texts of a shard in the making may still be lost.
        if shard is not None:
            self._done += shard.texts
            self._failed += shard.failed
        if self.watcher is None:
            return
        done = self._done + texts
        taken, new = time.perf_counter() - self._start, done - self._before
        # Of this session alone: shards that were there before took no time now.
        speed = new / taken if new and taken else None
        self.watcher(
            RunProgress(
                done=done,
                failed=self._failed + failed,
                total=self._total,
                per_second=speed,
                left=None if speed is None else (self._total - done) / speed,
                shard=shard,
                **said,
            )
        )
        # The texts that it took are not part of the speed.
        if "estimate" in said:
            self._start = time.perf_counter()
