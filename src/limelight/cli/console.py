"""Where commands write: results to standard output, progress and errors to standard error."""

__all__ = ["error_console", "output_console"]

from typing import NoReturn, final

from rich.console import Console


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
