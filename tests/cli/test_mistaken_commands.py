"""Commands that cannot work are answered in a sentence, before any work."""

import csv
import io
from typing import get_args

import numpy as np
import pytest

import limelight as library
from limelight.cli import COMMANDS, app
from limelight.cli.console import ENDINGS
from limelight.errors import DomainError
from limelight.results.explanation import explanations_csv

from tiny_models import tiny_model

TEXT = "The plot is bad"


@pytest.mark.parametrize("ending", [e for e, form in ENDINGS.items() if form != "pdf"])
def test_the_known_endings_are_written(limelight, tmp_path, ending):
    run = limelight("explain", TEXT, "-m", "loo", "--output", tmp_path / f"x{ending}")
    assert (run.code, run.err) == (0, "")
    assert (tmp_path / f"x{ending}").stat().st_size > 50


def test_a_format_makes_any_name_do(limelight, tmp_path):
    run = limelight("explain", TEXT, "--format", "json", "--output", tmp_path / "x.docx")
    assert run.code == 0
    assert library.Explanation.from_json((tmp_path / "x.docx").read_bytes()).text == TEXT


def test_quoted_texts_are_several_texts(limelight):
    assert limelight("explain", TEXT, "It is good", "--format", "json").out.count("\n") == 2
    assert limelight("explain", "Superb", "-m", "loo").code == 0


def test_a_text_that_is_too_long_for_a_name_is_no_file(limelight):
    assert limelight("predict", "x" * 5000 + " y").code == 0


def count_call(calls):
    def function(texts):
        calls.extend(texts)
        return np.tile([0.25, 0.75], (len(texts), 1))

    return library.wrap(function, classes=["a", "b"])


@pytest.mark.parametrize("verb", [library.explain, library.explain_classes])
def test_too_few_samples_raise_an_error_before_any_call(verb):
    calls: list[str] = []
    text = " ".join(f"word{i}" for i in range(200))
    with pytest.raises(DomainError) as error:
        verb(count_call(calls), text, "lime", samples=100)
    assert str(error.value) == (
        "100 samples do not determine LIME's scores of 200 features. Set samples to 402 or more."
    )
    assert calls == []


@pytest.mark.parametrize("words", [9, 14])
def test_a_bandwidth_that_leaves_no_weight_raises_an_error_before_any_call(words):
    calls: list[str] = []
    text = " ".join(f"word{i}" for i in range(words))
    with pytest.raises(DomainError) as error:
        library.explain(count_call(calls), text, "lime", bandwidth=1e-300)
    assert str(error.value) == (
        f"with bandwidth 1e-300, all samples of {words} features have the weight 0. Use a larger "
        "bandwidth."
    )
    assert calls == []


def test_enough_samples_raise_no_error():
    text = " ".join(f"word{i}" for i in range(20))
    assert len(library.explain(count_call([]), text, "lime", samples=60)) == 20


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_shows_a_cell_and_does_not_run_it(start):
    cell = f"{start}cmd|' /C calc'!A0"
    e = library.Explanation(
        text=cell,
        features=(cell,),
        spans=(((0, 3),),),
        scores=np.array([-0.5]),
        method="loo",
        target=cell,
        prediction={"x": 1.0},
    )
    (row,) = csv.DictReader(io.StringIO("".join(explanations_csv([(0, e)])), newline=""))
    assert row["feature"] == row["target"] == f"'{cell}"
    assert row["score"] == "-0.5"  # a number is what it is


def test_other_cells_are_not_touched():
    e = library.explain(tiny_model(3), "w1 'w2' w3", "loo")
    rows = csv.DictReader(io.StringIO("".join(explanations_csv([(0, e)])), newline=""))
    assert [row["feature"] for row in rows] == list(e.features)


@pytest.mark.parametrize(
    ("method", "subset"), [("lime", {"samples": 20}), ("shapley", {"pairs": 2})]
)
def test_few_words_are_enumerated_whatever_a_sample_would_ask(method, subset):
    ten, eleven = (" ".join(f"w{i}" for i in range(d)) for d in (10, 11))
    explanation = library.explain(count_call([]), ten, method, **subset)
    assert (explanation.stderr, explanation.diagnostics["masks"]) == (None, 1024)
    assert "masks" not in library.explain(count_call([]), eleven, method, **subset).diagnostics


def test_many_words_are_enumerated_where_a_sample_would_ask_as_much():
    text = " ".join(f"w{i}" for i in range(11))
    explanation = library.explain(count_call([]), text, "lime", samples=2**11)
    assert (explanation.stderr, explanation.diagnostics["masks"]) == (None, 2**11)


@pytest.mark.parametrize("command", ["explain", "compare"])
def test_seed_and_replacement_are_settings_of_commands_without_such_options(limelight, command):
    def scores(*settings):
        options = [part for setting in settings for part in ("--set", setting)]
        arguments = ("--method" if command == "explain" else "--methods", "lime-sampled")
        outcome = limelight(command, TEXT, *arguments, *options, "--format", "json")
        assert outcome.code == 0, outcome.err
        return outcome.out

    assert scores("seed=1") == scores("seed=1") != scores("seed=2")
    assert '"replacement":"unk"' in scores("replacement=unk").replace(" ", "")
    assert scores("replacement=delete") != scores("replacement=unk")


NEEDED = {  # by commands that do not begin without
    "evaluate": ("--data", "x.csv"),
    "judge": ("--data", "x.csv"),
    "explain-data": ("x.csv", "--output", "run"),
    "learn": ("--data", "x.csv", "--output", "method"),
    "summarize": ("run",),
    "train": ("--data", "x.csv", "--output", "model"),
}


def test_whole_numbers_are_not_rounded(limelight):
    """cyclopts would take 1.5 for 2, in every option whose type is int."""
    request = set()
    for command in COMMANDS:
        for option in app[command].assemble_argument_collection():
            if option.hint is not int and int not in get_args(option.hint):
                continue
            run = limelight(command, *NEEDED.get(command, ()), option.name, "1.5")
            assert (run.code, run.out) == (2, ""), command
            message = (
                f"Error: Invalid value for {option.name}: it must be a whole number, not 1.5.\n"
            )
            assert run.err == message, command
            request.add((command, option.name))
    assert {("explain-data", "--limit"), ("judge", "--limit"), ("judge", "--seed")} <= request


def test_the_help_of_judge_does_not_say_explain(limelight):
    output = limelight("judge", "--help").out
    shared = output[output.index("--features") : output.index("--side")]
    assert "xplain" not in shared
    assert "Default: the answer that the model writes." in " ".join(output.replace("│", "").split())
