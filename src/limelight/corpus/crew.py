"""Several workers on one list of tasks: lost ones are replaced, and no task is lost or doubled."""

__all__ = ["Hand", "finished_by_crew"]

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from typing import Protocol, final, runtime_checkable

from limelight.corpus.shard_task import Finished, LostWorkerError, Task
from limelight.errors import InputError

_PATIENCE = 5.0  # seconds; a task of somebody's executor cannot be ended from here
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
            thread.join(_PATIENCE)


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
