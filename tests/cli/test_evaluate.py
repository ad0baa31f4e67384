import json
import subprocess
import sys

import pytest

from limelight.models.attention import save_folder

from tiny_models import random_texts, tiny_model


@pytest.fixture
def model(tmp_path):
    save_folder(tiny_model(), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def data(tmp_path):
    """Texts with the classes that the model gives them, but for the first."""
    texts = random_texts(101)
    labels = tiny_model().predict_proba(texts).argmax(axis=1)
    labels[0] = 1 - labels[0]
    path = tmp_path / "data.jsonl"
    rows = ({"text": t, "label": f"class {b}"} for t, b in zip(texts, labels, strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_table_for_people(limelight, model, data):
    run = limelight("evaluate", "--model", model, "--data", data)
    assert run.code == 0
    assert run.err.startswith("Warning on ")  # some words are unknown to the tiny model
    first, speed, _, head, *rows = run.out.splitlines()
    assert first == "accuracy 99.01%, 95 % interval 94.60% to 99.83%, 101 texts"
    assert speed.endswith("texts per second")
    assert head.split("  ")[0] == "class"
    assert [row.split()[:2] for row in rows] == [["class", "0"], ["class", "1"]]


def test_one_text_is_one_text(limelight, model, data):
    data.write_text(data.read_text().splitlines()[1] + "\n")
    first, *_ = limelight("evaluate", "--model", model, "--data", data).out.splitlines()
    assert first == "accuracy 100.00%, 95 % interval 20.65% to 100.00%, 1 text"


def test_json_for_programs(limelight, model, data):
    run = limelight("evaluate", "--model", model, "--data", data, "--format", "json")
    content = json.loads(run.out)
    assert content["accuracy"] == pytest.approx(100 / 101)
    assert content["model"] == tiny_model().fingerprint
    assert sum(map(sum, content["confusion"])) == content["texts"] == 101
    assert content["data"] == "data.jsonl"
    assert content["warnings"] == run.err.splitlines()
    assert " of 101 texts, such as row " in content["warnings"][0]


def test_a_label_without_a_class_is_an_error_and_its_advice_works(limelight, model, data):
    data.write_text('{"text": "w1", "label": "meh"}\n')
    run = limelight("evaluate", "--model", model, "--data", data)
    assert (run.code, run.out) == (2, "")
    assert run.err == (
        f"Error: row 1 of '{data.name}': the label 'meh' matches no class of the model ('class 0', "
        "'class 1'). Set labels (--labels) to LABEL=CLASS for each label, separated by commas.\n"
    )
    run = limelight("evaluate", "--model", model, "--data", data, "--labels", "meh=class 1")
    assert run.code == 0
    gone = data.with_name("gone.csv")
    assert limelight("evaluate", "--model", model, "--data", gone) == (
        2,
        "",
        f"Error: there is no data at '{gone}'. Check the path.\n",
    )


@pytest.mark.slow
def test_the_shipped_model_keeps_its_promise_on_25_000_reviews(shared):
    """Accuracy as in the model card, in less than 1 GB; a process of its own, to see its memory."""
    data = shared / "data" / "imdb" / "test.parquet"
    program = (
        "import resource, sys\n"
        "from limelight.cli import main\n"
        "try:\n"
        "    main(['evaluate', '--labels', 'negative,positive', '--format', 'json', '--data',\n"
        f"          {str(data)!r}])\n"
        "finally:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600
    )
    result = json.loads(run.stdout)
    assert result["texts"] == 25_000
    assert result["accuracy"] >= 0.875
    *message, kilobytes = run.stderr.splitlines()
    warnings = [line for line in message if not line.startswith("Estimated time: ")]
    assert int(kilobytes) < 1_000_000
    assert warnings == result["warnings"]
    assert any("of 25,000 texts, such as row" in warning for warning in warnings)


@pytest.mark.parametrize("form", ["csv", "svg"])
def test_rows_and_figures_of_a_judgment_leave_its_warnings_to_standard_error(
    limelight, model, data, tmp_path, form
):
    data.write_text(data.read_text().replace('"class ', '"kind '))
    request = ["--data", data, "--model", model, "--methods", "gxi", "--limit", "4"]
    done = limelight("judge", *request, "--output", tmp_path / f"out.{form}")
    assert done.code == 0
    message = " ".join(done.err.split())
    assert "The labels 'kind 0', 'kind 1' match no class of the model" in message
    assert "Intervals and p-values need at least 10 texts, not 4." in message
