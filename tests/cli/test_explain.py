import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest

from limelight.explainers import METHODS
from limelight.explainers.registry import EXACT_COMPARISON
from limelight.models.attention import save_folder
from limelight.rendering.figures import bar_chart
from limelight.results import Comparison, Explanation
from limelight.results.codec import SCHEMAS

from tiny_models import tiny_model

TEXT = "a great film, but not for me"


def test_explain_prints_the_words_and_the_prediction(limelight):
    outcome = limelight("explain", TEXT)
    assert outcome.code == 0
    assert "great[+" in outcome.out
    assert "The model predicts positive (" in outcome.out


@pytest.mark.parametrize("method", METHODS)
def test_every_method_works_from_the_command_line(limelight, method):
    outcome = limelight("explain", TEXT, "--method", method, "--format", "json")
    assert outcome.code == 0, outcome.err
    e = Explanation.from_json(outcome.out)
    assert e.method == method
    schema = json.loads((SCHEMAS / "explanation.schema.json").read_text())
    jsonschema.validate(json.loads(outcome.out), schema)
    assert limelight("explain", TEXT, "--method", method).code == 0


def test_settings_reach_the_method(limelight):
    outcome = limelight(
        "explain", TEXT, "--set", "bandwidth=1", "--set", "tolerance=1e-4", "--format", "json"
    )
    settings = Explanation.from_json(outcome.out).settings
    assert (settings["bandwidth"], settings["tolerance"]) == (1, 1e-4)


def test_a_class_is_explained_against_another(limelight, tmp_path):
    save_folder(tiny_model(outputs=3), tmp_path / "m")
    arguments = ("w1 w5", "--model", tmp_path / "m", "--target", "class 2", "--against", "0")
    e = Explanation.from_json(limelight("explain", *arguments, "-m", "loo", "--format", "json").out)
    assert (e.target, e.against) == ("class 2", "class 0")
    table = limelight("compare", *arguments, "-m", "loo,lrp").out
    assert table.startswith("2 methods for “class 2” against “class 0”")
    same = limelight("explain", "w1 w5", "--model", tmp_path / "m", "-t", "0", "--against", "0")
    assert same.code == 2
    assert "target and against must be different classes, but both are 'class 0'." in same.err
    pair = limelight("explain", TEXT, "--each", "class", "--against", "positive")
    assert (pair.code, pair.out) == (2, "")
    assert "give --against or --each class, not both." in pair.err


def test_compare_writes_every_format(limelight, tmp_path, shipped):
    starts = {
        "json": b'{"schema":"limelight.comparison/2"',
        "html": b"<!doctype html>",
        "csv": b"text_number,method,",
        "txt": b"8 methods for",
        "png": b"\x89PNG",
        "svg": b"<?xml",
        "pdf": b"%PDF",
    }
    for suffix, start in starts.items():
        path = tmp_path / f"out.{suffix}"
        outcome = limelight("compare", TEXT, "--output", path)
        assert (outcome.code, outcome.out) == (0, ""), outcome.err
        assert path.read_bytes().startswith(start)
    comparison = Comparison.from_json((tmp_path / "out.json").read_text())
    assert tuple(e.method for e in comparison) == EXACT_COMPARISON
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert len(rows) == len(EXACT_COMPARISON) * len(comparison.explanations[0].features)
    page = (tmp_path / "out.html").read_text()
    assert page.count('"cells"') == shipped.sizes["K"]  # the attention of each head


def test_csv_of_several_texts_numbers_the_documents(limelight, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"good film\nbad film\n")))
    outcome = limelight("explain", "-", "--lines", "--format", "csv", "--method", "gxi")
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert [row["text_number"] for row in rows] == ["0", "0", "1", "1"]


def test_targets_by_number_and_all(limelight):
    outcome = limelight("explain", TEXT, "--target", "0", "--format", "json")
    assert Explanation.from_json(outcome.out).target == "negative"
    outcome = limelight("explain", TEXT, "--each", "class", "--format", "json")
    assert [json.loads(line)["target"] for line in outcome.out.splitlines()] == [
        "negative",
        "positive",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "the text has no words. Give at least one word."),
        (
            ["x y", "--method", "limee"],
            f"unknown method: 'limee'. Did you mean 'lime'? Choose from: {', '.join(METHODS)}.",
        ),
        (
            ["x y", "--target", "positiv"],
            "unknown class: 'positiv'. Did you mean 'positive'? "
            "Choose from: negative, positive, predicted.",
        ),
        (["x y", "--output", "no/such/folder/x.json"], "no such file or directory."),
        (
            ["x y", "--format", "htm"],
            'Invalid value "htm" for --format. Choose from: "terminal", "json", "html", "csv", '
            '"png", "svg", "pdf". Did you mean "html"?',
        ),
        (
            ["x y", "--set", "bandwidth=wide"],
            "the setting 'bandwidth' must be a number, not 'wide'.",
        ),
        (["x y", "--set", "fit=1"], "the setting 'fit' must be true or false, not 1."),
        (
            ["x y", "--method", "lime-sampled", "--set", "samples=1.5"],
            "the setting 'samples' must be a whole number, not 1.5.",
        ),
        (["x y", "--format", "png"], "a figure needs a file. Add --output NAME.png."),
        (
            ["x y", "--set", "bandwidth"],
            "a setting must be written as name=value, not 'bandwidth'.",
        ),
        (["x y", "--set", "bandwith=1"], "Did you mean 'bandwidth'?"),
        (["x y", "--features", "word"], "unknown features: 'word'. Did you mean 'words'?"),
        (
            ["x y", "--scale", "probabilty"],
            "unknown scale: 'probabilty'. Did you mean 'probability'? "
            "Choose from: logit, probability, score.",
        ),
        (["word", "--method", "lime-sampled"], "needs at least 2 features"),
    ],
)
def test_bad_input_is_an_error_with_code_2(limelight, arguments, message):
    outcome = limelight("explain", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("Error: ")
    assert message in outcome.err


def test_pairs_are_drawn_as_a_heat_map(limelight, tmp_path, monkeypatch):
    samples = []
    monkeypatch.setattr(
        "limelight.rendering.figures.interaction_heatmap",
        lambda e: samples.append(e) or bar_chart(e),
    )
    path = tmp_path / "pairs.png"
    assert limelight("explain", TEXT, "-m", "interactions", "-o", path).code == 0
    assert path.exists()
    assert len(samples) == 1


def test_nothing_is_half_written(limelight, tmp_path):
    path = tmp_path / "keep.html"
    path.write_text("old")
    outcome = limelight("explain", "x y", "x z", "--output", path)
    assert outcome.code == 2
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_methods_lists_the_catalogue(limelight):
    rows = [json.loads(line) for line in limelight("methods", "--format", "json").out.splitlines()]
    assert [row["id"] for row in rows] == list(METHODS)
    assert all(row["formula"] and row["sees"] and row["blind"] and row["cost"] for row in rows)
    assert "bandwidth=0.25" in limelight("methods", "lime").out


def test_no_color_codes_reach_a_pipe(limelight):
    assert "\x1b" not in limelight("compare", TEXT).out


def test_the_page_needs_no_network(limelight, tmp_path):
    limelight("compare", TEXT, "--output", tmp_path / "p.html")
    page = Path(tmp_path / "p.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_csv_gives_all_classes_of_a_text_the_same_number(limelight):
    outcome = limelight(
        "explain", TEXT, "bad film", "--each", "class", "--format", "csv", "--method", "loo"
    )
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert {(row["text_number"], row["target"]) for row in rows} == {
        (model_input, target) for model_input in "01" for target in ("negative", "positive")
    }


def pair_folder(tmp_path):
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def test_a_pair_is_an_option_or_a_line_with_a_tab(limelight, tmp_path):
    folder = pair_folder(tmp_path)
    options = ("--model", folder, "--method", "loo", "--format", "json")
    single = limelight("explain", "a superb film", "--pair", "the plot is bad", *options)
    assert single.code == 0, single.err
    e = Explanation.from_json(single.out)
    assert e.text == "a superb film\nthe plot is bad"
    lines = tmp_path / "pairs.txt"
    lines.write_text("a superb film\tthe plot is bad\na film\ngood\tbad\tfilm\na\tfilm\n")
    batch = limelight("explain", "--file", str(lines), "--lines", "--tabs", *options)
    assert batch.code == 2
    error = "a line must contain two texts separated by a tab, but this one has"
    assert f"Line 2: {error} 0 tabs.\nLine 3: {error} 2 tabs.\n" in batch.err
    explanations = [Explanation.from_json(line) for line in batch.out.splitlines()]
    assert [other.features for other in explanations] == [e.features, ("a", "film")]
    second = limelight("explain", "a film", "--pair", "bad", "--side", "second", *options)
    assert Explanation.from_json(second.out).features == ("bad",)
    row = limelight("predict", "a film", "--pair", "bad", "--model", folder, "--format", "json")
    assert [part["span"] for part in json.loads(row.out)["parts"]] == [[0, 6], [7, 10]]


def test_one_side_of_the_pairs_of_a_file_is_judged(limelight, tmp_path):
    data = tmp_path / "pairs.csv"
    data.write_text("premise,hypothesis\na superb film,the film is bad\na plot,a bad day\n")
    options = ("--data", data, "--model", pair_folder(tmp_path), "--methods", "loo")
    outcome = limelight(
        "judge", *options, "--side", "second", "--columns", "none", "--format", "json"
    )
    assert outcome.code == 0, outcome.err
    judgment = json.loads(outcome.out)
    assert judgment["settings"]["side"] == "second"
    assert [text["d"] for text in judgment["texts"]] == [4, 3]
