"""Cached properties that are safe with threads and forks, and the number of NumPy's threads."""

__all__ = ["cached_property", "limit_blas_threads"]

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801  (it replaces Python's class of this name)
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
            if self.name in values:
                return values[self.name]
            # Of two threads that compute it at once, both return what the first has stored.
            return values.setdefault(self.name, self.compute(instance))


_blas_limit = threading.Lock()  # held while a block limits NumPy's threads


@contextlib.contextmanager
def limit_blas_threads() -> Iterator[None]:
    """Let NumPy compute products of matrices in one thread while a block runs.

    The limit applies to the library that comes with NumPy, and not to torch. A block that begins
    while another block has set the limit leaves it alone.
    """
    # NumPy starts a thread per core for products that take a millisecond, and these threads wait
    # for each other without sleep. A regression on 5,000 masks of 110 words took 28 ms in one
    # thread and 470 ms in two, on two cores with other programs.
    limit = _blas_limit
    if not limit.acquire(blocking=False):
        yield  # two blocks that overlap would restore each other's limit
        return
    try:
        with _blas_controller().limit(limits=1):
            yield
    finally:
        limit.release()


def _forget_blas_limit() -> None:
    """Replace the lock in a forked process, because the thread that holds it is not there."""
    global _blas_limit
    _blas_limit = threading.Lock()


if hasattr(os, "register_at_fork"):  # not Windows
    os.register_at_fork(after_in_child=_forget_blas_limit)


@cache
def _blas_controller() -> Any:
    """Return the controller of the linear algebra library that is part of NumPy's wheels."""
    import numpy as np  # noqa: F401  (the controller finds libraries that are loaded)
    from threadpoolctl import ThreadpoolController  # imported late, since few commands need it

    return ThreadpoolController().select(prefix="libscipy_openblas")
