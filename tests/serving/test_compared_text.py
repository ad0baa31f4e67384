"""Looking closer: what the parts of the page say is what the library says by other roads."""

import itertools
import json

import msgspec
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page is served with starlette (extra serve)")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn (extra serve)")

import limelight
from limelight.errors import InputError
from limelight.serving.texts import SECTIONS, TextRequest, compute_sections

TEXT = "not a bad film but a dull plot"
METHODS = ["lime", "shapley", "loo"]


def parts(model, names, text=TEXT, methods=METHODS, **asked):
    question = TextRequest(tab="t", panel="p", text=text, methods=methods, sections=names, **asked)
    return msgspec.json.decode(
        msgspec.json.encode(compute_sections(model, question, lambda *_: None))
    )


@pytest.fixture(scope="module")
def curves(shipped):
    return parts(shipped, ["curves"])["curves"]


def test_areas_chance_and_ceiling_are_those_of_judge(shipped, curves):
    judged = limelight.judge(shipped, [TEXT], METHODS, target="positive", columns=[])
    (text,) = judged.texts
    assert curves["chance"] == pytest.approx(text.deletion.chance)
    assert curves["ceiling"] == pytest.approx(text.deletion.ceiling)
    assert [one["area"] for one in curves["methods"]] == pytest.approx(list(text.areas.values()))
    assert curves["ceiling_kind"] == "proven"


def test_a_curve_is_the_output_without_the_first_words(shipped, curves):
    e = limelight.explain(shipped, TEXT, "shapley")
    game, order = limelight.game(shipped, TEXT), np.argsort(-e.scores, kind="stable")
    (line,) = [one for one in curves["lines"] if one["label"] == "Shapley"]
    for k, (share, value) in enumerate(line["points"]):
        mask = np.ones((1, len(order)), bool)
        mask[0, order[:k]] = False
        assert share == pytest.approx(k / len(order))
        assert value == pytest.approx(float(game(mask)[0, -1]), abs=1e-6)


def test_the_chance_line_is_the_mean_over_all_sets_of_each_size(shipped, curves):
    game, d = limelight.game(shipped, TEXT), curves["words"]
    (line,) = [one for one in curves["lines"] if one["kind"] == "chance"]
    (lowest,) = [one for one in curves["lines"] if one["kind"] == "ceiling"]
    for k, (_, value) in enumerate(line["points"]):
        masks = np.ones((0, d), bool)
        for gone in itertools.combinations(range(d), k):
            mask = np.ones((1, d), bool)
            mask[0, list(gone)] = False
            masks = np.concatenate([masks, mask])
        outputs = game(masks)[:, -1]
        assert value == pytest.approx(outputs.mean(), abs=4 * outputs.std() / np.sqrt(256) + 1e-9)
        assert lowest["points"][k][1] <= outputs.min() + 1e-9


def test_a_model_that_is_asked_has_no_line_that_nobody_proved():
    def model(texts):
        yes = np.array([0.5 + 0.1 * t.count("good") - 0.1 * t.count("bad") for t in texts])
        return np.stack([1 - yes, yes], axis=1)

    wrapped = limelight.wrap(model, classes=["no", "yes"])
    found = parts(wrapped, ["curves"], text="good and bad and good", methods=["shapley"])["curves"]
    assert found["ceiling_kind"] == "best found"
    assert {line["ceiling_kind"] for line in found["lines"]} == {"method"}
    assert found["chance_error"] is not None


def test_pairs_are_those_of_the_method(shipped):
    told = parts(shipped, ["pairs"])["pairs"]["explanation"]
    found = limelight.explain(shipped, TEXT, "interactions")
    assert limelight.Explanation.from_json(json.dumps(told)).pairs == found.pairs


def test_tables_are_those_of_the_reports(shipped):
    from limelight.rendering.html import disagreement_section

    c = limelight.compare(shipped, TEXT, methods=METHODS)
    told = parts(shipped, ["disagreement", "heads", "attention"])
    assert told["disagreement"]["html"] == disagreement_section(c)
    assert told["heads"]["html"].count("of each head alone") == 2  # leave-one-out has none
    assert len(told["attention"]["heads"]) == 6


@pytest.mark.parametrize(
    ("name", "methods", "said"),
    [
        ("disagreement", ["loo"], "choose at least two methods"),
        ("curves", [], "choose at least one method"),
        ("heads", ["anchors"], "choose"),
    ],
)
def test_a_part_that_cannot_be_shown_says_why(shipped, name, methods, said):
    assert said in parts(shipped, [name], methods=methods)[name]["errors"]


def test_a_part_that_is_not_there_is_refused(shipped):
    with pytest.raises(InputError, match="no section 'nothing'; choose from curves, pairs"):
        parts(shipped, ["nothing"])


def test_every_part_is_escaped(shipped):
    hostile = "<img src=x onerror=alert(1)> good <script>alert(2)</script> bad film"
    for name, told in parts(shipped, list(SECTIONS), text=hostile).items():
        assert "<img src=x" not in told.get("html", ""), name
        assert "<script>alert" not in told.get("html", ""), name
