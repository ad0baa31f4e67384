"""Where commands write: results to standard output, progress and errors to standard error."""

__all__ = ["error_console", "in_words", "output_console", "timed_bar"]

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


def in_words(seconds: int | float) -> str:
    """Return "40 seconds", "3 minutes" or "2 hours"."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
