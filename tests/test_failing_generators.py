"""If a user's function or generator fails, the message names it."""

import numpy as np
import pytest

import limelight
from limelight.errors import InputError
from limelight.explainers import Cost, Implementation, Method, per_input, settings_class


def equal_probabilities(texts):
    return np.full((len(texts), 2), 0.5)


MODEL = limelight.wrap(equal_probabilities, classes=["a", "b"])
TEXTS = ["a good film", "a bad film"]


def fail_midway(*_):
    yield "lime"
    raise RuntimeError("disk gone")


def cut_and_fail(text):
    yield (0, 1)
    raise RuntimeError("disk gone")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda path: limelight.explain_data(MODEL, {"text": fail_midway()}, output=path),
            "column 'text' could not be read.*after 1 values",
        ),
        (
            lambda _: limelight.learn(MODEL, fail_midway()),
            "texts could not be read.*after 1 values",
        ),
        (
            lambda _: limelight.explain(MODEL, TEXTS[0], features=cut_and_fail),
            r"cut_and_fail fails \(RuntimeError: disk gone\)",
        ),
    ],
)
def test_the_message_names_a_generator_that_fails_halfway(tmp_path, call, message):
    pytest.importorskip("pyarrow")
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=message):
        call(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def method_that_returns(value):
    settings = settings_class(type("Settings", (), {}))
    implementation = Implementation(exactness="exact", explain=value, cost=Cost(calls=lambda *_: 1))
    names = dict.fromkeys(("label", "formula", "sees", "blind", "cost"), "test")
    return Method(id="faulty", settings=settings, implementations=(implementation,), **names)


@pytest.mark.parametrize(
    "returned", [lambda *_: None, lambda *_: [None], per_input(lambda *_: None), lambda *_: []]
)
@pytest.mark.usefixtures("restored_methods")
def test_the_message_names_a_method_that_returns_no_attribution(returned):
    limelight.register(method_that_returns(returned))
    for call in (
        lambda: limelight.explain(MODEL, TEXTS[0], "faulty"),
        lambda: limelight.explain(MODEL, TEXTS, "faulty"),
        lambda: limelight.compare(MODEL, TEXTS[0], methods=["faulty"]),
    ):
        with pytest.raises(InputError, match="'faulty' must return one Attribution per text"):
            call()
