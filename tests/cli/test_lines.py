"""Texts line by line: results as they come, and lines that cannot be used."""

import io
import json
import subprocess
import sys

import pytest

from limelight.cli.texts import TextOptions
from limelight.errors import InputError
from limelight.files import atomic_file

COMMANDS = [("predict",), ("explain", "-m", "gxi"), ("compare", "-m", "gxi,loo")]
commands = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"good film\n\n\x0c \xe2\x80\xa6\n\xff\xfe bad\r\nbad film\rso so")
    return path


@commands
def test_lines_that_cannot_be_used_are_named_and_the_others_go_on(limelight, lines, command):
    outcome = limelight(*command, "--lines", "--file", lines, "--format", "json")
    assert outcome.code == 2
    assert [json.loads(line)["text"] for line in outcome.out.splitlines()] == [
        "good film",
        "\x0c …",
        "bad film",
        "so so",
    ]
    first, *warnings, last = outcome.err.splitlines()
    assert first == "Line 4: a line must be UTF-8 text. Convert the input first."
    assert last == "Error: 1 of 5 lines could not be used."
    assert "Warning on line 3: The text has no letters and no digits, only other signs." in warnings


def test_lines_outside_the_domain_of_a_method_are_named(limelight, tmp_path):
    (tmp_path / "lines.txt").write_text("good film\nfine\nbad film\n")
    arguments = ("--lines", "--file", tmp_path / "lines.txt", "-m", "lime-sampled")
    outcome = limelight("explain", *arguments, "--format", "csv", "--output", tmp_path / "out.csv")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Line 2: ")
    assert outcome.err.endswith("Error: 1 of 3 lines could not be used.\n")
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[0].startswith("text_number,")
    assert [row[0] for row in rows[1:]] == ["0", "0", "2", "2"]  # the number of the text


@commands
def test_errors_about_no_line_in_particular_come_once(limelight, lines, command):
    outcome = limelight(*command, "--lines", "--file", lines, "--model", "nowhere")
    assert outcome.err == (
        "Error: there is no model folder at 'nowhere'. Check the path, or write 'hub:nowhere' if "
        "it is a model on the Hugging Face hub.\n"
    )
    if command[0] != "predict":
        outcome = limelight(*command, "--lines", "--file", lines, "--target", "x")
        assert outcome.err.count("unknown class: 'x'") == 1
        assert "Line" not in outcome.err
        assert outcome.out == ""


@commands
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no line of the input has any text."),
        (b"\n \n", "no line of the input has any text."),
        (b"\xff\n\xfe\n", "none of the 2 lines could be used."),
    ],
)
def test_no_usable_line_writes_no_file(limelight, tmp_path, command, content, sentence):
    (tmp_path / "lines.txt").write_bytes(content)
    (tmp_path / "out.json").write_text("old")
    arguments = [*command, "--lines", "--file", tmp_path / "lines.txt"]
    if command[0] != "predict":
        arguments += ["--output", tmp_path / "out.json"]
    outcome = limelight(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.splitlines()[-1] == f"Error: {sentence}"
    assert (tmp_path / "out.json").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"lines.txt", "out.json"}


def test_results_come_while_lines_are_read():
    """No line is read before the caller has taken the results of the lines before it."""
    lines = []

    def compute(texts):
        return [text.upper() for text in texts]

    class Input(io.BytesIO):
        def read1(self, _size=-1):
            line = self.readline()
            lines.append(line)
            return line

    stdin = type("Stdin", (), {"buffer": Input(b"a\nb\nc\n"), "isatty": lambda _: False})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        options = TextOptions(lines=True)
        results = iter(
            options.compute_results(["-"], compute, list_warnings=lambda _: (), batch_size=1)
        )
        assert next(results) == (0, "A")
        assert b"c\n" not in lines
        assert list(results) == [(1, "B"), (2, "C")]
    assert not stdin.buffer.closed


def test_lines_are_computed_in_batches_and_one_by_one_only_if_a_line_fails():
    calls = []

    def compute(texts):
        calls.append(texts)
        if "bad" in texts:
            error = InputError("bad")
            error.is_text_specific = True
            raise error
        return texts

    with pytest.MonkeyPatch.context() as patch:
        content = io.TextIOWrapper(io.BytesIO(b"a\nb\nbad\nd\ne\n"))
        patch.setattr("sys.stdin", content)
        results = TextOptions(lines=True).compute_results(
            ["-"], compute, list_warnings=lambda _: (), batch_size=2
        )
        assert list(results) == [(0, "a"), (1, "b"), (3, "d"), (4, "e")]
    assert calls == [["a", "b"], ["bad", "d"], ["bad"], ["d"], ["e"]]
    with pytest.raises(InputError, match="1 of 5 lines could not be used"):
        results.finish(has_warnings=True)


FORMS = [("predict", "terminal"), ("predict", "json"), *(
    (command, form) for command in ("explain", "compare") for form in ("terminal", "json", "csv")
)]  # fmt: skip


@pytest.mark.parametrize(("command", "form"), FORMS)
def test_warnings_are_summed_up_alike_in_every_command_and_format(
    limelight, tmp_path, command, form
):
    long = "a good film " * 100  # the window holds 255 of 300 tokens
    rows = ["a good film", long, f"{long} and more", "zzyzx", long]
    (tmp_path / "lines.txt").write_text("\n".join(rows))
    methods = () if command == "predict" else ("-m", "gxi")
    arguments = ("--lines", "--file", tmp_path / "lines.txt", "--format", form)
    output = limelight(command, *methods, *arguments).err.splitlines()
    of_texts = [line for line in output if "feature" not in line]
    assert of_texts == [
        "Warning on 3 of 5 texts, such as line 2: The text has 300 tokens. The model "
        "reads the first 255, and the last 45 were cut off.",
        (
            "Warning on line 4: No word of the text is in the model's vocabulary, so the "
            "model reads only UNK."
        ),
    ]


def test_a_table_that_has_no_room_for_warnings_leaves_them_to_standard_error(limelight):
    text = "a good film " * 100
    message = (
        "Warning: The text has 300 tokens. The model reads the first 255, and the last 45 were "
    )
    assert limelight("explain", text, "--format", "csv").err.startswith(message)
    assert limelight("explain", text, "--format", "json").err == ""


def test_many_lines_have_a_header_for_every_screen(limelight, tmp_path):
    (tmp_path / "lines.txt").write_text("good film\nbad film\n" * 100)
    out = limelight("predict", "--lines", "--file", tmp_path / "lines.txt").out.splitlines()
    assert len(out) == 204
    assert [i for i, line in enumerate(out) if line.startswith("class")] == [0, 65, 130, 195]


def test_a_reader_sees_the_first_result_before_the_last_line_is_written():
    program = (
        "import numpy as np, sys, limelight, limelight.cli.options as q\n"
        "from limelight.cli import main\n"
        "model = limelight.wrap(lambda texts: np.full((len(texts), 2), 0.5), classes=['a', 'b'])\n"
        "q.load = lambda _, device: model\n"
        "main(['explain', '-', '--lines', '-m', 'loo', '--format', 'json'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(b"one text\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["text"] == "one text"
        process.stdin.write(b"and another\n")
        process.stdin.close()
        assert json.loads(process.stdout.readline())["text"] == "and another"
    assert process.returncode == 0


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    with atomic_file(path) as file:
        file.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"
    with pytest.raises(TypeError), atomic_file(path) as file:
        file.writelines([b"second", None])
    assert path.read_bytes() == b"first"
    assert [value.name for value in tmp_path.iterdir()] == ["out.txt"]
    with pytest.raises(FileNotFoundError) as error, atomic_file(path):
        (tmp_path / "input.txt").read_bytes()
    assert error.value.filename == str(tmp_path / "input.txt")
