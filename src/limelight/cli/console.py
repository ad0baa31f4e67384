"""Where commands write, and how far they have come."""

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console

from limelight.errors import shown

if TYPE_CHECKING:
    from rich.progress import Progress

    from limelight.runs.estimate import RunProgress, Watcher


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line: rich would exit with 1, as if something had failed."""
        raise BrokenPipeError


# What is printed is meant as it stands: "[b]" and ":cat:" may be a user's words.
VERBATIM: Any = {"highlight": False, "markup": False, "emoji": False}


def output_console() -> Console:
    """Return a console for results."""
    return _Console(soft_wrap=False, **VERBATIM)


def error_console() -> Console:
    """Return a console for progress, notices and errors, which must not mix with results."""
    return Console(stderr=True, soft_wrap=True, **VERBATIM)


def tell(sentence: str, *, style: str | None = None) -> None:
    """Print a sentence for people on standard error; neither markup nor terminals obey it."""
    error_console().print(shown(sentence), style=style)


_LONG, _ENOUGH = 10.0, 1.0  # seconds: what is worth a word, and what is measured before it


class ProgressShown:
    """A context whose value is a callback of work done, work in all, and words beside the bar.

    On a terminal a bar appears when something is still to come at the first call, so quick answers
    have none. Anywhere, work that will take long says so once, as soon as it is known how long,
    unless ``estimated``, for somebody who knows better says it. The pace is taken after the first
    call: what comes before it is reading and warming up.
    """

    def __init__(self, doing: str, *, estimated: bool = False) -> None:
        self._doing, self.estimated = doing, estimated
        self._console = error_console()
        self.on_terminal = self._console.file.isatty()

    def __enter__(self) -> Callable[..., None]:
        self._first: tuple[float, float] | None = None
        self._bar: Progress | None = None
        return self._moved

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _moved(self, done: int | float, total: int | float, said: str = "") -> None:
        self._estimate(done, total)
        if self._bar is None and self.on_terminal and done < total:
            self._bar = self._started()
        if self._bar is not None:
            (task,) = self._bar.task_ids
            described = said or self._doing
            self._bar.update(task, completed=done, total=total, description=described)

    def _estimate(self, done: int | float, total: int | float) -> None:
        if self._first is None:
            self._first = time.monotonic(), float(done)
        start, before = self._first
        spent, gained = time.monotonic() - start, done - before
        if self.estimated or spent < _ENOUGH or not gained:
            return
        if (left := spent / gained * (total - before)) > _LONG:
            self.estimated = True
            from limelight.explainers.budget import duration

            self.say(f"{self._doing.capitalize()} takes about {duration(left)}.")

    def say(self, sentence: str) -> None:
        """Print a sentence for people, above the bar where there is one."""
        self._console.print(sentence)

    def _started(self) -> "Progress":
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        name = TextColumn("{task.description}", markup=False)
        columns = (name, BarColumn(), TaskProgressColumn(), TimeLeft(), TextColumn("left"))
        bar = Progress(*columns, console=self._console, transient=True)
        bar.add_task(self._doing)
        bar.start()
        return bar


@contextlib.contextmanager
def run_shown(output: Path, log: str | None) -> Iterator["Watcher"]:
    """Yield a callback that shows progress; an interrupt is told what is stored by then."""
    last = list["RunProgress"]()
    try:
        with (shown := ProgressShown("explaining", estimated=True)) as moved:

            def told(progress: "RunProgress") -> None:
                last[:] = [progress] if not progress.finding else []
                if log == "json":
                    for line in _lines(progress):
                        print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)
                else:
                    for said in (progress.estimate and progress.estimate.sentence, progress.notice):
                        if said:
                            shown.say(said)
                    moved(progress.done, progress.total, _described(progress))

            yield told
    except KeyboardInterrupt as stop:
        done = f"about {last[0].done:,} of {last[0].total:,}" if last else "no"
        stop.add_note(
            f"{done} texts are done, and finished shards are kept in '{output}'. The same "
            "command goes on."
        )
        raise


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


def _described(progress: "RunProgress") -> str:
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    speed = f", {progress.per_second:,.0f} a second" if progress.per_second else ""
    found = " read for what is explained" * progress.finding
    return f"{progress.done:,} of {progress.total:,} texts{found}{failed}{speed}"
