"""``limelight summarize`` from the outside."""

import csv
import json
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import pyarrow as pa
import pyarrow.parquet as pq

import limelight

from tiny_models import random_texts, tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("summarize")
    columns = {"text": random_texts(30, seed=2), "label": [0, 1] * 15, "shop": list("abc") * 10}
    pq.write_table(pa.table(columns), place / "d.parquet")
    methods = ["gxi", "alpha-avg"]
    limelight.explain_data(
        tiny_model(outputs=2), place / "d.parquet", methods, output=place / "run"
    )
    return place


@pytest.fixture
def summarize(limelight, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: limelight("summarize", *arguments)


def test_one_screen_in_a_terminal(summarize, folder):
    done = summarize(folder / "run", "--by", "shop")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) <= 40
    assert "30 texts, G×I: what drives class 1" in done.out
    assert "by shop" in done.out
    assert "Other methods in this run: alpha-avg" in done.out


def test_the_process_ends_without_a_word_of_duckdb_about_leaks(folder):
    command = [sys.executable, "-m", "limelight", "summarize", folder / "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("ending", ["html", "json", "csv", "txt"])
def test_files_by_their_endings(summarize, folder, tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    done = summarize(folder / "run", "--method", "gxi", "--output", path)
    assert (done.code, done.out) == (0, "")
    content = path.read_text("utf-8")
    if ending == "json":
        assert [view["method"] for view in json.loads(content)["views"]] == ["gxi"]
    starts = {"html": "<!doctype html>", "csv": "method,target", "txt": "30 texts", "json": "{"}
    assert content.startswith(starts[ending])


def test_two_runs(summarize, folder):
    done = summarize(folder / "run", "--against", folder / "run")
    assert done.code == 0
    assert "No word's score changed significantly" in done.out


def test_a_column_called_none_or_length_is_what_by_names(summarize, tmp_path):
    data = {"text": ["w1 w2", "w3"] * 5, "length": ["far", "near"] * 5, "none": ["x", "y"] * 5}
    folder = tmp_path / "run"
    limelight.explain_data(tiny_model(outputs=2), data, "gxi", output=folder)
    for by, output in (("length", "far"), ("none", "by none"), ("built-in length", "built-in")):
        done = summarize(folder, "--by", by)
        assert (done.code, done.err) == (0, "")
        assert output in done.out
    assert "by none" not in summarize(folder, "--by", "built-in none").out


def test_the_scores_of_all_words_go_to_a_file(summarize, folder, tmp_path):
    target = tmp_path / "scores.csv"
    done = summarize(folder / "run", "--scores", target)
    assert (done.code, done.err) == (0, "")
    assert "30 texts" in done.out
    with target.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    explanations = list(limelight.Run(folder / "run"))
    assert len(rows) == sum(map(len, explanations))
    assert {row["method"] for row in rows} == {"gxi", "alpha-avg"}
    second = limelight.Run(folder / "run").explanation(1, "alpha-avg")
    stored = [r for r in rows if (r["text_number"], r["method"]) == ("1", "alpha-avg")]
    assert [row["feature"] for row in stored] == list(second.features)
    assert [float(row["score"]) for row in stored] == second.scores.tolist()
    assert limelight.Run(folder / "run").to_csv() == target.read_bytes().decode()
    done = summarize(folder / "run", "--scores", tmp_path / "scores.txt")
    assert (done.code, done.out) == (2, "")
    assert "must end in .csv" in done.err


def test_options_of_a_summary_work_together(summarize, folder):
    options = ("--by", "label", "--top", 3, "--representatives", 2)
    assert summarize(folder / "run", *options).code == 0
