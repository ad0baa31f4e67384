"""The command line. One module per command, imported when it is called."""

__all__ = ["main"]

import contextlib
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, UnknownOptionError

from limelight import __version__
from limelight.cli import plugins
from limelight.cli.console import heard, tell
from limelight.errors import InputError, unknown_name_message

# The module of a command is imported when the command is called, so its help stands here.
COMMANDS = {
    "explain": "Show which words of a text drive the prediction of a model.",
    "compare": "Compare the explanations of several methods for the same text.",
    "judge": "Measure which methods are most faithful to a model on your texts.",
    "explain-data": "Explain every text of a data set and store the explanations in a folder.",
    "summarize": (
        "Summarize the explanations of a data set: important words, mistakes, groups of texts."
    ),
    "serve": "Open a web page to explain texts or to browse a data set.",
    "methods": "List the methods: what each computes, and what it can and cannot show.",
    "verify": "Check every method on a model and a text against a reference implementation.",
    "predict": "Predict the class of each text, its spans, or the answer of a language model.",
    "evaluate": "Measure the accuracy and the speed of a model on labeled texts.",
    "train": "Train an AttentionClassifier on labeled texts or images.",
    "learn": "Train a fast method for a model: it explains a text in one forward pass.",
    "export": "Write a model as an offline web page that explains while you type.",
    "data": "Download a public data set, check it, and unpack it.",
}
_SHARED = {  # commands that live in the module of another
    "compare": "explain",
    "evaluate": "predict",
    "learn": "train",
    "data": "train",
    "verify": "methods",
    "summarize": "pages",
    "serve": "pages",
    "export": "pages",
}
_EXPLAIN_DATA = "limelight explain-data FILE --output DIR"
_LONG = re.compile(r"\d[\d,]{60,}")  # what is told of a number that nobody can read
_PLACES = ("--file", "-f", "--output", "-o")


def _default_shown(default: Any) -> str | None:
    """Return the default value as the help shows it; None if there is nothing to show."""
    return None if default is None or default == () or isinstance(default, bool) else str(default)


app = App(
    name="limelight",
    version=__version__,
    help="Show which parts of a text drive a model, with the error of every number.",
    result_action="return_value",
    suppress_keyboard_interrupt=False,  # ours to answer: 130, or 143 where a process is ended
    help_format="markdown",  # set anew for the width of the terminal
    default_parameter=Parameter(negative=(), show_default=_default_shown),
)
for _name, _help in COMMANDS.items():
    _module, _function = (text.replace("-", "_") for text in (_SHARED.get(_name, _name), _name))
    app.command(f"limelight.cli.{_module}:{_function}", name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; exit with 0, with 1 if a check failed, or with 2 and one sentence.

    Ctrl-C is answered in one line, with what is kept where somebody has noted that, and 130.
    """
    if sys.stderr is None:  # closed by the caller; messages then go nowhere
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  (open until the end)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_ClosedOutput(os.devnull, "w"), write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a letter of the text
    try:
        given = _dash_is_text(sys.argv[1:] if arguments is None else arguments)
        if any("\0" in argument for argument in given):
            raise InputError("an argument must not hold the character NUL; no path or text has it.")
        with _ends_heard():
            _find_plugins(given)
            code = app(given, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt as stop:
        tell(" ".join(["Interrupted.", *getattr(stop, "__notes__", [])]))
        sys.exit(143 if isinstance(stop, _TerminatedError) else 130)
    except (CycloptsError, InputError, OSError, MemoryError) as error:
        said = [_LONG.sub(_shortened, _sentence(error)), *getattr(error, "__notes__", [])]
        tell(f"Error: {' '.join(said)}")
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _find_plugins(arguments: Sequence[str]) -> None:
    """Look for commands of other packages if the arguments name none of ours."""
    # Only then, since looking through all that is installed takes longer than some commands.
    name = arguments[0] if arguments else "--help"
    if name in app.help_flags:
        plugins.add_every_command(app)
    elif name not in COMMANDS and not name.startswith("-"):
        plugins.add_command(app, name)


class _ClosedOutput(io.FileIO):
    """Stand for a standard output that the caller has closed; writing there is an error."""

    def write(self, _: Any) -> NoReturn:
        raise InputError("standard output is closed. Redirect it, or use --output FILE.")


class _TerminatedError(KeyboardInterrupt):
    """Somebody ends the process: what is finished is kept, as after Ctrl-C."""


@contextlib.contextmanager
def _ends_heard() -> Iterator[None]:
    """Let SIGTERM, as a batch system or a shutdown sends it, end a command as Ctrl-C does.

    Both are remembered too (``console.heard``).
    """

    def stop(number: int, _: object) -> NoReturn:
        heard.append(number)
        raise _TerminatedError if number == signal.SIGTERM else KeyboardInterrupt

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # signals are its alone
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop)
        if callable(signal.getsignal(signal.SIGINT)):  # else it is ignored, as behind nohup
            before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        heard.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def _dash_is_text(arguments: Sequence[str]) -> list[str]:
    """Put "-" after "--": it stands for standard input, and cyclopts takes it for an option.

    "--file -" says the same, and "--output -" what happens anyway.
    """
    if "--" in arguments or "-" not in arguments:
        return list(arguments)
    rest: list[str] = []
    reads = False
    for argument in arguments:
        if argument != "-":
            rest.append(argument)
            continue
        option = rest.pop() if rest and rest[-1] in _PLACES else "--file"
        reads |= option in ("--file", "-f")
    return [*rest, "--", "-"] if reads else rest


def _shortened(found: re.Match[str]) -> str:
    return f"{found[0][:20]}… ({sum(map(str.isdigit, found[0]))} digits)"


def _sentence(error: Exception) -> str:
    """Say an operating-system error as a sentence; the others are one already."""
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        # By name, without importing them all.
        names = [*COMMANDS, *plugins.installed_commands()]
        return unknown_name_message("command", error.unused_tokens[0], names)
    if isinstance(error, UnknownOptionError):
        command = (error.command_chain or ("",))[0]
        option = (error.token.keyword or error.token.value).partition("=")[0]
        if command == "compare" and option in ("--data", "-d"):
            return f"compare explains one text; to explain a data set, use {_EXPLAIN_DATA}."
        if command in ("explain", "explain-data"):
            data_options = app["explain-data"].assemble_argument_collection()
            if option in ("--data", "-d") or any(option in known.names for known in data_options):
                return f"{option} is about a data set; use {_EXPLAIN_DATA}."
        if " " in error.token.value:
            return f"{error} A text that starts with a dash goes last, after --."
    if isinstance(error, OSError) and error.strerror:
        place = f"'{error.filename}': " if error.filename else ""
        return f"{place}{error.strerror.lower()}."
    return f"not enough memory ({error})." if isinstance(error, MemoryError) else str(error)
