"""Where commands write: results to standard output, progress and errors to standard error."""

__all__ = ["error_console", "output_console", "said_if_long", "timed_bar"]

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, final

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress


@final
class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line: rich would exit with 1, as if something had failed."""
        raise BrokenPipeError


def output_console() -> Console:
    """Return a console for results."""
    return _Console(highlight=False, soft_wrap=False)


def error_console() -> Console:
    """Return a console for progress, notices and errors, which must not mix with results."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def timed_bar(console: Console) -> "Progress":
    """Return a bar that says the time spent and the time left, for work of minutes."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("left"), TimeLeft(), console=console)


_LONG, _ENOUGH = 10.0, 1.0  # seconds: what is worth a word, and what is measured before it


def said_if_long(console: Console, what: str) -> Callable[[int | float, int | float], None]:
    """Return a callback of work done and work in all, which says once that it will take long.

    The time is reckoned from the first second of it: a first batch alone pays for warming up.
    """
    start, said = time.monotonic(), False

    def heard(done: int | float, total: int | float) -> None:
        nonlocal said
        spent = time.monotonic() - start
        if said or spent < _ENOUGH or not done:
            return
        said = True
        if (whole := spent * total / done) > _LONG:
            console.print(f"{what} about {in_words(whole)}", markup=False, highlight=False)

    return heard


def in_words(seconds: int | float) -> str:
    """Return "40 seconds", "3 minutes" or "2 hours"."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
