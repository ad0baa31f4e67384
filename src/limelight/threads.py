"""Cached properties and locks that survive a fork while another thread is at work."""

__all__ = ["ForkSafeLock", "cached_property"]

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, final
from weakref import WeakSet

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801  (the name of Python's own, whose place it takes)
        """Python 3.12's ``functools.cached_property``, which needs no lock.

        That of Python 3.11 computes a value under a lock that all instances of a class share. A
        process that is forked meanwhile inherits the locked lock and waits for it forever.
        """

        def __init__(self, compute: Any) -> None:
            self.compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self.name not in values:
                values[self.name] = self.compute(instance)
            return values[self.name]


_POLL_SECONDS = 0.001


@final
class ForkSafeLock:
    """A reentrant lock that no other thread holds at the moment of a fork.

    A forked process has only the thread that forked it, so nobody would release a lock of another
    thread, nor undo what that thread had changed under it. A fork therefore waits until the blocks
    of all other threads have ended, and these threads begin no other block before the fork.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        depth = getattr(_thread, "depth", 0)
        while _forking and not depth:  # a thread inside a block must be able to finish it
            time.sleep(_POLL_SECONDS)
        self._lock.acquire()
        _thread.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        _thread.depth -= 1
        self._lock.release()


_locks: WeakSet[ForkSafeLock] = WeakSet()
_forking = set[int]()  # the threads that are about to fork
_thread = threading.local()  # how many blocks this thread is in, and what it locked to fork


def _lock_all() -> None:
    """Acquire every lock, or none and try again: a thread may hold one and wait for another."""
    _forking.add(threading.get_ident())
    while True:
        _thread.locked = []
        for lock in list(_locks):
            if not lock._lock.acquire(blocking=False):
                break
            _thread.locked.append(lock._lock)
        else:
            return
        _unlock_all()
        time.sleep(_POLL_SECONDS)


def _unlock_all() -> None:
    for lock in _thread.locked:
        lock.release()


def _end_fork_in_parent() -> None:
    _unlock_all()
    _forking.discard(threading.get_ident())


def _end_fork_in_child() -> None:
    _unlock_all()
    _forking.clear()  # other threads that were about to fork do not exist here


if hasattr(os, "register_at_fork"):  # not Windows
    os.register_at_fork(
        before=_lock_all, after_in_parent=_end_fork_in_parent, after_in_child=_end_fork_in_child
    )
