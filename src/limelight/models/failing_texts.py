"""Which of several texts a model fails on, found by halving, in a sentence that shows it."""

__all__ = ["failing_text", "naming", "said", "short"]

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.models.engine import out_of_memory
from limelight.text import one_line


def failing_text(
    ask: Callable[[Any], object],
    items: Sequence[Any] | np.ndarray,
    error: Exception,
    *,
    who: str,
    shown: Callable[[Any], str],
    advice: str = "",
) -> InputError:
    """Return the error that names one of ``items``, on which ``ask`` fails with ``error``.

    ``who`` is the subject of the sentence, ``shown`` an item as a text, and ``advice`` what to do
    if all are answered one by one.
    """
    first, together = items[0], len(items)
    while len(items) > 1:
        half = items[: len(items) // 2]
        if (found := _error(ask, half)) is None:
            half = items[len(half) :]
        items, error = half, found or error
    alone = error if together == 1 else _error(ask, items)
    if alone is not None:
        return _failure(who, shown(items[0]), alone)
    return InputError(
        f"{who} fails on {together} texts together and on none alone; the first is "
        f"{short(shown(first))} ({said(error)}).{advice}"
    )


@contextlib.contextmanager
def naming(who: str, text: str) -> Iterator[None]:
    """Let an error say that ``who`` failed on ``text``; what we say ourselves stays as it is."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        raise _failure(who, text, error) from error


def _failure(who: str, text: str, error: Exception) -> InputError:
    return InputError(f"{who} fails on the text {short(text)} ({said(error)}).")


def said(error: BaseException) -> str:
    """Return an error as a clause of one line."""
    return one_line(f"{type(error).__name__}: {error}", 200).rstrip(".")


def short(text: str) -> str:
    """Return a text in quotes, on one line and cut if it is long."""
    return repr(one_line(text, 80))


def _error(ask: Callable[[Any], object], items: Any) -> Exception | None:
    try:
        ask(items)
    except Exception as error:
        return error
    return None
