"""Texts that are longer than the model reads: the mean over windows, for every method."""

from functools import cache
from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight.models.hugging_face.subwords import window_ends

from tiny_transformers import LIMIT, tiny

SENTENCES = ("A superb film.", "But the plot is predictable!", "Is the film bad?", "Good plot.")
TEXT = " ".join(SENTENCES * 3)
SIZE = 14  # twelve pieces between [CLS] and [SEP]


@cache
def load_model(family="bert", **changes):
    model, tokenizer = tiny(family, **changes)
    return limelight.wrap(model, tokenizer=tokenizer)


def spans(e):
    return [window["span"] for window in e.diagnostics["windows"]]


def reference_outputs(model, text):
    arguments = model.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        return model.network(**arguments).logits[0].double().numpy()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 20), st.data())
def test_windows_adjoin_fit_and_end_behind_words_where_they_can(lengths, room, data):
    ends = np.cumsum(lengths).tolist()
    stops = data.draw(st.sets(st.sampled_from(ends)))
    result = window_ends(ends[-1], room, words=ends, sentences=stops)
    sizes = np.diff([0, *result])
    assert result[-1] == ends[-1]
    assert (sizes > 0).all()
    assert (sizes <= room).all()
    assert (sizes[:-1] > room // 2).all()
    for start, end in zip([0, *result], result[:-1], strict=False):
        half = [e for e in stops if start + room // 2 < e <= start + room]
        words = [e for e in ends if start + room // 2 < e <= start + room]
        assert end in half if half else end in words if words else end == start + room


def test_windows_are_alike():
    assert window_ends(40, 30, words=range(1, 41), sentences=()) == [20, 40]
    assert window_ends(40, 30, words=range(1, 41), sentences=[18, 29]) == [18, 40]


def test_every_word_has_a_value_and_windows_end_behind_sentences():
    model = load_model()
    e = limelight.explain(model, TEXT, "loo", features="positions", window=SIZE)
    assert [TEXT[a:b].lower() for ((a, b),) in e.spans] == list(e.features)
    assert "".join(e.features) == "".join(TEXT.lower().split())
    assert all(TEXT[end - 1] in ".!?" for _, end in spans(e))
    assert "".join(TEXT[a:b] for a, b in spans(e)).replace(" ", "") == TEXT.replace(" ", "")
    assert e.warnings[0] == (
        f"The text was read in {len(spans(e))} windows. The mean of the "
        "model's outputs over them is explained."
    )
    assert e.settings["window"] == SIZE
    assert e.cut is None
    assert limelight.Explanation.from_json(e.to_json()).to_json() == e.to_json()


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_the_prediction_is_the_mean_over_windows(family):
    model = load_model(family)
    e = limelight.explain(model, TEXT, "gxi", window=SIZE)
    value = np.array([reference_outputs(model, TEXT[a:b]) for a, b in spans(e)])
    stored = [list(window["prediction"].values()) for window in e.diagnostics["windows"]]
    np.testing.assert_allclose(stored, value, atol=1e-5)
    np.testing.assert_allclose(list(e.prediction.values()), value.mean(axis=0), atol=1e-5)
    full = model.with_windows(SIZE)
    np.testing.assert_allclose(full.logits([TEXT])[0], value.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(full.predict_proba([TEXT]).sum(), 1)


@pytest.mark.parametrize("method", ["gxi", "g-l2", "alpha-avg", "alpha-max", "rollout", "flow",
                                    "alpha-grad", "loo"])  # fmt: skip
def test_scores_are_those_of_each_window_over_their_number(method):
    """With every place a feature of its own, a window's words matter in it alone."""
    model = load_model()
    options = {"features": "positions", "target": 1}
    e = limelight.explain(model, TEXT, method, window=SIZE, **options)
    parts = [limelight.explain(model, TEXT[a:b], method, **options) for a, b in spans(e)]
    expected = np.concatenate([part.scores for part in parts]) / len(parts)
    np.testing.assert_allclose(e.scores, expected, atol=1e-5 * np.abs(expected).max())
    cut = limelight.explain(model, TEXT, method, **options)
    assert len(cut.scores) != len(expected)
    assert not np.allclose(e.scores[: len(cut.scores)], cut.scores)


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_gradients_are_those_of_the_mean(output):
    """By one graph over all windows; a probability is that of the mean of the outputs."""
    model = load_model()
    e = limelight.explain(model, TEXT, "gxi", window=SIZE, scale=output, target=1)
    logits, leaves = [], []
    embedding = model.network.get_input_embeddings()
    for a, b in spans(e):
        ids = model.tokenizer(TEXT[a:b], return_tensors="pt")["input_ids"]
        leaves.append(embedding(ids).detach().requires_grad_())
        logits.append(model.network(inputs_embeds=leaves[-1]).logits[0])
    mean = torch.stack(logits).mean(dim=0)
    aim = mean[1] if output == "logit" else mean.softmax(-1)[1]
    gradients = torch.autograd.grad(aim, leaves)
    by_piece = [(g * x).sum(-1)[0, 1:-1] for g, x in zip(gradients, leaves, strict=True)]
    expected = torch.cat(by_piece).detach().double().numpy()
    pieces = limelight.explain(
        model, TEXT, "gxi", window=SIZE, scale=output, target=1, features="tokens"
    )
    np.testing.assert_allclose(pieces.scores, expected, atol=1e-5)
    assert e.scores.sum() == pytest.approx(expected.sum(), abs=1e-5)


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_integrated_gradients_add_up_to_the_change_of_the_mean(output):
    e = limelight.explain(
        load_model(), TEXT, "ig", window=SIZE, scale=output, target=1, max_steps=512
    )
    full = e.prediction["LABEL_1"]
    if output == "probability":
        f = np.array(list(e.prediction.values()))
        full = (np.exp(f) / np.exp(f).sum())[1]
    assert e.scores.sum() == pytest.approx(full - e.base_value, rel=0.02)


@pytest.mark.parametrize("replacement", ["mask", "delete"])
def test_a_word_goes_from_all_windows_at_once(replacement):
    model = load_model()
    e = limelight.explain(model, TEXT, "loo", window=SIZE, target=2, replacement=replacement)
    j = e.features.index("film")
    put = "[MASK]" if replacement == "mask" else ""
    without = [reference_outputs(model, TEXT[a:b].replace("film", put))[2] for a, b in spans(e)]
    assert sum("film" in TEXT[a:b] for a, b in spans(e)) > 1
    assert e.scores[j] == pytest.approx(e.prediction["LABEL_2"] - np.mean(without), abs=1e-5)


def exact_shapley(model, words):
    """The definition, over all subsets of a window."""

    def f(inside):
        text = " ".join(w if i in inside else "[MASK]" for i, w in enumerate(words))
        return reference_outputs(model, text)[1]

    n = len(words)
    value = {S: f(S) for k in range(n + 1) for S in combinations(range(n), k)}
    return [
        sum(
            factorial(len(S)) * factorial(n - len(S) - 1) / factorial(n)
            * (value[tuple(sorted((*S, j)))] - value[S])
            for S in value
            if j not in S
        )
        for j in range(n)
    ]  # fmt: skip


@pytest.mark.usefixtures("short_texts_are_sampled")
def test_sampled_shapley_values_are_those_of_the_mean_within_their_errors():
    model, text = load_model(), "good film bad plot the superb film is"
    e = limelight.explain(
        model, text, "shapley", window=6, features="positions", target=1, pairs=18
    )
    assert spans(e) == [[0, 18], [19, 37]]
    expected = np.concatenate([exact_shapley(model, text[a:b].split()) for a, b in spans(e)]) / 2
    assert (np.abs(e.scores - expected) <= 5 * e.stderr + 1e-6).all()
    assert 0 < e.stderr.max() < 0.3 * np.abs(expected).max()
    np.testing.assert_allclose(e.scores.sum(), e.prediction["LABEL_1"] - e.base_value, atol=1e-6)
    assert not (np.abs(e.scores - 2 * expected) <= 5 * e.stderr + 1e-6).all()
    every = limelight.explain(
        model, text, "shapley", window=6, features="positions", target=1, pairs=19
    )
    assert every.stderr is None  # all masks
    np.testing.assert_allclose(every.scores, expected, atol=1e-5)


def test_sampled_lime_covers_its_long_run_value():
    model = load_model()
    long, short = (
        limelight.explain(model, TEXT, "lime", window=SIZE, samples=n, seed=n) for n in (6000, 300)
    )
    error = np.hypot(long.stderr, short.stderr)
    assert (np.abs(long.scores - short.scores) <= 5 * error).all()
    assert long.stderr.max() < short.stderr.max()


def test_a_text_that_fits_is_read_as_ever():
    model = load_model()
    for method in ("gxi", "loo"):
        usual = limelight.explain(model, "a good film", method)
        e = limelight.explain(model, "a good film", method, window="auto")
        np.testing.assert_allclose(e.scores, usual.scores, atol=1e-6)
        assert e.warnings == usual.warnings
    assert e.settings["window"] == LIMIT
    assert "window" not in usual.settings


def test_a_word_that_fits_no_window_is_cut():
    e = limelight.explain(load_model("gpt2"), "film " + "x" * 40 + " film", "gxi", window=11)
    assert e.features == ("film", "x" * 40)
    assert len(e.diagnostics["windows"]) == 5


def test_the_warning_of_a_cut_text_names_the_remedy():
    e = limelight.explain(load_model(), "good film " * 20, "gxi")
    assert e.warnings[0].endswith("Use window='auto' (--window auto) to explain all.")


def test_several_texts_and_methods_share_one_reading(monkeypatch):
    model, texts = load_model(), []
    assert model.capabilities["lrp"] is None  # which reads a text of its own, once
    kind = type(model.with_windows(SIZE))
    read = kind.read
    monkeypatch.setattr(kind, "read", lambda *it, **how: texts.append(it[1]) or read(*it, **how))
    comparison = limelight.compare(
        model, [TEXT, "good film"], methods=["gxi", "loo"], window=SIZE, target=1
    )
    assert texts == [TEXT, "good film"]
    assert [len(c.explanations[0].diagnostics["windows"]) for c in comparison] == [len(spans(
        limelight.explain(model, TEXT, "gxi", window=SIZE))), 1]  # fmt: skip


def test_the_command_line_takes_a_window(tmp_path, limelight):
    model, tokenizer = tiny("bert", labels=2)
    for value in (model, tokenizer):
        value.save_pretrained(tmp_path)
    request = ("explain", "-m", "gxi", "--model", tmp_path, TEXT)
    assert "read in" in limelight(*request, "--window", SIZE).out
    assert "--window auto" in limelight(*request).out.replace("\n", " ")
    refused = limelight(*request, "--window", "99")
    assert refused.code == 2
    assert "window must be 'auto' or a number of tokens up to 31" in refused.err
    assert limelight("compare", "--window", "auto", "w1 w2").code == 2
