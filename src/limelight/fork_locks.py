"""Locks that are safe if a process forks while another thread works."""

__all__ = ["ForkSafeLock"]

import _thread as _thread_module
import concurrent.futures.thread  # noqa: F401  (registers its hooks before ours)
import contextlib
import logging  # noqa: F401  (registers its hooks before ours)
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, final
from weakref import ref

from limelight.errors import InputError

_POLL_SECONDS = 0.001
_LONGEST_WAIT = 5.0  # seconds that a fork waits for the blocks of other threads


@final
class ForkSafeLock:
    """A reentrant lock that no other thread holds at the moment of a fork.

    A forked process has only the thread that forked it, so nobody would release a lock of another
    thread, nor undo what that thread had changed under it. A fork therefore waits until the blocks
    of all other threads have ended, and these threads begin no other block before the fork.

    The wait ends after five seconds. A thread that forks inside a block does not wait, because
    another thread may wait for its lock. The forked process then gets a new lock in place of each
    lock that is still held. If ``forked_message`` is set, using the new lock raises an
    ``InputError`` with this message, because the protected data may be half changed.
    """

    def __init__(self, *, forked_message: str = "") -> None:
        self._lock = threading.RLock()
        self._forked_message, self._half_changed = forked_message, False
        _locks.add(ref(self, _locks.discard))

    def __enter__(self) -> None:
        depth = getattr(_thread, "depth", 0)
        while _forking and not depth:  # a thread inside a block must be able to finish it
            time.sleep(_POLL_SECONDS)
        if self._half_changed and self._forked_message:
            raise InputError(self._forked_message)
        acquired = False
        try:
            acquired = self._lock.acquire()
            _thread.depth = depth + 1
        except BaseException:  # Ctrl-C: the block does not begin, so nothing else would undo this
            _thread.depth = depth
            if acquired:
                self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            _thread.depth -= 1
        finally:
            self._lock.release()

    def _try_acquire(self) -> bool:
        return self._lock.acquire(blocking=False)

    def _release(self) -> None:
        self._lock.release()

    def _replace(self) -> None:
        self._lock, self._half_changed = threading.RLock(), True


# A plain set: a list of it is made in one step, whatever other threads add meanwhile. The list of a
# WeakSet is made in Python, and fails if another thread adds to the set.
_locks = set[ref[ForkSafeLock]]()
_forking = set[int]()  # the threads that are about to fork
_thread = threading.local()  # the depth of blocks of this thread, and its locks for a fork
_late_signals: list[Iterator[None]] = []  # each delivers a signal that came during the wait


def _lock_all() -> None:
    """Acquire every lock, or none and try again: a thread may hold one and wait for another."""
    _thread.locked, _thread.missed = [], []
    _forking.add(threading.get_ident())
    if _try_lock_all() or getattr(_thread, "depth", 0) > 0:
        return
    with _delay_signals():
        end = time.monotonic() + _LONGEST_WAIT
        while time.monotonic() < end:
            _unlock_all()
            time.sleep(_POLL_SECONDS)
            if _try_lock_all():
                return


def _try_lock_all() -> bool:
    """Acquire the free locks; return whether these are all locks."""
    _thread.locked, _thread.missed = [], []
    for reference in list(_locks):
        if (lock := reference()) is not None:
            (_thread.locked if lock._try_acquire() else _thread.missed).append(lock)
    return not _thread.missed


def _unlock_all() -> None:
    """Release the locks that were acquired for a fork."""
    while _thread.locked:
        _thread.locked.pop()._release()


@contextlib.contextmanager
def _delay_signals() -> Iterator[None]:
    """Run a block without signal handlers; ``_late_signals`` delivers its signals afterwards.

    If a handler raised an error here, Python would print and drop it, because ``os.fork`` ignores
    errors of its hooks.
    """
    if threading.current_thread() is not threading.main_thread():  # it runs no handlers
        yield
        return
    _late_signals.clear()  # those of an earlier fork have been delivered
    arrived: dict[int, None] = {}
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, lambda number, _: arrived.setdefault(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        interrupt: Any = _thread_module.interrupt_main  # takes numbers without a name, too
        _late_signals.extend(map(interrupt, (number,)) for number in arrived)


def _end_fork_in_parent() -> None:
    """Release all locks in the parent process."""
    _unlock_all()
    _forking.discard(threading.get_ident())


def _end_fork_in_child() -> None:
    """Release all locks in the forked process, and replace those that were not acquired."""
    _unlock_all()
    for lock in _thread.missed:
        lock._replace()
    _forking.clear()  # other threads that were about to fork do not exist here
    _late_signals.clear()  # the parent got them


if hasattr(os, "register_at_fork"):  # not Windows
    # Hooks before a fork run in reverse order: ours must come before those of the imported logging
    # and concurrent.futures.thread, or a thread inside a block would wait for a lock of theirs.
    os.register_at_fork(
        before=_lock_all, after_in_parent=_end_fork_in_parent, after_in_child=_end_fork_in_child
    )
    # The signals are delivered by C code alone, so that their handlers run after os.fork returns
    # and not in this hook. Sorting makes a list of each iterator, which runs it, once.
    os.register_at_fork(after_in_parent=partial(sorted, _late_signals, key=list))
