"""Whole data sets: from a Parquet file to stored explanations, against the bare library loop.

    python benchmarks/datasets.py                 every test review of IMDB, two cores
    python benchmarks/datasets.py --limit 3000    the first so many; sizes and times are per text

Every engine runs in a process of its own, in turn with the others, so that a busy machine slows
all alike. A ratio is of the clock; that of processor time stands beside it.
"""

import argparse
import json
import multiprocessing as mp
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from measuring import on_cores, peak_memory, process
from results import Measure, command_line, report
from reviews import reviews

FOUR = ("lime", "shapley", "gxi", "loo")
PARTS = ("bare", "here", "pool", "ray", "four")
_ALL = 25_000  # reviews, to which sizes are scaled


def main() -> None:
    """Measure the parts, or be one of them."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--limit", type=int, help="explain only so many reviews")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    on_cores(1)  # of linear algebra in each worker
    if arguments.part is not None:
        print(json.dumps(part(arguments.part, arguments.data, smoke=arguments.smoke)))
        return
    with tempfile.TemporaryDirectory() as folder:
        data, count = _parquet(Path(folder), 40 if arguments.smoke else arguments.limit)
        rounds = 1 if arguments.smoke else arguments.rounds
        taken = _measured(data, rounds=rounds, smoke=arguments.smoke)
    report("datasets", list(measures(taken, count)), arguments, data=f"{count:,} reviews")


def _parquet(folder: Path, limit: int | None) -> tuple[Path, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from limelight import load

    texts = reviews(load(), count=limit).texts
    pq.write_table(pa.table({"text": texts}), folder / "reviews.parquet")
    return folder / "reviews.parquet", len(texts)


class Taken(NamedTuple):
    """What a part took: the work alone, the whole process, its largest process, and bytes.

    ``own`` is the processor time of the process that reads the data and writes the shards, and
    ``summary`` what a summary of the run takes on the clock.
    """

    seconds: float
    start: float
    processor: float
    peak_mb: float
    size: int
    own: float = 0.0
    summary: float = 0.0


def _measured(data: Path, *, rounds: int, smoke: bool) -> dict[str, list[Taken]]:
    """Run the parts in turn; the one that only measures a size runs once."""
    with_ray = _has_ray() and not smoke  # a cluster takes longer to start than all the rest
    taken: dict[str, list[Taken]] = {name: [] for name in PARTS if name != "ray" or with_ray}
    for number in range(rounds):
        for name, runs in taken.items():
            if name == "four" and number:
                continue
            print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
            more = ["--smoke"] if smoke else []
            usage = process([sys.executable, __file__, "--part", name, "--data", str(data), *more])
            found = json.loads(usage.output.splitlines()[-1])
            peak = max(found["peak_mb"], usage.peak_mb)
            runs.append(Taken(**{**found, "peak_mb": peak}, processor=usage.cpu_seconds))
    return taken


def _has_ray() -> bool:
    try:
        import ray  # noqa: F401
    except ImportError:
        return False
    return True


def part(name: str, data: Path, *, smoke: bool) -> dict[str, Any]:
    """Explain the reviews in one way; return seconds, the largest process, and bytes stored."""
    import limelight

    model = limelight.load()
    limelight.explain(model, "a film to begin with")
    if name == "bare":
        return _bare(model, data)
    options: dict[str, Any] = {"pool": {"workers": 2}, "four": {"workers": 2}}.get(name, {})
    started = time.perf_counter()
    if name == "ray":
        from limelight.runs import RayActors

        options = {"executor": RayActors(2)}  # its actors start later, as the pool's processes do
    start, peaks = time.perf_counter() - started, [0.0]

    def told(_: Any) -> None:
        peaks.extend(peak_memory(child.pid or 0) for child in mp.active_children())

    with tempfile.TemporaryDirectory() as folder:
        method = list(FOUR) if name == "four" else "lime"
        began, used, shard = time.perf_counter(), time.process_time(), 5 if smoke else 500
        run = limelight.explain_data(
            model, data, method, output=folder, shard_texts=shard, progress=told, **options
        )
        seconds, own = time.perf_counter() - began, time.process_time() - used
        size = sum(path.stat().st_size for path in run.path.rglob("*.parquet"))
        summary = _summarized(run) if name == "four" else 0.0
    return {
        "seconds": seconds,
        "start": start,
        "peak_mb": max(peaks),
        "size": size,
        "own": own,
        "summary": summary,
    }


def _summarized(run: Any) -> float:
    began = time.perf_counter()
    run.summary().as_html()
    return time.perf_counter() - began


def _bare(model: Any, data: Path) -> dict[str, Any]:
    """``limelight.explain`` on parts of like length in two threads; the results are dropped."""
    import pyarrow.parquet as pq

    import limelight

    began = time.perf_counter()
    texts = sorted(pq.read_table(data).column("text").to_pylist(), key=len)
    parts = [texts[i : i + 128] for i in range(0, len(texts), 128)]
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda one: len(limelight.explain(model, one, "lime")), parts):
            pass
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "start": 0.0, "peak_mb": 0.0, "size": 0}


def measures(taken: dict[str, list[Taken]], count: int) -> Iterator[Measure]:
    """Compare the parts."""
    for name, runs in taken.items():
        seconds = [run.seconds for run in runs]
        yield Measure(
            id=f"datasets_{name}_speed",
            what=f"{_NAMES[name]}, {count:,} texts",
            value=count / median(seconds),
            best=count / min(seconds),
            unit="texts/s",
            note=f"on the clock{_processor(name, runs, count)}",
        )
    yield _ratio(taken, "pool", "bare", below=1.15, what="pool against the bare loop")
    yield _ratio(taken, "here", "pool", at_least=1.8, what="one process against the pool")
    if "ray" in taken:
        yield _ratio(taken, "ray", "pool", below=1.3, what="Ray, once it runs, against the pool")
        start = median(run.start for run in taken["ray"])
        yield Measure(id="datasets_ray_start", what="start of Ray", value=start, unit="s")
    yield Measure(
        id="datasets_own",
        what="the process that reads data and writes shards, processor time a text",
        value=1000 * median(run.own for run in taken["pool"]) / count,
        unit="ms",
        note="what limits a large cluster",
    )
    yield Measure(
        id="datasets_summary",
        what=f"summary of {count:,} reviews with 4 methods, page included",
        value=taken["four"][0].summary,
        unit="s",
        below=10 * count / _ALL,
    )
    for name in ("here", "pool"):
        peak = max(run.peak_mb for run in taken[name])
        what = f"peak memory of the largest process, {_NAMES[name]}"
        yield Measure(id=f"datasets_{name}_memory", what=what, value=peak, unit="MB", below=1000)
    for name, methods, below in (("pool", 1, None), ("four", 4, 130)):
        yield Measure(
            id=f"datasets_{name}_size",
            what=f"size of a run of {_ALL:,} reviews with {methods} method(s)",
            value=taken[name][0].size / count * _ALL / 1e6,
            unit="MB",
            below=below,
        )


def _processor(name: str, runs: list[Taken], count: int) -> str:
    """What the processor did for a text; that of Ray's actors, no children of ours, is unknown."""
    if name == "ray":
        return ""
    own = 1000 * median(run.processor for run in runs) / count
    return f"; {own:.2f} ms of processor a text, start included"


_NAMES = {
    "bare": "limelight.explain in two threads, exact LIME",
    "here": "a run in this process, exact LIME",
    "pool": "a run in two processes, exact LIME",
    "ray": "a run on two Ray actors, exact LIME",
    "four": f"a run in two processes, {', '.join(FOUR)}",
}


def _ratio(
    taken: dict[str, list[Taken]], one: str, other: str, *, what: str, **wanted: float
) -> Measure:
    """The times of one part over those of another, round by round."""
    pairs = list(zip(taken[one], taken[other], strict=True))
    clock = [a.seconds / b.seconds for a, b in pairs]
    processor = median(a.processor / b.processor for a, b in pairs)
    known = "ray" not in (one, other)
    return Measure(
        id=f"datasets_{one}_{other}",
        what=f"{what}, time",
        value=median(clock),
        best=(max if "at_least" in wanted else min)(clock),
        note=f"processor time: {processor:.2f}, starts included" if known else "",
        **wanted,
    )


if __name__ == "__main__":
    main()
