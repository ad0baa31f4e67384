"""Texts for a command: arguments, a file, or standard input."""

__all__ = ["MOST_BYTES", "from_outside", "given_texts"]

import sys
from collections.abc import Sequence
from pathlib import Path

from limelight.errors import InputError
from limelight.files import Readable, read_at_most

MOST_BYTES = 1 << 26  # of one text


def given_texts(arguments: Sequence[str], file: Path | None) -> list[str]:
    """Return the texts a command was given; "-" stands for standard input.

    A file or standard input is one text.
    """
    if not from_outside(arguments, file):
        return list(arguments)
    if file is None:
        return [_decoded(sys.stdin.buffer, "standard input")]
    with file.open("rb") as source:  # a pipe will do
        return [_decoded(source, f"'{file}'")]


def from_outside(arguments: Sequence[str], file: Path | None) -> bool:
    """Return whether texts come from the file or from standard input, not as arguments."""
    if file is not None and arguments:
        raise InputError("give the text as an argument or with --file, not both.")
    if file is not None:
        return True
    if sys.stdin and (list(arguments) == ["-"] or not (arguments or sys.stdin.isatty())):
        return True
    if not arguments:
        raise InputError(
            "no text was given; pass it as an argument, with --file, or on standard input with '-'."
        )
    return False


def _decoded(file: Readable, source: str) -> str:
    content = read_at_most(file, MOST_BYTES, source)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} must be UTF-8 text; byte {error.start} is not. Convert it first."
        ) from None
