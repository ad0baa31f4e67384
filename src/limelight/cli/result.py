"""What ``explain`` and ``compare`` share: where the result goes, and in which form."""

__all__ = [
    "ENDINGS",
    "FIGURES",
    "FORMATS",
    "chosen_format",
    "only",
    "parsed_settings",
    "progress_shown",
    "show",
    "write",
]

import contextlib
import errno
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console, RenderableType

from limelight.cli.console import error_console, output_console
from limelight.errors import InputError, nearest
from limelight.files import is_device, whole_file

Result = TypeVar("Result")
FIGURES = ("png", "svg", "pdf")
FORMATS = ("terminal", "json", "html", "csv", *FIGURES)
ENDINGS = {".txt": "terminal", ".jsonl": "json"} | {f".{name}": name for name in FORMATS[1:]}


def chosen_format(format: str | None, output: Path | None) -> str:
    """Return the format asked for, or else the one that the output file's name implies."""
    if format is None:
        return _format_of(output)
    if format not in FORMATS:
        raise InputError(nearest("format", format, FORMATS))
    if format in FIGURES and (output is None or output.suffix.lower() != f".{format}"):
        raise InputError(f"a figure goes to a file; add --output NAME.{format}.")
    return format


def _format_of(output: Path | None) -> str:
    """Return the format that the ending of ``output`` stands for; devices and pipes have none."""
    if output is None or is_device(output):
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


def parsed_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Return {"tolerance": 1e-9} for "tolerance=1e-9"; what is not a number stays a string."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"a setting is written name=value; got {pair!r}.")
        settings[name.strip().replace("-", "_")] = _parsed(value)
    return settings


def _parsed(value: str) -> Any:
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

    Killed or interrupted, what was finished stays in FILE.part, whole results only.
    """
    if is_device(output):
        with whole_file(output) as file:
            file.writelines(part.encode() for part in parts)
        return
    target = output.resolve()  # a link keeps its place
    growing, done = target.with_name(f"{target.name}.part"), 0
    try:
        with growing.open("wb", buffering=0) as rest:
            for part in parts:
                rest.write(part.encode())
                done += 1
        growing.replace(target)
    except KeyboardInterrupt:
        error_console().print(
            f"Interrupted: {done} finished results are in '{growing}'; give the lines that are "
            "missing to go on.",
            markup=False,
        )
        raise
    except Exception as error:
        growing.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(growing):
            raise OSError(error.errno, error.strerror, str(output)) from None
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
        Console(file=text, width=100, no_color=True).print(*([""] if i else []), result, sep="\n")
        yield text.getvalue()


@contextlib.contextmanager
def progress_shown() -> Iterator[Callable[[float, int], None] | None]:
    """Yield a callback that moves a bar with the time left; nothing in a pipe.

    The bar appears when something is still to come at the first call, so quick answers have none.
    """
    console = error_console()
    if not console.file.isatty():
        yield None
        return
    with contextlib.ExitStack() as stack:
        bars: list[Callable[[float, int], None]] = []

        def move(done: float, total: int) -> None:
            if not bars and done < total:
                bars.append(_bar(console, stack))
            for bar in bars:
                bar(done, total)

        yield move


def _bar(console: Console, stack: contextlib.ExitStack) -> Callable[[float, int], None]:
    """Start a bar that vanishes when ``stack`` is closed."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = ("explaining", BarColumn(), TaskProgressColumn(), TimeLeft(), TextColumn("left"))
    bar = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = bar.add_task("")
    return lambda done, total: bar.update(task, completed=done, total=total)
