import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

import limelight
from limelight.explainers import Targets

from tiny_models import tiny_model

CLASSES = {1: ("no", "yes"), 3: ("a", "b", "c")}


def targets(index, outputs, output, link="softmax"):
    return Targets(np.array(index), CLASSES[outputs], output, link)


def test_the_explained_number_is_the_logit_or_the_probability():
    f = np.array([[0.3], [0.3]])
    assert targets([1, 0], 1, "logit").value(f).tolist() == [0.3, -0.3]
    np.testing.assert_allclose(
        targets([1, 0], 1, "probability").value(f), [expit(0.3), expit(-0.3)]
    )
    g = np.array([[0.5, -1.0, 2.0]])
    assert targets([2], 3, "logit").value(g).tolist() == [2.0]
    np.testing.assert_allclose(targets([0], 3, "probability").value(g), softmax(g)[:, 0])


@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize(("outputs", "link"), [(1, "softmax"), (3, "softmax"), (3, "sigmoid")])
def test_weights_are_the_derivative_of_the_explained_number(outputs, link, output):
    f = np.random.default_rng(0).standard_normal((2, outputs))
    request = targets([0, len(CLASSES[outputs]) - 1], outputs, output, link)
    step = 1e-6 * np.eye(outputs)
    slopes = [(request.value(f + h) - request.value(f - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(request.output_gradient(f), np.stack(slopes, axis=-1), atol=1e-9)


@pytest.mark.parametrize("method", ["g-avg", "gxi", "ig"])
def test_what_raises_one_probability_lowers_the_others(method):
    model = tiny_model(2, outputs=3, scale=0.6)
    every = limelight.explain_classes(model, "w1 w5 w8", method, scale="probability")
    scores = np.array([e.scores for e in every.values()])
    assert np.abs(scores).max() > 1e-3
    np.testing.assert_allclose(scores.sum(axis=0), 0, atol=1e-10)


TWO = ("no", "yes")
numbers = st.floats(-30, 30)


@given(numbers, numbers, numbers)
def test_the_logit_of_two_classes_is_the_log_odds_whatever_is_added_to_both(f_0, f_1, both):
    for row in ([f_0, f_1], [f_1 - f_0]):
        f = np.array([row, row])
        odds = Targets(np.array([0, 1]), TWO, "logit").value(f)
        p = Targets(np.array([0, 1]), TWO, "probability").value(f)
        np.testing.assert_allclose(np.log(p) - np.log(p[::-1]), odds, rtol=1e-9, atol=1e-9)
    f = np.array([[f_0, f_1]])
    ask = Targets(np.array([1]), TWO, "logit")
    np.testing.assert_allclose(ask.value(f + both), ask.value(f), atol=1e-12)
    contained = Targets(np.array([1]), TWO, "logit", against=np.array([0]))
    assert contained.value(f).tolist() == ask.value(f).tolist()


@pytest.mark.parametrize("scale", ["logit", "probability", "score"])
def test_weights_of_two_outputs_are_the_derivative_of_the_explained_number(scale):
    f = np.random.default_rng(1).standard_normal((2, 2))
    request = Targets(np.array([0, 1]), TWO, scale)
    slopes = [(request.value(f + h) - request.value(f - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(request.output_gradient(f), np.stack(slopes, axis=-1), atol=1e-9)


def test_score_is_what_goes_into_the_softmax():
    f = np.array([[0.5, -1.0]])
    assert Targets(np.array([0]), TWO, "score").value(f).tolist() == [0.5]
    difference = Targets(np.array([0]), TWO, "score", against=np.array([1]))
    assert difference.value(f).tolist() == [1.5]
    assert Targets(np.array([0]), TWO, "logit", "sigmoid").value(f).tolist() == [0.5]
