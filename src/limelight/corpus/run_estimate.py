"""How long a run will take, from a few of its texts, and what would be quicker."""

__all__ = ["Estimate", "estimate"]

import time
from dataclasses import dataclass
from typing import final

import msgspec
import pyarrow as pa

from limelight.corpus.run_record import MethodRecord
from limelight.corpus.shard_work import ShardWork
from limelight.explainers.registry import configured, usable_methods

_SAMPLED = 5  # texts
_LONG = 3600.0  # seconds
# One or a few passes through a model: what to use where asking it a thousand times takes too long.
_QUICK = ("lrp", "gxi", "loo", "alpha-avg")


@final
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
        said = f"About {_duration(self.seconds)} for {self.texts:,} texts with {workers}."
        if self.quicker is None:
            return said
        method, seconds = self.quicker
        return f"{said} The method {method!r} would take about {_duration(seconds)}."


def estimate(work: ShardWork, texts: pa.Table, *, count: int, workers: int) -> Estimate:
    """Return how long ``count`` texts will take if they are like some of ``texts``."""
    sample = _sample(texts)
    seconds = _seconds(work, sample) * count / workers
    quicker = _quicker(work, sample, count / workers, seconds) if seconds > _LONG else None
    return Estimate(seconds=seconds, texts=count, workers=workers, quicker=quicker)


def _sample(texts: pa.Table) -> pa.Table:
    """Return some of the texts, from the shortest to the longest."""
    usable = texts.filter(texts.column("error").is_null())
    lengths = [len(text) for text in usable.column("text").to_pylist()]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    steps = min(_SAMPLED, len(order))
    return usable.take([order[(2 * i + 1) * len(order) // (2 * steps)] for i in range(steps)])


def _seconds(work: ShardWork, sample: pa.Table) -> float:
    """Return seconds per text; the first text is not counted, for much is made ready with it."""
    if not len(sample):
        return 0.0
    if len(sample) > 1:
        work(sample.slice(0, 1))
        sample = sample.slice(1)
    start = time.perf_counter()
    work(sample)
    return (time.perf_counter() - start) / len(sample)


def _quicker(
    work: ShardWork, sample: pa.Table, share: float, seconds: float
) -> tuple[str, float] | None:
    """Return the first quick method that takes less than a tenth, measured on the same texts."""
    usable = usable_methods(work.model)
    for name in _QUICK:
        if name not in usable or name in (one.method.id for one in work.chosen):
            continue
        chosen = configured(name, work.model, {})
        method = MethodRecord(
            id=name, label=chosen.method.label, signed=chosen.method.signed, settings=chosen.asked()
        )
        record = msgspec.structs.replace(work.record, methods=[method])
        other = _seconds(ShardWork(work.model, record), sample.slice(0, 3)) * share
        if other < seconds / 10:
            return name, other
    return None


def _duration(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if (count := round(seconds / size)) > 1 or size == 1:
            return f"{max(count, 1)} {unit}{'s' if count > 1 else ''}"
    return ""
