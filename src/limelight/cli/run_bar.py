"""How far a run has come, on a terminal or as lines for a log."""

__all__ = ["run_shown"]

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from limelight.cli.console import error_console

if TYPE_CHECKING:
    from limelight.runs.estimate import RunProgress, Watcher


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
