"""Experiments on questions that the paper leaves open: formulas, controls and rules of verdicts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import limelight
from limelight_reproduction.deep import attention_heads, text_units
from limelight_reproduction.deep.layer_values import read_layers
from limelight_reproduction.questions import last_layer, refilling
from limelight_reproduction.questions.controlled_training import (
    RECIPE,
    Stack,
    build_classifiers,
)
from limelight_reproduction.theory.effective_attention import effective_attention

from tiny_models import tiny_model

numbers = st.floats(-3, 3, allow_subnormal=False)


@given(
    npst.arrays(float, (11, 4), elements=numbers), npst.arrays(float, (11, 11), elements=numbers)
)
def test_effective_attention_has_the_same_output_and_the_least_norm(values, weights):
    alpha = np.exp(weights) / np.exp(weights).sum(axis=-1, keepdims=True)
    effective = effective_attention(alpha, values)
    scale = np.abs(values).max() + 1e-9
    assert np.abs(effective @ values - alpha @ values).max() < 1e-4 * scale
    # Reference: the part in the left null space of V, which Brunner et al. subtract.
    null = np.eye(11) - values @ np.linalg.pinv(values, rcond=1e-6)
    assert np.abs(effective - (alpha - alpha @ null)).max() < 1e-6
    assert np.linalg.norm(effective) <= np.linalg.norm(alpha) * (1 + 1e-9)


def test_effective_attention_is_attention_if_the_values_have_enough_columns():
    rng = np.random.default_rng(0)
    alpha = rng.dirichlet(np.ones(5), size=5)
    assert effective_attention(alpha, rng.normal(size=(5, 7))) == pytest.approx(alpha)
    narrow = effective_attention(alpha, rng.normal(size=(5, 2)))
    assert np.abs(narrow - alpha).max() > 0.01


def test_the_values_of_a_bert_give_the_output_of_its_heads():
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    model = limelight.wrap(network, tokenizer=tokenizer)
    outputs = []
    modules = [
        module for name, module in network.named_modules() if name.endswith("attention.self")
    ]
    hooks = [
        module.register_forward_hook(lambda *call: outputs.append(call[2])) for module in modules
    ]
    layers = read_layers(model, model.read("a good film and a bad one"))
    for hook in hooks:
        hook.remove()
    for alpha, values, output in zip(
        layers.alpha, layers.values, outputs[-len(layers.alpha) :], strict=True
    ):
        context = np.concatenate(list(alpha @ values), axis=-1)
        assert context == pytest.approx(output[0][0].detach().numpy(), abs=1e-5)


def test_effective_attention_is_a_method_of_the_one_layer_model():
    import limelight_reproduction.methods.projected_attention  # noqa: F401  (it is registered)

    model = tiny_model(1)
    e = limelight.explain(model, "w1 w2 w3 w2", "effective-attention", features="positions")
    arrays = limelight.explainers.prepare_batch(model, ["w1 w2 w3 w2"]).collapsed_inputs
    values = arrays.embeddings[0] @ model.W_v.astype(float).transpose(0, 2, 1)
    null = [np.eye(len(v)) - v @ np.linalg.pinv(v) for v in values]
    expected = np.mean([a - a @ n for a, n in zip(arrays.alpha[0], null, strict=True)], axis=0)
    assert e.scores == pytest.approx(expected[1:5], abs=1e-9)


def test_without_the_last_layer_the_output_is_the_mean_of_attention_times_value():
    from dataclasses import replace
    from types import SimpleNamespace

    stack = Stack(replace(RECIPE, d_out=1), words=9, control="removed", seeds=[0, 1])
    assert "W_l" not in dict(stack.named_parameters())
    vocabulary = limelight.text.Vocabulary(("[cls]", "UNK", *(f"w{i}" for i in range(7))))
    prepared = SimpleNamespace(vocabulary=vocabulary, classes=("negative", "positive"))
    model = build_classifiers(stack, prepared)[1]
    arrays = limelight.explainers.prepare_batch(model, ["w1 w3 w3"]).collapsed_inputs
    values = arrays.embeddings[0] @ model.W_v[:, 0].astype(float).T
    expected = (arrays.alpha[0] * values.T).sum(axis=-1).mean()
    assert model.logits(["w1 w3 w3"])[0] == pytest.approx([0, expected], abs=1e-6)


def test_the_relations_of_the_probe_have_no_fixed_distance():
    for sentences in attention_heads.probe_sentences().values():
        distances = [s.source - s.target for s in sentences]
        assert np.bincount(np.abs(distances)).max() < 0.5 * len(sentences)
        assert len({s.words for s in sentences}) == len(sentences)


@pytest.mark.parametrize(
    ("judge", "interval", "verdict"),
    [
        (last_layer.judge_gain, [0.1, 0.05, 0.15], "yes"),
        (last_layer.judge_gain, [-0.1, -0.15, -0.05], "no, a worse one"),
        (last_layer.judge_gain, [0.0, -0.01, 0.01], "no, as good a one"),
        (last_layer.judge_gain, [0.03, -0.01, 0.07], "undecided"),
        (refilling.judge_signs, [0.35, 0.3, 0.4], "yes"),
        (refilling.judge_signs, [0.05, 0.04, 0.06], "hardly"),
        (refilling.judge_signs, [0.2, 0.15, 0.25], "in part"),
        (attention_heads.judge_order, [0.05, 0.03, 0.07], "better"),
        (attention_heads.judge_order, [0.05, 0.01, 0.07], "undecided"),
        (text_units.judge_agreement, [0.9, 0.85, 0.95], "yes"),
        (text_units.judge_agreement, [0.5, 0.4, 0.6], "no"),
        (text_units.judge_order, [1.0, 0.95, 1.05], "as good"),
        (text_units.judge_order, [0.7, 0.5, 0.8], "worse"),
    ],
)  # fmt: skip
def test_a_rule_gives_the_verdict_of_an_interval(judge, interval, verdict):
    assert judge(interval) == verdict


def test_a_probe_needs_a_head_that_shuffled_weights_do_not_have():
    known, unknown = {"gain": [0.3, 0.2, 0.4]}, {"gain": [0.0, -0.1, 0.1]}
    assert attention_heads.judge_probe({"MiniLM": known, "shuffled": unknown}) == "yes"
    assert attention_heads.judge_probe({"MiniLM": unknown, "shuffled": unknown}) == "no"
    assert attention_heads.judge_probe({"MiniLM": known, "shuffled": known}).startswith("undecided")
