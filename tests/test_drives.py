"""The tables of what drives a model: made from a run, and written as they were measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import limelight

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def stored_words(tmp_path_factory):
    """What the program stores of a small run of the shipped model."""
    pytest.importorskip("pyarrow")
    place = tmp_path_factory.mktemp("drives")
    texts = [f"a {word} film {n}" for word in ("superb", "awful") for n in range(11)]
    rows = [f"{text},{'positive' if 'superb' in text else 'negative'}" for text in texts]
    rows.append("edie is here,negative")
    (place / "texts.csv").write_text("\n".join(["text,label", *rows]))
    limelight.explain_data(
        limelight.load(), place / "texts.csv", "lime", output=place / "run", workers=1
    )
    program = [sys.executable, BENCHMARKS / "drives.py", "shipped", "--run", place / "run"]
    output = place / "found.json"
    done = subprocess.run([*program, "--output", output], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text("utf-8"))


def test_common_words_stand_on_their_side(stored_words):
    assert (stored_words["method"], stored_words["texts"]) == ("lime", 23)
    assert stored_words["for"][0]["word"] == "superb"
    assert stored_words["against"][0]["word"] == "awful"
    assert stored_words["for"][0]["texts"] == 11
    assert all(value["low"] > 0 for value in stored_words["for"])
    assert all(element["high"] < 0 for element in stored_words["against"])


def test_a_word_of_few_texts_is_in_no_table_but_may_be_spoken_of(stored_words):
    rows = [*stored_words["for"], *stored_words["against"]]
    assert "edie" not in {row["word"] for row in rows}
    assert stored_words["spoken"]["edie"]["texts"] == 1


def test_the_mean_is_that_of_the_scores(stored_words):
    model = limelight.load()
    scores = [
        dict(zip(e.features, e.scores, strict=True))["superb"]
        for e in limelight.explain(model, [f"a superb film {n}" for n in range(11)], "lime")
    ]
    assert stored_words["for"][0]["mean"] == pytest.approx(sum(scores) / 11, abs=1e-4)
