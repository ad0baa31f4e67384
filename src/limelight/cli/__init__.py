"""The command line: each command is a function of a module that is imported when you call it."""

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
from limelight.cli.console import print_stderr, received_signals
from limelight.errors import InputError, unknown_name_message

# The module of a command is imported only when the command runs, so its help is stored here.
COMMANDS = {
    "explain": "Show which words of a text drive the prediction of a model.",
    "compare": "Compare the explanations of several methods for the same text.",
    "counterfactual": "Find the smallest set of words whose removal changes the prediction.",
    "judge": "Measure which methods are most faithful to a model on your texts.",
    "explain-data": "Explain every text of a data set and store the explanations in a folder.",
    "summarize": (
        "Summarize the explanations of a data set: important words, mistakes, groups of texts."
    ),
    "serve": "Open a web page to explain texts or to browse a data set.",
    "methods": "List the methods, with the definition, the limits and the settings of each.",
    "verify": "Check every method on a model and a text against a reference implementation.",
    "check": "Check a model against the requirements of a file, as a test in a build.",
    "predict": "Predict the class of each text, its spans, or the answer of a language model.",
    "evaluate": "Measure the accuracy and the speed of a model on labeled texts.",
    "train": "Train an AttentionClassifier on labeled texts or images.",
    "learn": "Train a fast method for a model: it explains a text in one forward pass.",
    "export": "Write a model as an offline web page that explains while you type.",
    "data": "Download a public data set, check it, and unpack it.",
}
_MODULES = {  # the module of a command, if its name differs from the command's
    "compare": "explain",
    "evaluate": "predict",
    "learn": "train",
    "data": "train",
    "verify": "methods",
    "summarize": "pages",
    "serve": "pages",
    "export": "pages",
}
# Shown below the options of a command.
_EXPLAIN_DATA = "limelight explain-data FILE --output DIR"
_LONG_NUMBER = re.compile(r"\d[\d,]{60,}")  # shortened in error messages
_PATH_OPTIONS = ("--file", "-f", "--output", "-o")


def _format_default(default: Any) -> str | None:
    """Return the default value for the help of an option, or None to show no default."""
    return None if default is None or default == () or isinstance(default, bool) else str(default)


# Two commands that the help of each command shows at its end.
EXAMPLES = {
    "explain": (
        'limelight explain "The plot is predictable, but the acting is superb."',
        'limelight explain "Who wrote it?" --model path/to/my-llm --documents page.txt',
    ),
    "compare": (
        'limelight compare "The plot is predictable, but the acting is superb."',
        "limelight compare --methods lime,shapley --file review.txt --output page.html",
    ),
    "explain-data": (
        "limelight explain-data reviews.csv --output run/",
        "limelight explain-data reviews.csv --model path/to/my-bert --method lrp --output run/",
    ),
    "summarize": (
        "limelight summarize run/ --output page.html",
        "limelight summarize before/ --against after/",
    ),
    "judge": (
        "limelight judge --data reviews.csv --limit 60",
        "limelight judge --data reviews.csv --methods shapley,lrp --model path/to/my-bert",
    ),
    "serve": ("limelight serve --open", "limelight serve --run run/"),
    "export": (
        "limelight export --output page.html",
        "limelight export --model my-model/ --output page.html",
    ),
    "methods": ("limelight methods", "limelight methods shapley"),
    "verify": ("limelight verify", 'limelight verify --model my-model/ "Loved it."'),
    "predict": (
        'limelight predict "Loved it."',
        "limelight predict --model path/to/my-bert --file review.txt",
    ),
    "evaluate": (
        "limelight evaluate --data reviews.csv",
        "limelight evaluate --data reviews.csv --model path/to/my-bert --format json",
    ),
    "train": (
        "limelight train reviews.csv --output my-model/",
        "limelight train train.csv --validation 0.1 --output my-model/",
    ),
    "learn": (
        "limelight learn --model path/to/my-bert --data reviews.csv --output my-method/",
        "limelight learn --model path/to/my-bert --data a.csv --budget 2h --output my-method/",
    ),
    "data": ("limelight data imdb --output data", "limelight data --help"),
    "counterfactual": (
        'limelight counterfactual "The plot is predictable, but the acting is superb."',
        "limelight counterfactual --model path/to/my-llm --messages chat.json --output page.html",
    ),
    "check": (
        "limelight check reviews.limelight.toml",
        "limelight check reviews.limelight.toml --model path/to/model --output checks.xml",
    ),
}
app = App(
    name="limelight",
    version=__version__,
    help="Show which parts of a text drive a model, with the error of every number.",
    result_action="return_value",
    suppress_keyboard_interrupt=False,  # `main` exits with 130, or with 143 after SIGTERM
    help_format="markdown",  # breaks lines at the width of the terminal
    default_parameter=Parameter(negative=(), show_default=_format_default),
)
for _name, _help in COMMANDS.items():
    _module, _function = (text.replace("-", "_") for text in (_MODULES.get(_name, _name), _name))
    _examples = "\n".join(f"    {example}" for example in EXAMPLES[_name])
    app.command(
        f"limelight.cli.{_module}:{_function}",
        name=_name,
        help=_help,
        help_epilogue=f"Examples:\n\n{_examples}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command, and exit with its exit code.

    The exit code is 0 after success, 1 if a check failed, 2 after an error, 130 after Ctrl-C, and
    143 after SIGTERM. An error or an interrupt prints one message on standard error. After an
    interrupt, the message also says which results were stored.

    Parameters
    ----------
    arguments
        The arguments of the command. Default: those of the process.
    """
    if sys.stderr is None:  # the caller closed it, so messages are discarded
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  (open until the end)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_ClosedOutput(os.devnull, "w"), write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not encode every character
    try:
        arguments = _mark_stdin_argument(sys.argv[1:] if arguments is None else arguments)
        if any("\0" in argument for argument in arguments):
            raise InputError("an argument must not contain the character NUL. Remove it.")
        with _catch_signals():
            _add_plugins(arguments)
            code = app(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt as stop:
        print_stderr(" ".join(["Interrupted.", *getattr(stop, "__notes__", [])]))
        sys.exit(143 if isinstance(stop, _TerminatedError) else 130)
    except (CycloptsError, InputError, OSError, MemoryError) as error:
        message = _LONG_NUMBER.sub(_shorten_number, _describe_error(error))
        print_stderr(f"Error: {' '.join([message, *getattr(error, '__notes__', [])])}")
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _add_plugins(arguments: Sequence[str]) -> None:
    """Add the commands of installed packages, unless the arguments name a command of limelight."""
    # Otherwise they are not needed, and searching all installed packages is slow.
    name = arguments[0] if arguments else "--help"
    if name in COMMANDS or (name.startswith("-") and name not in app.help_flags):
        return
    # Imported here: the standard library's reader of metadata takes a twentieth of a command.
    from limelight.cli import plugins

    if name in app.help_flags:
        plugins.add_every_command(app)
    else:
        plugins.add_command(app, name)


class _ClosedOutput(io.FileIO):
    """A standard output that the caller has closed: writing to it raises `InputError`."""

    def write(self, _: Any) -> NoReturn:
        """Raise `InputError`, since nothing can be written."""
        raise InputError("standard output is closed. Redirect it, or use --output FILE.")


class _TerminatedError(KeyboardInterrupt):
    """The process received SIGTERM: the command ends as after Ctrl-C, and finished results stay."""


@contextlib.contextmanager
def _catch_signals() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, during the block.

    Batch systems and shutdowns send SIGTERM. Both signals are also stored in
    ``console.received_signals``.
    """

    def stop_command(number: int, _: object) -> NoReturn:
        """Record the signal, and raise the exception that ends the command."""
        received_signals.append(number)
        raise _TerminatedError if number == signal.SIGTERM else KeyboardInterrupt

    previous_handlers: dict[int, Any] = {}
    # Only the main thread can set signal handlers.
    if threading.current_thread() is threading.main_thread():
        previous_handlers[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop_command)
        if callable(signal.getsignal(signal.SIGINT)):  # nohup, for example, ignores SIGINT
            previous_handlers[signal.SIGINT] = signal.signal(signal.SIGINT, stop_command)
    try:
        yield
    finally:
        received_signals.clear()
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _mark_stdin_argument(arguments: Sequence[str]) -> list[str]:
    """Move "-" behind "--", because cyclopts would read it as an option.

    "-" stands for standard input, and "--file -" means the same. "--output -" is removed, because
    standard output is the default.
    """
    if "--" in arguments or "-" not in arguments:
        return list(arguments)
    remaining: list[str] = []
    reads_stdin = False
    for argument in arguments:
        if argument != "-":
            remaining.append(argument)
            continue
        if remaining and remaining[-1] == "--messages":
            remaining[-1] = "--messages=-"
            continue
        option = remaining.pop() if remaining and remaining[-1] in _PATH_OPTIONS else "--file"
        reads_stdin |= option in ("--file", "-f")
    return [*remaining, "--", "-"] if reads_stdin else remaining


def _shorten_number(match: re.Match[str]) -> str:
    """Shorten a long number in a message."""
    return f"{match[0][:20]}… ({sum(map(str.isdigit, match[0]))} digits)"


def _describe_error(error: Exception) -> str:
    """Return the message of an error as a sentence."""
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        from limelight.cli import plugins

        # `installed_commands` reads the names without importing the commands.
        names = [*COMMANDS, *plugins.installed_commands()]
        return unknown_name_message("command", error.unused_tokens[0], names)
    if isinstance(error, UnknownOptionError):
        command = (error.command_chain or ("",))[0]
        option = (error.token.keyword or error.token.value).partition("=")[0]
        if command == "compare" and option in ("--data", "-d"):
            return f"compare explains one text. For a data set, use {_EXPLAIN_DATA}."
        if command in ("explain", "explain-data"):
            data_options = app["explain-data"].assemble_argument_collection()
            if option in ("--data", "-d") or any(
                option in data_option.names for data_option in data_options
            ):
                return f"{option} needs a data set. Use {_EXPLAIN_DATA}."
        if " " in error.token.value:
            return f"{error} Put a text that starts with a dash last, after --."
    if isinstance(error, OSError) and error.strerror:
        prefix = f"'{error.filename}': " if error.filename else ""
        return f"{prefix}{error.strerror.lower()}."
    return f"not enough memory ({error})." if isinstance(error, MemoryError) else str(error)
