"""How far a command has come: a bar with the time left, and a word before anything long."""

__all__ = ["Estimate", "ProgressShown"]

import contextlib
import time
from collections.abc import Callable
from typing import Any, final

from rich.console import Console

from limelight.cli.console import error_console, in_words

_LONG, _ENOUGH = 10.0, 1.0  # seconds: what is worth a word, and what is measured before it


@final
class Estimate:
    """Says once that what is being done will take long, as soon as it is known how long.

    The pace is taken after the first call: what comes before it is reading and warming up.
    """

    def __init__(self, doing: str, console: Console) -> None:
        self._doing, self._console, self._said = doing, console, False
        self.begin()

    def begin(self) -> None:
        """Forget the pace of what was done before."""
        self._first: tuple[float, float] | None = None

    def leave_unsaid(self) -> None:
        """Say nothing: how long it takes has been said by somebody who knows better."""
        self._said = True

    def heard(self, done: int | float, total: int | float) -> None:
        """Hear how much is done, and how much there is to do."""
        if self._first is None:
            self._first = time.monotonic(), float(done)
        start, before = self._first
        spent, gained = time.monotonic() - start, done - before
        if self._said or spent < _ENOUGH or not gained:
            return
        if (left := spent / gained * (total - before)) > _LONG:
            self._said = True
            said = f"{self._doing.capitalize()} takes about {in_words(left)}."
            self._console.print(said, markup=False, highlight=False)


@final
class ProgressShown:
    """A context whose value is a callback of work done and work in all.

    On a terminal a bar appears when something is still to come at the first call, so quick answers
    have none. Anywhere, work that will take long says so once.
    """

    def __init__(self, doing: str) -> None:
        self._doing, self._console = doing, error_console()
        self.estimate = Estimate(doing, self._console)

    def __enter__(self) -> Callable[[int | float, int], None]:
        self.estimate.begin()
        self._stack = contextlib.ExitStack()
        self._bar: tuple[Any, Any] | None = None
        return self._moved

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _moved(self, done: int | float, total: int) -> None:
        self.estimate.heard(done, total)
        if not self._console.file.isatty():
            return
        if self._bar is None and done < total:
            self._bar = self._started()
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=done, total=total)

    def _started(self) -> tuple[Any, Any]:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        name = self._doing
        columns = (name, BarColumn(), TaskProgressColumn(), TimeLeft(), TextColumn("left"))
        bar = self._stack.enter_context(Progress(*columns, console=self._console, transient=True))
        return bar, bar.add_task("")
