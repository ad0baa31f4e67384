"""Mistakes of callers and their messages."""

import copy
import math
import pickle
import subprocess
import sys

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
NINE_WORDS = " ".join(f"w{i}" for i in range(9))


def error_message(call, *arguments, **options):
    with pytest.raises(InputError) as error:
        call(MODEL, *arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("call", [limelight.explain, limelight.compare])
def test_the_message_names_the_text_of_a_list(call):
    assert error_message(call, [TEXT, "w1", " "]) == (
        "text 2 (counting from 0): the text has no words. Give at least one word."
    )
    assert error_message(call, [TEXT] * 40 + [""]).startswith("text 40 (counting from 0): ")
    assert error_message(call, ["  "]) == "the text has no words. Give at least one word."
    assert error_message(call, [TEXT, "w1"], protect=["w1"]).startswith(
        "text 1 (counting from 0): "
    )


@pytest.mark.parametrize("call", [limelight.explain, limelight.compare])
def test_a_message_about_all_texts_names_none(call):
    assert error_message(call, [TEXT, TEXT], target="x").startswith("unknown class: 'x'.")
    assert error_message(call, [TEXT, TEXT], features="x").startswith("unknown features: 'x'.")


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


# Calls with a pattern of their message.
INPUT_ERRORS = {
    "explain(SHIPPED, TEXT, 'anchors', max_size=1)": "max_size",
    "explain(SHIPPED, TEXT, 'anchors', threshold=0.9, nodes=4)": "nodes limits a proof",
    "explain(SHIPPED, TEXT, 'anchors', budget='99 calls')": (
        "method 'anchors' does not support a budget"
    ),
    "explain(SHIPPED, TEXT, 'lime-sampled', budget='1 call')": (
        r"calls, or use 'lime', which needs no calls\.$"
    ),
    "explain(MODEL, TEXT, 'lime-sampled', replacement='mask')": (
        r"^unknown replacement: 'mask'\. Choose from: auto, unk, delete\.$"
    ),
    "explain(MODEL, 'w1 w2 w3', 'lime', replacement='delete', fit=True)": (
        "^the setting 'fit' of method 'lime' has no effect with this replacement. Leave fit out, "
        "or .*'samples'"
    ),
    "explain(MODEL, TEXT).top(-1)": "at least 0, not -1",
    # not the share that a word of two sentences gets
    "explain(MODEL, 'w1 w2 . w2 w3', 'owen', tolerance=-1)": (
        r"tolerance must be between 0 and 1, not -1\.0\."
    ),
}
DOMAIN_ERRORS = {
    "explain(MODEL, 'w1 w2 w3 w4 w5 w6 w7 w8', 'lime-sampled', samples=8, ridge=0.0)": (
        r"^8 samples do not determine LIME's scores of 8 features\. Set samples to 18 or more\.$"
    ),
    "explain(MODEL, 'w1 w1 w1', 'lime-sampled')": (
        r"^LIME needs at least 2 features, but this text has 1\. Use features='positions', or give "
        r"a longer text\.$"
    ),
    "explain(MODEL, NINE_WORDS, 'lime-sampled', samples=64, bandwidth=1e-3)": (
        r"^with bandwidth 0\.001, all samples of 9 features have the weight 0\. Use a larger "
        r"bandwidth\.$"
    ),
    "explain(MODEL, [TEXT] * 35 + ['w1', TEXT], 'lime-sampled')": (
        r"^text 35 \(counting from 0\): LIME needs at least 2"
    ),
    "compare(MODEL, [TEXT, 'w1'], methods=['lime-sampled'])": (
        r"^text 1 \(counting from 0\): LIME needs at least 2"
    ),
}


@pytest.mark.parametrize("call", [*INPUT_ERRORS, *DOMAIN_ERRORS])
def test_a_wrong_call_says_what_is_wrong(call):
    error = InputError if call in INPUT_ERRORS else DomainError
    with pytest.raises(error, match=(INPUT_ERRORS | DOMAIN_ERRORS)[call]):
        eval(call)


# Tests run with a type checker, which users do not have. Therefore these calls run in a process.
WRONG_TYPES = {
    'explain(model, ["good film", None])': (
        "text 1 (counting from 0): a text must be a string, not NoneType."
    ),
    'explain(model, b"good film")': (
        "an image (bytes) needs a model that reads images, but this model reads texts."
    ),
    'explain(model, {"good film": 1})': "a text must be a string or a list of strings, not dict.",
    "explain(model, None)": "a text must be a string or a list of strings, not NoneType.",
    'explain(model, "good film", target=1.0)': (
        "a class must be given by its name or number, not 1.0."
    ),
    'explain(model, "good film", target=True)': (
        "a class must be given by its name or number, not True."
    ),
    'compare(model, "good film", target=["a"])': (
        "a class must be given by its name or number, not ['a']."
    ),
    'explain(model, "good film", features=[0.4, 1.2])': (
        "features must give the (start, end) of every unit, in order, without overlap "
        "and inside the text of 9 characters, not 0.4 after 0."
    ),
    'game(model, ["good film"])': "game needs a single text, not list.",
    'register("lime")': "a method must be a limelight.explainers.Method, or a class that "
    "register_method decorates, not 'lime'.",
    'model.logits(["good film", None])': "text 1 (counting from 0): a text must be a string, not "
    "NoneType.",
}


def test_messages_about_wrong_types():
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


def test_methods_can_be_a_single_name_and_count_once():
    assert [e.method for e in limelight.compare(MODEL, TEXT, methods="loo")] == ["loo"]
    assert [e.method for e in limelight.compare(MODEL, TEXT, methods=["gxi", "gxi"])] == ["gxi"]


@pytest.mark.parametrize("samples", [np.inf, np.nan, 1.5, "many"])
def test_a_count_is_a_whole_number(samples):
    message = f"the setting 'samples' must be a whole number, not {samples!r}."
    assert error_message(limelight.explain, TEXT, "lime-sampled", samples=samples) == message


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


@pytest.mark.parametrize("budget", [10**400, math.nan, math.inf, -1, True, "9" * 400, "1e400"])
def test_an_impossible_budget_raises_an_error(budget):
    with pytest.raises(InputError, match="budget must be a time"):
        limelight.explain(MODELS["function"], "a b c", "shapley", budget=budget)


@pytest.mark.parametrize("keywords", [{"target": -(10**5000)}, {"against": 10**5000}])
def test_a_message_shortens_a_huge_number(keywords):
    message = "must be between 0 and 1, not a number of about 5,001 digits"
    with pytest.raises(InputError, match=message):
        limelight.explain(MODELS["function"], "a b c", "loo", **keywords)


@pytest.mark.parametrize(("rows", "value"), [("7" * 400, "digits."), ("1e400", "not inf")])
def test_a_command_raises_an_error_for_a_huge_number(request, rows, value):
    command = request.getfixturevalue("limelight")
    outcome = command("explain", "a superb film", "--method", "lime", "--set", f"rows={rows}")
    assert outcome.code == 2
    message = " ".join(outcome.err.split())
    assert "the setting 'rows' must" in message
    assert value in message


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (limelight.explain, "explain"),
        (limelight.explain_classes, "explain_classes"),
        (limelight.compare, "compare"),
        (limelight.judge, "judge"),
    ],
)
def test_a_mistyped_keyword_gets_a_suggestion(call, name):
    text = [TEXT] if name == "judge" else TEXT
    for typed, expected in (("featurs", "features"), ("budgt", "budget")):
        assert error_message(call, text, **{typed: "words"}) == (
            f"unknown keyword of {name}: {typed!r}. Did you mean {expected!r}?"
        )
    # A setting of a method that is similar to no keyword is named as a setting.
    assert "unknown setting" in error_message(call, text, bandwith=1)


@pytest.mark.parametrize(
    ("call", "keyword", "expected"),
    [
        (limelight.counterfactual, "featurs", "features"),
        (limelight.game, "replacment", "replacement"),
        (limelight.load, "devic", "device"),
        (limelight.wrap, "clases", "classes"),
    ],
)
def test_a_function_without_settings_suggests_a_keyword_too(call, keyword, expected):
    with pytest.raises(InputError) as error:
        call(**{keyword: "x"})
    assert str(error.value) == (
        f"unknown keyword of {call.__name__}: {keyword!r}. Did you mean {expected!r}?"
    )
    with pytest.raises(TypeError, match="zzz"):
        call(zzz=1)
