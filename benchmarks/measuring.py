"""Time and memory of functions and of whole processes.

Functions are timed by the processor time they use: on a quiet machine that is what the clock on the
wall says for one thread, and on a shared one it does not count the others' work.
"""

__all__ = [
    "Usage",
    "Work",
    "interleaved",
    "on_cores",
    "peak_memory",
    "process",
    "processes",
    "seconds",
    "worked",
]

import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def on_cores(count: int) -> None:
    """Start this program again where its libraries would use another number of threads.

    They read these variables when they are first imported, so setting them now would be too late.
    """
    wanted = dict.fromkeys(_THREADS, str(count))
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **wanted})


def seconds(work: Callable[[], Any], *, repeats: int, warm: bool = True) -> np.ndarray:
    """Return the times of ``repeats`` calls, after one that is not counted."""
    if warm:
        work()
    return np.array([_timed(work) for _ in range(repeats)])


def interleaved(
    works: Mapping[str, Callable[[], Any]], *, rounds: int, times: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Return the times of several pieces of work in turn, so that a busy machine slows all alike.

    ``times`` repeats the short ones within a round.
    """
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].extend(_timed(work) for _ in range((times or {}).get(name, 1)))
    return {name: np.array(values) for name, values in taken.items()}


def _timed(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Work(NamedTuple):
    """What a piece of work in this process took, and what it returned."""

    seconds: float
    processor: float
    calls: int
    peak_mb: float
    result: Any


def worked(work: Callable[[], Any], calls: Callable[[], int]) -> Work:
    """Do ``work`` once: time on the clock and of the processor, calls, peak memory meanwhile."""
    with contextlib.suppress(
        OSError
    ):  # where it cannot be set back, the peak is that of all so far
        Path("/proc/self/clear_refs").write_text("5")
    before, start, used = calls(), time.perf_counter(), time.process_time()
    result = work()
    clock, used = time.perf_counter() - start, time.process_time() - used
    return Work(clock, used, calls() - before, peak_memory(), result)


class Usage(NamedTuple):
    """What a process took, and what it printed."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    output: str


def process(command: Sequence[str]) -> Usage:
    """Run a command to its end; it must succeed.

    The peak is the highest one seen in /proc, for the kernel's own report at the end counts the
    memory of the process that started it.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    peak = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        while child.poll() is None:
            peak = max(peak, peak_memory(child.pid))
            time.sleep(0.002)
        elapsed = time.perf_counter() - start
        output = child.stdout.read() if child.stdout else ""
    if child.returncode:
        raise SystemExit(f"'{' '.join(command)}' failed with {child.returncode}.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Usage(elapsed, cpu, peak, output)


def processes(commands: Mapping[str, Sequence[str]], *, rounds: int) -> dict[str, list[Usage]]:
    """Run several commands in turn."""
    runs: dict[str, list[Usage]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(process(command))
    return runs


def peak_memory(pid: int | str = "self") -> float:
    """Return the highest resident memory so far of a process, in MB; 0 where it is not known."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1000 if lines else 0.0
