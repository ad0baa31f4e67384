"""Taggers read long texts in windows: each span is that of its window read as a text of its own."""

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForTokenClassification

import limelight
from limelight import InputError
from limelight.models.hugging_face.subwords import window_around

from tiny_transformers import tiny

TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG")
TEXT = (
    "the superb predictable film is good but the plot is bad. a superb plot is a good plot. "
    "a predictable film is bad. the bad plot but a good film is superb. the film is a film. "
    "but the superb film is predictable and good."
)


@cache
def tagger(kind=AutoModelForTokenClassification):
    network, tokenizer = tiny("bert", labels=2)
    if kind is AutoModelForTokenClassification:
        network.config.id2label = dict(enumerate(TAGS))
        network.config.label2id = {tag: i for i, tag in enumerate(TAGS)}
    torch.manual_seed(3)
    network = kind.from_config(network.config).eval().double()
    return limelight.wrap(network, tokenizer=tokenizer)


@cache
def window_spans(text=TEXT):
    """The characters of each window, as the warnings of explanations in all words state them."""
    result = set()
    for match in re.finditer(r"\w+", text):
        e = limelight.explain(tagger(), text, "loo", at=match.span(), window="auto")
        (numbers,) = re.findall(r"characters (\d+) to (\d+)", " ".join(e.warnings))
        result.add(tuple(map(int, numbers)))
    return sorted(result)


def test_windows_cover_the_text_and_the_model_reads_each():
    model, spans = tagger(), window_spans()
    assert len(spans) > 1
    assert spans[0][0] == 0
    assert spans[-1][1] == len(TEXT)
    for (_, end), (start, _) in pairwise(spans):
        assert TEXT[end:start].strip() == ""
    for start, end in spans:
        assert model.read(TEXT[start:end]).cutoff is None


@pytest.mark.parametrize("method", ["loo", "gxi", "lrp", "generic-attention"])
@pytest.mark.parametrize("features", ["words", "tokens"])
def test_a_span_has_the_scores_of_its_window_as_a_text(method, features):
    model = tagger()
    for start, end in window_spans()[:3]:
        part = TEXT[start:end]
        first = next(re.finditer(r"plot|film", part))
        at = (start + first.start(), start + first.end())
        options = {"features": features, "target": "ORG"}
        e = limelight.explain(model, TEXT, method, at=at, window="auto", **options)
        direct = limelight.explain(model, part, method, at=first.span(), **options)
        assert e.features == direct.features
        assert e.spans == tuple(
            tuple((a + start, b + start) for a, b in spans) for spans in direct.spans
        )
        np.testing.assert_allclose(e.scores, direct.scores, atol=1e-9)
        assert np.abs(e.scores).max() > 1e-6
        assert e.settings["window"] == "auto"
        assert e.explained_value == pytest.approx(direct.explained_value, abs=1e-9)


def test_the_spans_are_those_of_all_windows():
    model = tagger()
    result = model.with_windows("auto").spans(TEXT)
    expected = [
        (start + query.start, start + query.end, query.tag)
        for start, end in window_spans()
        for query in model.spans(TEXT[start:end])
    ]
    assert [(query.start, query.end, query.tag) for query in result] == expected
    # A control: without windows, only the first part of the text has spans.
    limit = model.read(TEXT).cutoff
    assert max(query.end for query in result) > limit >= max(q.end for q in model.spans(TEXT))


def test_a_run_has_a_row_for_each_span_of_a_long_text(tmp_path):
    model = tagger()
    queries = model.with_windows("auto").spans(TEXT)
    run = limelight.explain_data(
        model, [TEXT], "gxi", output=tmp_path / "run", window="auto", shard_texts=100
    )
    assert run.failed == 0
    assert [(e.query.start, e.query.end) for e in run] == [(q.start, q.end) for q in queries]


def test_spans_of_one_window_are_explained_together_and_of_several_not():
    model = tagger()
    with pytest.raises(InputError, match="only spans of one window can be explained together"):
        limelight.explain_spans(model, TEXT, "loo", window="auto")
    (start, end), *_ = window_spans()
    short = TEXT[start:end]
    together = limelight.explain_spans(model, short, "loo", window="auto")
    for e, direct in zip(together, limelight.explain_spans(model, short, "loo"), strict=True):
        np.testing.assert_array_equal(e.scores, direct.scores)


@pytest.mark.parametrize("features", ["words", "tokens"])
def test_a_span_in_two_windows_gets_a_window_around_it(features):
    model, text = tagger(), f"{TEXT} {TEXT}"
    spans = window_spans(text)
    assert len(spans) > 2
    for (_, end), (start, _) in pairwise(spans):
        at = text.rindex(" ", 0, end - 2) + 1, text.index(" ", start + 1)
        options = {"features": features, "target": "ORG"}
        e = limelight.explain(model, text, "loo", at=at, window="auto", **options)
        (numbers,) = re.findall(r"its own window.* characters (\d+) to (\d+)", " ".join(e.warnings))
        first, last = map(int, numbers)
        assert first <= at[0] < at[1] <= last
        part = text[first:last]
        assert model.read(part).cutoff is None
        direct = limelight.explain(model, part, "loo", at=(at[0] - first, at[1] - first), **options)
        np.testing.assert_allclose(e.scores, direct.scores, atol=1e-9)
        assert np.abs(e.scores).max() > 1e-6
        assert e.explained_value == pytest.approx(direct.explained_value, abs=1e-9)


def test_a_span_longer_than_a_window_raises():
    with pytest.raises(InputError, match=r"does not fit into one window\. Use a larger"):
        limelight.explain(tagger(), TEXT, "loo", at=(0, len(TEXT) - 4), window="auto")


def test_a_window_around_a_span_is_full_or_the_whole_text():
    """All spans of texts with words of one to three subwords, for each possible room."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        ends = np.cumsum(rng.integers(1, 4, rng.integers(2, 12))).tolist()
        starts = [0, *ends[:-1]]
        for i, first in enumerate(starts):
            for last in ends[i:]:
                for room in range(last - first, ends[-1] + 3):
                    start, end = window_around(first, last, room, words=ends)
                    assert start <= first < last <= end
                    assert start in starts
                    assert end in ends
                    assert end - start <= room
                    assert (first - start) - (end - last) <= 6 or end == ends[-1]
                    assert (end - last) - (first - start) <= 6 or start == 0
                    is_full = end == ends[-1] or ends[ends.index(end) + 1] - start > room
                    assert is_full or (start, end) == (0, ends[-1])


def test_a_question_and_its_passage_are_read_without_windows():
    model = tagger(AutoModelForQuestionAnswering)
    with pytest.raises(InputError, match="are read without windows"):
        limelight.explain(model, ("is it good", TEXT), "loo", at=(0, 3), window="auto")
