"""Texts of a command, from arguments, a file or standard input, and the results for them."""

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

from limelight.cli.console import print_stderr
from limelight.cli.groups import INPUT
from limelight.errors import InputError, short_repr
from limelight.files import Readable, parse_json, read_at_most
from limelight.text import Conversation, Document, UserInput
from limelight.text.conversations import is_message_list
from limelight.text.images import has_ending
from limelight.text.inputs import WarningCounts

MOST_BYTES = 1 << 26  # of one text
Result = TypeVar("Result")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8 (surrogateescape)


def read_answers(data: Path, column: str | None, **columns: Any) -> list[str | None] | None:
    """Read the answer of each text from a column of the data; an empty cell gives None.

    Parameters
    ----------
    data
        A data file.
    column
        The column of the answers. None reads no answers.
    **columns
        The columns of the texts and the limit, as :func:`limelight.data.read_rows` takes them.

    Returns
    -------
    An answer or None for each text, or None without a column.
    """
    if column is None:
        return None
    from limelight.data import read_rows

    # Answers are read like labels: one cell for each text.
    labels = read_rows(data, label_column=column, **columns).labels
    cells = ("" if label is None else str(label) for label in labels)
    return [cell if cell.strip() else None for cell in cells]


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True, kw_only=True)
class TextSource:
    """Select the second text of a pair, documents, and a file with the text or with messages.

    Parameters
    ----------
    pair
        The second text, for models that read pairs of texts. The argument is the first text.
    file
        Read the text from this file.
    documents
        Language models: a document for the question, which is the text. The id of a text file is
        its name. A .json or .jsonl file contains texts, or objects with "text", "title" and "id".
        Repeat for more files.
    messages
        Language models: explain the messages of a chat instead of a text. Give a JSON file in
        OpenAI's format, or "-" for standard input.
    """

    pair: str | None = None
    file: Annotated[Path | None, Parameter(name=["--file", "-f"])] = None
    documents: tuple[Path, ...] = ()
    messages: Path | None = None

    def check(self) -> None:
        """Raise InputError if the options contradict each other."""
        if self.pair is not None and (self.documents or self.messages is not None):
            raise InputError(
                "--pair is the second text of a pair. Give --documents or --messages without it."
            )

    @property
    def has_parts(self) -> bool:
        """Whether the inputs are questions with documents, or messages."""
        return bool(self.documents) or self.messages is not None

    def reads_stream(self, arguments: Sequence[str]) -> bool:
        """Return whether the texts come from a file or standard input, not from the arguments."""
        if self.file is not None and arguments:
            raise InputError("give the text as an argument or with --file, not both.")
        if sys.stdin is None and list(arguments) == ["-"]:
            raise InputError("standard input is closed, so '-' has no text. Give a text or a file.")
        reads_stdin = bool(sys.stdin) and (
            list(arguments) == ["-"] or not (arguments or sys.stdin.isatty())
        )
        if not (arguments or reads_stdin or self.file is not None):
            raise InputError(
                "no text was given. Pass it as an argument, with --file, or on standard input "
                "with '-'."
            )
        return self.file is not None or reads_stdin

    def read_texts(self, arguments: Sequence[str]) -> list[Any]:
        """Return the texts of the arguments; a file or standard input ("-") is one text.

        The name of an image file becomes a path. With --messages, a conversation is returned.
        """
        if self.messages is not None:
            if arguments or self.file is not None:
                raise InputError("give a text or --messages, not both.")
            return [self._read_messages(self.messages)]
        if not self.reads_stream(arguments):
            if any(has_ending(Path(text)) and _is_file(text) for text in arguments):
                return [Path(text) if has_ending(Path(text)) else text for text in arguments]
            if all(map(_is_file, arguments)):
                name = arguments[0]
                raise InputError(
                    f"{name!r} is the name of a file. Use --file {shlex.quote(name)}, or pass "
                    "such a text on standard input with '-'."
                )
            return list(arguments)
        if self.file is not None and has_ending(self.file):
            return [self.file]
        if self.file is None:
            return [_read_text(sys.stdin.buffer, "standard input")]
        return [_read_file(self.file)]

    def _read_messages(self, file: Path) -> Conversation:
        """Read the conversation of a JSON file; the file "-" is standard input."""
        if file == Path("-"):
            if sys.stdin is None:
                raise InputError("standard input is closed, so '-' has no messages. Give a file.")
            content = _read_text(sys.stdin.buffer, "standard input")
        else:
            content = _read_file(file)
        messages = parse_json(content, "--messages")
        if not is_message_list(messages):
            raise InputError(
                "--messages must be a JSON list of messages with a role and a content, not "
                f"{short_repr(messages)}."
            )
        return Conversation.from_messages(messages)

    def read_documents(self) -> list[Any]:
        """Return the documents of all files in their order."""
        names = [file.name for file in self.documents]
        documents: list[Any] = []
        for file in self.documents:
            content = _read_file(file)
            if file.suffix == ".jsonl":
                # Not splitlines, because texts in JSON may have other line separators.
                lines = enumerate(content.split("\n"), start=1)
                documents += [
                    parse_json(line, f"line {number} of '{file}'")
                    for number, line in lines
                    if line.strip()
                ]
            elif file.suffix == ".json":
                values = parse_json(content, f"'{file}'")
                if not isinstance(values, list):
                    raise InputError(
                        f"'{file}' must be a JSON list of documents, not {short_repr(values)}."
                    )
                documents += values
            else:
                name = file.name if names.count(file.name) == 1 else str(file)
                if not content.strip():
                    raise InputError(f"the document '{file}' is empty. Leave it out.")
                documents.append(Document(name, content))
        return documents

    def make_inputs(self, texts: Sequence[Any], documents: Sequence[Any]) -> list[UserInput]:
        """Return the texts as inputs: as pairs with --pair, as questions with --documents."""
        if self.documents:
            return [Conversation.from_documents(text, documents) for text in texts]
        if self.pair is None:
            return list(texts)
        if len(texts) > 1:
            raise InputError(
                f"--pair is the second text of one pair, but there are {len(texts)} texts."
            )
        return [(text, self.pair) for text in texts]


@Parameter(name="*", group=INPUT)
@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Select a file of texts, and how to split it into texts.

    Parameters
    ----------
    lines
        Read each line of the file, or of standard input, as one text. Results appear one by one. If
        a line cannot be used, an error names it and the exit code is 2.
    tabs
        With --lines: each line is a pair of texts, separated by a tab.
    """

    source: TextSource = TextSource()
    lines: bool = False
    tabs: bool = False

    def check(self) -> None:
        """Raise InputError if the options contradict each other."""
        self.source.check()
        if self.lines and self.source.messages is not None:
            raise InputError("--messages is one conversation. Leave --lines out.")
        if self.tabs and self.source.documents:
            raise InputError(
                "--tabs is for pairs of texts. Leave it out, or leave --documents out."
            )
        if self.tabs and not self.lines:
            raise InputError("--tabs splits each line into two texts. Add --lines.")
        if self.source.pair is not None and self.lines:
            raise InputError(
                "--pair is the second text of one pair. For lines with two texts, use --tabs."
            )

    def compute_results(
        self,
        arguments: Sequence[str],
        compute: Callable[[list[UserInput]], Sequence[Result]],
        *,
        list_warnings: Callable[[Result], Iterable[str]],
        batch_size: int,
    ) -> "TextResults[Result]":
        """Compute one result for each text of the arguments, the file or standard input.

        Parameters
        ----------
        arguments
            The texts that were given as arguments.
        compute
            Returns one result for each text of a batch.
        list_warnings
            Returns the warnings of a result.
        batch_size
            With --lines, the number of lines that are computed together.

        Returns
        -------
        The results, which are computed when they are read.
        """
        file, by_line = self.source.file, self.lines and self.source.reads_stream(arguments)
        documents = self.source.read_documents()

        def compute_batch(texts: list[Any]) -> Sequence[Result]:
            """Convert the lines or arguments to texts or pairs, and compute their results."""
            if by_line and any(map(_ESCAPED_BYTE.search, texts)):
                raise _line_error("be UTF-8 text. Convert the input first.")
            if self.tabs:
                return compute([*map(_split_tab, texts)])
            return compute(self.source.make_inputs(texts, documents))

        if by_line:
            lines = _numbered_lines(file)
            return TextResults(lines, compute_batch, list_warnings, batch_size, file or "-")
        texts = self.source.read_texts(arguments)
        numbered = enumerate(texts, start=1)
        return TextResults(numbered, compute_batch, list_warnings, len(texts), source=None)


def _read_file(file: Path) -> str:
    """Read a file as one text in UTF-8."""
    with file.open("rb") as source:  # also a pipe
        return _read_text(source, f"'{file}'")


def _read_text(file: Readable, source: str) -> str:
    """Read a whole file or standard input as one text in UTF-8."""
    content = read_at_most(file, MOST_BYTES, source)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} must be UTF-8 text, but byte {error.start} is not. Convert it first."
        ) from None


def _is_file(name: str) -> bool:
    """Return whether a name is that of an existing file."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # the text is too long for a name, or contains NUL
        return False


def _numbered_lines(file: Path | None) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of every line that is not blank, counted from 1.

    Lines end at the line ends of all systems. Bytes that are not UTF-8 are escaped.
    """
    source = file.open("rb") if file is not None else sys.stdin.buffer
    text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="surrogateescape")
    try:
        limit = MOST_BYTES + 1  # in characters, because /dev/zero is a line without an end
        for number, line in enumerate(iter(partial(text.readline, limit), ""), start=1):
            if len(line) == limit:
                raise InputError(f"line {number} must have at most {MOST_BYTES:,} characters.")
            if line.strip():
                yield number, line.removesuffix("\n")
    finally:
        if file is not None:
            text.close()
        else:
            text.detach()  # leave standard input open


@dataclass
class TextResults(Generic[Result]):
    """Results of numbered texts, computed batch by batch while they are read.

    Iteration yields the position of each text, from 0, and its result. If a line of ``source``
    cannot be used, its error is printed and the other lines are computed. `finish` reports the
    number of such lines. Any other error ends the iteration.

    Parameters
    ----------
    lines
        The number and the text of each line, or other inputs with their numbers.
    compute
        Returns one result for each text of a batch.
    list_warnings
        Returns the warnings of a result.
    batch_size
        The number of texts in a batch.
    source
        The file of the lines, "-" for standard input, or None if the texts are not lines.
    """

    lines: Iterator[tuple[int, Any]]
    compute: Callable[[list[Any]], Sequence[Result]]
    list_warnings: Callable[[Result], Iterable[str]]
    batch_size: int
    source: Path | str | None
    _line_count: int = 0
    _failed_count: int = 0
    _last_line: int = 0  # the number of the last line whose result the caller has used
    _warning_counts: WarningCounts = field(default_factory=WarningCounts)

    def __iter__(self) -> Iterator[tuple[int, Result]]:
        while batch := list(itertools.islice(self.lines, self.batch_size)):
            first = self._line_count
            self._line_count += len(batch)
            for position, result in self._compute_batch(first, batch):
                number, noun = batch[position - first][0], "text" if self.source is None else "line"
                self._warning_counts.add(f"{noun} {number}", self.list_warnings(result))
                yield position, result
                self._last_line = number  # the caller asks for the next result after using this one
        if not self._line_count:
            raise InputError("no line of the input has any text.")
        if self._failed_count == self._line_count:
            raise InputError(f"none of the {self._line_count} lines could be used.")

    def finish(self, *, has_warnings: bool) -> None:
        """Print the warnings; raise InputError if lines could not be used.

        Parameters
        ----------
        has_warnings
            Whether the output contains the warnings of each text. If so, those of a single text
            are not printed.
        """
        if not has_warnings or self._line_count > 1:
            for sentence in self._warning_counts.sentences():
                print_stderr(sentence)
        if self._failed_count:
            raise InputError(f"{self._failed_count} of {self._line_count} lines could not be used.")

    def resume_hint(self) -> str:
        """Return a sentence about how to continue after the last line with a result."""
        if self.source is None or not self._last_line:
            return ""
        next_line = self._last_line + 1
        if self.source == "-":
            return f"Continue with line {next_line} of the input."
        source = shlex.quote(str(self.source))
        command = f"tail -n +{next_line} {source} | limelight … --lines"
        return f"Continue with line {next_line}: {command}"

    def _compute_batch(
        self, first: int, batch: list[tuple[int, Any]]
    ) -> Iterator[tuple[int, Result]]:
        """Yield results of a batch; if a text has an error, compute each text separately."""
        try:
            results = self.compute([text for _, text in batch])
        except InputError as error:
            if self.source is None or not error.is_text_specific:
                raise
        else:
            yield from enumerate(results, start=first)
            return
        for position, (number, text) in enumerate(batch, start=first):
            try:
                (result,) = self.compute([text])
            except InputError as error:
                if not error.is_text_specific:
                    raise
                self._failed_count += 1
                print_stderr(f"Line {number}: {error}")
            else:
                yield position, result


def _line_error(requirement: str) -> InputError:
    """Return an error about one line, after which the other lines are still computed."""
    error = InputError(f"a line must {requirement}")
    error.is_text_specific = True
    return error


def _split_tab(line: str) -> UserInput:
    """Split a line at its only tab into a pair of texts."""
    parts = line.split("\t")
    if len(parts) != 2:
        tabs = len(parts) - 1
        raise _line_error(f"contain two texts separated by a tab, but this one has {tabs} tabs.")
    return parts[0], parts[1]
