"""What ten million texts would take on 1, 10 and 100 machines: computed from what was measured."""

__all__ = ["cost_table"]

import math
from typing import NamedTuple

from results import measured_with, read_result, stored_measures

_RESULTS = ("datasets", "corpus_cuda", "transformer_corpus_cuda")
TEXTS = 10_000_000
MACHINES = (1, 10, 100)
SHARD = 1000  # texts
START = 10.0  # seconds until a worker has its first shard: a cluster's start and a model's loading


class Worker(NamedTuple):
    """Workers of one kind: ``rate`` texts a second each, ``each`` to a machine."""

    what: str
    rate: float
    each: int


def cost_table() -> str:
    """Return the table, with what was measured beside what is computed."""
    found = {name: _measured(name) for name in _RESULTS}
    own = found["datasets"]["datasets_own"] / 1000
    size = found["datasets"]["datasets_pool_size"] / 25_000  # MB a text
    lines = [
        "| measured | texts/s | "
        + " | ".join(f"{n} machine{'s' * (n > 1)}" for n in MACHINES)
        + " |",
        "| --- | ---: |" + " ---: |" * len(MACHINES),
        *(_row(worker, own) for worker in _workers(found)),
    ]
    limit = f"{1 / own:,.0f} texts a second, so {_duration(TEXTS * own)} for ten million"
    said = (
        f"The process that reads and writes was measured at {1000 * own:.2f} ms a text: {limit}, "
        f"however many machines there are (marked \\*). Beyond that, cut the data into "
        "as many runs. "
        f"A run of one method takes {size * TEXTS / 1000:.0f} GB. {measured_with(*_RESULTS)}"
    )
    return "\n" + "\n".join(lines) + f"\n\n{said}\n\n"


def _workers(found: dict[str, dict[str, float]]) -> tuple[Worker, ...]:
    cuda = 25_000 / found["corpus_cuda"]["corpus_explain_seconds"]
    lrp = found["transformer_corpus_cuda"]["lrp_speed"]
    pool = found["datasets"]["datasets_pool_speed"] / 2
    return (
        Worker("exact LIME, shipped model, a core of two", pool, 2),
        Worker("exact LIME, shipped model, an H200", cuda, 1),
        Worker("`lrp`, MiniLM, an H200", lrp, 1),
    )


def _row(worker: Worker, own: float) -> str:
    times = []
    for machines in MACHINES:
        rounds = math.ceil(TEXTS / (SHARD * worker.each * machines))
        working = START + rounds * SHARD / worker.rate
        limited = TEXTS * own > working
        times.append(_duration(max(working, TEXTS * own)) + " \\*" * limited)
    return f"| {worker.what} | {worker.rate:,.0f} | {' | '.join(times)} |"


def _measured(name: str) -> dict[str, float]:
    return {measure.id: measure.value for measure in stored_measures(read_result(name))}


def _duration(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
