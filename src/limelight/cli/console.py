"""Output of commands: results, messages, progress bars, and values of --set."""

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
        """Raise `BrokenPipeError`, which `limelight.cli.main` handles. rich would exit with 1."""
        raise BrokenPipeError


# Print texts unchanged: "[b]" and ":cat:" may be words of the user, not markup.
VERBATIM: Any = {"highlight": False, "markup": False, "emoji": False}


# Signals that told this command to end. Python discards an exception of a signal handler while it
# runs a callback that cannot raise, for example during an import. A command that is starting then
# reads this list to see that the user pressed Ctrl-C.
received_signals: list[int] = []


def output_console() -> Console:
    """Return a console for results."""
    return _Console(soft_wrap=False, **VERBATIM)


def error_console() -> Console:
    """Return a console on standard error for progress, warnings and errors."""
    return Console(stderr=True, soft_wrap=True, **VERBATIM)


def print_stderr(sentence: str, *, style: str | None = None) -> None:
    """Print a sentence on standard error, without markup and with control characters escaped."""
    error_console().print(escape_controls(sentence), style=style)


def show_progress(task: str, *, announced: bool = False) -> ProgressDisplay:
    """Return a progress display with a bar, which appears if the task is not finished at once.

    Parameters
    ----------
    task
        The task, such as "explaining".
    announced
        Whether the caller prints the estimated duration itself.
    """
    console = error_console()

    def start_bar() -> "Progress":
        """Create a progress bar on standard error and start it."""
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            transient=True,
        )
        bar.add_task(task)
        bar.start()
        return bar

    return ProgressDisplay(
        task, start_bar=start_bar, print_sentence=console.print, announced=announced
    )


@contextlib.contextmanager
def handle_interrupt(
    describe_results: Callable[[], str], *error_types: type[BaseException]
) -> Iterator[None]:
    """Add a note about the stored results to an interrupt of the block.

    Parameters
    ----------
    describe_results
        Returns which results are stored and how to continue, or "" for no note.
    error_types
        Errors that get the same note.
    """
    noted_errors: tuple[type[BaseException], ...] = (KeyboardInterrupt, *error_types)
    try:
        yield
    except noted_errors as error:
        if note := describe_results():
            error.add_note(note)
        raise


@contextlib.contextmanager
def track_run(output: Path, log: str | None) -> Iterator[Callable[[RunProgress], None]]:
    """Yield a callback that shows the progress of ``explain-data``.

    An interrupt gets a note about the stored explanations.

    Parameters
    ----------
    output
        Folder of the explanations.
    log
        "json" prints lines of JSON on standard error instead of a bar.
    """
    last: RunProgress | None = None

    def describe_results() -> str:
        """Say how many texts are done, where they are stored, and how to continue."""
        done = f"About {last.done:,} of {last.total:,}" if last is not None else "No"
        return (
            f"{done} texts are done, and '{output}' contains the finished shards. "
            "Run the same command again to continue."
        )

    with handle_interrupt(describe_results), show_progress("explaining", announced=True) as display:

        def report(progress: RunProgress) -> None:
            """Print the progress as JSON or show it as a bar, and remember it for interrupts."""
            nonlocal last
            last = None if progress.finding else progress
            if log == "json":
                for line in _log_lines(progress):
                    print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)
            else:
                display.show_run(progress)

        yield report


def _log_lines(progress: RunProgress) -> Iterator[dict[str, Any]]:
    """Yield a line for the estimate, for a warning, and for a finished shard."""
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
            "left_seconds": progress.seconds_left and round(progress.seconds_left, 1),
        }


def select_format(format: str | None, output: Path | None) -> str:
    """Return the given format, or else the format that the ending of the output file implies."""
    if format is not None:
        if format in FIGURES and (output is None or output.suffix.lower() != f".{format}"):
            raise InputError(f"a figure needs a file. Add --output NAME.{format}.")
        return format
    if output is None or is_device(output):  # a device or a pipe has no ending
        return "terminal"
    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(output))
    ending = output.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"the name of an output file must end in {', '.join(ENDINGS)}, not '{output}'. Change "
            "it, or add --format."
        )
    return ENDINGS[ending]


def select_single(results: Iterable[Result], form: str) -> Result:
    """Return the only result; raise InputError if there are more, as for a page or a figure."""
    first_results = list(itertools.islice(results, 2))
    if len(first_results) != 1:
        raise InputError(
            f"{form} output shows one result, but there are several. Use --format json."
        )
    return first_results[0]


def write_results(results: Iterable[Any], form: str, output: Path | None) -> None:
    """Write each result as soon as it is computed, in a format of `select_format`.

    A web page or a figure shows one result only. For CSV, a result may also be a string of rows.
    """
    match form:
        case "terminal":
            print_results(results, output)
        case "json":
            write_strings((result.to_json() + "\n" for result in results), output)
        case "csv":
            rows = (result if isinstance(result, str) else result.to_csv() for result in results)
            write_strings(rows, output)
        case "html":
            write_strings([select_single(results, form).to_html()], output)
        case _:
            figure = select_single(results, form)
            if output is not None:
                remove_partial_files(output)
            figure.save_figure(output)


def remove_partial_files(output: Path) -> None:
    """Delete partial files that killed commands left beside ``output``."""
    target = output.resolve()
    remove_abandoned_parts(target.parent, target.name)


def write_result(result: Any, form: str, output: Path | None) -> None:
    """Write one result; print its warnings if the format does not contain them."""
    write_results([result], form, output)
    for warning in getattr(result, "warnings", ()) if form in ("csv", *FIGURES) else ():
        print_stderr(warning)


# Settings of methods that functions in Python take as keywords of their own.
SHARED_SETTINGS = ("replacement", "seed")


def parse_settings(
    pairs: Sequence[str], function: Callable[..., Any], shared: Sequence[str] = SHARED_SETTINGS
) -> dict[str, Any]:
    """Parse the values of --set, such as "tolerance=1e-9", into settings of methods.

    Raises InputError for a name that is a parameter of ``function``, such as "target", except for
    the names in ``shared``, which the command has no option for.
    """
    settings = {}
    options = inspect.signature(function).parameters.keys() - set(shared)
    for name, value in split_settings(pairs):
        if name in options:
            raise InputError(
                f"--set is for settings of methods, but {name!r} is an option of the command. See "
                "--help."
            )
        settings[name] = parse_value(value)
    return settings


def split_settings(pairs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each setting in "name=value"; dashes become underscores."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"a setting must be written as name=value, not {pair!r}.")
        yield name.strip().replace("-", "_"), value


def parse_value(value: str) -> Any:
    """Parse a JSON value or a number; return any other text unchanged."""
    for parse in (json.loads, float):  # `float` for "inf", which is not JSON
        with contextlib.suppress(ValueError, RecursionError):
            return parse(value)
    return value


def write_strings(parts: Iterable[str], output: Path | None) -> None:
    """Write each string to standard output at once, or all strings to a file that is replaced."""
    if output is not None:
        _write_file(parts, output)
        return
    for part in parts:
        # Always write UTF-8: the encoding of a redirected output may lack characters of the result.
        sys.stdout.buffer.write(part.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _write_file(parts: Iterable[str], output: Path) -> None:
    """Write to FILE.part, and move it to ``output`` at the end.

    If the command is killed or interrupted, or the disk is full, FILE.part keeps the complete
    results that were written.
    """
    if is_device(output):
        with atomic_file(output) as file:
            file.writelines(part.encode() for part in parts)
        return
    target = output.resolve()  # do not replace a symbolic link by the file
    partial_file, done, end = target.with_name(f"{target.name}.part"), 0, 0
    busy = f"another command is writing to '{output}'. Wait until it ends, or choose another file."
    try:
        with growing_file(partial_file, target, busy) as file:
            try:
                for part in parts:
                    content = part.encode()
                    while content:  # on a nearly full disk, `write` writes only some of the bytes
                        content = content[file.write(content) :]
                    done, end = done + 1, file.tell()
            except BaseException:
                with contextlib.suppress(OSError):  # report the first error, not this one
                    file.truncate(end) if done else partial_file.unlink(missing_ok=True)
                raise
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in (None, str(partial_file)):
            error.filename = str(output)
        if done and partial_file.exists():  # otherwise it has been moved to `output`
            error.add_note(f"Finished results: {done}, in '{partial_file}'.")
        raise


def print_results(results: Iterable[RenderableType], output: Path | None) -> None:
    """Print each result as soon as it is computed, to the terminal or as plain text to a file."""
    if output is not None:
        write_strings(_plain_texts(results), output)
        return
    console = output_console()
    for i, result in enumerate(results):
        console.print(*([""] if i else []), result, sep="\n")


def _plain_texts(results: Iterable[RenderableType]) -> Iterator[str]:
    """Yield each result as plain text, with an empty line between results."""
    for i, result in enumerate(results):
        text = io.StringIO()
        Console(file=text, width=100, no_color=True, **VERBATIM).print(
            *([""] if i else []), result, sep="\n"
        )
        yield text.getvalue()
