"""JSON: whatever can exist reads back equal, whatever cannot is refused in a sentence."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from limelight.errors import InputError
from limelight.results import Anchor, Explanation, Pairs

finite = st.floats(allow_nan=False, allow_infinity=False)
at_least_0 = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
share = st.floats(0, 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
spelt = st.sampled_from(["inf", "-inf", "nan", "NaN", "Infinity", "text", ""])
atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | spelt
names = st.one_of(texts, st.just("text"))
values = st.recursive(atoms, lambda v: st.lists(v, max_size=3) | st.dictionaries(names, v))
settings = st.dictionaries(words.map("s ".__add__) | st.just("text"), values, max_size=4)


def arrays(numbers, *shape):
    n = math.prod(shape)
    return st.lists(numbers, min_size=n, max_size=n).map(lambda x: np.array(x).reshape(shape))


@st.composite
def draw_spans(draw, text):
    cuts = st.integers(0, len(text))
    return tuple(sorted((draw(cuts), draw(cuts))) for _ in range(draw(st.integers(0, 3))))


@st.composite
def make_pairs(draw, d):
    n = draw(st.integers(0, 3)) if d else 0
    return {
        "features": draw(arrays(st.integers(0, max(d - 1, 0)), n, 2)).astype(np.int64),
        "scores": draw(arrays(finite, n)).astype(float),
        "stderr": draw(st.none() | arrays(at_least_0, n).map(lambda x: x.astype(float)))
        if n
        else None,
    }


@st.composite
def draw_anchor(draw, d):
    keep = draw(st.lists(st.integers(0, d - 1), unique=True)) if d else []
    low, high = sorted((draw(share), draw(share)))
    return {
        "features": tuple(keep),
        "precision": draw(share),
        "precision_interval": (low, high),
        "coverage": draw(share),
    }


@st.composite
def fields_of_explanations(draw):
    # Values, not objects: type checks draw random numbers of their own, which strategies must not.
    text, d = draw(texts), draw(st.integers(0, 4))
    strings = [draw(words) for _ in range(d)]
    heads = draw(st.integers(0, 2))
    return {
        "text": text,
        "features": tuple(strings),
        "spans": tuple(tuple(map(tuple, draw(draw_spans(text)))) for _ in strings),
        "scores": draw(arrays(finite, d)),
        "stderr": draw(st.none() | arrays(at_least_0, d)),
        "bound": draw(st.none() | st.floats(min_value=0, allow_nan=False)),
        "method": draw(words),
        "label": draw(texts),
        "signed": draw(st.booleans()),
        "target": draw(texts),
        "classes": tuple(draw(st.lists(texts, max_size=3))),
        "prediction": draw(st.dictionaries(texts, finite, max_size=3)),
        "base_value": draw(st.none() | finite),
        "intercept": draw(st.none() | finite),
        "heads": draw(arrays(finite, heads, d)) if heads else None,
        "pairs": draw(st.none() | make_pairs(d)),
        "anchor": draw(st.none() | draw_anchor(d)),
        "cut": draw(st.none() | st.integers(0, len(text))),
        "warnings": tuple(draw(st.lists(texts, max_size=2))),
        "settings": draw(settings),
        "diagnostics": draw(settings),
        "model": draw(texts),
        "version": draw(texts),
    }


def make_explanation(**changes):
    fields = {
        "text": "a bad plot",
        "features": ("a", "bad"),
        "spans": (((0, 1),), ((2, 5),)),
        "scores": np.array([0.5, -1.0]),
        "method": "lime",
        "target": "positive",
        "prediction": {"positive": 1.0},
    }
    return Explanation(**(fields | changes))


@given(fields_of_explanations())
@example({"settings": {"name": "inf", "number": math.inf, "list": [-math.inf, "-inf"]}})
@example({"bound": math.inf})
@example({"settings": {"text": {"text": {"text": "inf"}}, "n": 10**30}})
def test_whatever_can_exist_reads_back_equal(fields):
    for name, kind in (("pairs", Pairs), ("anchor", Anchor)):
        if (parts := fields.get(name)) is not None:
            fields = fields | {name: kind(**parts)}
    e = make_explanation(**fields)
    again = Explanation.from_json(e.to_json())
    assert again == e
    assert again.to_json() == e.to_json()
    assert Explanation.from_json(e.to_json(indent=2)) == e


@given(settings, settings)
def test_different_settings_are_written_differently(one, other):
    a, b = make_explanation(settings=one), make_explanation(settings=other)
    assert (a.to_json() == b.to_json()) == (repr(dict(a.settings)) == repr(dict(b.settings)))


def change_record(**changes):
    record = json.loads(make_explanation(stderr=np.array([0.1, 0.2]), bound=0.5).to_json())
    features = changes.pop("first", {})
    record["features"][0] |= features
    record["settings"] |= changes.pop("settings", {})
    return json.dumps(record | changes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (change_record(bound=-1.0), "bound must be at least 0, not -1.0."),
        (change_record(first={"stderr": -0.5}), "stderr must be at least 0, not -0.5."),
        (
            change_record(first={"spans": [[0, 11]]}),
            "inside the text of 10 characters, not (0, 11).",
        ),
        (change_record(first={"spans": [[3, 1]]}), "inside the text of 10 characters, not (3, 1)."),
        (
            change_record(first={"spans": [[-1, 1]]}),
            "inside the text of 10 characters, not (-1, 1).",
        ),
        (change_record(heads=[[1.0, 2.0, 3.0]]), "heads must have one number per feature (2), not"),
        (change_record(heads=[[1.0, 2.0], [3.0]]), "one number per feature (2) in each row."),
        (change_record(heads=[]), "heads must have one number per feature (2), not"),
        (
            change_record(anchor=[2], precision=1.0, precision_interval=[0.9, 1.0], coverage=0.5),
            "an anchor must name features from 0 to 1, not 2.",
        ),
        (
            change_record(anchor=[1], precision=1.5, precision_interval=[0.9, 1.0], coverage=0.5),
            "must be from 0 to 1",
        ),
        (
            change_record(pairs=[{"features": [0, 7], "score": 1.0, "stderr": None}]),
            "pairs must name features from 0 to 1, not 7.",
        ),
        (
            change_record(pairs=[{"features": [0, 10**30], "score": 1.0, "stderr": None}]),
            "pairs must name features from 0 to 1",
        ),
        (
            change_record(settings={"cut_at": 11}),
            "cut must be inside the text of 10 characters, not 11.",
        ),
        (
            change_record(settings={"cut_at": "x"}),
            "the setting 'cut_at' of this file cannot be used",
        ),
        (
            change_record(settings={"classes": 5}),
            "the setting 'classes' of this file cannot be used",
        ),
        (change_record(bound=math.nan), "this is not a limelight explanation: JSON is malformed"),
        (
            change_record(bound="nan"),
            "this is not a limelight explanation: Invalid enum value 'nan'",
        ),
        (change_record(first={"score": None}), "Expected `float`, got `null`"),
        ("[" * 100_000, "this is not a limelight explanation"),
        (
            change_record(settings={"x": 1}).replace(
                '"x": 1', '"x": ' + "[" * 99_999 + "]" * 99_999
            ),
            "deep",
        ),
        (
            change_record(settings={"x": 1}).replace('"x": 1', '"x": ' + "[" * 99 + "]" * 99),
            "32 levels deep",
        ),
        (change_record(warnings=["\ud800"]), "this is not a limelight explanation"),
        ("\ud800", "this is not a limelight explanation"),
    ],
)
def test_what_cannot_exist_is_refused_on_reading(content, message):
    with pytest.raises(InputError) as error:
        Explanation.from_json(content)
    assert message in str(error.value)


def test_the_refused_files_differ_from_one_that_is_read_in_that_alone():
    assert Explanation.from_json(change_record()).bound == 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"bound": math.nan},
        {"settings": {"x": math.nan}},
        {"settings": {"x": [1, {"y": math.nan}]}},
        {"settings": {"x": object()}},
        {"settings": {"x": {1: 2}}},
        {"prediction": {"positive": math.inf}},
        {"base_value": math.nan},
        {"target": "\ud800"},
        {"stderr": np.array([0.1, -0.1])},
    ],
)
def test_no_method_can_find_it_either(change):
    with pytest.raises(InputError):
        make_explanation(**change)


def test_numbers_of_numpy_are_numbers():
    e = make_explanation(
        bound=np.float64(0.5), settings={"n": np.int64(3), "t": (1, np.float64(2.5))}
    )
    assert Explanation.from_json(e.to_json()) == e
    assert e.settings["t"] == [1, 2.5]
