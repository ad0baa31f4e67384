"""Threads of torch and of NumPy, on a quiet machine and beside other programs.

python benchmarks/threads.py                          this version alone
python benchmarks/threads.py --base ../old/src        and an earlier version beside it

Each case runs in a process of its own, first alone and then beside one endless loop per core. Both
wall time and processor time of one call count, the best of several. Rules, written before the first
run: beside other programs, neither a network with torch's default number of threads nor a
regression may take more than 1.5 times the processor time that it takes with one thread.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from overhead import in_process, version_of
from results import Measure, command_line, report

MODEL = Path(__file__).resolve().parents[2] / "shared" / "models" / "minilm-imdb"
TEXT = "A superb film with a fine cast, but the plot is thin and the end is far too long to enjoy."
LONG_TEXT = " ".join(f"{TEXT} In part {part} nothing happens." for part in range(12))
# The variables of the environment with which each case starts.
CASES = {
    "network_one_thread": {"OMP_NUM_THREADS": "1"},
    "network_default": {},
    "network_active": {"OMP_WAIT_POLICY": "ACTIVE"},
    "regression_one_thread": {"OPENBLAS_NUM_THREADS": "1"},
    "regression_default": {},
}
MOST = 1.5  # times the processor time with one thread


def main() -> None:
    """Measure every case, or run a part in this process."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--base", type=Path, help="the folder src of an earlier version")
    parser.add_argument("--part", choices=("network", "regression"), help="run it here")
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(globals()[f"measure_{arguments.part}"](smoke=arguments.smoke)))
        return
    measures = [
        measure
        for loops in (0, os.cpu_count() or 1)
        for measure in compare_cases(arguments, loops, "beside_loops" if loops else "quiet")
    ]
    base = "" if arguments.base is None else f", beside {version_of(arguments.base)}"
    report("threads", measures, arguments, data=f"sentences of our own{base}")


def compare_cases(arguments: Any, loops: int, name: str) -> Iterator[Measure]:
    """Run every case beside a number of endless loops, and yield its times."""
    sources = {"": None, **({} if arguments.base is None else {"_before": arguments.base})}
    processor_times: dict[str, float] = {}
    for case, variables in CASES.items():
        if case.startswith("network") and not MODEL.exists():
            continue
        for suffix, source in sources.items():
            with changed_environment(variables), endless_loops(loops):
                part = case.partition("_")[0]
                times = in_process(part, source, smoke=arguments.smoke, program=__file__)
            for kind, value in times.items():
                yield Measure(
                    id=f"{name}_{case}_{kind}{suffix}",
                    what=f"{name.replace('_', ' ')}: {case.replace('_', ' ')}, {kind} time"
                    + suffix.replace("_", ", "),
                    value=value,
                    unit="ms",
                )
            processor_times[case + suffix] = times["processor"]
    for case in ("network", "regression"):
        if f"{case}_default" not in processor_times:
            continue
        is_judged = loops and not arguments.smoke
        yield Measure(
            id=f"{name}_{case}_ratio",
            what=f"{name.replace('_', ' ')}: {case}, processor time over that of one thread",
            value=processor_times[f"{case}_default"] / processor_times[f"{case}_one_thread"],
            unit="×",
            below=MOST if is_judged else None,
        )


@contextlib.contextmanager
def changed_environment(variables: dict[str, str]) -> Iterator[None]:
    """Run a block with only these variables about threads in the environment."""
    names = {name for case in CASES.values() for name in case}
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextlib.contextmanager
def endless_loops(count: int) -> Iterator[None]:
    """Run a block beside processes that compute without end."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def least_times(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return the least wall time and processor time of several calls, in milliseconds."""
    work()
    times = []
    for _ in range(repeats):
        start, processor_start = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - start, time.process_time() - processor_start))
    wall, processor = (1000 * min(column) for column in zip(*times, strict=True))
    return {"wall": wall, "processor": processor}


def measure_network(*, smoke: bool) -> dict[str, float]:
    """Measure LIME of a sentence with MiniLM: nearly all time is in torch."""
    import limelight

    model = limelight.load(MODEL, device="cpu")
    samples = 30 if smoke else 300
    return least_times(
        lambda: limelight.explain(model, TEXT, "lime", samples=samples, progress=False),
        1 if smoke else 5,
    )


def measure_regression(*, smoke: bool) -> dict[str, float]:
    """Measure sampled LIME of a long text with tables: a third of the time is in regressions."""
    import limelight

    model = limelight.load()
    samples = 200 if smoke else 5000
    return least_times(
        lambda: limelight.explain(
            model, LONG_TEXT, "lime-sampled", samples=samples, features="positions", progress=False
        ),
        1 if smoke else 5,
    )


if __name__ == "__main__":
    main()
