"""The engine: batches that run on a device while the next ones are prepared."""

import threading
import time
import weakref

import numpy as np
import pytest

import limelight.models.engine
from limelight.models.engine import Engine

ITEMS = [np.full(size, number) for number, size in enumerate((3, 5, 2, 7, 4))]
EXPECTED = np.array([[item.sum(), item.size] for item in ITEMS], float)


class Device:
    """Starts batches at once, and computes each when its rows are awaited."""

    def __init__(self, *, memory: int = 10**9) -> None:
        self.events: list[str] = []
        self.batches: list[list] = []
        self.memory = memory

    def start(self, items):
        number = sum(event.startswith("start") for event in self.events)
        self.events.append(f"start {number}")
        self.batches.append(items)

        def wait():
            self.events.append(f"wait {number}")
            if len(items) > self.memory:
                raise RuntimeError("CUDA out of memory")
            return np.array([[item.sum(), item.size] for item in items], float)

        return wait


def call(device: Device, **options):
    engine = Engine(
        device.start, size=lambda item: item.size, key=lambda item: item.tobytes(), **options
    )
    return engine, engine(ITEMS)


def test_the_next_batch_starts_before_the_rows_of_a_batch_are_awaited():
    device = Device()
    engine, rows = call(device, max_items=2)
    assert device.events == ["start 0", "start 1", "wait 0", "start 2", "wait 1", "wait 2"]
    assert (engine.calls, engine.items) == (3, 5)
    np.testing.assert_array_equal(rows, EXPECTED)


def test_rows_that_are_there_at_once_are_stored_before_the_next_batch(monkeypatch):
    events = []

    def compute(items):
        events.append("compute")
        return np.array([[item.sum(), item.size] for item in items], float)

    monkeypatch.setattr(limelight.models.engine, "count_calls", lambda _: events.append("stored"))
    engine = Engine(compute, size=lambda item: item.size, key=lambda i: i.tobytes(), max_items=2)
    np.testing.assert_array_equal(engine(ITEMS), EXPECTED)
    assert events == ["compute", "stored"] * 3


@pytest.mark.parametrize("memory", [1, 2, 3])
def test_a_batch_whose_memory_runs_out_later_is_computed_in_parts(memory, monkeypatch):
    counted = []
    monkeypatch.setattr(limelight.models.engine, "count_calls", counted.append)
    engine, rows = call(Device(memory=memory))
    np.testing.assert_array_equal(rows, EXPECTED)
    assert engine.items == sum(counted) == len(ITEMS)  # each item once, although some start twice
    later = Device(memory=memory)
    engine._compute = later.start
    np.testing.assert_array_equal(engine(ITEMS), EXPECTED)
    # Smaller batches stay, so that memory suffices from now on.
    assert max(len(batch) for batch in later.batches) <= memory


def test_memory_that_runs_out_for_a_single_item_is_an_error():
    with pytest.raises(RuntimeError, match="out of memory"):
        call(Device(memory=0))


def test_other_errors_of_a_device_are_raised():
    def start(items):
        def wait():
            raise RuntimeError("illegal instruction")

        return wait

    engine = Engine(start, size=lambda item: item.size, key=lambda item: item.tobytes())
    with pytest.raises(RuntimeError, match="illegal instruction"):
        engine(ITEMS)


def test_a_batch_without_room_beside_another_starts_again_when_that_one_has_finished():
    events, in_memory = [], []

    def start(items):
        if in_memory:
            events.append("no room")
            raise RuntimeError("CUDA out of memory")
        events.append("start")
        in_memory.append(items)

        def wait():
            in_memory.clear()
            events.append("wait")
            return np.array([[item.sum(), item.size] for item in items], float)

        return wait

    engine = Engine(start, size=lambda i: i.size, key=lambda i: i.tobytes(), max_items=1)
    np.testing.assert_array_equal(engine(ITEMS), EXPECTED)
    assert events == ["start", *["no room", "wait", "start"] * 4, "wait"]


def test_failed_batches_are_not_in_memory_while_their_parts_are_computed():
    failed, alive = [], []

    class Work:
        pass

    def compute(items):
        alive.append(sum(reference() is not None for reference in failed))
        work = Work()
        if len(items) > 1:
            failed.append(weakref.ref(work))
            raise RuntimeError("out of memory")
        return np.array([[item.sum(), item.size] for item in items], float)

    engine = Engine(compute, size=lambda item: item.size, key=lambda item: item.tobytes())
    np.testing.assert_array_equal(engine(ITEMS), EXPECTED)
    assert failed
    assert not any(alive)


def test_threads_wait_for_memory_that_another_thread_has_taken():
    """A device with room for 6 numbers: a batch of 4 fits, but not beside another one."""
    memory, used, lock = 6, [0], threading.Lock()
    both_started = threading.Barrier(2, timeout=30)
    first_calls = set()

    def compute(items):
        if (name := threading.current_thread().name) not in first_calls:
            first_calls.add(name)
            both_started.wait()
        with lock:
            if used[0] + len(items) > memory:
                raise RuntimeError("CUDA out of memory")
            used[0] += len(items)

        def finish():
            time.sleep(0.01)
            with lock:
                used[0] -= len(items)
            return np.array([[2.0 * item] for item in items])

        return finish

    engine = Engine(compute, size=lambda _: 1, max_items=4)
    results = {}

    def work(name):
        results[name] = engine(list(range(name, name + 12)))

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == [0, 1000]
    for name, rows in results.items():
        np.testing.assert_array_equal(rows[:, 0], 2.0 * np.arange(name, name + 12))
    assert engine._thread_count == 0
    assert engine.items == 24


def test_a_single_thread_that_lacks_memory_still_halves_its_batches_or_fails():
    def compute(items):
        if len(items) > 2:
            raise RuntimeError("out of memory")
        return np.array([[float(item)] for item in items])

    engine = Engine(compute, size=lambda _: 1, max_items=8)
    np.testing.assert_array_equal(engine(list(range(8)))[:, 0], np.arange(8.0))

    def fail(_items):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        Engine(fail, size=lambda _: 1)([1, 2, 3])
