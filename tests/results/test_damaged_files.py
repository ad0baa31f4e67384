"""Files of results that were cut, flipped or written by somebody else: a sentence, or a result."""

import copy
import io
import json
import random

import numpy as np
import pytest
from rich.console import Console

import limelight
from limelight import Comparison, Explanation, InputError, Judgment, judge

from tiny_models import random_texts, tiny_model

MODEL = tiny_model(3, T_max=31, scale=0.4)
TEXTS = [text for text in random_texts(60, seed=5, longest=8) if len(set(text.split())) > 3][:3]
VALUES = [
    None, True, "x", "", -1, 0, 1e308, -1e308, 2**63, 10**30, [], {}, [[]], "nan", "inf", "AAA=",
    ["a"], {"a": 1}, [None], [0, 1], [1, 0], "\udc00", "\x1b[31m",
]  # fmt: skip


@pytest.fixture(scope="module")
def results():
    marked = [[[0, 2]]] * len(TEXTS)
    methods = ["loo", "alpha-avg", "lime-sampled"]
    more = {"second_replacement": "delete", "rationales": marked, "samples": 60}
    return {
        Judgment: judge(MODEL, TEXTS, methods, **more),
        Explanation: limelight.explain(MODEL, TEXTS[0], "interactions"),
        Comparison: limelight.compare(MODEL, TEXTS[0], methods=["loo", "lime"]),
    }


def places(record, before=()):
    """Every place of a record, of lists the first two entries."""
    inside = list(record.items() if isinstance(record, dict) else enumerate(record[:2]))
    for key, value in inside:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places(value, (*before, key))


def damage_copy(record, rng):
    """Yield the record with another value, or none, in places drawn at random."""
    every = list(places(record))
    while True:
        *path, last = rng.choice(every)
        full = copy.deepcopy(record)
        inner = full
        for key in path:
            inner = inner[key]
        value = rng.choice([*VALUES, "left out", "twice"])
        if value == "left out":
            del inner[last]
        elif value == "twice" and isinstance(inner, list):
            inner.append(inner[last])
        else:
            inner[last] = value
        yield json.dumps(full)


def use(value):
    assert value == type(value).from_json(value.to_json())
    value.to_csv()
    Console(file=io.StringIO(), width=80).print(value)
    if hasattr(value, "to_html"):
        value.to_html()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 1e308 overflows where it is drawn
@pytest.mark.parametrize("kind", [Judgment, Explanation, Comparison])
def test_a_damaged_file_is_an_error_or_a_valid_result(results, kind):
    rng, full = random.Random(7), results[kind].to_json()
    contents = [full[: rng.randrange(len(full))] for _ in range(20)]
    contents += [f"{full[:k]}{'[' * 5000}{full[k:]}" for k in rng.sample(range(len(full)), 20)]
    for _ in range(60):
        flipped = bytearray(full.encode())
        flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        contents.append(bytes(flipped))
    changed = damage_copy(json.loads(full), rng)
    contents += [next(changed) for _ in range(200)]
    refused, read = [], []
    for content in contents:
        try:
            read.append(kind.from_json(content))
        except InputError as error:
            refused.append(str(error))
    assert refused
    assert read
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in refused)
    for value in rng.sample(read, min(25, len(read))):
        use(value)


def read_record(results):
    return json.loads(results[Judgment].to_json())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["second"]["methods"].pop(), "its 'second' must have the same methods"),
        (lambda r: r["second"]["texts"].pop(), "its 'second' must have the same methods and texts"),
        (lambda r: r["plausibility"]["texts"].pop(), "its 'plausibility' must have the same"),
        (
            lambda r: r["plausibility"]["texts"][0]["token_f1"]["methods"].pop(),
            "the marked words must be compared with all 3 methods",
        ),
        (
            lambda r: r["methods"].append(r["methods"][0]),
            "this is not a limelight judgment: it names a method twice.",
        ),
        (
            lambda r: r["texts"][0]["curves"]["loo"].update(order="//8="),
            "a curve removes words that its text does not have",
        ),
        (
            lambda r: r["texts"][0]["curves"]["loo"].update(values="AADAfw=="),
            "the values of a curve must be finite numbers",
        ),
        (lambda r: r.update(verdict="\ud800"), "this is not a limelight judgment"),
    ],
)
def test_parts_of_a_judgment_that_do_not_fit_are_refused(results, change, message):
    record = read_record(results)
    assert Judgment.from_json(json.dumps(record)) == results[Judgment]
    change(record)
    with pytest.raises(InputError, match=message):
        Judgment.from_json(json.dumps(record))


def broken(model, text):
    raise RuntimeError("\ud800")


def test_whatever_was_judged_can_be_stored():
    values = {"a": [*limelight.explain(MODEL, TEXTS, "loo"), *limelight.explain(MODEL, TEXTS)]}
    judgment = judge(MODEL, ["w1 \ud800 w2 w3", *TEXTS], {**values, "a 2": "loo", "b": broken})
    assert [m.method for m in judgment.methods] == ["a", "a 2", "a 2 2", "b"]
    use(judgment)
    use(judge(MODEL, TEXTS, ["lime"], bandwidth=np.float64(0.5), columns=[]))
    use(judge(MODEL, TEXTS, ["lime"], bandwidth=np.inf, columns=[]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": {"\ud800": "loo"}}, "the name of a method must have no lone surrogates"),
        ({"seed": -1}, r"seed must be a whole number from 0 to 2\^63 − 1, not -1\."),
        ({"seed": 10**5000}, r"2\^63 − 1, not a number of about 5,001 digits\."),
        (
            {"target": 10**5000},
            r"a class must be between 0 and 1, not a number of about 5,001 digits\.",
        ),
        ({"rationales": [[[0, 10**400]]]}, "the rationale of text 0 must be a list"),
    ],
)
def test_a_wrong_option_of_judge_raises_an_error_before_any_method_runs(options, message):
    with pytest.raises(InputError, match=message):
        judge(MODEL, TEXTS[:1], **{"methods": [broken], **options})


def test_a_file_that_names_no_schema_is_refused(results):
    for kind, result in results.items():
        record = json.loads(result.to_json())
        del record["schema"]
        with pytest.raises(InputError, match=r"this is not a limelight .*schema"):
            kind.from_json(json.dumps(record))
