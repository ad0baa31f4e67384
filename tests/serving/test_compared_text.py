"""The sections of the page show the same numbers as the library."""

import itertools
import json

import msgspec
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

import limelight
from limelight.serving.texts import SECTIONS, TextRequest, compute_sections

TEXT = "not a bad film but a dull plot"
METHODS = ["lime", "shapley", "loo"]


def sections(model, names, text=TEXT, methods=METHODS):
    request = TextRequest(tab="t", panel="p", text=text, methods=methods, sections=names)
    return msgspec.json.decode(
        msgspec.json.encode(compute_sections(model, request, lambda *_: None))
    )


@pytest.fixture(scope="module")
def curves(shipped):
    return sections(shipped, ["curves"])["curves"]


def test_areas_chance_and_ceiling_are_those_of_judge(shipped, curves):
    judged = limelight.judge(shipped, [TEXT], METHODS, target="positive", columns=[])
    (text,) = judged.texts
    assert curves["chance"] == pytest.approx(text.deletion.chance)
    assert curves["ceiling"] == pytest.approx(text.deletion.ceiling)
    assert [method["area"] for method in curves["methods"]] == pytest.approx(
        list(text.areas.values())
    )
    assert curves["ceiling_kind"] == "proven"


def test_a_curve_is_the_output_without_the_first_words(shipped, curves):
    e = limelight.explain(shipped, TEXT, "shapley")
    game, order = limelight.game(shipped, TEXT), np.argsort(-e.scores, kind="stable")
    (line,) = [line for line in curves["lines"] if line["label"] == "Shapley"]
    for k, (share, value) in enumerate(line["points"]):
        mask = np.ones((1, len(order)), bool)
        mask[0, order[:k]] = False
        assert share == pytest.approx(k / len(order))
        assert value == pytest.approx(float(game(mask)[0, -1]), abs=1e-6)


def test_the_chance_line_is_the_mean_over_all_sets_of_each_size(shipped, curves):
    game, d = limelight.game(shipped, TEXT), curves["words"]
    (line,) = [line for line in curves["lines"] if line["kind"] == "chance"]
    (lowest,) = [line for line in curves["lines"] if line["kind"] == "ceiling"]
    for k, (_, value) in enumerate(line["points"]):
        masks = np.ones((0, d), bool)
        for gone in itertools.combinations(range(d), k):
            mask = np.ones((1, d), bool)
            mask[0, list(gone)] = False
            masks = np.concatenate([masks, mask])
        outputs = game(masks)[:, -1]
        assert value == pytest.approx(outputs.mean(), abs=4 * outputs.std() / np.sqrt(256) + 1e-9)
        assert lowest["points"][k][1] <= outputs.min() + 1e-9


def test_a_model_without_a_proven_ceiling_has_only_the_lines_of_the_methods():
    def model(texts):
        yes = np.array([0.5 + 0.1 * t.count("good") - 0.1 * t.count("bad") for t in texts])
        return np.stack([1 - yes, yes], axis=1)

    wrapped = limelight.wrap(model, classes=["no", "yes"])
    text = "good and bad and good"
    curves = sections(wrapped, ["curves"], text=text, methods=["shapley"])["curves"]
    assert curves["ceiling_kind"] == "best found"
    assert {line["kind"] for line in curves["lines"]} == {"method"}
    assert curves["chance_error"] is not None


def test_pairs_are_those_of_the_method(shipped):
    section = sections(shipped, ["pairs"])["pairs"]
    e = limelight.explain(shipped, TEXT, "interactions")
    assert limelight.Explanation.from_json(json.dumps(section["explanation"])).pairs == e.pairs


def test_tables_are_those_of_the_reports(shipped):
    from limelight.rendering.html import disagreement_section

    c = limelight.compare(shipped, TEXT, methods=METHODS)
    data = sections(shipped, ["disagreement", "heads", "attention"])
    assert data["disagreement"]["html"] == disagreement_section(c)
    assert data["heads"]["html"].count("of each head alone") == 2  # leave-one-out has none
    assert len(data["attention"]["heads"]) == 6


@pytest.mark.parametrize(
    ("name", "methods", "message"),
    [
        ("disagreement", ["loo"], "choose at least two methods to see where they disagree."),
        ("curves", [], "choose at least one method that is defined for this text."),
        ("heads", ["anchors"], "none of these methods scores each head. Choose shapley or lime."),
    ],
)
def test_a_section_that_cannot_be_computed_has_an_error_message(shipped, name, methods, message):
    assert sections(shipped, [name], methods=methods)[name] == {"error": message}


def test_every_section_is_escaped(shipped):
    hostile = "<img src=x onerror=alert(1)> good <script>alert(2)</script> bad film"
    data = sections(shipped, list(SECTIONS), text=hostile)
    tables = [name for name, section in data.items() if "html" in section]
    assert tables == ["counterfactual", "disagreement", "heads"]
    for name in tables:
        assert "<img src=x" not in data[name]["html"], name
        assert "<script>alert" not in data[name]["html"], name
