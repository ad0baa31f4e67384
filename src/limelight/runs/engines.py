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
from limelight.runs.work import Finished, Task, explain_shard, needs_main
from limelight.threads import ForkSafeLock


class Worker(Protocol):
    """A worker, held from here, whose answers raise one of ``lost`` where it has ended early."""

    lost: tuple[type[BaseException], ...]
    tries: int  # workers that a shard may lose
    given_up: tuple[str, str]  # who has ended then, and what to do

    def submit(self, task: Task) -> Future[Finished]:
        """Begin a task, or let it wait until the worker has a place on a cluster that is full."""

    def close(self) -> None:
        """Let the worker go, also in the middle of a task."""


def finished_by_workers(
    start: Callable[[], Worker], workers: int, tasks: Iterator[Task]
) -> Generator[Finished, None, None]:
    """Yield shards as they are finished by so many workers; one that is lost is replaced.

    Data are read no further than somebody works: the texts of a shard may be large.
    """
    running: dict[Future[Finished], tuple[Worker, Task]] = {}
    everybody, losses = list[Worker](), Counter[int]()

    def begin(task: Task) -> None:
        everybody.append(worker := start())
        running[worker.submit(task)] = worker, task

    try:
        for task in itertools.islice(tasks, workers):
            begin(task)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for answer in done:
                worker, task = running.pop(answer)
                try:
                    shard = answer.result()
                except worker.lost as error:
                    worker.close()
                    losses[task.number] += 1
                    if losses[task.number] == worker.tries:
                        (reason, *_) = str(error).strip().splitlines() or [type(error).__name__]
                        who, advice = worker.given_up
                        # Who is lost with all shards in flight does not say which one it was.
                        where = f" at shard {task.number}" if worker.tries > 1 else ""
                        raise InputError(
                            f"{who} has ended ({reason.rstrip('.')}){where}; what is finished is "
                            f"kept. {advice}"
                        ) from None
                    begin(task)
                    continue
                # Before the shard is taken, so that no worker waits for who takes it.
                if (following := next(tasks, None)) is not None:
                    running[worker.submit(following)] = worker, following
                else:
                    worker.close()  # on a cluster that lost a machine, another waits for its place
                yield shard
    finally:
        for worker in everybody:
            worker.close()


class ExecutorShare:
    """A place in an executor, which is not ours to end or to replace."""

    lost: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError)
    tries = 1

    def __init__(self, executor: Executor, explain: Callable[[Task], Finished]) -> None:
        self._executor, self._explain, self._shard = executor, explain, Future[Finished]()
        name = f"the executor {type(executor).__name__}"
        self.given_up = name, "Start the run again with a new one."

    def submit(self, task: Task) -> Future[Finished]:
        """Send the task."""
        try:
            self._shard = self._executor.submit(self._explain, task)
        except RuntimeError as error:  # it ended while it had nothing to do, or was shut down
            self._shard = Future()
            self._shard.set_exception(BrokenExecutor(str(error)))
        return self._shard

    def close(self) -> None:
        """Let the shard not be begun: who stops listening, as an interrupt does, wants no more."""
        self._shard.cancel()


_TRIES = 3
_GIVEN_UP = f"each of {_TRIES} workers", "They may lack memory: use fewer of them."
_RUN_MAIN = 'They run your program first: what it does must stand under if __name__ == "__main__":.'
_PATIENCE = 5.0  # seconds for a killed process to be gone
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    # A container or taskset may leave fewer cores than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SpawnedProcess(ExecutorShare):
    """A new process, which loads the model once; nothing of this one travels but the job.

    It is one of so many ``workers``, who share the cores.
    """

    tries = _TRIES

    def __init__(self, job: bytes, workers: int) -> None:
        # Not forked: torch and OpenMP do not survive the fork of a process that has threads.
        context = mp.get_context("spawn")
        # No pool: it holds both ends of its pipes, and would wait for ever for the rest of an
        # answer in which its process has ended.
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        with _starting(workers, program=(runs_main := needs_main(job))):
            self._process.start()
        # The process alone holds its end then, so that we hear when it is gone.
        theirs.close()
        super().__init__(ThreadPoolExecutor(1), self._answer)
        who, advice = _GIVEN_UP
        self.given_up = who, f"{advice} {_RUN_MAIN}" if runs_main else advice

    def _answer(self, task: Task) -> Finished:
        try:
            self._pipe.send(task)
            found: Finished | Exception = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_PATIENCE)
            raise BrokenExecutor(f"exit code {self._process.exitcode}") from None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Kill the process, and wait until it is gone."""
        self._process.kill()
        self._process.join(_PATIENCE)
        self._executor.shutdown()


def _serve(pipe: Any, job: bytes) -> None:
    """Explain one shard after another until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides what an interrupt means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            try:
                found: Finished | Exception = explain_shard(job, task)
            except Exception as error:
                found = error
            pipe.send(found)


def _end_with_parent() -> None:
    if (parent := mp.parent_process()) is not None:
        parent.join()
        os._exit(1)  # killed, it could not tell us, and nobody is left to take the shard


# The environment and the main module belong to the whole process: one start at a time.
_changing = ForkSafeLock()


@contextlib.contextmanager
def _starting(workers: int, *, program: bool) -> Iterator[None]:
    """Let a process that starts in the block use its share of the cores, and hear no interrupt.

    Its libraries read these variables when they are first imported. What a thread holds back, the
    processes that it starts hold back as well, also before they can ignore it. A spawned process
    runs the ``program`` that starts it, to find what that defines; without ``if __name__ ==
    "__main__":`` in it processes would start processes. Where nothing of it is needed, they are
    shown an empty one.
    """
    share = str(max(1, usable_cores() // workers))
    with _changing, contextlib.ExitStack() as undone:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = main if program else ModuleType("__main__")
        undone.callback(sys.modules.__setitem__, "__main__", main)
        for name in _THREADS:
            if name not in os.environ:  # unless told otherwise
                os.environ[name] = share
                undone.callback(os.environ.pop, name, None)
        if hasattr(signal, "pthread_sigmask"):  # not Windows
            # Python starts it with the first process, and then lets interrupts through again.
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            undone.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        yield


class RayActors:
    """Actors of Ray Core, one model each. A lost actor, or a lost machine, is replaced.

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
                # What its workers print would break the line that shows how far the run is.
                ray.init(address=address, log_to_driver=False, configure_logging=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                (reason, *_) = str(error).strip().splitlines() or [type(error).__name__]
                raise InputError(f"no Ray cluster at {address!r} ({reason.rstrip('.')}).") from None
        self._needs = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker}
        # Without restarts of Ray's own: a new actor may find no place while the others are there.
        self._actors = ray.remote(**self._needs, max_restarts=0)(_Explainer)
        self.workers = workers or self._room()

    def actor(self, job: bytes) -> "_Actor":
        """Return a new actor for ``job``, which may have to wait for its place."""
        return _Actor(self._ray, self._actors.remote(job))

    def _room(self) -> int:
        """Return how many actors the cluster has room for."""
        there = self._ray.cluster_resources()
        # Of the whole cluster: Ray itself finds the machine for each.
        room = [
            int(there.get(name, 0) // need)
            for name, need in zip(("CPU", "GPU"), self._needs.values(), strict=True)
            if need
        ]
        if not room or not min(room):
            wanted = ", ".join(f"{need:g} {name[4:]}" for name, need in self._needs.items())
            raise InputError(f"no machine of the Ray cluster has room for a worker ({wanted}).")
        return min(room)


class _Explainer:
    """What runs on a machine of the cluster."""

    def __init__(self, job: bytes) -> None:
        self._job = job

    def shard(self, task: Task) -> Finished:
        return explain_shard(self._job, task)


class _Actor:
    tries, given_up = _TRIES, _GIVEN_UP

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        # Errors of the work itself are raised as they are: only who is lost is replaced.
        lost = ray.exceptions
        self.lost: tuple[type[BaseException], ...]
        self.lost = (lost.RayActorError, lost.WorkerCrashedError, lost.ObjectLostError)

    def submit(self, task: Task) -> Future[Finished]:
        found: Future[Finished] = self._actor.shard.remote(task).future()
        return found

    def close(self) -> None:
        self._ray.kill(self._actor)
