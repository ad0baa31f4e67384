"""What a run stores is what was found, up to float32, and bounds still hold."""

from dataclasses import replace

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

from limelight.runs import Run
from limelight.runs.rows import shard_bytes, shard_table
from limelight.runs.run import RunFolder
from limelight.runs.work import ShardWork

from runs import make_record, texts_table
from tiny_models import random_texts, tiny_model

TEXTS = [*random_texts(6, seed=3), "", "w1"]
METHODS = ("lime", "shapley", "gxi", "interactions", "anchors", "lime-sampled")


def store_run(folder, model, methods=METHODS, texts=TEXTS, **changes):
    record = make_record(model, methods, texts, **changes)
    place, work = RunFolder(folder), ShardWork(model, record)
    with place.lock_folder():
        place.begin(record)
        for number in range(record.shards.count):
            part = record.text_numbers(number)
            table = texts_table(texts[part.start : part.stop], part.start)
            place.write(number, shard_bytes(work(table)))
    return Run(folder)


@pytest.fixture(scope="module")
def model():
    return tiny_model(outputs=3)


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    return store_run(tmp_path_factory.mktemp("run") / "run", model)


ARRAYS = ("scores", "stderr")
NUMBERS = ("base_value", "intercept", "prediction", "bound", "heads", "pairs")


def assert_stored(read, found):
    """All but the numbers is equal, and these are as near as float32 or the bounds say."""
    plain = {name: None for name in NUMBERS if name != "prediction"} | {"prediction": {}}
    if (bound := found.diagnostics.get("intercept_bound")) is not None:
        assert read.diagnostics["intercept_bound"] >= bound * (1 - 1e-2)
        off = abs(read.intercept - found.intercept)
        assert off <= read.diagnostics["intercept_bound"] + bound
        plain["diagnostics"] = {}
    zeros = {name: None if getattr(read, name) is None else 0 * read.scores for name in ARRAYS}
    assert replace(read, **plain, **zeros) == replace(found, **plain, **zeros)
    slack = 1e-6 + (read.bound or 0) + (found.bound or 0)
    for name in (*ARRAYS, "base_value", "intercept"):
        ours, theirs = getattr(read, name), getattr(found, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=slack)
    assert read.prediction == pytest.approx(dict(found.prediction), rel=1e-6)
    assert (read.pairs is None) == (found.pairs is None)
    if found.pairs is not None:
        np.testing.assert_array_equal(read.pairs.features, found.pairs.features)
        np.testing.assert_allclose(read.pairs.scores, found.pairs.scores, rtol=1e-6, atol=slack)


@pytest.mark.parametrize("method", METHODS)
def test_an_explanation_comes_back_as_it_was_found(run, model, method):
    for i, text in enumerate(TEXTS[:6]):
        assert_stored(run.explanation(i, method), limelight.explain(model, text, method))


def test_the_bound_covers_the_rounding_to_float32(model):
    e = limelight.explain(model, TEXTS[0], "lime", tolerance=1e-12)
    expected = shard_table(texts_table([e.text]), [("lime", None)], [[e]], keep_texts=True)
    (row,) = expected.to_pylist()
    rounding = np.abs(np.array(row["scores"]) - e.scores).max()
    assert rounding > 1e-9 > e.bound  # else there is nothing to cover
    assert e.bound + rounding <= row["bound"] <= 1.01 * (e.bound + rounding)


def test_rows_come_in_the_order_of_the_data_and_of_the_methods(run):
    rows = [row for table in run.tables(["row", "method"]) for row in table.to_pylist()]
    assert [(row["row"], row["method"]) for row in rows] == [
        (i, method) for i in range(len(TEXTS)) for method in METHODS
    ]
    assert run.texts().column("row").to_pylist() == list(range(len(TEXTS)))
    assert run.texts().column("text").to_pylist() == TEXTS


def test_a_text_that_fails_is_a_row_with_its_error_and_others_stay(run):
    errors = run.errors().to_pylist()
    assert {row["row"] for row in errors} == {6, 7}
    empty = [row["error"] for row in errors if row["row"] == 6]
    assert len(empty) == len(METHODS)
    assert set(empty) == {"the text has no words. Give at least one word."}
    failed_methods = {row["method"] for row in errors if row["row"] == 7}
    assert "lime-sampled" in failed_methods
    assert "gxi" not in failed_methods  # one word has a gradient and no sampled regression
    assert "lime" not in failed_methods
    assert run.failed == len(errors)
    assert len(list(run)) == len(METHODS) * len(TEXTS) - len(errors)
    with pytest.raises(InputError, match=r"text 6 \(counting from 0\) was not explained: the text"):
        run.explanation(6)


def test_an_explanation_is_selected_by_its_id(model, tmp_path):
    data = {"text": [*TEXTS[:3], TEXTS[0]], "id": ["a", "b", "7", "a"]}
    run = limelight.explain_data(model, data, "gxi", output=tmp_path / "run", progress=False)
    assert run.explanation(id="b").text == TEXTS[1]
    assert run.explanation(id=7, method="gxi").text == TEXTS[2]
    with pytest.raises(InputError, match=r"2 texts have the id 'a', such as rows 0 and 3\."):
        run.explanation(id="a")
    with pytest.raises(InputError, match=r"no explained text has the id 'c'\."):
        run.explanation(id="c")
    for selectors in ({}, {"row": 0, "id": "b"}):
        with pytest.raises(InputError, match="either a row or an id"):
            run.explanation(**selectors)


def test_labels_are_named_as_the_classes_are(run):
    assert set(run.texts().column("label").to_pylist()) == {"class 1"}


def test_every_class_has_its_row_on_request(model, tmp_path):
    run = store_run(tmp_path / "run", model, ("lime",), all_classes=True)
    for name in model.classes:
        expected = limelight.explain(model, TEXTS[1], "lime", target=name)
        assert_stored(run.explanation(1, target=name), expected)
    with pytest.raises(
        InputError, match=r"unknown explained class: 'class 9'\. .*from: class 0, class 1"
    ):
        run.explanation(1, target="class 9")


def test_without_stored_texts_the_text_must_be_given_and_be_the_same(model, tmp_path):
    run = store_run(tmp_path / "run", model, ("gxi",), store_texts=False)
    with pytest.raises(InputError, match=r"this run stores no texts\. Give the text with text=\."):
        run.explanation(0)
    with pytest.raises(InputError, match="text must be text 0 of the run"):
        run.explanation(0, text=TEXTS[1])
    assert run.explanation(0, text=TEXTS[0]).text == TEXTS[0]


def test_a_run_has_the_facts_of_its_plan(run, tmp_path):
    assert repr(run) == (
        f"<Run '{run.path}': 8 texts, {', '.join(METHODS)}, {run.failed} rows failed>"
    )
    assert len(run) == run.total == 8
    assert run.finished
    with pytest.raises(InputError, match="there is no run at"):
        Run(tmp_path)
    with pytest.raises(InputError, match=r"row must be a number from 0 to 7, not 8\."):
        run.explanation(8)
    with pytest.raises(
        InputError, match=r"unknown method of this run: 'lim'\. Did you mean 'lime'"
    ):
        run.explanation(0, "lim")


def test_a_number_that_float32_cannot_hold_is_an_error_and_not_infinity(tmp_path):
    run = store_run(tmp_path / "run", tiny_model(scale=1e20), ("gxi",), TEXTS[:1])
    (error,) = run.errors().column("error").to_pylist()
    assert "is too large for a run, which stores numbers as float32" in error


def test_the_same_rows_are_the_same_bytes(model):
    record = make_record(model, METHODS, TEXTS)
    tables = [ShardWork(model, record)(texts_table(TEXTS)) for _ in range(2)]
    assert shard_bytes(tables[0]) == shard_bytes(tables[1])
