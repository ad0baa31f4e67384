"""Judging a transformer: every column, several texts searched at once, memory that stays flat."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

import limelight
from limelight import judge
from limelight.models.text_game import TextGame

from tiny_transformers import tiny

TEXTS = ["a good film and a fine story", "what a bad , bad story it was", "one two three four five"]


@pytest.fixture(scope="module")
def model():
    network, tokenizer = tiny("bert", labels=2)
    return limelight.wrap(network, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def judgment(model):
    values = ["shapley", "lime", "gxi", "alpha-avg"]
    return judge(model, TEXTS, values, columns="all", samples=300, pairs=4, seed=3)


def test_every_method_has_every_column_that_it_can_have(judgment):
    assert judgment.ceiling_kind == "best found"
    names = {m.method: {c.name for c in m.columns} for m in judgment.methods}
    assert {"additivity", "loo_tau", "sanity", "eraser_sufficiency"} <= names["gxi"]
    assert "stability" in names["shapley"] & names["lime"]
    assert "stability" not in names["gxi"] | names["alpha-avg"]
    assert "additivity" not in names["alpha-avg"]


def test_greedy_finds_what_it_finds_text_by_text(model, judgment, monkeypatch):
    """Asked together or apart, the model answers the same, and the orders are the same."""
    monkeypatch.setattr(TextGame, "precompute_outputs", staticmethod(lambda *_: None))
    distance = judge(model, TEXTS, ["shapley", "gxi"], columns=[], pairs=4, seed=3)
    for text, other in zip(judgment.texts, distance.texts, strict=True):
        assert other.greedy == pytest.approx(text.greedy, rel=1e-3, abs=1e-4)


def test_areas_are_those_of_direct_model_calls(model, judgment):
    text = judgment.texts[1]
    game = limelight.game(model, TEXTS[1])
    keep = np.argsort(text.curves["shapley"].words)[None, :] >= np.arange(text.d + 1)[:, None]
    outputs = game(keep)
    target = model.classes.index(text.target)
    f = outputs[:, target] - outputs[:, 1 - target]
    assert text.full == pytest.approx(f[0], rel=1e-4)
    assert text.areas["shapley"] == pytest.approx(f[0] - f[1:].mean(), rel=1e-3, abs=1e-4)


def test_shuffled_networks_leave_the_model_alone(model):
    before = model.fingerprint
    twin = model.shuffle_weights(1)
    assert replace(model, half=False).shuffle_weights(1).half is False
    assert model.fingerprint == before
    assert twin.fingerprint not in (before, model.shuffle_weights(2).fingerprint)
    assert twin.fingerprint == model.shuffle_weights(1).fingerprint
    for mine, its in zip(model.network.parameters(), twin.network.parameters(), strict=True):
        np.testing.assert_array_equal(
            np.sort(mine.detach().numpy(), axis=None), np.sort(its.detach().numpy(), axis=None)
        )
    assert not np.allclose(model.logits(TEXTS), twin.logits(TEXTS))
