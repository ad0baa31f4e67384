"""Estimate how long a run will take and suggest a quicker method."""

import time

import msgspec
import pyarrow as pa

from limelight.explainers.registry import configure_method, usable_methods
from limelight.progress import Estimate, format_duration
from limelight.runs.work import ShardWork, make_method_record

_SAMPLED = 5  # texts
_LONG = 3600.0  # seconds
_PATIENCE = 5.0  # seconds for a short text, after which one of middling length stands for all
# One or a few passes through a model: what to use where asking it a thousand times takes too long.
_QUICK = ("lrp", "gxi", "loo", "alpha-avg")


def estimate(work: ShardWork, texts: pa.Table, *, count: int, workers: int) -> Estimate:
    """Estimate the time for ``count`` texts by explaining a few of ``texts``.

    Parameters
    ----------
    work
        The methods and the model.
    texts
        Texts to explain, as for a shard.
    count
        Number of texts of the run.
    workers
        Number of processes that share the work.

    Returns
    -------
    The expected time, with a quicker method if the time is long.
    """
    # Texts that cannot be used cost nothing.
    usable = texts.filter(texts.column("error").is_null())
    # By length, for a text of ten times the words may cost ten times as much, or more.
    lengths = [len(text) for text in usable.column("text").to_pylist()]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    steps = min(_SAMPLED, len(order))  # from the shortest to the longest
    sample = usable.take([order[(2 * i + 1) * len(order) // (2 * steps)] for i in range(steps)])
    seconds = _measure_seconds_per_text(work, sample) * count / workers
    quick_method = (
        _find_quicker_method(work, sample, count / workers, seconds) if seconds > _LONG else None
    )
    workers_phrase = "1 worker" if workers == 1 else f"{workers} workers"
    sentence = f"About {format_duration(seconds)} for {count:,} texts with {workers_phrase}."
    if quick_method is not None:
        method, other = quick_method
        sentence += f" The method {method!r} would take about {format_duration(other)}."
    return Estimate(seconds=seconds, sentence=sentence)


def _measure_seconds_per_text(work: ShardWork, sample: pa.Table) -> float:
    """Measure seconds per text; the first text only warms up the model and is not counted."""
    if not len(sample):
        return 0.0
    # With the first text kernels are compiled and caches filled, once for the whole run.
    if len(sample) > 1:
        start = time.perf_counter()
        work(sample.slice(0, 1))
        is_slow = time.perf_counter() - start > _PATIENCE
        sample = sample.slice(len(sample) // 2, 1) if is_slow else sample.slice(1)
    start = time.perf_counter()
    work(sample)
    return (time.perf_counter() - start) / len(sample)


def _find_quicker_method(
    work: ShardWork, sample: pa.Table, share: float, seconds: float
) -> tuple[str, float] | None:
    """Return the first quick method that needs less than a tenth of ``seconds``, with its time."""
    usable = usable_methods(work.model)
    for name in _QUICK:
        # What the run does already cannot be quicker than it.
        if name not in usable or name in (configured.method.id for configured in work.methods):
            continue
        # With its defaults: settings of another method are not its own.
        quick_method = configure_method(name, work.model, {})
        record = msgspec.structs.replace(work.record, methods=[make_method_record(quick_method)])
        quick_seconds = (
            _measure_seconds_per_text(ShardWork(work.model, record), sample.slice(0, 3)) * share
        )
        if quick_seconds < seconds / 10:
            return name, quick_seconds
    return None
