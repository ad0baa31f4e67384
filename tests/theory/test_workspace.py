"""Memory that the conditionals keep for the next call."""

import gc
import threading
import weakref

import numpy as np

from limelight.theory.conditionals import _Workspace


def kept_after(ask):
    """Whether an array is still alive after ``ask`` saw it in a thread that goes on."""
    x = np.zeros(10_000)
    ask(x)
    seen = weakref.ref(x)
    del x
    gc.collect()
    return seen() is not None


def run_in_thread(program):
    """What ``program`` returns where no call has left anything."""
    results = []
    thread = threading.Thread(target=lambda: results.append(program()))
    thread.start()
    thread.join()
    return results[0]


def test_the_array_of_the_first_caller_is_not_kept():
    assert not run_in_thread(lambda: kept_after(_Workspace.like))


def test_a_kept_array_is_noticed():
    keep = []
    assert run_in_thread(lambda: kept_after(lambda x: keep.append(x[:0])))


def test_each_thread_has_its_own_workspace():
    x = np.zeros(3)
    assert _Workspace.like(x) is _Workspace.like(x)
    assert run_in_thread(lambda: _Workspace.like(x)) is not _Workspace.like(x)
