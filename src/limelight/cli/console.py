"""Where commands write and in which form, and how far they have come."""

import contextlib
import errno
import inspect
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rich.console import Console, RenderableType

from limelight.errors import InputError, escape_controls
from limelight.files import atomic_file, growing_file, is_device, remove_abandoned_parts
from limelight.progress import ProgressDisplay, RunProgress

if TYPE_CHECKING:
    from rich.progress import Progress

Result = TypeVar("Result")
FIGURES = ("png", "svg", "pdf")
ENDINGS = {".txt": "terminal", ".jsonl": "json"} | {
    f".{name}": name for name in ("json", "html", "csv", *FIGURES)
}


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line: rich would exit with 1, as if something had failed."""
        raise BrokenPipeError


# What is printed is meant as it stands: "[b]" and ":cat:" may be a user's words.
VERBATIM: Any = {"highlight": False, "markup": False, "emoji": False}


# Signals to end this command. What their handlers raise is lost where Python calls back from places
# that cannot raise, as it does while it imports: a page that is starting would go on as if nobody
# had pressed Ctrl-C.
heard: list[int] = []


def output_console() -> Console:
    """Return a console for results."""
    return _Console(soft_wrap=False, **VERBATIM)


def error_console() -> Console:
    """Return a console for progress, warnings and errors, which must not mix with results."""
    return Console(stderr=True, soft_wrap=True, **VERBATIM)


def tell(sentence: str, *, style: str | None = None) -> None:
    """Print a sentence for people on standard error; neither markup nor terminals obey it."""
    error_console().print(escape_controls(sentence), style=style)


def show_progress(task: str, *, announced: bool = False) -> ProgressDisplay:
    """Return a display with a bar, which appears when something is still to come.

    Somebody else says how long the task takes if that is ``announced``.
    """
    console = error_console()

    def start_bar() -> "Progress":
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        name = TextColumn("{task.description}", markup=False)
        columns = (name, BarColumn(), TaskProgressColumn(), TimeLeft(), TextColumn("left"))
        bar = Progress(*columns, console=console, transient=True)
        bar.add_task(task)
        bar.start()
        return bar

    return ProgressDisplay(
        task, start_bar=start_bar, print_sentence=console.print, announced=announced
    )


@contextlib.contextmanager
def noted(kept: Callable[[], str], *beside: type[BaseException]) -> Iterator[None]:
    """Let an interrupt, and errors ``beside`` it, say what is ``kept``, and how to go on."""
    told: tuple[type[BaseException], ...] = (KeyboardInterrupt, *beside)
    try:
        yield
    except told as stop:
        if said := kept():
            stop.add_note(said)
        raise


@contextlib.contextmanager
def run_shown(output: Path, log: str | None) -> Iterator[Callable[[RunProgress], None]]:
    """Yield a callback that shows progress; an interrupt is told what is stored by then."""
    last = list[RunProgress]()

    def kept() -> str:
        done = f"About {last[0].done:,} of {last[0].total:,}" if last else "No"
        stored = f"{done} texts are done, and finished shards are kept in '{output}'."
        return f"{stored} The same command goes on."

    with noted(kept), show_progress("explaining", announced=True) as display:

        def report(progress: RunProgress) -> None:
            last[:] = [progress] if not progress.finding else []
            if log == "json":
                for line in _lines(progress):
                    print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)
            else:
                display.show_run(progress)

        yield report


def _lines(progress: RunProgress) -> Iterator[dict[str, Any]]:
    """Yield what is worth a line: the estimate, warnings, and every shard."""
    if progress.estimate is not None:
        yield {"event": "estimate", "seconds": round(progress.estimate.seconds, 1)}
    if progress.warning is not None:
        yield {"event": "warning", "warning": progress.warning}
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
            "per_second": progress.per_second and round(progress.per_second, 1),
            "left_seconds": progress.left and round(progress.left, 1),
        }


def chosen_format(format: str | None, output: Path | None) -> str:
    """Return the format asked for, or else the one that the output file's name implies."""
    if format is not None:
        if format in FIGURES and (output is None or output.suffix.lower() != f".{format}"):
            raise InputError(f"a figure goes to a file; add --output NAME.{format}.")
        return format
    if output is None or is_device(output):  # devices and pipes have no ending
        return "terminal"
    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(output))
    ending = output.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"the name of an output file must end in {', '.join(ENDINGS)}, which says the format; "
            f"got '{output}'. Change it, or add --format."
        )
    return ENDINGS[ending]


def only(results: Iterable[Result], form: str) -> Result:
    """Return the one result that a page or a figure shows."""
    found = list(itertools.islice(results, 2))
    if len(found) != 1:
        raise InputError(
            f"{form} output shows one result; got several. Use --format json for them."
        )
    return found[0]


def put(results: Iterable[Any], form: str, output: Path | None) -> None:
    """Write results in their format as they come; a page or a figure shows one alone.

    CSV may come as its lines already, where several results are one file.
    """
    match form:
        case "terminal":
            show(results, output)
        case "json":
            write((found.to_json() + "\n" for found in results), output)
        case "csv":
            rows = (found if isinstance(found, str) else found.to_csv() for found in results)
            write(rows, output)
        case "html":
            write([only(results, form).to_html()], output)
        case _:
            figure = only(results, form)
            if output is not None:
                clean_up_beside(output)
            figure.save_figure(output)


def clean_up_beside(output: Path) -> None:
    """Delete what killed commands left of ``output``, which is about to be written."""
    target = output.resolve()
    remove_abandoned_parts(target.parent, target.name)


def put_one(found: Any, form: str, output: Path | None) -> None:
    """Write one result; tell its warnings where its form, rows or a figure, holds none."""
    put([found], form, output)
    for warning in getattr(found, "warnings", ()) if form in ("csv", *FIGURES) else ():
        tell(warning)


def parsed_settings(pairs: Sequence[str], verb: Callable[..., Any]) -> dict[str, Any]:
    """Return {"tolerance": 1e-9} for "tolerance=1e-9"; what is not a number stays a string.

    What ``verb`` takes by name for itself, such as its target, is not a setting of a method.
    """
    settings, taken = {}, inspect.signature(verb).parameters
    for name, value in named_values(pairs):
        if name in taken:
            raise InputError(
                f"--set is for settings of the methods; {name!r} belongs to the command itself, "
                "see --help."
            )
        settings[name] = parsed_value(value)
    return settings


def named_values(pairs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what --set was given: the name of a setting, as Python spells it, and its value."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"a setting is written name=value; got {pair!r}.")
        yield name.strip().replace("-", "_"), value


def parsed_value(value: str) -> Any:
    """Return the number, list or word that is written, as JSON has it; other words as they are."""
    for read in (json.loads, float):  # float for "inf", which JSON does not know
        with contextlib.suppress(ValueError, RecursionError):
            return read(value)
    return value


def write(parts: Iterable[str], output: Path | None) -> None:
    """Write ``parts`` as they come, to standard output or to the file, whole or not at all."""
    if output is not None:
        _write_file(parts, output)
        return
    for part in parts:
        # A redirected terminal may not speak UTF-8; a result must reach the file all the same.
        sys.stdout.buffer.write(part.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _write_file(parts: Iterable[str], output: Path) -> None:
    """Write to ``output``, beside which FILE.part grows until all is there.

    Killed, interrupted or out of room, what was finished stays in FILE.part, whole results only.
    """
    if is_device(output):
        with atomic_file(output) as file:
            file.writelines(part.encode() for part in parts)
        return
    target = output.resolve()  # a link keeps its place
    growing, done, end = target.with_name(f"{target.name}.part"), 0, 0
    busy = f"another command is writing to '{output}'; wait until it ends, or choose another file."
    try:
        with growing_file(growing, target, busy) as file:
            try:
                for part in parts:
                    content = part.encode()
                    while content:  # a nearly full disk takes a part, and says so the next time
                        content = content[file.write(content) :]
                    done, end = done + 1, file.tell()
            except BaseException:
                with contextlib.suppress(OSError):  # the first error says more
                    file.truncate(end) if done else growing.unlink(missing_ok=True)
                raise
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in (None, str(growing)):
            error.filename = str(output)
        if done and growing.exists():  # else all is in place already
            error.add_note(f"Finished results: {done}, in '{growing}'.")
        raise


def show(results: Iterable[RenderableType], output: Path | None) -> None:
    """Print results as they come, to the terminal or as plain text to a file."""
    if output is not None:
        write(_plain(results), output)
        return
    console = output_console()
    for i, result in enumerate(results):
        console.print(*([""] if i else []), result, sep="\n")


def _plain(results: Iterable[RenderableType]) -> Iterator[str]:
    for i, result in enumerate(results):
        text = io.StringIO()
        Console(file=text, width=100, no_color=True, **VERBATIM).print(
            *([""] if i else []), result, sep="\n"
        )
        yield text.getvalue()
