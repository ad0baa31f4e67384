"""Texts for a command, and what is answered to them as they come."""

import io
import itertools
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from cyclopts import Parameter

from limelight.cli.console import tell
from limelight.cli.groups import INPUT
from limelight.errors import InputError
from limelight.files import Readable, read_at_most
from limelight.text import UserInput
from limelight.text.images import has_ending
from limelight.text.inputs import WarningCounts

MOST_BYTES = 1 << 26  # of one text
Answer = TypeVar("Answer")
_ESCAPED = re.compile("[\udc80-\udcff]")  # what stands for bytes that are not UTF-8


def answers_in(
    data: Path, column: str | None, *, text_column: str | None, limit: int | None
) -> list[str | None] | None:
    """Return the answer in a column for each text of the data; None where its cell is empty."""
    if column is None:
        return None
    from limelight.data import read_rows

    # Read as labels are: a cell for each text.
    found = read_rows(data, text_column=text_column, label_column=column, limit=limit).labels
    cells = ("" if cell is None else str(cell) for cell in found)
    return [cell if cell.strip() else None for cell in cells]


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True, kw_only=True)
class OneText:
    """Select a text that is not an argument.

    Parameters
    ----------
    pair
        The second text, for models that read pairs of texts. The argument is the first text.
    file
        Read the text from this file.
    """

    pair: str | None = None
    file: Annotated[Path | None, Parameter(name=["--file", "-f"])] = None

    def comes_from_outside(self, arguments: Sequence[str]) -> bool:
        """Return whether texts come from the file or from standard input, not as arguments."""
        if self.file is not None and arguments:
            raise InputError("give the text as an argument or with --file, not both.")
        if sys.stdin is None and list(arguments) == ["-"]:
            raise InputError(
                "standard input is closed, so '-' reads nothing; give a text or a file."
            )
        piped = sys.stdin and (list(arguments) == ["-"] or not (arguments or sys.stdin.isatty()))
        if not (arguments or piped or self.file is not None):
            raise InputError(
                "no text was given; pass it as an argument, with --file, or on standard input with "
                "'-'."
            )
        return self.file is not None or bool(piped)

    def whole(self, arguments: Sequence[str]) -> list[Any]:
        """Return the texts a command was given; a file or standard input ("-") is one text.

        The name of an image is a path, which no text is.
        """
        if not self.comes_from_outside(arguments):
            if any(has_ending(Path(one)) and _is_file(one) for one in arguments):
                return [Path(one) if has_ending(Path(one)) else one for one in arguments]
            if all(map(_is_file, arguments)):
                name = arguments[0]
                raise InputError(
                    f"{name!r} is the name of a file; did you mean --file {shlex.quote(name)}? "
                    "A text that reads like this can come on standard input, with '-'."
                )
            return list(arguments)
        if self.file is not None and has_ending(self.file):
            return [self.file]
        if self.file is None:
            return [_decoded(sys.stdin.buffer, "standard input")]
        with self.file.open("rb") as source:  # a pipe will do
            return [_decoded(source, f"'{self.file}'")]

    def with_second(self, texts: Sequence[str]) -> list[UserInput]:
        """Return what is asked about: the texts, or the only one with the second of its pair."""
        if self.pair is None:
            return list(texts)
        if len(texts) > 1:
            raise InputError(f"--pair is the second text of one pair; got {len(texts)} texts.")
        return [(text, self.pair) for text in texts]


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Select texts that are not arguments.

    Parameters
    ----------
    lines
        Read each line of the file, or of standard input, as one text. Results appear one by one. If
        a line cannot be used, an error names it and the exit code is 2.
    tabs
        With --lines: each line is a pair of texts, separated by a tab.
    """

    one: OneText = OneText()
    lines: bool = False
    tabs: bool = False

    def check(self) -> None:
        """Refuse what cannot go together."""
        if self.tabs and not self.lines:
            raise InputError("--tabs is about lines, of which each holds two texts; add --lines.")
        if self.one.pair is not None and self.lines:
            raise InputError(
                "--pair is the second text of one pair; for lines that hold both, --tabs."
            )

    def answers(
        self,
        arguments: Sequence[str],
        ask: Callable[[list[UserInput]], Sequence[Answer]],
        *,
        warnings: Callable[[Answer], Iterable[str]],
        together: int,
    ) -> "Answers[Answer]":
        """Return what ``ask`` answers to arguments, a file or standard input.

        With ``lines``, every line of a file or of standard input is a text of its own, and
        ``together`` of them are asked at a time. ``warnings`` are those of an answer.
        """

        file, by_line = self.one.file, self.lines and self.one.comes_from_outside(arguments)

        def asked(texts: list[str]) -> Sequence[Answer]:
            if by_line and any(map(_ESCAPED.search, texts)):
                raise _unusable("be UTF-8 text; this one is not. Convert the input first.")
            return ask([*map(_at_the_tab, texts)] if self.tabs else self.one.with_second(texts))

        if by_line:
            return Answers(_numbered_lines(file), asked, warnings, together, file or "-")
        given = self.one.whole(arguments)
        return Answers(enumerate(given, start=1), asked, warnings, len(given), source=None)


def _decoded(file: Readable, source: str) -> str:
    content = read_at_most(file, MOST_BYTES, source)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} must be UTF-8 text; byte {error.start} is not. Convert it first."
        ) from None


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


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


@dataclass
class Answers(Generic[Answer]):
    """Answers to numbered texts, some at a time, each with the number of its text from 0.

    Where texts are lines of a ``source``, one that cannot be used is named on standard error, and
    the others go on; :meth:`finish` says how many there were. An error that is about no line in
    particular ends everything at once.
    """

    lines: Iterator[tuple[int, str]]
    ask: Callable[[list[str]], Sequence[Answer]]
    warnings: Callable[[Answer], Iterable[str]]
    together: int
    source: Path | str | None
    _seen: int = 0
    _refused: int = 0
    _done: int = 0  # the line of the last answer that was taken
    _counts: WarningCounts = field(default_factory=WarningCounts)

    def __iter__(self) -> Iterator[tuple[int, Answer]]:
        while chunk := list(itertools.islice(self.lines, self.together)):
            first = self._seen
            self._seen += len(chunk)
            for number, answer in self._answers(first, chunk):
                line, place = chunk[number - first][0], "text" if self.source is None else "line"
                self._counts.add(f"{place} {line}", self.warnings(answer))
                yield number, answer
                self._done = line  # whoever asks for the next has dealt with this one
        if not self._seen:
            raise InputError("no line of the input has any text.")
        if self._refused == self._seen:
            raise InputError(f"none of the {self._seen} lines could be used.")

    def finish(self, *, said: bool) -> None:
        """Sum up the warnings, and raise an error if there were lines that could not be used.

        ``said``: the output itself holds the warnings, so those of a single text need no repeating.
        """
        if not said or self._seen > 1:
            for sentence in self._counts.sentences():
                tell(sentence)
        if self._refused:
            raise InputError(f"{self._refused} of {self._seen} lines could not be used.")

    def how_to_go_on(self) -> str:
        """Say which lines are done with, and how to get the others answered."""
        if self.source is None or not self._done:
            return ""
        then = f"Go on with line {self._done + 1}"
        if self.source == "-":
            return f"{then} of the input."
        rest = f"tail -n +{self._done + 1} {shlex.quote(str(self.source))}"
        return f"{then}: {rest} | limelight … --lines"

    def _answers(self, first: int, chunk: list[tuple[int, str]]) -> Iterator[tuple[int, Answer]]:
        try:
            answers = self.ask([text for _, text in chunk])
        except InputError as error:
            if self.source is None or not error.is_text_specific:
                raise
        else:
            yield from enumerate(answers, start=first)
            return
        for number, (line, text) in enumerate(chunk, start=first):
            try:
                (answer,) = self.ask([text])
            except InputError as error:
                if not error.is_text_specific:
                    raise
                self._refused += 1
                tell(f"Line {line}: {error}")
            else:
                yield number, answer


def _unusable(must: str) -> InputError:
    """Return the error of a line alone: others may be fine."""
    error = InputError(f"a line must {must}")
    error.is_text_specific = True
    return error


def _at_the_tab(line: str) -> UserInput:
    first, *second = line.split("\t")
    if len(second) != 1:
        raise _unusable(f"hold two texts with a tab between them; this one has {len(second)} tabs.")
    return first, second[0]
