"""Where commands write: results to standard output, progress and errors to standard error."""

__all__ = ["error_console", "output_console"]

from rich.console import Console


def output_console() -> Console:
    """Return a console for results."""
    return Console(highlight=False, soft_wrap=False)


def error_console() -> Console:
    """Return a console for progress, notices and errors, which must not mix with results."""
    return Console(stderr=True, highlight=False, soft_wrap=True)
