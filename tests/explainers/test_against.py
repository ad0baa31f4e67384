"""Contrastive targets: one class against another is the difference of the two, for every method."""

import io

import numpy as np
import pytest
from jsonschema import validate
from scipy.special import expit, softmax

import limelight
from limelight.errors import InputError
from limelight.explainers import METHODS, Targets
from limelight.results import Explanation
from limelight.results import codec as json_format

from tiny_models import tiny_model

TEXT = "w1 w5 w8 w2 w5"
CLASSES = {1: ("no", "yes"), 3: ("a", "b", "c")}
# What is linear in the outputs; norms, maxima and anchors are not, attention ignores the class.
LINEAR = (
    "alpha-grad",
    "g-avg",
    "gxi",
    "ig",
    "lrp",
    "lime",
    "loo",
    "shapley",
    "banzhaf",
)


def targets(outputs, scale, link="softmax", *, index, against):
    return Targets(np.array([index]), CLASSES[outputs], scale, link, np.array([against]))


def test_the_explained_number_is_the_difference():
    f = np.array([[0.5, -1.0, 2.0]])
    assert targets(3, "logit", index=2, against=1).value(f).tolist() == [3.0]
    p = softmax(f)[0]
    result = targets(3, "probability", index=2, against=1).value(f)
    np.testing.assert_allclose(result, p[2] - p[1])
    own_value = targets(3, "probability", "sigmoid", index=0, against=2).value(f)
    np.testing.assert_allclose(own_value, expit(0.5) - expit(2.0))


def test_a_single_output_is_one_class_against_the_other_already():
    f = np.array([[0.3]])
    assert targets(1, "logit", index=1, against=0).value(f).tolist() == [0.3]
    assert targets(1, "logit", index=0, against=1).value(f).tolist() == [-0.3]
    result = targets(1, "probability", index=1, against=0).value(f)
    np.testing.assert_allclose(result, 2 * expit(0.3) - 1)


@pytest.mark.parametrize("scale", ["logit", "probability"])
@pytest.mark.parametrize(("outputs", "link"), [(1, "softmax"), (3, "softmax"), (3, "sigmoid")])
def test_weights_are_the_derivative_of_the_difference(outputs, link, scale):
    f = np.random.default_rng(0).standard_normal((1, outputs))
    request = targets(outputs, scale, link, index=0, against=len(CLASSES[outputs]) - 1)
    step = 1e-6 * np.eye(outputs)
    slopes = [(request.value(f + h) - request.value(f - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(request.output_gradient(f), np.stack(slopes, axis=-1), atol=1e-9)


@pytest.mark.parametrize("method", LINEAR)
def test_scores_of_one_class_against_another_are_the_difference(method):
    model = tiny_model(2, outputs=3, scale=0.6)
    every = limelight.explain_classes(model, TEXT, method)
    result = limelight.explain(model, TEXT, method, target="class 2", against="class 0")
    expected = every["class 2"].scores - every["class 0"].scores
    np.testing.assert_allclose(result.scores, expected, rtol=1e-6, atol=1e-9)
    assert np.abs(every["class 0"].scores).max() > 1e-3
    assert (result.target, result.against) == ("class 2", "class 0")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_a_class_against_another(method):
    model = tiny_model(2, outputs=3, scale=0.6)
    result = limelight.explain(model, TEXT, method, target=1, against=2)
    assert result.target_phrase == "class 1 against class 2"
    swapped = limelight.explain(model, TEXT, method, target=2, against=1)
    if method in LINEAR:
        np.testing.assert_allclose(swapped.scores, -result.scores, rtol=1e-6, atol=1e-9)


def test_probabilities_of_one_class_against_another_subtract():
    model = tiny_model(2, outputs=3, scale=0.6)
    every = limelight.explain_classes(model, TEXT, "loo", scale="probability")
    result = limelight.explain(model, TEXT, "loo", target=0, against=1, scale="probability")
    expected = every["class 0"].scores - every["class 1"].scores
    np.testing.assert_allclose(result.scores, expected, atol=1e-12)
    base = every["class 0"].base_value - every["class 1"].base_value
    assert result.base_value == pytest.approx(base)


def test_against_may_be_the_predicted_class_and_differs_from_the_target():
    model = tiny_model(2, outputs=3, scale=0.6)
    predicted = limelight.explain(model, TEXT, "loo").target
    other = next(name for name in model.classes if name != predicted)
    e = limelight.explain(model, TEXT, "loo", target=other, against="predicted")
    assert (e.target, e.against) == (other, predicted)
    with pytest.raises(InputError) as error:
        limelight.explain(model, TEXT, "loo", against="predicted")
    assert str(error.value) == (
        f"target and against must be different classes, but both are {predicted!r}."
    )
    with pytest.raises(InputError, match="Did you mean 'class 1'"):
        limelight.explain(model, TEXT, "loo", against="clas 1")


def test_several_texts_are_each_held_against_the_class():
    model = tiny_model(2, outputs=3, scale=0.6)
    texts = [TEXT, "w3 w4", "w9 w1 w1"]
    together = limelight.explain(model, texts, "shapley", target=0, against=2)
    for text, e in zip(texts, together, strict=True):
        single = limelight.explain(model, text, "shapley", target=0, against=2)
        np.testing.assert_allclose(e.scores, single.scores, atol=1e-9)
        assert e.against == "class 2"


def explanation():
    model = tiny_model(2, outputs=3, scale=0.6)
    return limelight.explain(model, TEXT, "shapley", target=2, against=0)


def test_a_file_keeps_what_the_target_was_held_against():
    e = explanation()
    content = e.to_json()
    assert Explanation.from_json(content) == e
    assert '"against":"class 0"' in content
    schema = json_format.msgspec.json.decode(
        (json_format.SCHEMAS / "explanation.schema.json").read_bytes()
    )
    validate(json_format.msgspec.json.decode(content), schema)
    plain = limelight.explain(tiny_model(2, outputs=3), TEXT, "loo").to_json()
    assert '"against"' not in plain
    with pytest.raises(InputError, match="must be different classes, but both are 'class 2'"):
        Explanation.from_json(content.replace('"against":"class 0"', '"against":"class 2"'))


def test_terminal_page_and_table_say_it():
    from rich.console import Console

    e = explanation()
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(e)
    output = console.export_text()
    assert "for “class 2” against “class 0”" in output
    assert "[-] for class 0" in output
    page = e.as_html()
    assert "<h1>Why “class 2” against “class 0”?</h1>" in page
    assert "Scores are for “class 2” against “class 0” (difference of logits" in page
    assert "for class 0" in page
    assert set(e.to_frame()["target"]) == {"class 2 against class 0"}
