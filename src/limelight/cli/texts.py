"""Texts for a command: arguments, a file, or standard input."""

__all__ = ["given_texts"]

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from limelight.errors import InputError

_LINE_END = re.compile(r"\r\n?|\n")


def given_texts(arguments: Sequence[str], file: Path | None, *, lines: bool = False) -> list[str]:
    """Return the texts a command was given; "-" stands for standard input.

    A file or standard input is one text, or with ``lines`` one per line that is not blank.
    """
    if file is not None and arguments:
        raise InputError("give the text as an argument or with --file, not both.")
    if file is not None:
        return _split(_decoded(file.read_bytes(), str(file)), lines=lines)
    if sys.stdin and (list(arguments) == ["-"] or not (arguments or sys.stdin.isatty())):
        return _split(_decoded(sys.stdin.buffer.read(), "standard input"), lines=lines)
    if not arguments:
        raise InputError("no text was given; pass it as an argument, with --file, or through '-'.")
    return list(arguments)


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} must be UTF-8 text; byte {error.start} is not. Convert it first."
        ) from None


def _split(text: str, *, lines: bool) -> list[str]:
    # str.splitlines would also split at "\x85" and the like, which stand inside many reviews.
    return [line for line in _LINE_END.split(text) if line.strip()] if lines else [text]
