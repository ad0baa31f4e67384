"""Workers may be lost at any moment: no task is lost, none is done twice, and all are let go."""

import itertools
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

from limelight.runs.engines import run_on_workers
from limelight.runs.work import ShardResult, Task


class LostError(Exception):
    """What tells of a worker that has ended."""


class Workers:
    """Workers that are lost at the tasks of these numbers, counted over all of them."""

    def __init__(self, losses=()):
        self.losses, self.calls, self.open = set(losses), 0, 0

    def start(self):
        self.open += 1
        return _Worker(self)


class _Worker:
    loss_errors, max_losses, failure_message = (LostError,), 3, ("each of 3 workers", "Use fewer.")

    def __init__(self, started):
        self.started, self.closed = started, False

    def submit(self, task):
        assert not self.closed
        self.started.calls += 1
        return answer(task, lost=self.started.calls in self.started.losses)

    def close(self):
        self.started.open -= not self.closed
        self.closed = True


def answer(task, *, lost=False):
    future = Future()
    if lost:
        future.set_exception(LostError("a process ended early.\nIn detail"))
    else:
        future.set_result(ShardResult(task.number, task.texts, 1, 0, 0.0))
    return future


def tasks(count):
    return iter([Task(number, b"%d" % number) for number in range(count)])


@given(
    st.integers(0, 20),
    st.integers(1, 4),
    st.sets(st.integers(1, 25), max_size=2),
)
def test_every_task_is_finished_once_whatever_is_lost(count, workers, losses):
    started = Workers(losses)
    shards = list(run_on_workers(started.start, workers, tasks(count)))
    assert sorted(shard.number for shard in shards) == list(range(count))
    assert all(shard.content == b"%d" % shard.number for shard in shards)
    assert started.open == 0


def test_a_shard_that_ends_every_worker_is_named():
    started = Workers(losses=range(1, 100))
    with pytest.raises(
        InputError, match=r"3 workers stopped at shard 0 \(a process ended early\), and finished"
    ):
        list(run_on_workers(started.start, 1, tasks(4)))
    assert started.open == 0


def test_an_error_of_the_data_reaches_the_one_who_asks():
    def broken():
        yield Task(0, b"0")
        raise InputError("the file has vanished")

    started, shards = Workers(), []
    with pytest.raises(InputError, match="the file has vanished"):
        shards.extend(run_on_workers(started.start, 2, broken()))
    assert started.open == 0


def test_who_stops_listening_lets_the_workers_go_and_tasks_are_not_read_ahead():
    taken = []

    def watch_calls():
        for task in tasks(1000):
            taken.append(task.number)
            yield task

    started = Workers()
    shards = run_on_workers(started.start, 2, watch_calls())
    next(shards)
    shards.close()
    assert started.open == 0
    assert len(taken) < 12


def test_the_others_finish_and_leave_their_place_to_a_worker_that_finds_none():
    """Two workers, one of which is lost; the next one begins only when the other has gone."""
    numbers, waiting = itertools.count(), []

    class PlacedWorker:
        loss_errors, max_losses = (LostError,), 3

        def __init__(self):
            self.number = next(numbers)

        def submit(self, task):
            if self.number < 2:
                return answer(task, lost=self.number == 1)
            waiting.append((task, Future()))
            return waiting[-1][1]

        def close(self):
            if self.number == 0 and waiting:
                task, shards = waiting.pop()
                shards.set_result(answer(task).result())

    shards = list(run_on_workers(PlacedWorker, 2, tasks(9)))
    assert sorted(shard.number for shard in shards) == list(range(9))
