"""Texts for a command: arguments, a file, or standard input."""

__all__ = ["from_outside", "given_texts"]

import sys
from collections.abc import Sequence
from pathlib import Path

from limelight.errors import InputError


def given_texts(arguments: Sequence[str], file: Path | None) -> list[str]:
    """Return the texts a command was given; "-" stands for standard input.

    A file or standard input is one text.
    """
    if not from_outside(arguments, file):
        return list(arguments)
    if file is not None:
        return [_decoded(file.read_bytes(), str(file))]
    return [_decoded(sys.stdin.buffer.read(), "standard input")]


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


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} must be UTF-8 text; byte {error.start} is not. Convert it first."
        ) from None
