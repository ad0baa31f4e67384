"""The tables of what drives a model: made from a run, and written as they were measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import limelight

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
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


def test_common_words_stand_on_their_side(found):
    assert (found["method"], found["texts"]) == ("lime", 23)
    assert found["for"][0]["word"] == "superb"
    assert found["against"][0]["word"] == "awful"
    assert found["for"][0]["texts"] == 11
    assert all(one["low"] > 0 for one in found["for"])
    assert all(one["high"] < 0 for one in found["against"])


def test_a_word_of_few_texts_is_in_no_table_but_may_be_spoken_of(found):
    rows = [*found["for"], *found["against"]]
    assert "edie" not in {one["word"] for one in rows}
    assert found["spoken"]["edie"]["texts"] == 1


def test_the_mean_is_that_of_the_scores(found):
    model = limelight.load()
    scores = [
        dict(zip(e.features, e.scores, strict=True))["superb"]
        for e in limelight.explain(model, [f"a superb film {n}" for n in range(11)], "lime")
    ]
    assert found["for"][0]["mean"] == pytest.approx(sum(scores) / 11, abs=1e-4)
