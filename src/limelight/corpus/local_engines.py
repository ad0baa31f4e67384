"""Engines of this machine: the process that asks, and processes that it starts."""

__all__ = ["SpawnedProcesses", "ThisProcess", "usable_cores"]

import contextlib
import multiprocessing as mp
import os
import signal
import threading
from collections.abc import Generator, Iterator
from typing import Any, final

from limelight.corpus.crew import finished_by_crew
from limelight.corpus.shard_task import (
    Finished,
    Job,
    LostWorkerError,
    Orders,
    Task,
    explain_shard,
    finished_by,
)
from limelight.corpus.shard_work import Heard, ShardWork

_PATIENCE = 5.0  # seconds for a killed process to be gone
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@final
class ThisProcess:
    """One shard after another, here, with the model that is in memory."""

    workers = 1

    def __init__(self, work: ShardWork, heard: Heard | None = None) -> None:
        self._work, self._heard = work, heard

    def finished(self, orders: Orders) -> Generator[Finished, None, None]:
        """Yield the shards; ``heard`` is told of every few texts."""
        for task in orders.tasks:
            yield finished_by(self._work, task, self._heard)


@final
class SpawnedProcesses:
    """New processes that load the model once each; nothing of this process travels with them."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def finished(self, orders: Orders) -> Generator[Finished, None, None]:
        """Yield the shards as they are finished."""
        workers = min(self.workers, orders.length)
        return finished_by_crew(lambda: _Process(orders.job, workers), workers, orders.tasks)


@final
class _Process:
    def __init__(self, job: Job, workers: int) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        with _threads_shared(workers):
            self._process.start()
        theirs.close()

    def get_ready(self) -> None:
        pass  # it loads the model with its first task

    def __call__(self, task: Task) -> Finished:
        try:
            self._pipe.send(task)
            found: Finished = self._pipe.recv()
        except (EOFError, OSError):
            raise LostWorkerError("a process ended early") from None
        return found

    def close(self) -> None:
        self._process.kill()  # who waits for its answer hears that it has ended
        self._process.join(_PATIENCE)


def _serve(pipe: Any, job: Job) -> None:
    """Explain one shard after another until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides what an interrupt means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(explain_shard(job, pipe.recv()))


def _end_with_parent() -> None:
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # killed, it could not tell us; the shard would be finished for nobody


_environment = threading.Lock()


@contextlib.contextmanager
def _threads_shared(workers: int) -> Iterator[None]:
    """Let processes that start in the block use their share of the cores, unless told otherwise.

    They read these variables when their libraries are first imported.
    """
    share = str(max(1, usable_cores() // workers))
    with _environment:
        unset = [name for name in _THREADS if name not in os.environ]
        os.environ.update(dict.fromkeys(unset, share))
        try:
            yield
        finally:
            for name in unset:
                os.environ.pop(name, None)
