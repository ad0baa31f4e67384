"""Who explains shards beside this process: others it starts, somebody's executor, a Ray cluster."""

import contextlib
import multiprocessing as mp
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    as_completed,
    wait,
)
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from limelight.errors import InputError, MissingExtraError
from limelight.runs.work import (
    Finished,
    LostWorkerError,
    Task,
    explain_shard,
    needs_main,
)

_TRIES = 3  # workers that a shard may lose, and that may be lost in a row before they start


class Worker:
    """A worker, held from here: called with a task, it answers when the shard is finished."""

    def get_ready(self) -> None:
        """Wait until the worker can take a task; a full cluster has no place for it yet."""

    def __call__(self, task: Task) -> Finished:
        """Return the finished shard, or raise ``LostWorkerError``."""
        raise NotImplementedError

    def close(self) -> None:
        """Let the worker go, also in the middle of a task; another thread may be waiting for it."""
        raise NotImplementedError


def finished_by_executor(
    executor: Executor, explain: Callable[[Task], Finished], most: int, tasks: Iterator[Task]
) -> Generator[Finished, None, None]:
    """Yield shards as they are finished, ``most`` of them in flight; the executor is left open."""
    running: set[Future[Finished]] = set()
    try:
        for task in tasks:
            try:
                running.add(executor.submit(explain, task))
            except RuntimeError as error:  # one that was shut down raises no more than that
                raise BrokenExecutor(str(error)) from None
            # Data are read no further than somebody works: the texts of a shard may be large.
            if len(running) == most:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (shard.result() for shard in done)
        yield from (shard.result() for shard in as_completed(running))
    except (BrokenExecutor, CancelledError) as error:
        # A pool that has lost a process is broken for good, and not ours to replace.
        name = type(executor).__name__
        raise InputError(
            f"the executor {name} has ended ({str(error) or type(error).__name__}); what is "
            "finished is kept. Start the run again with a new one."
        ) from None
    finally:
        # Who stops listening, as an interrupt does, wants no more of them begun.
        for shard in running:
            shard.cancel()


def finished_by_workers(
    start: Callable[[], Worker], workers: int, tasks: Iterator[Task]
) -> Generator[Finished, None, None]:
    """Yield shards as they are finished by so many workers; one that is lost is replaced."""
    held, running = _Workers(start), 0
    try:
        for begun, task in enumerate(tasks):
            if begun < workers:
                # Threads, for who waits for a pipe or for Ray needs no core.
                threading.Thread(target=held.work, daemon=True).start()
            held.tasks.put((task, _TRIES))
            running += 1
            # Twice as many, so that no worker waits for the one who takes the shards.
            if running == 2 * workers:
                yield held.finished()
                running -= 1
        for _ in range(running):
            yield held.finished()
    finally:
        held.close()


class _Workers:
    """Workers with the tasks that wait for them, each held by a thread.

    No task waits for a certain worker: a new one may find no place as long as others are there, as
    on a cluster that has lost a machine, and then these do what there is to do.
    """

    def __init__(self, start: Callable[[], Worker]) -> None:
        self._start, self._all = start, list[Worker]()
        self._open, self._lock = True, threading.Lock()
        # With the workers that each may still lose; None wakes a thread to end.
        self.tasks: SimpleQueue[tuple[Task, int] | None] = SimpleQueue()
        # Errors as well: who takes the shards must hear that one will not come.
        self._found: SimpleQueue[Finished | BaseException] = SimpleQueue()

    def finished(self) -> Finished:
        """Wait for the next shard."""
        found = self._found.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def work(self) -> None:
        """Do tasks until there are no more, with one worker after another if they are lost."""
        try:
            while self._is_lost(self._ready()):
                pass
        except BaseException as error:
            self._found.put(error)

    def _ready(self) -> Worker:
        for _ in range(_TRIES):
            with self._lock:
                # Closed while we waited: a worker that is begun now would be let go by nobody.
                if not self._open:
                    raise CancelledError
                self._all.append(worker := self._start())
            try:
                worker.get_ready()
            except LostWorkerError:
                worker.close()
            else:
                return worker
        raise InputError(
            f"{_TRIES} workers in a row were lost before they began; what is finished is kept."
        )

    def _is_lost(self, worker: Worker) -> bool:
        """Let the worker do tasks; return whether it was lost before they came to an end."""
        while (given := self.tasks.get()) is not None:
            task, tries = given
            try:
                self._found.put(worker(task))
            except LostWorkerError as error:
                worker.close()
                if tries == 1:
                    raise InputError(
                        f"shard {task.number} has ended {_TRIES} workers ({error}); they may lack "
                        "memory: use fewer of them. What is finished is kept."
                    ) from None
                self.tasks.put((task, tries - 1))
                return True
        self.tasks.put(None)  # for the next thread
        return False

    def close(self) -> None:
        """Let all workers go, and the threads that hold them; no more are started."""
        with self._lock:
            self._open = False
        for worker in self._all:
            worker.close()
        self.tasks.put(None)


_PATIENCE = 5.0  # seconds for a killed process to be gone
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    # A container or taskset may leave fewer cores than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SpawnedProcess(Worker):
    """A new process, which loads the model once; nothing of this one travels but the job.

    It is one of so many ``workers``, who share the cores.
    """

    def __init__(self, job: bytes, workers: int) -> None:
        # Not forked: torch and OpenMP do not survive the fork of a process that has threads.
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # A daemon: it ends with us also where nobody closes it.
        self._process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        with _environment(workers, program=needs_main(job)), _interrupts_held():
            self._process.start()
        # The process alone holds its end then, so that we hear when it is gone.
        theirs.close()

    def __call__(self, task: Task) -> Finished:
        """Send the task, and wait for its shard."""
        try:
            self._pipe.send(task)
            found: Finished = self._pipe.recv()
        except (EOFError, OSError):
            raise LostWorkerError("a process ended early") from None
        return found

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()  # who waits for its answer hears that it has ended
        self._process.join(_PATIENCE)


def _serve(pipe: Any, job: bytes) -> None:
    """Explain one shard after another until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides what an interrupt means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The pipe ends when nobody asks any more.
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(explain_shard(job, pipe.recv()))


def _end_with_parent() -> None:
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # killed, it could not tell us, and nobody is left to take the shard


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let processes that start in the block hear no interrupt, also before they can ignore one.

    What a thread holds back, the processes that it starts hold back as well.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Python starts its tracker with the first process, and then lets interrupts through again.
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The environment and the main module belong to the whole process: one start at a time.
_changing = threading.Lock()


@contextlib.contextmanager
def _environment(workers: int, *, program: bool) -> Iterator[None]:
    """Let a process that starts in the block use its share of the cores, unless told otherwise.

    Its libraries read these variables when they are first imported. A spawned process runs the
    ``program`` that starts it, to find what that defines; without ``if __name__ == "__main__":`` in
    it processes would start processes. Where nothing of it is needed, they are shown an empty one.
    """
    share = str(max(1, usable_cores() // workers))
    with _changing:
        main = sys.modules["__main__"]
        unset = [name for name in _THREADS if name not in os.environ]
        os.environ.update(dict.fromkeys(unset, share))
        sys.modules["__main__"] = main if program else ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            for name in unset:
                os.environ.pop(name, None)


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

    def actor(self, job: bytes) -> Worker:
        """Return a new actor for ``job``, which may have to wait for its place."""
        return _Actor(self._ray, self._actors.remote(), job)

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

    # Answered only by an actor that has found its place.
    def ready(self) -> bool:
        return True

    def shard(self, job: bytes, task: Task) -> Finished:
        return explain_shard(job, task)


class _Actor(Worker):
    def __init__(self, ray: Any, actor: Any, job: bytes) -> None:
        self._ray, self._actor, self._job = ray, actor, job

    def get_ready(self) -> None:
        self._answer(self._actor.ready.remote())

    def __call__(self, task: Task) -> Finished:
        found: Finished = self._answer(self._actor.shard.remote(self._job, task))
        return found

    def close(self) -> None:
        self._ray.kill(self._actor)

    def _answer(self, reference: Any) -> Any:
        # Errors of the work itself are raised as they are: only who is lost is replaced.
        lost = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except (lost.RayActorError, lost.WorkerCrashedError, lost.ObjectLostError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise LostWorkerError(reason[0].rstrip(".")) from None
