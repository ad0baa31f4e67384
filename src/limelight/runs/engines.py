"""Who explains shards: this process, processes that it starts, or somebody's executor."""

import contextlib
import multiprocessing as mp
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import partial
from typing import Any, Protocol, final, runtime_checkable

from limelight.errors import InputError
from limelight.runs.work import (
    Finished,
    Heard,
    Job,
    LostWorkerError,
    Orders,
    ShardWork,
    Task,
    explain_shard,
    finished_by,
)

_EXECUTOR_PATIENCE = 5.0  # seconds; a task of somebody's executor cannot be ended from here
_TRIES = 3  # workers that a shard may lose, and that may be lost in a row before they start


@runtime_checkable
class Hand(Protocol):
    """A worker, held from here: called with a task, it answers when the shard is finished."""

    def get_ready(self) -> None:
        """Wait until the worker can take a task; a full cluster has no place for it yet."""

    def __call__(self, task: Task) -> Finished:
        """Return the finished shard, or raise ``LostWorkerError``."""

    def close(self) -> None:
        """Let the worker go, also in the middle of a task; another thread may be waiting for it."""


def finished_by_crew(
    hire: Callable[[], Hand], workers: int, tasks: Iterator[Task]
) -> Generator[Finished, None, None]:
    """Yield the shards of ``tasks``, done by so many workers; one thread here waits for each.

    Workers run ahead of the one who takes the shards, but not far: memory stays flat.
    """
    board = _Board(tasks, ahead=workers)
    threads = [
        threading.Thread(target=_keep_busy, args=(hire, board), daemon=True) for _ in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        while (shard := board.shard()) is not None:
            yield shard
    finally:
        board.stop()
        for thread in threads:  # some still hear that their worker was let go
            thread.join(_EXECUTOR_PATIENCE)


def _keep_busy(hire: Callable[[], Hand], board: "_Board") -> None:
    lost = 0
    try:
        while board.open and lost < _TRIES:
            with contextlib.closing(board.hired(hire())) as hand:
                try:
                    hand.get_ready()
                except LostWorkerError:
                    lost += 1
                    continue
                lost = 0
                if _all_done(hand, board):
                    return
        raise InputError(
            f"{_TRIES} workers in a row were lost before they began; what is finished is kept."
        )
    except BaseException as error:
        board.fail(error)


def _all_done(hand: Hand, board: "_Board") -> bool:
    """Let the worker do tasks; return whether none is left, or it was lost over one."""
    while (task := board.task()) is not None:
        try:
            shard = hand(task)
        except LostWorkerError as error:
            board.give_back(task, error)
            return False
        board.finish(shard)
    return True


@final
class _Board:
    """Tasks to do, tasks being done and shards to be taken, for threads."""

    def __init__(self, tasks: Iterator[Task], *, ahead: int) -> None:
        self._tasks, self._ahead = tasks, ahead
        self._change = threading.Condition()
        self._again: deque[Task] = deque()
        self._shards: deque[Finished] = deque()
        self._tries: Counter[int] = Counter()
        self._hands: list[Hand] = []
        self._doing, self._exhausted, self.open = 0, False, True
        self._failure: BaseException | None = None

    def hired(self, hand: Hand) -> Hand:
        with self._change:
            self._hands.append(hand)
            if not self.open:
                hand.close()
        return hand

    def task(self) -> Task | None:
        """Return a task when there is one; None when there never will be."""
        with self._change:
            while self.open:
                if len(self._shards) <= self._ahead and (task := self._next()) is not None:
                    self._doing += 1
                    return task
                if self._exhausted and not self._doing and not self._again:
                    return None
                self._change.wait()  # a worker may be lost yet, and its task come back
        return None

    def _next(self) -> Task | None:
        if self._again:
            return self._again.popleft()
        task = None if self._exhausted else next(self._tasks, None)
        if task is None and not self._exhausted:
            self._exhausted = True
            self._change.notify_all()  # who waits for the last shard may have it already
        return task

    def finish(self, shard: Finished) -> None:
        with self._change:
            self._doing -= 1
            self._shards.append(shard)
            self._change.notify_all()

    def give_back(self, task: Task, error: LostWorkerError) -> None:
        with self._change:
            self._doing -= 1
            self._tries[task.number] += 1
            if self._tries[task.number] >= _TRIES and self.open:
                raise InputError(
                    f"shard {task.number} has ended {_TRIES} workers ({error}); they may lack "
                    "memory: use fewer of them. What is finished is kept."
                )
            self._again.append(task)
            self._change.notify_all()

    def shard(self) -> Finished | None:
        """Return a finished shard when there is one; None when all are taken."""
        with self._change:
            while True:
                if self._shards:
                    self._change.notify_all()
                    return self._shards.popleft()
                if self._failure is not None:
                    raise self._failure
                if self._exhausted and not self._doing and not self._again:
                    return None
                self._change.wait()

    def fail(self, error: BaseException) -> None:
        with self._change:
            if self.open and self._failure is None:
                self._failure = error
            self._change.notify_all()

    def stop(self) -> None:
        with self._change:
            self.open = False
            self._change.notify_all()
            hands = list(self._hands)
        for hand in hands:
            hand.close()


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


@final
class GivenExecutor:
    """Submits shards to ``executor``, ``workers`` at a time, and leaves it open.

    ``here`` is what threads of this process call, with the model that is in memory; None where
    workers load it themselves.
    """

    def __init__(
        self, executor: Executor, workers: int, here: Callable[[Task], Finished] | None = None
    ) -> None:
        self._executor, self.workers, self._here = executor, workers, here

    def finished(self, orders: Orders) -> Generator[Finished, None, None]:
        """Yield the shards as they are finished."""
        explain = self._here or partial(explain_shard, orders.job)
        workers = min(self.workers, orders.length)
        return finished_by_crew(lambda: _Slot(self._executor, explain), workers, orders.tasks)


@final
class _Slot:
    def __init__(self, executor: Executor, explain: Callable[[Task], Finished]) -> None:
        self._executor, self._explain = executor, explain
        self._future: Future[Finished] | None = None

    def get_ready(self) -> None:
        pass

    def __call__(self, task: Task) -> Finished:
        try:
            self._future = self._executor.submit(self._explain, task)
            return self._future.result()
        except (BrokenExecutor, CancelledError) as error:
            name = type(self._executor).__name__
            raise InputError(
                f"the executor {name} has ended ({str(error) or type(error).__name__}); what is "
                "finished is kept. Start the run again with a new one."
            ) from None

    def close(self) -> None:
        if self._future is not None:
            self._future.cancel()
