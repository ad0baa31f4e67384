"""Workers may be lost at any moment: no task is lost, none is done twice, and all are let go."""

import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

from limelight.runs.engines import Worker, finished_by_workers
from limelight.runs.work import Finished, LostWorkerError, Task


class Workers:
    """Workers that are lost at the calls of these numbers, counted over all of them."""

    def __init__(self, losses=(), unready=()):
        self.losses, self.unready = set(losses), set(unready)
        self.lock, self.calls, self.begun, self.open = threading.Lock(), 0, 0, 0

    def start(self):
        with self.lock:
            self.begun += 1
            self.open += 1
            return _Worker(self, self.begun)


class _Worker(Worker):
    def __init__(self, started, number):
        self.started, self.number, self.closed = started, number, False

    def get_ready(self):
        if self.number in self.started.unready:
            raise LostWorkerError("never ready")

    def __call__(self, task):
        with self.started.lock:
            self.started.calls += 1
            lost = self.started.calls in self.started.losses
        if lost:
            raise LostWorkerError("a process ended early")
        return Finished(task.number, task.texts, 1, 0, 0.0)

    def close(self):
        with self.started.lock:
            self.started.open -= not self.closed
            self.closed = True


def tasks(count):
    return iter([Task(number, b"%d" % number) for number in range(count)])


@given(
    st.integers(0, 20),
    st.integers(1, 4),
    st.sets(st.integers(1, 25), max_size=2),
    st.sets(st.integers(1, 6), max_size=2),
)
def test_every_task_is_finished_once_whatever_is_lost(count, workers, losses, unready):
    started = Workers(losses, unready)
    found = list(finished_by_workers(started.start, workers, tasks(count)))
    assert sorted(shard.number for shard in found) == list(range(count))
    assert all(shard.content == b"%d" % shard.number for shard in found)
    assert started.open == 0


def test_a_shard_that_ends_every_worker_is_named():
    started = Workers(losses=range(1, 100))
    with pytest.raises(InputError, match=r"shard 0 has ended 3 workers \(a process ended early\)"):
        list(finished_by_workers(started.start, 1, tasks(4)))
    assert started.open == 0


def test_workers_that_never_start_are_given_up():
    started = Workers(unready=range(1, 100))
    with pytest.raises(InputError, match="3 workers in a row were lost before they began"):
        list(finished_by_workers(started.start, 1, tasks(4)))


def test_an_error_of_the_data_reaches_the_one_who_asks():
    def broken():
        yield Task(0, b"0")
        raise InputError("the file has vanished")

    started, found = Workers(), []
    with pytest.raises(InputError, match="the file has vanished"):
        found.extend(finished_by_workers(started.start, 2, broken()))
    assert started.open == 0


def test_who_stops_listening_lets_the_workers_go_and_tasks_are_not_read_ahead():
    taken = []

    def watched():
        for task in tasks(1000):
            taken.append(task.number)
            yield task

    started = Workers()
    shards = finished_by_workers(started.start, 2, watched())
    next(shards)
    shards.close()
    assert started.open == 0
    assert len(taken) < 12


def test_a_task_does_not_wait_for_a_worker_that_finds_no_place():
    """Two workers, one of which is lost; the next one would begin only when the other has gone."""
    gone = threading.Event()
    numbers = itertools.count()

    class Placed(Worker):
        def __init__(self):
            self.number = next(numbers)

        def get_ready(self):
            if self.number > 1:
                gone.wait()
                raise LostWorkerError("there was no place")

        def __call__(self, task):
            if self.number == 1:
                raise LostWorkerError("its machine was lost")
            return Finished(task.number, task.texts, 1, 0, 0.0)

        def close(self):
            if self.number != 1:
                gone.set()

    found = list(finished_by_workers(Placed, 2, tasks(9)))
    assert sorted(shard.number for shard in found) == list(range(9))
