"""Where commands write, and how far they have come."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, final

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

    from limelight.runs.estimate import RunProgress, Watcher


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
            from limelight.explainers.budget import duration

            said = f"{self._doing.capitalize()} takes about {duration(left)}."
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


@contextlib.contextmanager
def run_shown(output: Path, log: str | None) -> Iterator["Watcher"]:
    """Yield a callback that shows progress; an interrupt is told what is stored by then."""
    console, last = error_console(), list["RunProgress"]()
    with contextlib.ExitStack() as stack:
        show = _json_lines(console) if log == "json" else _bar(console, stack)

        def told(progress: "RunProgress") -> None:
            last[:] = [progress]
            show(progress)

        try:
            yield told
        except KeyboardInterrupt:
            stack.close()
            done = f"{last[0].done:,} of {last[0].total:,}" if last else "no"
            console.print(
                f"Interrupted: about {done} texts are done, and finished shards are kept in "
                f"'{output}'. The same command goes on.",
                markup=False,
            )
            raise


def _json_lines(console: Console) -> "Watcher":
    def show(progress: "RunProgress") -> None:
        for line in _lines(progress):
            console.file.write(json.dumps(line, ensure_ascii=False) + "\n")
            console.file.flush()

    return show


def _lines(progress: "RunProgress") -> Iterator[dict[str, Any]]:
    """Yield what is worth a line: the estimate, notices, and every shard."""
    if progress.estimate is not None:
        yield {"event": "estimate", "seconds": round(progress.estimate.seconds, 1)}
    if progress.notice is not None:
        yield {"event": "notice", "notice": progress.notice}
    if (shard := progress.shard) is not None:
        yield {
            "event": "shard",
            "shard": shard.number,
            "texts": shard.texts,
            "failed": shard.failed,
            "seconds": round(shard.seconds, 3),
            "done": progress.done,
            "failed_so_far": progress.failed,
            "total": progress.total,
            "per_second": _rounded(progress.per_second),
            "left_seconds": _rounded(progress.left),
        }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


def _bar(console: Console, stack: contextlib.ExitStack) -> "Watcher":
    """Return a callback that moves a bar on a terminal; in a pipe only sentences are printed."""
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} texts{task.description}"),
        TimeLeft(),
        TextColumn("left"),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("", total=1)

    def show(progress: "RunProgress") -> None:
        for said in (progress.estimate and progress.estimate.sentence, progress.notice):
            if said:
                bar.console.print(said, markup=False)
        if progress.estimate is not None:
            stack.enter_context(bar)
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        speed = f", {progress.per_second:,.0f} a second" if progress.per_second else ""
        bar.update(task, description=failed + speed, completed=progress.done, total=progress.total)

    return show
