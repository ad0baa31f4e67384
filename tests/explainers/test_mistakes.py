"""Mistakes of callers and their messages."""

import copy
import math
import pickle

import numpy as np
import pytest

import limelight
from limelight import DomainError, InputError, compare, explain  # noqa: F401 (for eval)
from limelight.explainers.method import ConfiguredMethod, select_implementation
from limelight.explainers.registry import METHODS

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
TEXT = "w1 w5 w8"
SHIPPED = limelight.load()


def error_message(call, *arguments, **options):
    with pytest.raises(InputError) as error:
        call(MODEL, *arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_protected_words_are_written_as_the_text_writes_them():
    e = limelight.explain(MODEL, "W1 w5 w8", protect=["W1"])
    assert e.features == ("w5", "w8")
    assert e.settings["protect"] == ["w1"]
    assert error_message(limelight.explain, TEXT, protect="w1") == (
        "protect must be a list of words, not 'w1'."
    )
    assert error_message(limelight.explain, TEXT, protect=["w1", " "]).startswith(
        "the protected word ' ' cannot be read: "
    )


def test_methods_can_be_a_single_name_and_count_once():
    assert [e.method for e in limelight.compare(MODEL, TEXT, methods="loo")] == ["loo"]
    assert [e.method for e in limelight.compare(MODEL, TEXT, methods=["gxi", "gxi"])] == ["gxi"]


def test_half_a_character_is_replaced_with_a_warning():
    e = limelight.explain(MODEL, "\ud800 w1 w5")
    assert e.text == "\ufffd w1 w5"
    assert e.warnings[0] == (
        "The text has 1 lone surrogate(s), which are not characters. Each was read as U+FFFD."
    )
    assert limelight.Explanation.from_json(e.to_json()).text == e.text
    np.testing.assert_array_equal(e.scores, limelight.explain(MODEL, "never w1 w5").scores)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_explanation_can_be_copied_and_sent_to_another_process(copied):
    e = limelight.explain(MODEL, TEXT, "lime-sampled", samples=64)
    again = copied(e)
    assert again.to_json() == e.to_json()
    with pytest.raises(TypeError):
        again.settings["seed"] = 2
    assert not again.scores.flags.writeable
    assert copied(limelight.compare(MODEL, TEXT)).to_json() == (
        limelight.compare(MODEL, TEXT).to_json()
    )


@pytest.mark.parametrize("method", ["alpha-avg", "alpha-max", "g-avg", "g-l1", "g-l2", "gxi", "ig"])
def test_a_text_of_one_word_is_explained_with_a_warning(method):
    warning = "There is only one feature, so its score has no other to compare with."
    assert warning in limelight.explain(MODEL, "w1 w1", method).warnings
    assert warning not in limelight.explain(MODEL, "w1 w2", method).warnings


def test_a_text_without_letters_is_explained_with_a_warning():
    signs = "The text has no letters and no digits, only other signs."
    assert signs in limelight.explain(MODEL, "?! 😀").warnings
    assert signs not in limelight.explain(MODEL, "?! 7").warnings


MODELS = {
    "paper": limelight.load(),
    "function": limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"]),
}
SETTINGS = [
    (who, name, setting)
    for who, model in MODELS.items()
    for name, method in METHODS.items()
    if (implementation := select_implementation(method, model)) is not None
    for setting in implementation.settings
]
ODD = [10**400, -(10**400), 10**5000, math.nan, math.inf, -math.inf, -1, True, "x", "7" * 400]


@pytest.mark.parametrize(("who", "name", "setting"), SETTINGS)
def test_an_impossible_setting_raises_a_short_error_that_names_it(who, name, setting):
    method, model = METHODS[name], MODELS[who]
    for value in ODD:
        try:
            configured = ConfiguredMethod.create(method, model, {setting: value})
        except InputError as error:
            message = str(error)
            assert setting in message
            assert message.endswith(".")
            assert len(message) < 800
        else:  # a valid value stays as it is, and fits a machine number
            stored = getattr(configured.settings, setting)
            assert stored == value or setting == "layer"
            assert not isinstance(stored, int) or abs(stored) <= 2**63
