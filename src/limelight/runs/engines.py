"""Who explains shards beside this process: others it starts, somebody's executor, a Ray cluster."""

import contextlib
import itertools
import multiprocessing as mp
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from multiprocessing import resource_tracker
from types import ModuleType
from typing import Any, Protocol

from limelight.errors import InputError, MissingExtraError
from limelight.fork_locks import ForkSafeLock
from limelight.runs.work import ShardResult, Task, explain_shard, needs_main


class Worker(Protocol):
    """A worker that explains shards; if it dies, its futures raise one of ``loss_errors``."""

    loss_errors: tuple[type[BaseException], ...]
    max_losses: int  # how often the worker of one shard may die before the run stops
    failure_message: tuple[str, str]  # which workers ended, and advice

    def submit(self, task: Task) -> Future[ShardResult]:
        """Start a task; on a full cluster it waits until the worker has a place."""

    def close(self) -> None:
        """Stop the worker, even if it is running a task."""


def run_on_workers(
    start_worker: Callable[[], Worker], workers: int, tasks: Iterator[Task]
) -> Generator[ShardResult, None, None]:
    """Run tasks on ``workers`` workers and yield each shard when it is finished.

    A worker that dies is replaced, and its shard is computed again. A task is read only when a
    worker is free for it, because the texts of a shard may be large.
    """
    running: dict[Future[ShardResult], tuple[Worker, Task]] = {}
    all_workers, losses = list[Worker](), Counter[int]()

    def start_task(task: Task) -> None:
        """Start a worker and submit ``task`` to it."""
        all_workers.append(worker := start_worker())
        running[worker.submit(task)] = worker, task

    try:
        for task in itertools.islice(tasks, workers):
            start_task(task)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                worker, task = running.pop(future)
                try:
                    shard = future.result()
                except worker.loss_errors as error:
                    worker.close()
                    losses[task.number] += 1
                    if losses[task.number] == worker.max_losses:
                        (reason, *_) = str(error).strip().splitlines() or [type(error).__name__]
                        subject, advice = worker.failure_message
                        # If all shards in flight failed together, the guilty one is unknown.
                        location = f" at shard {task.number}" if worker.max_losses > 1 else ""
                        raise InputError(
                            f"{subject} stopped{location} ({reason.rstrip('.')}), and finished "
                            f"shards are kept. {advice}"
                        ) from None
                    start_task(task)
                    continue
                # Before the shard is yielded, so that no worker waits for the consumer.
                if (next_task := next(tasks, None)) is not None:
                    running[worker.submit(next_task)] = worker, next_task
                else:
                    worker.close()  # on a cluster that lost a machine, another waits for its place
                yield shard
    finally:
        for worker in all_workers:
            worker.close()


class ExecutorShare:
    """One slot of the user's executor, which this package neither stops nor replaces."""

    loss_errors: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError)
    max_losses = 1

    def __init__(self, executor: Executor, explain: Callable[[Task], ShardResult]) -> None:
        self._executor, self._explain, self._shard = executor, explain, Future[ShardResult]()
        name = f"the executor {type(executor).__name__}"
        self.failure_message = name, "Start the run again with a new executor."

    def submit(self, task: Task) -> Future[ShardResult]:
        """Submit the task to the executor."""
        try:
            self._shard = self._executor.submit(self._explain, task)
        except RuntimeError as error:  # it ended while it had nothing to do, or was shut down
            self._shard = Future()
            self._shard.set_exception(BrokenExecutor(str(error)))
        return self._shard

    def close(self) -> None:
        """Cancel the shard if it has not started, for example after an interrupt."""
        self._shard.cancel()


_MAX_LOSSES = 3
_FAILURE_MESSAGE = f"each of {_MAX_LOSSES} workers", "They may lack memory: use fewer of them."
_RUN_MAIN = 'Put the code that your program runs under if __name__ == "__main__":.'
_PATIENCE = 5.0  # seconds for a killed process to be gone
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    # A container or taskset may leave fewer cores than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SpawnedProcess(ExecutorShare):
    """A new process that receives only the pickled job and loads the model once.

    ``workers`` is the number of processes that share the cores.
    """

    max_losses = _MAX_LOSSES

    def __init__(self, job: bytes, workers: int) -> None:
        # Not forked: torch and OpenMP do not survive the fork of a process that has threads.
        context = mp.get_context("spawn")
        # No pool: it holds both ends of its pipes. If a process died while it sent a result, the
        # pool would wait for the rest of it for ever.
        self._pipe, child_pipe = context.Pipe()
        self._process = context.Process(target=_serve, args=(child_pipe, job), daemon=True)
        with _worker_environment(workers, program=(runs_main := needs_main(job))):
            self._process.start()
        # Only the process holds its end now, so reading from the pipe fails when it dies.
        child_pipe.close()
        super().__init__(ThreadPoolExecutor(1), self._wait_for_result)
        subject, advice = _FAILURE_MESSAGE
        self.failure_message = subject, f"{advice} {_RUN_MAIN}" if runs_main else advice

    def _wait_for_result(self, task: Task) -> ShardResult:
        """Send a task to the process, and wait for its shard; raise the error of the process."""
        try:
            self._pipe.send(task)
            result: ShardResult | Exception = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_PATIENCE)
            raise BrokenExecutor(f"exit code {self._process.exitcode}") from None
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """Kill the process, and wait until it is gone."""
        self._process.kill()
        self._process.join(_PATIENCE)
        self._executor.shutdown()


def _serve(pipe: Any, job: bytes) -> None:
    """Explain the shards that arrive in ``pipe`` until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles interrupts
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            try:
                result: ShardResult | Exception = explain_shard(job, task)
            except Exception as error:
                result = error
            pipe.send(result)


def _end_with_parent() -> None:
    """Wait for the end of the parent process, then end this process."""
    if (parent := mp.parent_process()) is not None:
        parent.join()
        os._exit(1)  # killed, it could not tell us, and nobody is left to take the shard


# The environment and the main module belong to the whole process: one start at a time.
_start_lock = ForkSafeLock()


@contextlib.contextmanager
def _worker_environment(workers: int, *, program: bool) -> Iterator[None]:
    """Give a process that starts in the block its share of the cores, and block interrupts.

    Libraries read the variables for threads when they are first imported. A process inherits the
    blocked signals of the thread that starts it, so no interrupt arrives before it can ignore it.
    A spawned process runs the main module of its parent, to find the definitions in it. Without
    ``if __name__ == "__main__":`` there, processes would start processes. If ``program`` is
    False, no definition of the main module is needed, and it is replaced by an empty one.
    """
    share = str(max(1, usable_cores() // workers))
    with _start_lock, contextlib.ExitStack() as cleanup:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = main if program else ModuleType("__main__")
        cleanup.callback(sys.modules.__setitem__, "__main__", main)
        for name in _THREADS:
            if name not in os.environ:  # the user's own setting stays
                os.environ[name] = share
                cleanup.callback(os.environ.pop, name, None)
        if hasattr(signal, "pthread_sigmask"):  # not Windows
            # Python would start it with the first process and then unblock interrupts.
            resource_tracker.ensure_running()
            previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            cleanup.callback(signal.pthread_sigmask, signal.SIG_SETMASK, previous_mask)
        yield


class RayActors:
    """Actors of Ray Core with one model each. If an actor or its machine dies, it is replaced.

    Texts travel to the actors and shards come back, so the machines need not share a disk; the
    model must be where it was loaded from on each of them, and limelight must be installed there.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        gpus_per_worker: float = 0.0,
        cpus_per_worker: float = 1.0,
    ) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("the engine 'ray' needs Ray", "cluster") from None
        self._ray: Any = ray
        # A program that has connected already keeps its connection.
        if not ray.is_initialized():
            try:
                # Output of the workers would break the progress line.
                ray.init(address=address, log_to_driver=False, configure_logging=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                (reason, *_) = str(error).strip().splitlines() or [type(error).__name__]
                raise InputError(
                    f"cannot connect to a Ray cluster at {address!r} ({reason.rstrip('.')}). Check "
                    "the address."
                ) from None
        self._needs = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker}
        # Ray must not restart actors: a new one may find no place while the others exist.
        self._actors = ray.remote(**self._needs, max_restarts=0)(_Explainer)
        self.workers = workers or self._worker_capacity()

    def actor(self, job: bytes) -> "_Actor":
        """Create an actor for ``job``; it may have to wait for a place on the cluster."""
        return _Actor(self._ray, self._actors.remote(job))

    def _worker_capacity(self) -> int:
        """Compute how many actors fit on the cluster."""
        resources = self._ray.cluster_resources()
        # Count over the whole cluster: Ray chooses the machine of each actor.
        worker_counts = [
            int(resources.get(name, 0) // need)
            for name, need in zip(("CPU", "GPU"), self._needs.values(), strict=True)
            if need
        ]
        if not worker_counts or not min(worker_counts):
            needs = ", ".join(f"{name[4:-1].upper()}s: {n:g}" for name, n in self._needs.items())
            raise InputError(
                f"the Ray cluster is too small for a worker ({needs}). Lower cpus_per_worker or "
                "gpus_per_worker (--gpus-per-worker)."
            )
        return min(worker_counts)


class _Explainer:
    """The actor class that Ray runs on a machine of the cluster."""

    def __init__(self, job: bytes) -> None:
        self._job = job

    def shard(self, task: Task) -> ShardResult:
        """Explain the shard of ``task``."""
        return explain_shard(self._job, task)


class _Actor:
    """A worker that runs as a Ray actor."""

    max_losses, failure_message = _MAX_LOSSES, _FAILURE_MESSAGE

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        # Errors of the explanation itself are raised unchanged; only dead actors are replaced.
        exceptions = ray.exceptions
        self.loss_errors: tuple[type[BaseException], ...]
        self.loss_errors = (
            exceptions.RayActorError,
            exceptions.WorkerCrashedError,
            exceptions.ObjectLostError,
        )

    def submit(self, task: Task) -> Future[ShardResult]:
        """Send the task to the actor."""
        future: Future[ShardResult] = self._actor.shard.remote(task).future()
        return future

    def close(self) -> None:
        """Kill the actor."""
        self._ray.kill(self._actor)
