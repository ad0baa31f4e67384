import io
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from limelight.models.attention import save_folder

from tiny_models import tiny_model


@pytest.fixture
def folder(tmp_path):
    save_folder(tiny_model(outputs=3), tmp_path / "m")
    return tmp_path / "m"


def set_standard_input(monkeypatch, content):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_the_shipped_model_knows_good_from_bad(limelight):
    good = limelight("predict", "what a wonderful film, I loved it", "--format", "json")
    bad = limelight("predict", "a dull and boring waste of time", "--format", "json")
    assert json.loads(good.out)["class"] == "positive"
    row = json.loads(bad.out)
    assert row["class"] == "negative"
    chance = 1 / (1 + math.exp(-row["logits"]["positive"]))
    assert row["probabilities"] == pytest.approx({"negative": 1 - chance, "positive": chance})
    assert row["probability"] == row["probabilities"]["negative"] > 0.5


def test_one_row_per_text(limelight, folder):
    outcome = limelight("predict", "w1 w2", "w3 [bold]", "--model", folder)
    assert outcome.code == 0
    assert len(outcome.out.splitlines()) == 3
    assert "[bold]" in outcome.out
    assert "Warning on text 2: 1 of 2 tokens are not in the vocabulary" in outcome.err


def test_a_file_and_standard_input(limelight, folder, tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text("w1 w2\n\nw3\n", encoding="utf-8")
    value = limelight(
        "predict", "--file", tmp_path / "t.txt", "--model", folder, "--format", "json"
    )
    assert json.loads(value.out)["text"] == "w1 w2\n\nw3\n"
    set_standard_input(monkeypatch, b"w1 w2\n\nw3\n")
    two = limelight("predict", "-", "--lines", "--model", folder, "--format", "json")
    assert [json.loads(line)["text"] for line in two.out.splitlines()] == ["w1 w2", "w3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", ""], "the text has no words. Give at least one word."),
        (["predict", "x", "--model", "no/such"], "there is no model folder at 'no/such'. Check"),
        (["predict", "x", "--file", "y"], "give the text as an argument or with --file, not both."),
        (["predict", "--file", "no.txt"], "'no.txt': no such file or directory."),
        (["predict", "x", "--format", "xml"], 'Invalid value "xml"'),
        (["predict", "x", "--color"], "Unknown option: --color."),
        (["predcit"], "unknown command: 'predcit'. Did you mean 'predict'?"),
    ],
)
def test_bad_input_is_an_error_with_code_2(limelight, arguments, message):
    outcome = limelight(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("Error: ")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_bytes_that_are_no_text_are_an_error(limelight, monkeypatch, tmp_path):
    set_standard_input(monkeypatch, b"caf\xe9")
    outcome = limelight("predict", "-")
    assert outcome.err == (
        "Error: standard input must be UTF-8 text, but byte 3 is not. Convert it first.\n"
    )
    assert outcome.code == 2


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x07", "🙂🙂", "שלום עולם", "word " * 200_000, "نعم‏", "\u202eevil"]
)
def test_anything_is_predicted(limelight, text):
    outcome = limelight("predict", text)
    assert outcome.code == 0
    assert "\x1b" not in outcome.out


def test_a_pipe_that_closes_early_is_no_error():
    # `true` is gone before Python has started, so that the first write already fails.
    command = f"set -o pipefail; {sys.executable} -m limelight methods | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_class_names_are_never_markup(limelight, tmp_path):
    model = replace(tiny_model(outputs=3), classes=("[/]", "[red]x", "\x1b[31m"))
    save_folder(model, tmp_path / "odd")
    outcome = limelight("predict", "w1 w2", "w3", "w4", "w5 w6", "--model", tmp_path / "odd")
    assert outcome.code == 0
    assert "[/]" in outcome.out.splitlines()[0]
    assert "[red]x" in outcome.out.splitlines()[0]
    assert "\x1b" not in outcome.out


@pytest.mark.parametrize("width", [50, 80])
def test_only_the_text_gives_way_on_a_narrow_terminal(limelight, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    outcome = limelight("predict", "a dull film " * 20)
    row = outcome.out.splitlines()[-1]
    assert re.match(r"negative +>99\.9% +-\d+\.\d{3} +a dull film", row)
    assert outcome.out.rstrip().endswith("…")


def test_a_terminal_that_lacks_a_letter_gets_the_others():
    for form in ("terminal", "json"):
        done = subprocess.run(
            [sys.executable, "-m", "limelight", "predict", "café", "--format", form],
            capture_output=True,
            check=False,
            env=os.environ | {"PYTHONIOENCODING": "ascii"},
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert ("café" if form == "json" else "caf?") in done.stdout.decode()


def test_a_text_that_starts_with_a_dash(limelight):
    assert limelight("predict", "--", "-5 stars, awful").code == 0


@pytest.mark.parametrize("arguments", [["-"], ["--file", "-"], ["-f", "-"], []])
def test_a_dash_is_standard_input(limelight, monkeypatch, arguments):
    set_standard_input(monkeypatch, b"a dull film")
    outcome = limelight("predict", *arguments, "--format", "json")
    assert json.loads(outcome.out)["text"] == "a dull film"


def test_a_dash_as_output_is_standard_output(limelight):
    outcome = limelight("explain", "a dull film", "--output", "-", "--format", "json")
    assert json.loads(outcome.out)["text"] == "a dull film"


def test_no_standard_input_at_all(limelight, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert limelight("predict").err.startswith("Error: no text was given.")


def test_a_line_ends_where_an_editor_ends_it(limelight, monkeypatch):
    set_standard_input(monkeypatch, "one\x85 two\u2028\x0c\x1c\r\nthree\rfour\n\n \n".encode())
    outcome = limelight("predict", "-", "--lines", "--format", "json")
    texts = [json.loads(line)["text"] for line in outcome.out.split("\n")[:-1]]
    assert texts == ["one\x85 two\u2028\x0c\x1c", "three", "four"]


def test_a_reader_that_has_seen_enough_is_no_failure():
    program = (
        "import sys, limelight.cli.console as c; from limelight.cli import main, app\n"
        "def talk():\n"
        "    for _ in range(99): c.output_console().print('word ' * 9999)\n"
        "app.command(talk); main(['talk'])\n"
    )
    command = f'set -o pipefail; {sys.executable} -c "$0" | head -1 > /dev/null'
    done = subprocess.run(["bash", "-c", command, program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
