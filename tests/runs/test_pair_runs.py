"""Pairs by two columns: runs over them, their summaries, evaluating and judging them."""

import json

import numpy as np
import pytest

import limelight
from limelight.data.columns import open_data
from limelight.errors import InputError
from written_tables import write_table

from runs import select_words

PREMISES = ["a dog runs here", "no dog", "a cat sleeps", "the dog sleeps", "a dog"]
HYPOTHESES = ["a dog sleeps", "a dog", "no cat", "no dog sleeps", "dog"]
DATA = {
    "premise": PREMISES,
    "hypothesis": HYPOTHESES,
    "label": [0, 1, 1, 1, 0],
    "kind": list("abcde"),
}


def contradicts(pairs):
    """A "no" speaks for, on the second side more than on the first; "dog" there against."""
    x = [
        2.0 * ("no" in b.split()) + ("no" in a.split()) - 0.5 * ("dog" in b.split())
        for a, b in pairs
    ]
    return np.array([[0.0, value] for value in x])


def model():
    return limelight.wrap(contradicts, classes=["fine", "contradiction"], scale="logit", pairs=True)


def write_content(folder, ending):
    return write_table(folder / f"data{ending}", DATA)


def test_a_run_over_two_columns_explains_pairs(tmp_path):
    path = write_content(tmp_path, ".parquet")
    run = limelight.explain_data(model(), path, "loo", output=tmp_path / "run")
    columns = run.record.data.columns
    assert (columns.text, columns.pair, columns.label) == ("premise", "hypothesis", "label")
    assert columns.carried == ["kind"]
    for row, pair in enumerate(zip(PREMISES, HYPOTHESES, strict=True)):
        e, direct = run.explanation(row), limelight.explain(model(), pair, "loo")
        assert (e.text, e.parts, e.features) == (direct.text, direct.parts, direct.features)
        np.testing.assert_allclose(e.scores, direct.scores, rtol=1e-6)


def test_words_of_a_run_are_kept_apart_by_column(tmp_path):
    run = limelight.explain_data(model(), DATA, ["loo", "shapley"], output=tmp_path / "run")
    table = run.words("loo").to_pylist()
    means = {row["word"]: (row["mean"], row["texts"]) for row in table}
    assert means["hypothesis: no"] == pytest.approx((2.0, 2))
    assert means["premise: no"] == pytest.approx((1.0, 1))
    assert means["hypothesis: dog"] == pytest.approx((-0.5, 4))
    assert means["premise: dog"] == pytest.approx((0.0, 4))
    assert "dog" not in means
    summary = run.summary("loo", representatives=2)
    words = {word["word"] for word in select_words(summary, "for", "against")}
    assert {"hypothesis: no", "hypothesis: dog"} <= words
    page = summary.as_html()
    assert "hypothesis: no" in page
    assert '<span class="side">second</span>' in page
    assert {example["word"] for example in summary.examples.records()} == words
    for example in summary.examples.records():
        assert example["match"] == example["word"].split(": ")[1]


def test_no_phrase_goes_from_one_side_to_the_other(tmp_path):
    pairs = {"premise": ["ok good"] * 6, "hypothesis": ["bad no"] * 6}

    def score(given):
        return np.array(
            [[0.0, sum(w in a + " " + b for w in ("good", "bad", "no"))] for a, b in given]
        )

    pair_model = limelight.wrap(score, classes=["x", "y"], scale="logit", pairs=True)
    run = limelight.explain_data(pair_model, pairs, "loo", output=tmp_path / "run")
    phrases = select_words(run.summary("loo"), "phrase")
    assert [phrase["word"] for phrase in phrases] == ["hypothesis: bad no"]


def test_one_side_of_a_run_and_texts_that_are_not_kept(tmp_path):
    run = limelight.explain_data(
        model(), DATA, "loo", output=tmp_path / "run", side="second", store_texts=False
    )
    assert run.record.request.side == "second"
    pair = (PREMISES[0], HYPOTHESES[0])
    e = run.explanation(0, text=pair)
    assert e.features == ("a", "dog", "sleeps")
    with pytest.raises(
        InputError, match=r"text must be text 0 of the run \(counting from 0\), but"
    ):
        run.explanation(0, text=pair[::-1])
    with pytest.raises(InputError, match="its side is 'second', not None"):
        limelight.explain_data(model(), DATA, "loo", output=tmp_path / "run", store_texts=False)


def test_a_missing_second_text_is_a_row_with_an_error(tmp_path):
    data = {"premise": ["a dog", "a cat", None], "hypothesis": ["no dog", None, "a dog"]}
    run = limelight.explain_data(model(), data, "loo", output=tmp_path / "run")
    assert run.errors().column("row").to_pylist() == [1, 2]
    assert [part.span for part in run.explanation(0).parts] == [(0, 5), (6, 12)]


def test_a_run_of_single_texts_stores_no_parts(tmp_path):
    text_model = limelight.wrap(lambda texts: [[0.5, 0.5] for _ in texts], classes=["a", "b"])
    run = limelight.explain_data(
        text_model, {"text": ["a dog", "no"]}, "loo", output=tmp_path / "run"
    )
    assert run.explanation(0).parts == ()
    assert run.words().column("word").to_pylist() == ["a", "dog", "no"]


@pytest.mark.parametrize(
    ("names", "text", "pair", "chosen"),
    [
        (["id", "sentence_A", "sentence_B"], None, None, ("sentence_A", "sentence_B")),
        (["Premise", "hypothesis", "text"], None, None, ("text", None)),
        (["premise", "label"], None, None, ("premise", None)),
        (["premise", "hypothesis"], None, None, ("premise", "hypothesis")),
        (["premise", "hypothesis"], "premise", None, ("premise", None)),
        (["premise", "hypothesis", "other"], None, "hypothesis", ("premise", "hypothesis")),
        (["premise", "hypothesis", "review"], None, "premise", ("review", "premise")),
        (["a", "b"], "a", "b", ("a", "b")),
    ],
)
def test_columns_of_usual_names_are_found_unless_a_text_is_there(names, text, pair, chosen):
    table = {name: [1 if name in ("id", "label") else "a"] for name in names}
    columns = open_data(table, text=text, pair=pair).columns
    assert (columns.text, columns.pair) == chosen


def test_labeled_pairs_are_read_and_measured(tmp_path):
    path = write_content(tmp_path, ".csv")
    data = limelight.read_labeled(path)
    assert data.texts == tuple(zip(PREMISES, HYPOTHESES, strict=True))
    result = limelight.evaluate(model(), data, labels=model().classes)
    assert result.confusion.tolist() == [[2, 0], [0, 3]]
    named = limelight.read_labeled(path, text_column="hypothesis", pair_column="premise")
    assert named.texts[0] == (HYPOTHESES[0], PREMISES[0])
    single_texts = limelight.read_labeled(path, text_column="hypothesis")
    assert single_texts.texts == tuple(HYPOTHESES)
    with pytest.raises(InputError, match="this function takes pairs"):
        limelight.evaluate(model(), single_texts, labels=model().classes)
    with pytest.raises(InputError, match="has no column 'second'"):
        limelight.read_labeled(path, text_column="premise", pair_column="second")


def test_training_on_pairs_is_refused(tmp_path):
    pytest.importorskip("torch")
    from limelight.training import RECIPES, prepare

    data = limelight.read_labeled(write_content(tmp_path, ".csv"))
    with pytest.raises(InputError, match="the classifier learns from single texts"):
        prepare(data, RECIPES["paper"])


@pytest.mark.slow
def test_files_of_pairs_are_judged_and_explained_from_the_shell(tmp_path, limelight):
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert", labels=2)
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    data, model = str(write_content(tmp_path, ".csv")), ("--model", str(tmp_path / "model"))
    data_options, run = ("--data", data, *model), str(tmp_path / "run")
    judged = limelight(
        "judge", *data_options, "--methods", "loo,gxi", "--columns", "none", "--format", "json"
    )
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)["texts"][0]["words"][-1] == "sleeps (second)"
    run_options = ("--method", "loo", "--output", run, "--engine", "here")
    done = limelight("explain-data", data, *model, *run_options)
    assert done.code == 0, done.err
    summary = limelight("summarize", run)
    assert summary.code == 0, summary.err
    assert "hypothesis: " in summary.out
    measured = limelight("evaluate", *data_options, "--format", "json")
    assert json.loads(measured.out)["texts"] == 5
