"""Explanations, comparisons and models as values: equal, counted, and said in one line."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import limelight
from limelight.results import Explanations

from tiny_models import tiny_model

MODEL = tiny_model(3, outputs=3)
TEXT = "w1 w2 w3 w1"
LONG = "w1 " * 400


@pytest.fixture(scope="module")
def lime():
    return limelight.explain(MODEL, TEXT, "lime", target=1)


def test_equal_values_are_equal_and_hash_alike(lime):
    again = limelight.explain(MODEL, TEXT, "lime", target=1)
    assert again is not lime
    assert again == lime
    assert hash(again) == hash(lime)
    assert len({again, lime}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"scores": np.array([1.0, 2.0, 3.0])},
        {"stderr": np.array([1.0, 2.0, 3.0])},
        {"bound": None},
        {"target": "class 2"},
        {"settings": {}},
        {"diagnostics": {"nodes": 3}},
        {"warnings": ("another",)},
        {"base_value": 7.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_value_that_differs_anywhere_is_another(lime, change):
    assert replace(lime, **change) != lime
    assert lime != replace(lime, **change)


def test_a_negative_zero_is_a_zero(lime):
    value, other = (replace(lime, scores=np.array([zero, 1.0, 2.0])) for zero in (0.0, -0.0))
    assert value == other
    assert hash(value) == hash(other)


def test_pairs_and_anchors_take_part(lime):
    value, other = (limelight.explain(MODEL, TEXT, "interactions", target=t) for t in (1, 2))
    assert value == limelight.explain(MODEL, TEXT, "interactions", target=1)
    assert replace(value, pairs=other.pairs) != value
    assert value != lime
    assert lime != "lime"


def test_comparisons_are_values_too():
    c = limelight.compare(MODEL, TEXT)
    assert c == limelight.compare(MODEL, TEXT)
    assert c != limelight.compare(MODEL, TEXT, methods=["lime"])
    assert c != limelight.compare(MODEL, TEXT, attention=True)
    assert hash(c) == hash(limelight.compare(MODEL, TEXT))
    assert (len(c), len(c["lime"])) == (8, 3)


def many_classes():
    names = [f"a class with quite a long name, number {i}" for i in range(300)]
    return limelight.wrap(lambda texts: np.zeros((len(texts), 300)), classes=names, scale="logit")


@pytest.mark.parametrize(
    "value",
    [
        limelight.load(),
        MODEL,
        many_classes(),
        limelight.wrap(lambda texts: np.zeros((len(texts), 2)), classes=["a" * 500, "b"]),
        limelight.explain(MODEL, TEXT, "lime"),
        limelight.explain(MODEL, LONG, "gxi"),
        limelight.explain(many_classes(), "some words\nin lines", "loo", target=7),
        limelight.compare(MODEL, LONG),
        limelight.game(MODEL, LONG),
        limelight.methods(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_says_what_it_is_in_one_line(value):
    for message in (repr(value), str(value)):
        assert "\n" not in message
        assert 10 < len(message) < 200


def test_a_comparison_is_a_table():
    c = limelight.compare(MODEL, TEXT, methods=["lime", "loo"], target=1)
    frame = c.to_frame()
    assert frame.groupby("method").size().to_dict() == {"lime": 3, "loo": 3}
    np.testing.assert_array_equal(frame[frame.method == "loo"].score, c["loo"].scores)


def test_a_list_is_shown_as_one():
    explanation = limelight.explain(MODEL, [TEXT, "w2 <b>"] * 15, "loo", target=1)
    assert isinstance(explanation, Explanations)
    page = explanation._repr_html_()
    assert page.count("The model predicts") == 20
    assert "and 10 more texts" in page
    assert "<b>&lt;" not in page
    assert "<b></" not in page
    console = Console(width=90, record=True, file=None)
    with console.capture() as captured:
        console.print(Explanations(explanation[:2]))
    assert captured.get().count("The model predicts") == 2
    assert "No explanations." in Explanations()._repr_html_()


@pytest.mark.parametrize("verb", [limelight.explain, limelight.compare])
def test_a_notebook_card_says_what_the_model_predicted(verb):
    card = verb(limelight.load(), "a superb film")._repr_html_()
    assert (
        "The model predicts <b>positive</b> (73.3%). Scores are for “positive”, the predicted "
        "class (logit +1.008): " in card
    )
