"""A request is a value that functions, commands and pages make, and that a run stores."""

import dataclasses
import inspect
from dataclasses import MISSING, fields
from typing import get_type_hints

import msgspec
import numpy as np
import pytest

import limelight
from limelight import api
from limelight.cli.options import RequestOptions
from limelight.errors import InputError
from limelight.explainers import explaining
from limelight.request import REQUEST_FIELDS, Request
from limelight.runs import job
from limelight.serving.texts import parse_request
from limelight.text import FeatureSpec

from tiny_models import tiny_model

MODEL = tiny_model(3)
TEXT = "w1 w2 w5"
FIELDS = {
    field.name: field.default
    for field in dataclasses.fields(Request)
    if field.name != "splitter"  # it needs the features of a conversation
}
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
    "first_subwords": True,
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
    """Carries the request of a call."""


@pytest.fixture
def write_results(monkeypatch, tmp_path):
    """Return the request that a function makes, without calling the model."""

    def prepare_model(_, request, **_options):
        raise PutError(request)

    for module in (api, explaining, job):
        monkeypatch.setattr(module, "prepare_model", prepare_model)

    def error_message(verb, **asked):
        data = {"output": tmp_path / "run"} if verb == "explain_data" else {}
        text = {"text": [TEXT]} if data else TEXT
        with pytest.raises(PutError) as caught:
            getattr(limelight, verb)(MODEL, text, **data, **asked)
        return caught.value.args[0]

    return error_message


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_takes_the_fields_of_a_request_as_keywords_with_their_defaults(verb):
    taken = inspect.signature(getattr(limelight, verb)).parameters
    named = {name: taken[name].default for name in FIELDS.keys() & taken.keys()}
    assert named == {name: FIELDS[name] for name in VERBS[verb]}
    assert all(taken[name].kind is inspect.Parameter.KEYWORD_ONLY for name in named)


@pytest.mark.parametrize(
    ("verb", "name"),
    [(v, n) for v in VERBS if v != "game" for n in sorted(OF_ONE_TEXT - VERBS[v])],
)
def test_a_field_that_a_function_lacks_raises_an_error(verb, name):
    with pytest.raises(InputError) as caught:
        getattr(limelight, verb)(MODEL, TEXT, **{name: ASKED[name]})
    assert str(caught.value) == f"{verb} has no option {name}. Leave {name} out."


@pytest.mark.parametrize(("verb", "name"), [(v, n) for v in VERBS for n in sorted(VERBS[v])])
def test_the_request_has_the_keywords_of_the_call(write_results, verb, name):
    result = write_results(verb, **{name: ASKED[name]})
    every = {"all_classes": True} if verb == "explain_classes" else {}
    assert result == Request(**every, **{name: ASKED[name]})
    assert result != Request(**every)


FUNCTIONS = [
    name
    for name in limelight.__all__
    if inspect.isfunction(getattr(limelight, name)) or name == "wrap_endpoint"
]
# Keywords that have another type or default on purpose.
DIFFERENT = {
    ("wrap", "scale"),  # of the function's outputs
    ("wrap", "pairs"),  # whether the function takes pairs of texts
    ("wrap_endpoint", "estimate"),  # the costs of the server
    ("load", "template"),  # "" would be a template of a local model
    ("wrap", "template"),  # the same
    ("load", "max_new_tokens"),  # a local model has its own default
    ("wrap", "max_new_tokens"),  # the same
    ("load", "labels"),  # words that a language model may answer
    ("wrap", "labels"),  # the same
    ("explain_data", "progress"),  # shards, rows and errors too
    ("explain_data", "output"),  # a run needs a folder
    ("judge", "target"),  # the predicted class of each text
    ("evaluate", "progress"),
    ("train", "progress"),  # epochs and accuracies
    ("learn", "features"),  # only features with a name can be stored
    ("learn", "estimate"),  # one sentence
    ("serve", "features"),  # the same for all texts
}


def test_functions_share_the_types_and_defaults_of_their_keywords():
    first_uses = {}
    for function in FUNCTIONS:
        for name, parameter in inspect.signature(getattr(limelight, function)).parameters.items():
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                continue
            if (function, name) in DIFFERENT:
                continue
            use = (str(parameter.annotation), parameter.default)
            _, first_use = first_uses.setdefault(name, (function, use))
            assert use == first_use, (function, first_uses[name][0], name)
    assert len(first_uses) > 30


def test_no_keyword_of_a_public_function_is_hidden():
    for function in FUNCTIONS:
        for parameter in inspect.signature(getattr(limelight, function)).parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, (function, parameter.name)
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                assert "MethodSettings" in str(parameter.annotation), function


@pytest.mark.parametrize("function", VERBS)
def test_the_types_of_keywords_are_those_of_the_request(function):
    # A stored request cannot name functions as features.
    hints = get_type_hints(Request) | {"features": FeatureSpec | None}
    keywords = get_type_hints(getattr(limelight, function))
    for name in VERBS[function]:
        assert keywords[name] == hints[name], name


def test_every_field_has_a_help_text():
    assert {field.name for field in REQUEST_FIELDS} == OF_ONE_TEXT
    assert all(len(field.help) > 20 and field.help[-1] == "." for field in REQUEST_FIELDS)


def test_the_page_uses_parameters_of_the_same_names():
    page = {"tab": "t", "panel": "p", "text": TEXT}
    # A grid is of patches, and goes with no other features.
    request = {name: ASKED[name] for name in OF_ONE_TEXT - {"grid"}}
    sent = parse_request(msgspec.json.encode(page | request))
    assert sent.request == Request(**request)
    assert parse_request(msgspec.json.encode(page)).request == Request()


def test_the_shell_has_options_of_the_same_names():
    options = {field.name: field.default for field in fields(RequestOptions)}
    assert MISSING not in options.values()
    assert options == {name: FIELDS[name] for name in OF_ONE_TEXT}
    arguments = RequestOptions(
        target="2", against="c0", window="100", protect=("w1",), side="first"
    )
    wanted = {"target": "2", "against": "c0", "window": 100, "protect": ("w1",), "side": "first"}
    assert Request(**arguments.keywords()) == Request(**wanted)


def call_unchecked(**asked):
    """Make a request without the type checks, which happen only in tests."""
    request = object.__new__(Request)
    for name, default in FIELDS.items():
        object.__setattr__(request, name, asked.get(name, default))
    request.__post_init__()
    return request


@pytest.mark.parametrize(
    ("requests", "sentence"),
    [
        ({"target": 0, "all_classes": True}, "give target or all_classes, not both."),
        ({"against": 0, "all_classes": True}, "give against or all_classes, not both."),
        ({"protect": "w1"}, "protect must be a list of words, not 'w1'."),
        ({"protect": None}, "protect must be a list of words, not None."),
        (
            {"at": [1, 2, 3]},
            "at must be words of the text, (start, end) in characters, or the number of a span, "
            "not [1, 2, 3].",
        ),
        *(
            (
                {"answer": answer},
                "answer must be a text, or a list with a text or None for each text, not "
                f"{answer!r}.",
            )
            for answer in (5, {"a": 1}, b"bad", ["good", 5])
        ),
        (
            {"side": "frist"},
            "unknown side: 'frist'. Did you mean 'first'? Choose from: first, second.",
        ),
    ],
)
def test_an_impossible_request_raises_an_error(requests, sentence):
    with pytest.raises(InputError) as caught:
        call_unchecked(**requests)
    assert str(caught.value) == sentence
    if not {"protect", "at", "answer"} & requests.keys():  # JSON has other errors for their types
        with pytest.raises(msgspec.ValidationError) as caught:
            msgspec.json.decode(msgspec.json.encode(requests), type=Request)
        assert str(caught.value) == sentence


@pytest.mark.parametrize("name", FIELDS)
def test_a_stored_request_is_restored_exactly(name):
    request = Request(**{name: ASKED[name]})
    again = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert again == request != Request()
    assert hash(again) == hash(request)


def test_a_request_does_not_change_with_its_arguments():
    words = ["w1"]
    request = Request(protect=words)
    words.append("w2")
    assert request == Request(protect=["w1"])
    with pytest.raises(AttributeError):
        request.target = 1


def test_whole_numbers_of_numpy_are_stored_as_pythons():
    requests = {"target": np.int64(1), "against": np.int8(0), "window": np.int32(7)}
    request = call_unchecked(**requests)
    again = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert again == request == Request(target=1, against=0, window=7)
