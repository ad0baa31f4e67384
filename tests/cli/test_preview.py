"""On a terminal, LRP comes before Shapley values that take long."""

import os
import pty
import subprocess
import sys

import pytest

pytest.importorskip("transformers", reason="a deep model (extra hf)")

import limelight as library
from limelight.explainers import explaining
from limelight.request import Request

from tiny_transformers import tiny

TEXT = "a superb film but the plot is bad ."
SENTENCE = "These are LRP values, for a first look. Shapley values follow."
# A tiny model needs no preview, so a program changes the time after which there is one.
PROGRAM = """
import sys
from limelight.explainers import explaining
explaining._PATIENCE = {patience}
from limelight.cli import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("deep")
    for part in tiny("bert", labels=2):
        part.save_pretrained(place)
    return place


@pytest.fixture
def terminal(monkeypatch, limelight, folder):
    """Run a command whose output goes to a terminal. Every sampled method needs a preview."""
    monkeypatch.setattr(explaining, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "dumb")  # no colors

    def run(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
            outcome = limelight("explain", "--model", folder, *arguments)
        assert outcome.code == 0, outcome.err
        return outcome.out

    return run


def test_a_terminal_shows_lrp_and_then_the_sampled_values(folder):
    outer, inner = pty.openpty()
    command = [sys.executable, "-c", PROGRAM.format(patience=0.0), "explain", "--model", folder]
    environment = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen([*command, TEXT], stdout=inner, stderr=subprocess.PIPE, env=environment):
        os.close(inner)
        parts = []
        while part := _read(outer):
            parts.append(part)
    output = b"".join(parts).decode().replace("\r\n", "\n")
    first, _, final = output.partition(SENTENCE)
    assert first.startswith("LRP for")
    assert final.lstrip().startswith("Shapley for")
    model = library.load(folder)
    for text, method in ((first, "lrp"), (final, "shapley")):
        word, score = library.explain(model, TEXT, method).top(1)[0]
        cells = next(line.split() for line in text.splitlines() if line.startswith(f"{word} "))
        assert float(cells[1]) == pytest.approx(score, abs=0.005)


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def test_a_pipe_gets_only_the_final_values(monkeypatch, limelight, folder):
    monkeypatch.setattr(explaining, "_PATIENCE", 0.0)
    out = limelight("explain", "--model", folder, TEXT).out
    assert "LRP" not in out
    assert out.startswith("Shapley for")


def test_the_final_values_are_the_same(terminal, limelight, folder):
    first, _, final = terminal(TEXT).partition(SENTENCE)
    assert first.startswith("LRP for")
    assert final.strip() == limelight("explain", "--model", folder, TEXT).out.strip()


@pytest.mark.parametrize(
    "options",
    [
        ("-m", "shapley"),
        ("--budget", "300 calls"),
        ("--until", "top 1"),
        ("--set", "seed=1"),
        ("--format", "json"),
        ("--each", "class"),
        ("a good film",),
    ],
    ids=str,
)
def test_an_explicit_choice_has_no_preview(terminal, options):
    assert SENTENCE not in terminal(TEXT, *options)


def test_a_quick_answer_has_no_preview(monkeypatch, folder, shipped):
    deep = library.load(folder)
    monkeypatch.setattr(explaining, "_PATIENCE", 0.0)
    lrp = library.explain(deep, TEXT, "lrp")
    assert explaining.preview_explanation(deep, [TEXT], Request()) == lrp
    assert explaining.preview_explanation(deep, [TEXT, TEXT], Request()) is None
    assert explaining.preview_explanation(deep, [""], Request()) is None
    assert explaining.preview_explanation(shipped, [TEXT], Request()) is None
    function = library.wrap(lambda texts: [[0.5, 0.5] for _ in texts], classes=["a", "b"])
    assert explaining.preview_explanation(function, [TEXT], Request()) is None
    monkeypatch.setattr(explaining, "_PATIENCE", float("inf"))
    assert explaining.preview_explanation(deep, [TEXT], Request()) is None
