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
def spans_in(draw, text):
    cuts = st.integers(0, len(text))
    return tuple(sorted((draw(cuts), draw(cuts))) for _ in range(draw(st.integers(0, 3))))


@st.composite
def pairs_of(draw, d):
    n = draw(st.integers(0, 3)) if d else 0
    return {
        "features": draw(arrays(st.integers(0, max(d - 1, 0)), n, 2)).astype(np.int64),
        "scores": draw(arrays(finite, n)).astype(float),
        "stderr": draw(st.none() | arrays(at_least_0, n).map(lambda x: x.astype(float)))
        if n
        else None,
    }


@st.composite
def anchors_of(draw, d):
    kept = draw(st.lists(st.integers(0, d - 1), unique=True)) if d else []
    low, high = sorted((draw(share), draw(share)))
    return {
        "features": tuple(kept),
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
        "spans": tuple(tuple(map(tuple, draw(spans_in(text)))) for _ in strings),
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
        "pairs": draw(st.none() | pairs_of(d)),
        "anchor": draw(st.none() | anchors_of(d)),
        "cut": draw(st.none() | st.integers(0, len(text))),
        "warnings": tuple(draw(st.lists(texts, max_size=2))),
        "settings": draw(settings),
        "diagnostics": draw(settings),
        "model": draw(texts),
        "version": draw(texts),
    }


def made(**changes):
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
    e = made(**fields)
    again = Explanation.from_json(e.to_json())
    assert again == e
    assert again.to_json() == e.to_json()
    assert Explanation.from_json(e.to_json(indent=2)) == e


@given(settings, settings)
def test_different_settings_are_written_differently(one, other):
    a, b = made(settings=one), made(settings=other)
    assert (a.to_json() == b.to_json()) == (repr(dict(a.settings)) == repr(dict(b.settings)))


def changed(**changes):
    record = json.loads(made(stderr=np.array([0.1, 0.2]), bound=0.5).to_json())
    features = changes.pop("first", {})
    record["features"][0] |= features
    record["settings"] |= changes.pop("settings", {})
    return json.dumps(record | changes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (changed(bound=-1.0), "bound must be at least 0, not -1.0."),
        (changed(first={"stderr": -0.5}), "stderr must be at least 0, not -0.5."),
        (changed(first={"spans": [[0, 11]]}), "inside the text of 10 characters, not (0, 11)."),
        (changed(first={"spans": [[3, 1]]}), "inside the text of 10 characters, not (3, 1)."),
        (changed(first={"spans": [[-1, 1]]}), "inside the text of 10 characters, not (-1, 1)."),
        (changed(heads=[[1.0, 2.0, 3.0]]), "heads must have one number per feature (2), not"),
        (changed(heads=[[1.0, 2.0], [3.0]]), "one number per feature (2) in each row."),
        (changed(heads=[]), "heads must have one number per feature (2), not"),
        (
            changed(anchor=[2], precision=1.0, precision_interval=[0.9, 1.0], coverage=0.5),
            "an anchor must name features from 0 to 1, not 2.",
        ),
        (
            changed(anchor=[1], precision=1.5, precision_interval=[0.9, 1.0], coverage=0.5),
            "must be from 0 to 1",
        ),
        (
            changed(pairs=[{"features": [0, 7], "score": 1.0, "stderr": None}]),
            "pairs must name features from 0 to 1, not 7.",
        ),
        (
            changed(pairs=[{"features": [0, 10**30], "score": 1.0, "stderr": None}]),
            "pairs must name features from 0 to 1",
        ),
        (
            changed(settings={"cut_at": 11}),
            "cut must be inside the text of 10 characters, not 11.",
        ),
        (changed(settings={"cut_at": "x"}), "the setting 'cut_at' of this file cannot be used"),
        (changed(settings={"classes": 5}), "the setting 'classes' of this file cannot be used"),
        (changed(bound=math.nan), "this is not a limelight explanation: JSON is malformed"),
        (changed(bound="nan"), "this is not a limelight explanation: Invalid enum value 'nan'"),
        (changed(first={"score": None}), "Expected `float`, got `null`"),
        ("[" * 100_000, "this is not a limelight explanation"),
        (
            changed(settings={"x": 1}).replace('"x": 1', '"x": ' + "[" * 99_999 + "]" * 99_999),
            "deep",
        ),
        (
            changed(settings={"x": 1}).replace('"x": 1', '"x": ' + "[" * 99 + "]" * 99),
            "32 levels deep",
        ),
        (changed(warnings=["\ud800"]), "this is not a limelight explanation"),
        ("\ud800", "this is not a limelight explanation"),
    ],
)
def test_what_cannot_exist_is_refused_on_reading(content, said):
    with pytest.raises(InputError) as error:
        Explanation.from_json(content)
    assert said in str(error.value)


def test_the_refused_files_differ_from_one_that_is_read_in_that_alone():
    assert Explanation.from_json(changed()).bound == 0.5


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
        made(**change)


def test_a_setting_with_the_name_of_a_fact_is_not_written():
    with pytest.raises(InputError, match="files already use the name 'link'"):
        made(settings={"link": "softmax"}).to_json()


def test_numbers_of_numpy_are_numbers():
    e = made(bound=np.float64(0.5), settings={"n": np.int64(3), "t": (1, np.float64(2.5))})
    assert Explanation.from_json(e.to_json()) == e
    assert e.settings["t"] == [1, 2.5]
