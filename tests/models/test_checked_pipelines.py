"""Pipelines whose own code reads the words: what is proven, what is checked, what is sampled."""

import io
import json
import os
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import limelight

pytest.importorskip("sklearn")
from random_pipelines import (
    CappedColumns,
    ClippedRidge,
    NamedRidge,
    OtherWeights,
    SquaredRidge,
    blank_words,
    marks_after_not_past_adverbs,
    pipeline_outputs,
    split_at_spaces,
    target_column,
    try_pipeline,
)
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from limelight.models.scikit_classes import ForeignCodeError, scikit_class
from limelight.models.vectorized_words import WordReader, is_known_pattern, removal_masks
from limelight.rendering.html import explanation_page
from limelight.theory.enumeration import enumerate_masks, shapley_matrix

WORDS = (
    *("good", "bad", "film", "plot", "cast", "dull", "great"),
    *("awful", "music", "story", "new", "york", "not", "very"),
)
DEFAULT = r"(?u)\b\w\w+\b"
KNOWN = [DEFAULT, r"\b\w+\b", r"\w+", r"\w\w+", r"\S+", r"[^\s]+", r"[a-z]+", r"[a-z'-]{2,}"]
UNKNOWN = [
    *(r"new\s+york|\w\w+", r"\w+\s*", r"\b\w[\w'-]+\b", r"(\w\w+)[,;]?", r"\w+(?:-\w+)*"),
    *(r"\b\S+\b", r"[^,]+", r"\w{2,4}", r"\w+?", r"\b[A-z]+\b", r"\b[^a]+\b", r"\w+ \w+|\w+"),
]


def fit_pipeline(vectorizer, last=None, scale=1.0):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 8)) for _ in range(80)] + ["new york good"] * 5
    y = rng.integers(0, 2, len(texts))
    if isinstance(last, Ridge):
        return make_pipeline(vectorizer, last).fit(texts, scale * (1 + y))
    return make_pipeline(vectorizer, last or LogisticRegression()).fit(texts, y.astype(str))


def own_tokenizer():
    return fit_pipeline(TfidfVectorizer(tokenizer=split_at_spaces, token_pattern=None))


def terminal(result):
    console = Console(file=io.StringIO(), width=300)
    console.print(result)
    return console.file.getvalue()


def all_subsets(pipeline, e):
    d = len(e)
    keep = enumerate_masks(d)
    f = target_column(pipeline_outputs(pipeline, [blank_words(e, row) for row in keep]), e)
    return f @ shapley_matrix(d)


@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        (fit_pipeline(TfidfVectorizer(token_pattern=r"new\s+york|\w\w+")), "new good york film"),
        (fit_pipeline(TfidfVectorizer(token_pattern=r"\w+\s*")), "good film plot dull"),
        (
            fit_pipeline(
                TfidfVectorizer(tokenizer=marks_after_not_past_adverbs, token_pattern=None)
            ),
            "not very so quite good film",
        ),
        (fit_pipeline(TfidfVectorizer(), ClippedRidge(alpha=0.01)), "good bad film plot"),
        (fit_pipeline(CappedColumns(), Ridge(), scale=1e-8), "good good bad film"),
        (fit_pipeline(TfidfVectorizer(), SquaredRidge(), scale=1e-8), "good bad film plot"),
    ],
    ids=["spaces inside", "spaces after", "negation", "clipped", "small columns", "small squares"],
)
def test_what_looks_exact_and_is_not_has_no_bound(pipeline, text):
    e = limelight.explain(limelight.wrap(pipeline), text, "shapley")
    assert e.bound is None


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_small_outputs_of_a_linear_pipeline_are_exact(scale):
    pipeline = fit_pipeline(TfidfVectorizer(), NamedRidge(), scale=scale)
    e = limelight.explain(limelight.wrap(pipeline), "good dull film", "shapley", tolerance=1e-9)
    assert np.abs(e.scores - all_subsets(pipeline, e)).max() <= e.bound < 1e-7 * scale
    model = limelight.wrap(pipeline)
    pipeline[-1].coef_ = pipeline[-1].coef_ * 1.01
    with pytest.raises(
        limelight.InputError, match=r"have changed since it was wrapped\. Wrap it again\."
    ):
        limelight.explain(model, "good dull film", "shapley")


def test_a_checked_bound_is_not_called_proven_anywhere(tmp_path):
    model, text = limelight.wrap(own_tokenizer()), "good film, dull plot"
    e = limelight.explain(model, text, "shapley")
    assert e.bound is not None
    assert e.bound_kind == "checked"
    assert json.loads(e.to_json())["bound_kind"] == "checked"
    assert limelight.Explanation.from_json(e.to_json()) == e
    for view in (terminal(e), explanation_page(e)):
        assert "checked on this text, not proven" in view
        assert "(proven)" not in view
    table = limelight.methods(model)
    ways = [implementation.exactness for row in table for implementation in row.implementations]
    assert "checked" in ways
    assert not {"bound", "exact"} & set(ways)
    assert "exact, with a bound that is checked on each text and not proven" in terminal(table)
    assert "proven bound" not in terminal(table)
    run = limelight.explain_data(model, [text, "bad cast"], "shapley", output=tmp_path / "run")
    assert [value.bound_kind for value in run] == ["checked", "checked"]
    judged = limelight.judge(model, [" ".join(WORDS[i : i + 6]) for i in range(6)], ["shapley"])
    assert judged.ceiling_kind == "checked"
    assert "not proven" in judged.to_html()


def test_a_proven_bound_is_called_proven(tmp_path):
    model = limelight.wrap(fit_pipeline(TfidfVectorizer()))
    e = limelight.explain(model, "good film", "shapley")
    assert e.bound_kind == "proven"
    assert "bound_kind" not in json.loads(e.to_json())
    assert "(proven bound)" in terminal(e)
    assert limelight.methods(model)["shapley"].implementations[0].exactness == "bound"
    run = limelight.explain_data(model, ["good film"], "shapley", output=tmp_path / "run")
    assert next(iter(run)).bound_kind == "proven"


def test_a_letter_that_python_lowers_by_its_neighbors_is_checked():
    model = limelight.wrap(fit_pipeline(TfidfVectorizer()))
    kinds = {
        text: limelight.explain(model, text, "shapley").bound_kind
        for text in ("good film", "naïve film", "good ΟΔΟΣ", "good İstanbul")
    }
    assert list(kinds.values()) == ["proven", "proven", "checked", "checked"]


def test_all_other_letters_become_small_one_by_one():
    letters = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    other_values = [letter for letter in letters if letter not in "\u03a3\u0130"]
    assert all(len(letter.lower()) == 1 for letter in other_values)
    assert all(letter.isalnum() == letter.lower().isalnum() for letter in other_values)
    for before, after in (("a", "b"), ("A'", "'b")):
        assert all(
            f"{before}{letter}{after}".lower() == before.lower() + letter.lower() + after.lower()
            for letter in other_values
        )
    # The two that are excepted are no mistake.
    assert len("\u0130".lower()) == 2
    assert "a\u03a3".lower() != "a" + "\u03a3".lower()


def test_patterns_are_known_only_where_nothing_around_a_token_matters():
    assert all(map(is_known_pattern, KNOWN))
    assert not any(map(is_known_pattern, [*UNKNOWN, None]))


@given(
    st.sampled_from(KNOWN),
    st.text(st.sampled_from("ab'-1,. \tÄé_B"), max_size=14),
    st.lists(st.booleans(), min_size=14, max_size=14),
)
def test_removing_tokens_of_a_known_pattern_changes_no_others(pattern, text, keep):
    matches = list(re.finditer(pattern, text))
    remaining = list(text)
    for match, stays in zip(matches, keep, strict=False):
        if not stays:
            remaining[match.start() : match.end()] = " " * len(match[0])
    kept_words = [match[0] for match, stays in zip(matches, keep, strict=False) if stays]
    assert re.findall(pattern, "".join(remaining)) == kept_words


def test_the_sets_that_are_tried_part_near_words_at_every_distance():
    names = [f"w{i}" for i in range(40)]
    keep = removal_masks(names, "a text")
    np.testing.assert_array_equal(keep, removal_masks(names, "a text"))
    for distance in range(1, 8):  # with all between them removed
        for i in range(40 - distance):
            between = ~keep[:, i + 1 : i + distance].any(axis=1)
            assert (keep[:, i] & keep[:, i + distance] & between).any()
    assert (~keep).all(axis=1).any()
    assert len(removal_masks(names[:5], "a text")) == 2**5
    twice = removal_masks(["a", "b"] * 20, "a text")
    together = (twice[:, ::2] == twice[:, :1]).all(axis=1)
    assert (together & twice[:, 0] & ~twice[:, 1::2].any(axis=1)).any()


def test_custom_code_that_rejects_a_shorter_text_is_no_error():
    def strict(text):
        return {2: text.split()}[len(text.split())] if text.split() else []

    reader = WordReader(TfidfVectorizer(analyzer=strict))
    assert reader.read("good film") is None


def test_an_estimator_is_known_by_the_class_whose_code_it_runs():
    assert [scikit_class(estimator) for estimator in (Ridge(), NamedRidge())] == ["Ridge", "Ridge"]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (ClippedRidge(), "changes predict of scikit-learn's Ridge"),
        (SquaredRidge(), "changes _decision_function of scikit-learn's Ridge"),
        (OtherWeights(), "changes coef_ of scikit-learn's LogisticRegression"),
        (CappedColumns(), "changes transform of scikit-learn's TfidfVectorizer"),
        (np.zeros(3), "ndarray is not a class of scikit-learn"),
    ],
)
def test_the_message_names_code_that_is_not_of_scikit_learn(estimator, message):
    with pytest.raises(ForeignCodeError, match=message):
        scikit_class(estimator)


def test_a_function_that_was_assigned_to_a_fitted_classifier_is_seen():
    pipeline = fit_pipeline(TfidfVectorizer())
    pipeline[-1].decision_function = lambda rows: np.zeros(rows.shape[0])
    assert (
        "changes decision_function of scikit-learn's LogisticRegression"
        in limelight.wrap(pipeline).capabilities["exact_game"]
    )


def test_random_pipelines_are_within_their_bounds_of_all_subsets():
    """Exact or sampled, called with words removed; PIPELINE_SEEDS=84 tries more than 2,000."""
    count = 24 * int(os.environ.get("PIPELINE_SEEDS", "1"))
    outcomes = [try_pipeline(seed) for seed in range(count)]
    assert max(outcome.ratio for outcome in outcomes) <= 1
    kinds = {outcome.kind for outcome in outcomes}
    assert kinds >= {"exact: proven", "exact: checked", "sampled: the model"}


@pytest.mark.parametrize("pipeline", [fit_pipeline(TfidfVectorizer()), own_tokenizer()])
@pytest.mark.parametrize("text", ["", " \n"])
def test_a_text_without_words_raises_an_error_with_any_reader(pipeline, text):
    with pytest.raises(limelight.InputError, match="no words"):
        limelight.explain(limelight.wrap(pipeline), text, "shapley")


def test_single_letters_and_marks_are_words_that_do_nothing():
    e = limelight.explain(limelight.wrap(fit_pipeline(TfidfVectorizer())), "a !", "shapley")
    assert e.features == ("a", "!")
    assert (np.abs(e.scores) <= e.bound).all()


def words_and_a_joined_word_of_long_texts(text):
    words = text.split()
    return words if len(words) < 6 else [*words, words[0] + words[1]]


@pytest.mark.parametrize("setting", [{"penalty": 0.5}, {"per_head": True}, {"fit": True}])
def test_a_setting_without_effect_on_a_sampled_text_raises_an_error(setting):
    vectorizer = TfidfVectorizer(
        tokenizer=words_and_a_joined_word_of_long_texts, token_pattern=None
    )
    model = limelight.wrap(fit_pipeline(vectorizer))
    (name,) = setting
    exact = limelight.explain(model, "good film", "lime", **setting)
    assert exact.bound is not None
    long_text = "good film with a dull plot"
    assert limelight.explain(model, long_text, "lime").bound is None
    with pytest.raises(limelight.InputError, match=f"'{name}'.*no effect on a sampled text"):
        limelight.explain(model, long_text, "lime", **setting)


TOGETHER = [
    "good film, GOOD cast",
    "zzz qqq",
    "bad plot and dull music " * 30,
    "Σίσυφος NOT İstanbul",
    "new york good!",
    "x",
]


VECTORIZERS = [
    TfidfVectorizer(),
    TfidfVectorizer(sublinear_tf=True, norm="l1", dtype=np.float32),
    TfidfVectorizer(stop_words=["good"], strip_accents="unicode"),
    HashingVectorizer(n_features=16),
    TfidfVectorizer(token_pattern=r"new\s+york|\w\w+"),
    TfidfVectorizer(tokenizer=split_at_spaces, token_pattern=None),
]


@pytest.mark.parametrize("vectorizer", VECTORIZERS)
def test_texts_that_are_read_together_are_read_as_alone(vectorizer):
    model = limelight.wrap(fit_pipeline(vectorizer))
    for text, reading in zip(TOGETHER, model.read_batch(TOGETHER), strict=True):
        alone = model.read(text)
        assert (reading.tokens.strings, reading.tokens.spans) == (
            alone.tokens.strings,
            alone.tokens.spans,
        )
        for name in ("text", "warnings", "is_checked"):
            assert getattr(reading, name) == getattr(alone, name)
        assert (reading.fallback is None) == (alone.fallback is None)
        assert (reading.encoding is None) == (alone.encoding is None)
        if alone.encoding is not None:
            for ours, expected in zip(
                reading.encoding.entries, alone.encoding.entries, strict=True
            ):
                np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("vectorizer", VECTORIZERS)
def test_the_entries_of_a_text_add_up_to_its_row(vectorizer):
    pipeline = fit_pipeline(vectorizer)
    exact = 0
    for text, reading in zip(TOGETHER, limelight.wrap(pipeline).read_batch(TOGETHER), strict=True):
        if reading.encoding is None:
            continue
        exact += 1
        entries, row = reading.encoding.entries, pipeline[0].transform([text]).toarray()[0]
        sums = np.bincount(entries.column, entries.value, minlength=len(row))
        np.testing.assert_allclose(sums, row, rtol=1e-6)
        counts = np.bincount(entries.column, minlength=len(row))
        np.testing.assert_array_equal(entries.column_count, counts[entries.column])
        columns, column_index = np.unique(entries.column, return_inverse=True)
        np.testing.assert_array_equal(entries.column_index, column_index)
        assert set(columns) >= set(np.flatnonzero(row))
        assert all(0 <= word < len(reading.tokens.strings) for word in entries.word)
    assert exact


def count_transformed(monkeypatch, model):
    """Return the numbers of texts in the calls of the vectorizer while a list is explained."""
    counts, transform = [], TfidfVectorizer.transform

    def counting(self, texts):
        counts.append(len(texts))
        return transform(self, texts)

    monkeypatch.setattr(TfidfVectorizer, "transform", counting)
    limelight.explain(model, ["good film", "bad plot", "dull cast"], "shapley")
    return counts


def test_a_vectorizer_transforms_the_texts_of_a_list_in_one_call(monkeypatch):
    model = limelight.wrap(fit_pipeline(TfidfVectorizer()))
    assert count_transformed(monkeypatch, model) == [3]


def test_code_of_the_user_reads_the_texts_of_a_list_one_by_one(monkeypatch):
    # Otherwise a tokenizer with a memory would agree with itself in the check of the outputs.
    model = limelight.wrap(own_tokenizer())
    assert count_transformed(monkeypatch, model) == [1, 1, 1, 3]


@pytest.mark.parametrize("numbers", [[0, 1, 2], [2, 0], [1], [1, 1, 0]])
def test_outputs_of_texts_that_were_read_are_those_of_the_pipeline(numbers):
    pipeline = fit_pipeline(TfidfVectorizer())
    model = limelight.wrap(pipeline)
    texts = ["good film", "bad plot and bad cast", "zzz"]
    inputs = list(model.read_batch(texts))
    expected = pipeline.decision_function([texts[i] for i in numbers])
    np.testing.assert_array_equal(model.outputs([inputs[i] for i in numbers])[:, 0], expected)
    # Inputs of several batches, as after a text that failed.
    mixed = [*model.read_batch(["dull cast"]), inputs[0]]
    expected = pipeline.decision_function(["dull cast", texts[0]])
    np.testing.assert_array_equal(model.outputs(mixed)[:, 0], expected)


def test_outputs_are_those_of_the_classifier_at_the_time_of_the_call():
    pipeline = fit_pipeline(TfidfVectorizer())
    model = limelight.wrap(pipeline)
    inputs = list(model.read_batch(["good film", "bad plot"]))
    pipeline[-1].coef_ = 2 * pipeline[-1].coef_
    expected = pipeline.decision_function(["good film", "bad plot"])
    np.testing.assert_array_equal(model.outputs(inputs)[:, 0], expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("  ", "has no words"), (7, "must be a string"), ("good \ud800", "lone surrogates")],
)
@pytest.mark.parametrize("vectorizer", [TfidfVectorizer(), HashingVectorizer(n_features=16)])
def test_an_error_in_a_list_of_texts_names_its_text(vectorizer, wrong, message):
    model = limelight.wrap(fit_pipeline(vectorizer))
    with pytest.raises(limelight.InputError, match=f"text 2 .*{message}|{message}.*text 2"):
        limelight.explain(model, ["good film", "bad cast", wrong, "dull plot"], "shapley")


def test_a_pipeline_that_is_fitted_again_raises_an_error_in_a_list_too():
    pipeline = fit_pipeline(TfidfVectorizer())
    model = limelight.wrap(pipeline)
    limelight.explain(model, ["good film", "bad cast"], "shapley")
    pipeline[-1].coef_ *= 1.5
    with pytest.raises(limelight.DomainError, match="changed since it was wrapped"):
        limelight.explain(model, ["good film", "bad cast"], "shapley")
