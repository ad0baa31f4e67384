"""``limelight explain-data``: a data set into a folder, from the command line."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyarrow", reason="data sets are read with pyarrow (extra data)")

from limelight.runs import Run

ABOUT_DATA = "needs a data set. Use limelight explain-data FILE --output DIR."
ROWS = """id,review,sentiment,year
7,a wonderful film,positive,1999
8,,negative,2000
9,a boring bad story,negative,2001
"""


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text(ROWS)
    return path


def test_a_data_set_becomes_a_folder(limelight, data, tmp_path):
    done = limelight("explain-data", data, "-m", "lime, gxi", "-o", tmp_path / "run")
    assert done.code == 0
    assert done.out == f"3 texts, lime, gxi: '{tmp_path / 'run'}'\n"
    assert done.err == (
        "2 of 6 rows have an error instead of scores, the first: the text has no words. "
        "Give at least one word. Try again with --retry.\n"
    )
    single = limelight("explain-data", data, "-m", "lime", "-o", tmp_path / "alone")
    assert single.err.startswith("1 of 3 rows has an error instead of scores, the first: ")
    run = Run(tmp_path / "run")
    assert run.texts().column("id").to_pylist() == ["7", "8", "9"]
    assert run.texts().column("label").to_pylist() == ["positive", "negative", "negative"]
    assert run.texts().column("year").to_pylist() == ["1999", "2000", "2001"]
    assert dict(run.explanation(0).as_list())["wonderful"] > 0.5
    again = limelight("explain-data", data, "-m", "gxi", "-o", tmp_path / "run")
    assert again.code == 2
    assert "its list of methods is 'lime, gxi', not 'gxi'" in again.err


def test_a_log_has_a_line_of_json_for_every_shard(limelight, data, tmp_path):
    options = (data, "--output", tmp_path / "run", "--log", "json", "--engine", "here")
    done = limelight("explain-data", *options, "--shard-texts", 2, "--set", "tolerance=1e-9")
    lines = [json.loads(line) for line in done.err.splitlines()[:-1]]  # the last is the sentence
    assert [line["event"] for line in lines] == ["shard", "shard"]
    assert [(line["done"], line["total"], line["failed_so_far"]) for line in lines] == [
        (2, 3, 1),
        (3, 3, 1),
    ]
    assert Run(tmp_path / "run").record.methods[0].settings["tolerance"] == 1e-9


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("explain-data", "DATA"), "parameter --output requires an argument."),
        (("explain-data", "-o", "r"), "parameter FILE requires an argument."),
        (("explain-data", "DATA", "-o", "r", "--lines"), "Unknown option: --lines. Did you mean"),
        (("explain-data", "DATA", "-o", "r", "--format", "json"), "Unknown option: --format."),
        (
            ("explain-data", "DATA", "-o", "r", "--limit", "0"),
            "limit must be a positive whole number, not 0.",
        ),
        (("explain", "--limit", "3", "a film"), f"--limit {ABOUT_DATA}"),
        (("explain", "--retry", "a film"), f"--retry {ABOUT_DATA}"),
        (("explain", "--text-column=x", "a film"), f"--text-column {ABOUT_DATA}"),
        (("explain", "--data", "DATA", "-o", "r"), f"--data {ABOUT_DATA}"),
        (("explain", "a film", "-d", "DATA"), f"-d {ABOUT_DATA}"),
        (("explain-data", "--data", "DATA", "-o", "r"), f"--data {ABOUT_DATA}"),
        (("explain-data", "DATA", "-o", "r", "--engine", "spark"), 'value "spark" for --engine.'),
        (("explain-data", "DATA", "-o", "r", "--log", "xml"), 'Invalid value "xml" for --log.'),
        (("explain-data", "DATA", "-o", "r", "--each", "span"), 'value "span" for --each.'),
        (
            ("explain-data", "DATA", "-o", "r", "--each", "class", "--target", "0"),
            "give --target or --each class, not both.",
        ),
        (("explain-data", "DATA", "-o", "r", "--address", "auto"), "need --engine ray."),
        (
            ("explain-data", "DATA", "-o", "r", "--engine", "here", "--workers", "2"),
            "has one worker",
        ),
        (("explain-data", "DATA", "-o", "r", "--text-column", "text"), "has no column 'text'"),
        (("explain-data", "GONE", "-o", "r"), "there is no data at"),
        (("explain-data", "-", "-o", "r"), "there is no data at '-'"),
        (
            ("explain", "-m", "lime,gxi", "a film"),
            "explain uses one method, not lime,gxi. Use limelight compare, or limelight "
            "explain-data for a data set.",
        ),
    ],
)
def test_a_mistake_is_one_message(limelight, data, monkeypatch, arguments, sentence):
    monkeypatch.chdir(data.parent)
    names = {"DATA": data, "GONE": data.parent / "gone.csv"}
    done = limelight(*(names.get(argument, argument) for argument in arguments))
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (data.parent / "r" / "run.json").exists()


def test_a_data_set_of_which_nothing_can_be_explained_is_an_error(limelight, tmp_path):
    (tmp_path / "data.csv").write_text("text,n\n,1\n ,2\n")
    done = limelight("explain-data", tmp_path / "data.csv", "--output", tmp_path / "run")
    assert done.code == 2
    assert done.err.startswith("Error: none of the 2 texts could be explained: ")


def wait_for_end(group):
    """Ask whether any process of the group is there, for a while: the last end by themselves."""
    for _ in range(100):
        os.killpg(group, 0)
        time.sleep(0.1)


@pytest.mark.slow
def test_an_interrupt_names_the_stored_shards_and_leaves_no_process(tmp_path):
    data = tmp_path / "data.csv"
    text = " ".join(f"word{i} good bad film" for i in range(60))
    data.write_text("text\n" + f"{text}\n" * 4000)
    arguments = ["explain-data", data, "--output", tmp_path / "run", "--shard-texts", "20"]
    command = [sys.executable, "-m", "limelight", *map(str, arguments), "--workers", "2"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not list(tmp_path.glob("run/shards/0*.parquet")):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, messages = process.communicate()
    assert process.returncode == 130
    (_, last) = messages.splitlines()
    assert last.startswith("Interrupted. About ")
    assert last.endswith(
        f" of 4,000 texts are done, and '{tmp_path / 'run'}' contains the finished shards. "
        "Run the same command again to continue."
    )
    with pytest.raises(ProcessLookupError):
        wait_for_end(process.pid)
