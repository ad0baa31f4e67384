"""What an explanation costs: how often a model is asked, and how much is held at a time."""

import numpy as np
import pytest

import limelight
from limelight.explainers import LimeSampled
from limelight.explainers import gradients as integrated_methods
from limelight.models import text_game

WORDS = [f"w{i}" for i in range(300)]
SLOPES = np.random.default_rng(3).normal(size=(len(WORDS), 5))


def count_call(calls):
    """A model of five scores that counts the texts it is asked about."""
    place = {word: i for i, word in enumerate(WORDS)}

    def score(given):
        calls.append(len(given))
        rows = [SLOPES[[place[word] for word in text.split()]].sum(axis=0) for text in given]
        return np.sin(rows)

    return limelight.wrap(score, classes=list("abcde"), scale="score")


def load_model():
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    return limelight.wrap(network, tokenizer=tokenizer)


@pytest.mark.parametrize("count", [2, 7])
def test_all_classes_of_many_texts_cost_as_much_as_one_class(monkeypatch, count):
    monkeypatch.setattr(text_game, "_MAX_CACHED_ROWS", 150)  # answers of one text, not of all
    large_sample = [" ".join(WORDS[11 * i : 11 * i + 13]) for i in range(count)]
    one_class, all_classes = [], []
    limelight.explain(count_call(one_class), large_sample, "lime", samples=130, target=0)
    result = limelight.explain_classes(count_call(all_classes), large_sample, "lime", samples=130)
    assert [len(by_class) for by_class in result] == [5] * count
    assert sum(all_classes) == sum(one_class)


def test_texts_explained_together_are_explained_as_alone():
    large_sample = [" ".join(WORDS[11 * i : 11 * i + 13]) for i in range(3)]
    together = limelight.explain(count_call([]), large_sample, "lime", samples=130, target=2)
    for text, result in zip(large_sample, together, strict=True):
        single = limelight.explain(count_call([]), text, "lime", samples=130, target=2)
        np.testing.assert_array_equal(result.scores, single.scores)


@pytest.mark.parametrize(
    ("d", "settings", "samples"),
    [
        (2, {}, 1000),
        (200, {}, 1000),
        (300, {}, 1500),
        (2000, {}, 10_000),
        (2000, {"max_samples": 7000}, 7000),
        (2000, {"samples": 900}, 900),
    ],
)
def test_lime_draws_five_samples_for_each_word_by_default(d, settings, samples):
    assert LimeSampled(**{"samples": None, **settings}).sample_size.initial_count(d) == samples


def test_a_long_text_has_enough_samples_by_default():
    calls = []
    e = limelight.explain(count_call(calls), " ".join(WORDS), "lime", target=0)
    assert e.settings["samples"] is None
    assert e.diagnostics["samples_drawn"] == 1500
    assert sum(calls) == pytest.approx(1500, abs=3)
    assert not any("few" in warning for warning in e.warnings)


def test_integrated_gradients_hold_a_few_nodes_at_a_time(monkeypatch):
    model, text = load_model(), "a superb film but the plot is predictable ."
    usual = limelight.explain(model, text, "ig", steps=32, max_steps=32)
    request = []
    inner = type(model).gradients

    def watch_page(self, model_input, points, weigh):
        request.append(len(points))
        return inner(self, model_input, points, weigh)

    monkeypatch.setattr(type(model), "gradients", watch_page)
    monkeypatch.setattr(integrated_methods, "_NODES_PER_CALL", 5)
    explanation = limelight.explain(model, text, "ig", steps=32, max_steps=32)
    np.testing.assert_allclose(explanation.scores, usual.scores, rtol=1e-5, atol=1e-7)
    assert request == [2, 5, 5, 5, 5, 5, 5, 2]  # both ends, then 32 nodes


def test_the_attention_of_a_window_is_computed_only_if_needed():
    model = load_model()
    long = model.with_windows(7)
    model_input = long.read("a superb film but the plot is predictable . a good film")
    assert len(model_input.windows.spans) > 1
    seen = []
    handle = model.network.register_forward_hook(lambda *_: seen.append(1))
    try:
        windows = long.attention(model_input)
        next(windows)
        assert len(seen) == 1
        assert len(list(windows)) == len(model_input.windows.spans) - 1
    finally:
        handle.remove()
