"""Terminal views keep the paragraphs of a text, and errors wrap between words."""

import io
import sys

import pytest
from rich.console import Console

import limelight
from limelight.cli.console import print_stderr
from limelight.rendering.text_parts import collapse_spaces

TEXT = "A superb film.\nThe cast is fine.\r\n \r\n\n  The plot is dull.\n\n"


def render(result):
    file = io.StringIO()
    Console(file=file, width=80, no_color=True).print(result)
    return [line.strip() for line in file.getvalue().splitlines()]


def test_white_space_becomes_a_space_and_an_empty_line_between_paragraphs():
    assert collapse_spaces("a\n b\t c") == "a b c"
    assert collapse_spaces("a \n \n\n b\r\rc") == "a\n\nb\n\nc"


def test_an_explanation_and_a_counterfactual_show_paragraphs():
    model = limelight.load()
    lines = render(limelight.explain(model, TEXT, "loo"))
    (first,) = [i for i, line in enumerate(lines) if line.startswith("A superb")]
    assert "cast" in lines[first]
    assert lines[first + 1] == ""
    assert lines[first + 2].startswith("The plot")
    assert lines[first + 4].startswith("[+] for positive")  # no empty lines at the end
    lines = render(limelight.counterfactual(model, TEXT))
    (first,) = [i for i, line in enumerate(lines) if "A superb" in line.replace("[-", "")]
    assert "plot" not in lines[first]
    assert lines[first + 1] == ""
    assert "The plot" in lines[first + 2]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_errors_wrap_between_words_on_a_terminal_only(stream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream())
    path = "folder/" * 8
    sentence = f"Error: there is no model folder at {path} so check the path of this model."
    print_stderr(sentence)
    lines = sys.stderr.getvalue().splitlines()
    assert " ".join(lines) == sentence
    if stream is Terminal:
        assert len(lines) > 2
        assert all(len(line) <= 30 or line == path for line in lines)
    else:
        assert len(lines) == 1
