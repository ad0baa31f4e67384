"""What a caller may get wrong, and the sentence that comes back."""

import copy
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import limelight
from limelight import DomainError, InputError
from limelight.explainers.method import ConfiguredMethod, select_implementation
from limelight.explainers.registry import METHODS

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
TEXT = "w1 w5 w8"


def complaint(call, *arguments, **options):
    with pytest.raises(InputError) as error:
        call(MODEL, *arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("call", [limelight.explain, limelight.compare])
def test_an_unusable_text_of_several_is_named(call):
    assert complaint(call, [TEXT, "w1", " "]) == (
        "text 2 (counting from 0): the text has no words; give at least one word."
    )
    assert complaint(call, [TEXT] * 40 + [""]).startswith("text 40 (counting from 0): ")
    assert complaint(call, ["  "]) == "the text has no words; give at least one word."
    assert complaint(call, [TEXT, "w1"], protect=["w1"]).startswith("text 1 (counting from 0): ")


def test_a_text_outside_the_domain_of_a_method_is_named():
    with pytest.raises(DomainError, match=r"^text 35 \(counting from 0\): LIME needs at least 2"):
        limelight.explain(MODEL, [TEXT] * 35 + ["w1", TEXT], "lime-sampled")
    with pytest.raises(DomainError, match=r"^text 1 \(counting from 0\): LIME needs at least 2"):
        limelight.compare(MODEL, [TEXT, "w1"], methods=["lime-sampled"])


@pytest.mark.parametrize("call", [limelight.explain, limelight.compare])
def test_what_is_not_about_one_text_names_none(call):
    assert complaint(call, [TEXT, TEXT], target="x").startswith("no class 'x'.")
    assert complaint(call, [TEXT, TEXT], features="x").startswith("no features 'x'.")


def test_protected_words_are_written_as_the_text_writes_them():
    e = limelight.explain(MODEL, "W1 w5 w8", protect=["W1"])
    assert e.features == ("w5", "w8")
    assert e.settings["protect"] == ["w1"]
    assert complaint(limelight.explain, TEXT, protect="w1") == (
        "protect must be a list of words, not 'w1'."
    )
    assert complaint(limelight.explain, TEXT, protect=["w1 w5"]) == (
        "a protected word must be one token as the model reads it; 'w1 w5' is read as 'w1', 'w5'."
    )


# Under pytest a type checker would answer first; a user has none.
WRONG_TYPES = {
    'explain(model, ["good film", None])': (
        "text 1 (counting from 0): a text must be a string; got NoneType."
    ),
    'explain(model, b"good film")': (
        "got an image (bytes), which needs a model that reads images, and this one reads texts."
    ),
    'explain(model, {"good film": 1})': "a text must be a string, or a list of them; got dict.",
    "explain(model, None)": "a text must be a string, or a list of them; got NoneType.",
    'explain(model, "good film", target=1.0)': (
        "a target must be a class, by name or number; got 1.0."
    ),
    'explain(model, "good film", target=True)': (
        "a target must be a class, by name or number; got True."
    ),
    'compare(model, "good film", target=["a"])': (
        "a target must be a class, by name or number; got ['a']."
    ),
    'explain(model, "good film", features=[0.4, 1.2])': (
        "features must give the (start, end) of every unit, in order, without overlap and inside "
        "the text of 9 characters; got 0.4 after 0."
    ),
    'game(model, ["good film"])': "a game is about one text, a string; got list.",
    'register("lime")': "a method is a limelight.explainers.Method, or a class that "
    "register_method decorates; got 'lime'.",
    'model.logits(["good film", None])': "text 1 (counting from 0): a text must be a string; got "
    "NoneType.",
}


def test_wrong_types_get_a_sentence_too():
    program = (
        "from limelight import InputError, compare, explain, game, load, register\n"
        "model = load()\n"
        f"for call in {list(WRONG_TYPES)}:\n"
        "    try:\n"
        "        eval(call)\n"
        "    except InputError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == list(WRONG_TYPES.values())


def test_one_method_may_be_given_by_its_name_and_counts_once():
    assert [e.method for e in limelight.compare(MODEL, TEXT, methods="loo")] == ["loo"]
    assert [e.method for e in limelight.compare(MODEL, TEXT, methods=["gxi", "gxi"])] == ["gxi"]


@pytest.mark.parametrize("samples", [np.inf, np.nan, 1.5, "many"])
def test_a_count_is_a_whole_number(samples):
    sentence = f"the setting 'samples' must be a whole number; got {samples!r}."
    assert complaint(limelight.explain, TEXT, "lime-sampled", samples=samples) == sentence


def test_half_a_character_is_replaced_and_said():
    e = limelight.explain(MODEL, "\ud800 w1 w5")
    assert e.text == "\ufffd w1 w5"
    assert e.warnings[0] == (
        "The text holds 1 lone surrogate(s), which are not characters; each was read as U+FFFD."
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


def test_a_count_below_zero_has_no_top():
    with pytest.raises(InputError, match="at least 0; got -1"):
        limelight.explain(MODEL, TEXT).top(-1)


@pytest.mark.parametrize("method", ["alpha-avg", "alpha-max", "g-avg", "g-l1", "g-l2", "gxi", "ig"])
def test_a_text_of_one_word_is_explained_with_a_warning(method):
    one = "There is only one feature: its score cannot be compared with any other."
    assert one in limelight.explain(MODEL, "w1 w1", method).warnings
    assert one not in limelight.explain(MODEL, "w1 w2", method).warnings


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
def test_what_a_setting_cannot_be_is_refused_in_a_sentence(who, name, setting):
    method, model = METHODS[name], MODELS[who]
    for value in ODD:
        try:
            found = ConfiguredMethod.create(method, model, {setting: value})
        except InputError as error:
            said = str(error)
            assert setting in said
            assert said.endswith(".")
            assert len(said) < 800
        else:  # what is taken is taken as it is, and can be worked with
            taken = getattr(found.settings, setting)
            assert taken == value or setting == "layer"
            assert not isinstance(taken, int) or abs(taken) <= 2**63


@pytest.mark.parametrize("budget", [10**400, math.nan, math.inf, -1, True, "9" * 400, "1e400"])
def test_what_a_budget_cannot_be_is_refused_in_a_sentence(budget):
    with pytest.raises(InputError, match="budget must be a time"):
        limelight.explain(MODELS["function"], "a b c", "shapley", budget=budget)


@pytest.mark.parametrize("asked", [{"target": -(10**5000)}, {"against": 10**5000}])
def test_a_class_by_a_number_that_no_sentence_can_hold_is_refused(asked):
    with pytest.raises(
        InputError, match="the number of a class must be between 0 and 1, not a number of"
    ):
        limelight.explain(MODELS["function"], "a b c", "loo", **asked)


@pytest.mark.parametrize(("rows", "said"), [("7" * 400, "digits."), ("1e400", "got inf")])
def test_a_command_refuses_a_number_that_nothing_can_hold(request, rows, said):
    command = request.getfixturevalue("limelight")
    outcome = command("explain", "a superb film", "--method", "lime", "--set", f"rows={rows}")
    assert outcome.code == 2
    sentence = " ".join(outcome.err.split())
    assert "the setting 'rows' must" in sentence
    assert said in sentence
