"""What ``explain`` and ``compare`` share: where the result goes, and in which form."""

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
from typing import Any, NoReturn, TypeVar

from rich.console import Console, RenderableType

from limelight.cli.console import VERBATIM, output_console, tell
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


def put(found: Any, form: str, output: Path | None, *, said: bool = False) -> None:
    """Write one result in its format.

    Rows and figures hold no notices, which are told on standard error unless they are ``said``.
    """
    match form:
        case "terminal":
            show([found], output)
        case "json":
            write([found.to_json() + "\n"], output)
        case "csv":
            write([found.to_csv()], output)
        case "html":
            write([found.to_html()], output)
        case _:
            found.save_figure(output)
    if not said and form in ("csv", *FIGURES):
        for notice in getattr(found, "notices", ()):
            tell(notice)


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


def write(
    parts: Iterable[str], output: Path | None, *, go_on: Callable[[], str] = lambda: ""
) -> None:
    """Write ``parts`` as they come, to standard output or to the file, whole or not at all.

    A file that is not finished leaves what it holds beside it; ``go_on`` then says how to go on.
    """
    if output is not None:
        _write_file(parts, output, go_on)
        return
    for part in parts:
        # A redirected terminal may not speak UTF-8; a result must reach the file all the same.
        sys.stdout.buffer.write(part.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def _write_file(parts: Iterable[str], output: Path, go_on: Callable[[], str]) -> None:
    """Write to ``output``, beside which FILE.part grows until all is there.

    Killed, interrupted or out of room, what was finished stays in FILE.part, whole results only.
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
                _write_part(rest, part.encode())
                done += 1
            os.fsync(rest.fileno())
        growing.replace(target)
    except BaseException as error:
        if not done:
            with contextlib.suppress(OSError):  # the first error says more
                growing.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(growing)):
            error = OSError(error.errno, error.strerror, str(output))
        if not done:
            raise error from None
        left = f"{done} finished result{'s are' if done > 1 else ' is'} in '{growing}'. {go_on()}"
        _raise_with_rest(error, left.strip())


def _write_part(file: io.FileIO, content: bytes) -> None:
    """Write all of ``content``, or leave the file as it was."""
    start, rest = file.tell(), memoryview(content)
    try:
        while rest:  # a disk that is nearly full takes a part and says so only the next time
            rest = rest[file.write(rest) :]
    except BaseException:
        with contextlib.suppress(OSError):
            file.truncate(start)
        raise


def _raise_with_rest(error: BaseException, left: str) -> NoReturn:
    """Raise ``error`` again; what is ``left`` of the work is said with it."""
    if isinstance(error, KeyboardInterrupt):
        error.add_note(left)
    elif isinstance(error, OSError):
        why = (error.strerror or str(error)).lower()
        raise InputError(f"'{error.filename}': {why}; {left}") from None
    else:
        tell(f"Stopped: {left}")
    raise error


def show(
    results: Iterable[RenderableType], output: Path | None, *, go_on: Callable[[], str] = lambda: ""
) -> None:
    """Print results as they come, to the terminal or as plain text to a file."""
    if output is not None:
        write(_plain(results), output, go_on=go_on)
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
