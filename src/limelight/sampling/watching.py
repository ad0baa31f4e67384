"""How a long sampling run tells a watcher which masks are still to come and which are answered."""

__all__ = ["Watch", "answered", "expect", "in_parts", "watched"]

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol, runtime_checkable


@runtime_checkable
class Watch(Protocol):
    """Hears of the masks that a model is asked."""

    def expect(self, masks: int | float) -> None:
        """Hear that this many more masks will be asked than was known."""

    def answered(self, masks: int | float) -> None:
        """Hear that the model has answered this many more masks."""


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextlib.contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Let ``watch`` hear of what is asked in a block; with None nobody hears of it."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def expect(masks: int | float) -> None:
    """Say that more will be asked than was known: a tolerance is not met yet."""
    if (watch := _WATCH.get()) is not None:
        watch.expect(masks)


def answered(masks: int | float) -> None:
    """Say how many masks have been answered since last time."""
    if (watch := _WATCH.get()) is not None:
        watch.answered(masks)


@contextlib.contextmanager
def in_parts(count: int) -> Iterator[None]:
    """Count an answer in a block as one of ``count`` parts of a mask's."""
    watch = _WATCH.get()
    with watched(None if watch is None else _Part(watch, count)):
        yield


class _Part:
    def __init__(self, watch: Watch, count: int) -> None:
        self._watch, self._count = watch, count

    def expect(self, masks: int | float) -> None:
        self._watch.expect(masks / self._count)

    def answered(self, masks: int | float) -> None:
        self._watch.answered(masks / self._count)
