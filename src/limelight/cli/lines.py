"""Texts and what is answered to them, as they come: all at once, or line by line."""

__all__ = ["Answers", "answers_to"]

import io
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar, final

from limelight.cli.console import error_console
from limelight.cli.texts import MOST_BYTES, from_outside, given_texts
from limelight.errors import InputError

Answer = TypeVar("Answer")
_ESCAPED = re.compile("[\udc80-\udcff]")  # what stands for bytes that are not UTF-8


def answers_to(
    texts: Sequence[str],
    file: Path | None,
    ask: Callable[[list[str]], Sequence[Answer]],
    *,
    lines: bool,
    together: int,
) -> "Answers[Answer]":
    """Return what ``ask`` answers to arguments, a file or standard input.

    With ``lines``, every line of a file or of standard input is a text of its own, and ``together``
    of them are asked at a time.
    """
    if lines and from_outside(texts, file):
        return Answers(_numbered_lines(file), ask, together=together, strict=False)
    given = given_texts(texts, file)
    return Answers(enumerate(given, start=1), ask, together=len(given), strict=True)


def _numbered_lines(file: Path | None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, or of standard input, that are not blank, counted from 1.

    A line ends where an editor ends it; bytes that are not UTF-8 are escaped, not refused.
    """
    source = file.open("rb") if file is not None else sys.stdin.buffer
    text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="surrogateescape")
    try:
        longer = MOST_BYTES + 1  # characters: /dev/zero is one line without an end
        for number, line in enumerate(iter(partial(text.readline, longer), ""), start=1):
            if len(line) == longer:
                raise InputError(f"line {number} must have at most {MOST_BYTES:,} characters.")
            if line.strip():
                yield number, line.removesuffix("\n")
    finally:
        if file is not None:
            text.close()
        else:
            text.detach()  # standard input is not ours to close


@final
class Answers(Generic[Answer]):
    """Answers to numbered texts, some at a time, each with the number of its text from 0.

    Unless ``strict``, a line that cannot be used is named on standard error, and the others go on;
    :meth:`finish` says how many there were. An error that is about no line in particular ends
    everything at once.
    """

    def __init__(
        self,
        lines: Iterator[tuple[int, str]],
        ask: Callable[[list[str]], Sequence[Answer]],
        *,
        together: int,
        strict: bool,
    ) -> None:
        self._lines, self._ask, self._together, self._strict = lines, ask, together, strict
        self._seen = self._refused = 0

    def __iter__(self) -> Iterator[tuple[int, Answer]]:
        while chunk := list(itertools.islice(self._lines, self._together)):
            first = self._seen
            self._seen += len(chunk)
            yield from self._answers(first, chunk)
        if not self._seen:
            raise InputError("no line of the input has any text.")
        if self._refused == self._seen:
            raise InputError(f"none of the {self._seen} lines could be used.")

    def finish(self) -> None:
        """Raise an error if there were lines that could not be used."""
        if self._refused:
            raise InputError(f"{self._refused} of {self._seen} lines could not be used.")

    def _answers(self, first: int, chunk: list[tuple[int, str]]) -> Iterator[tuple[int, Answer]]:
        if self._strict or not any(_ESCAPED.search(text) for _, text in chunk):
            try:
                answers = self._ask([text for _, text in chunk])
            except InputError as error:
                if self._strict or not error.one_text:
                    raise
            else:
                yield from enumerate(answers, start=first)
                return
        for number, (line, text) in enumerate(chunk, start=first):
            yield from self._alone(number, line, text)

    def _alone(self, number: int, line: int, text: str) -> Iterator[tuple[int, Answer]]:
        try:
            if _ESCAPED.search(text):
                raise _no_text()
            (answer,) = self._ask([text])
        except InputError as error:
            if not error.one_text:
                raise
            self._refused += 1
            error_console().print(f"Line {line}: {error}", markup=False, highlight=False)
        else:
            yield number, answer


def _no_text() -> InputError:
    error = InputError("a line must be UTF-8 text; this one is not. Convert the input first.")
    error.one_text = True
    return error
