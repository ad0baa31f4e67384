"""A question is one value: the verbs, the shell and the page make it, and a run stores it."""

import dataclasses
import inspect
from dataclasses import MISSING, fields
from typing import get_type_hints

import msgspec
import numpy as np
import pytest

import limelight
from limelight import api
from limelight.api import Keywords
from limelight.cli.options import QuestionOptions
from limelight.errors import InputError
from limelight.explainers import explaining
from limelight.request import FIELDS as FIELDS_ASKED
from limelight.request import Request, RequestKeywords
from limelight.runs import job
from limelight.serving.texts import question_of as asked_by_page
from limelight.text import FeatureSpec

from tiny_models import tiny_model

MODEL = tiny_model(3)
TEXT = "w1 w2 w5"
FIELDS = {field.name: field.default for field in dataclasses.fields(Request)}
AIM = {"target", "against"}
ASKED = {
    "target": "c2",
    "against": 1,
    "all_classes": True,
    "features": "positions",
    "scale": "probability",
    "protect": ("w1",),
    "window": "auto",
    "side": "second",
    "at": "w5",
    "answer": "w7",
    "protect_span": False,
    "first_pieces": True,
    "grid": 3,
}
OF_ONE_TEXT = FIELDS.keys() - {"all_classes"}
VERBS = {
    "explain": OF_ONE_TEXT,
    "explain_classes": OF_ONE_TEXT - AIM,
    "compare": OF_ONE_TEXT,
    "game": OF_ONE_TEXT - AIM - {"scale"},
    "explain_data": FIELDS.keys(),
}


class PutError(Exception):
    """Carries the question that was put to the model."""


@pytest.fixture
def put(monkeypatch, tmp_path):
    """Return the question that a verb puts to the model, which is not asked."""

    def prepare_model(_, request):
        raise PutError(request)

    for module in (api, explaining, job):
        monkeypatch.setattr(module, "prepare_model", prepare_model)

    def found(verb, **asked):
        data = {"output": tmp_path / "run"} if verb == "explain_data" else {}
        text = {"text": [TEXT]} if data else TEXT
        with pytest.raises(PutError) as caught:
            getattr(limelight, verb)(MODEL, text, **data, **asked)
        return caught.value.args[0]

    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_the_fields_of_a_question_by_name_with_their_defaults(verb):
    taken = inspect.signature(getattr(limelight, verb)).parameters
    named = {name: taken[name].default for name in FIELDS.keys() & taken.keys()}
    assert named == {name: FIELDS[name] for name in VERBS[verb]}
    assert all(taken[name].kind is inspect.Parameter.KEYWORD_ONLY for name in named)


@pytest.mark.parametrize(
    ("verb", "name"), [(v, n) for v in VERBS for n in sorted(OF_ONE_TEXT - VERBS[v])]
)
def test_a_field_that_a_verb_has_not_is_refused(verb, name):
    with pytest.raises(InputError) as caught:
        getattr(limelight, verb)(MODEL, TEXT, **{name: ASKED[name]})
    assert str(caught.value) == f"{name} has no meaning for this verb; leave {name} out."


@pytest.mark.parametrize(("verb", "name"), [(v, n) for v in VERBS for n in sorted(VERBS[v])])
def test_what_a_verb_is_given_is_what_the_model_is_asked(put, verb, name):
    found = put(verb, **{name: ASKED[name]})
    every = {"all_classes": True} if verb == "explain_classes" else {}
    assert found == Request(**every, **{name: ASKED[name]})
    assert found != Request(**every)


def test_the_keywords_that_are_checked_by_type_are_those_of_the_question():
    own = get_type_hints(Request) | {
        "features": FeatureSpec | None
    }  # a record cannot name functions
    assert get_type_hints(RequestKeywords) == {name: own[name] for name in OF_ONE_TEXT}
    assert get_type_hints(Keywords).keys() >= OF_ONE_TEXT


def test_every_field_says_what_it_means():
    assert {one.name for one in FIELDS_ASKED} == OF_ONE_TEXT
    assert all(len(one.means) > 20 and one.means[-1] == "." for one in FIELDS_ASKED)


def test_the_page_asks_with_parameters_of_the_same_names():
    page = {"tab": "t", "place": "p", "text": TEXT}
    # A grid is of patches, and goes with no other features.
    asked = {name: ASKED[name] for name in OF_ONE_TEXT - {"grid"}}
    sent = asked_by_page(msgspec.json.encode(page | asked))
    assert sent.asked == Request(**asked)
    assert asked_by_page(msgspec.json.encode(page)).asked == Request()


def test_the_shell_asks_with_options_of_the_same_names():
    options = {field.name: field.default for field in fields(QuestionOptions)}
    assert MISSING not in options.values()
    assert options == {name: FIELDS[name] for name in OF_ONE_TEXT}
    given = QuestionOptions(target="2", against="c0", window="100", protect=("w1",), side="first")
    wanted = {"target": "2", "against": "c0", "window": 100, "protect": ("w1",), "side": "first"}
    assert Request(**given.keywords()) == Request(**wanted)


def unchecked(**asked):
    """Ask as a user would: types are checked only while tests run."""
    request = object.__new__(Request)
    for name, default in FIELDS.items():
        object.__setattr__(request, name, asked.get(name, default))
    request.__post_init__()
    return request


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"target": 0, "all_classes": True}, "give target or all_classes, not both."),
        ({"against": 0, "all_classes": True}, "give against or all_classes, not both."),
        ({"protect": "w1"}, "protect takes a list of words; got 'w1'."),
        ({"protect": None}, "protect takes a list of words; got None."),
        (
            {"at": [1, 2, 3]},
            "at must be words of the text, (start, end) in characters, or the number of a span; "
            "got [1, 2, 3].",
        ),
        *(
            (
                {"answer": answer},
                "answer must be a text, or a list with a text or None for each text; got "
                f"{answer!r}.",
            )
            for answer in (5, {"a": 1}, b"bad", ["good", 5])
        ),
        ({"side": "frist"}, "no side 'frist'. Did you mean 'first'? Choose from: first, second."),
    ],
)
def test_what_no_model_can_answer_is_refused_once_in_a_sentence(asked, sentence):
    with pytest.raises(InputError) as caught:
        unchecked(**asked)
    assert str(caught.value) == sentence
    if not {"protect", "at", "answer"} & asked.keys():  # which JSON tells apart by type
        with pytest.raises(msgspec.ValidationError) as caught:
            msgspec.json.decode(msgspec.json.encode(asked), type=Request)
        assert str(caught.value) == sentence


@pytest.mark.parametrize("name", FIELDS)
def test_a_stored_question_is_the_same_question_and_no_other(name):
    request = Request(**{name: ASKED[name]})
    again = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert again == request != Request()
    assert hash(again) == hash(request)


def test_a_question_does_not_change_with_what_it_was_made_of():
    words = ["w1"]
    request = Request(protect=words)
    words.append("w2")
    assert request == Request(protect=["w1"])
    with pytest.raises(AttributeError):
        request.target = 1


def test_whole_numbers_of_numpy_are_stored_as_pythons():
    asked = {"target": np.int64(1), "against": np.int8(0), "window": np.int32(7)}
    request = unchecked(**asked)
    again = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert again == request == Request(target=1, against=0, window=7)
