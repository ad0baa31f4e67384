"""Attention of deep models: the layer, all layers, and what attention is worth."""

from functools import cache

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import limelight
from limelight.explainers.attention import average_heads_with_residual, maximum_flows

from tiny_models import tiny_model
from tiny_transformers import FAMILIES, tiny, unusual

TEXT = "a superb film but the plot is predictable ."
families = pytest.mark.parametrize("family", FAMILIES)


@cache
def load_model(family="bert"):
    """Shared: wrapping checks a network, and no test here changes it."""
    model, tokenizer = tiny(family)
    return limelight.wrap(model, tokenizer=tokenizer)


def attention_by_hand(family):
    """The weights of a fresh model made for it, and the row that the head reads."""
    model, tokenizer = tiny(family)
    model.set_attn_implementation("eager")
    arguments = tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        out = model(**arguments, output_attentions=True)
    alpha = np.stack([layer[0].double().numpy() for layer in out.attentions])
    return alpha, -1 if family == "gpt2" else 0


def sum_by_word(family, scores):
    token = load_model(family).read(TEXT).encoding.token
    return np.array([scores[token == j].sum() for j in range(token.max() + 1)])


@pytest.mark.parametrize(
    ("family", "layer", "number"),
    [(family, "first", 0) for family in FAMILIES]
    + [("bert", "last", -1), ("bert", 0, 0), ("gpt2", "1", 1)],
)
def test_a_layer_is_chosen_by_name_or_number(family, layer, number):
    alpha, row = attention_by_hand(family)
    e = limelight.explain(load_model(family), TEXT, "alpha-avg", layer=layer, features="positions")
    expected = sum_by_word(family, alpha[number, :, row].mean(axis=0))
    np.testing.assert_allclose(e.scores, expected, rtol=1e-5, atol=1e-8)
    assert e.heads.shape == (3, 9)
    e = limelight.explain(load_model(family), TEXT, "alpha-max", layer=layer, features="positions")
    expected = sum_by_word(family, alpha[number, :, row].max(axis=0))
    np.testing.assert_allclose(e.scores, expected, rtol=1e-5, atol=1e-8)


def test_the_head_is_seen_to_read_what_it_reads():
    """The mean of all positions, the last of a causal model, and one in the middle."""
    results = {}
    for name in ("modernbert", "ctrl"):
        network, tokenizer = unusual(name)
        model = limelight.wrap(network, tokenizer=tokenizer)
        results[name] = next(model.attention(model.read(TEXT))).readout_weights
    np.testing.assert_allclose(results["modernbert"], 1 / len(results["modernbert"]))
    assert results["ctrl"].tolist() == [0.0] * (len(results["ctrl"]) - 1) + [1.0]
    network, tokenizer = tiny("bert")
    pooler = network.bert.pooler
    usual = type(pooler).forward
    pooler.forward = lambda rows: usual(pooler, rows[:, 3:])
    model = limelight.wrap(network, tokenizer=tokenizer)
    for frozen in (False, True):
        network.requires_grad_(not frozen)
        reads = next(model.attention(model.read(TEXT))).readout_weights
        assert reads.tolist() == np.eye(len(reads))[3].tolist()
    e = limelight.explain(model, TEXT, "alpha-avg", features="positions")
    alpha, _ = attention_by_hand("bert")
    np.testing.assert_allclose(
        e.scores, sum_by_word("bert", alpha[-1, :, 3].mean(axis=0)), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "methods", "sentence"),
    [
        (
            "xlnet",
            ("alpha-avg", "rollout"),
            "outputs of XLNet.* do not depend on the attention that it returns",
        ),
        ("xlnet", ("gxi", "ig", "lrp"), "XLNet.* does not read a text as one row"),
        (
            "bart",
            ("alpha-avg", "flow"),
            "BartFor.* does not return the attention of a single stack of layers",
        ),
        ("longformer", ("alpha-avg", "alpha-grad"), "does not go from every token to every token"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_attention_that_a_network_does_not_return_raises_an_error_with_advice(
    name, methods, sentence
):
    network, tokenizer = unusual(name)
    model = limelight.wrap(network, tokenizer=tokenizer)
    for method in methods:
        with pytest.raises(limelight.InputError, match=sentence):
            limelight.explain(model, TEXT, method)
    assert np.abs(limelight.explain(model, TEXT, "loo", target=0).scores).max() > 0


def test_a_network_that_scales_its_embedding_in_place_has_gradients():
    network, tokenizer = unusual("ctrl")
    model = limelight.wrap(network, tokenizer=tokenizer)
    e = limelight.explain(model, TEXT, "ig", replacement="mask", target=0)
    assert e.scores.sum() == pytest.approx(e.prediction["LABEL_0"] - e.base_value, rel=0.02)


def test_the_mean_of_the_layers_and_a_layer_that_is_not_there():
    alpha, row = attention_by_hand("bert")
    e = limelight.explain(load_model(), TEXT, "alpha-avg", layer="mean", features="positions")
    expected = sum_by_word("bert", alpha[:, :, row].mean(axis=(0, 1)))
    np.testing.assert_allclose(e.scores, expected, rtol=1e-5)
    for layer in ("middle", 2):
        with pytest.raises(limelight.InputError) as error:
            limelight.explain(load_model(), TEXT, "alpha-avg", layer=layer)
        assert str(error.value) == (
            f"layer must be 'first', 'last', 'mean' or a number from 0 to 1, not {layer!r}."
        )


@families
def test_rollout_is_the_sum_over_all_ways(family):
    alpha, row = attention_by_hand(family)
    low, high = (np.eye(alpha.shape[-1]) / 2 + layer.mean(axis=0) / 2 for layer in alpha)
    T = len(low)
    ways = np.array([sum(high[row, s] * low[s, t] for s in range(T)) for t in range(T)])
    e = limelight.explain(load_model(family), TEXT, "rollout", features="positions")
    np.testing.assert_allclose(e.scores, sum_by_word(family, ways), rtol=1e-5)
    assert ways.sum() == pytest.approx(1)


def flow_by_linear_program(layers, top, bottom):
    """Maximise what leaves the top under capacities and conservation at every node between."""
    L, T, _ = layers.shape
    edge = {(layer, s, t): layer * T * T + s * T + t
            for layer in range(L) for s in range(T) for t in range(T)}  # fmt: skip
    gain, rows = np.zeros(len(edge)), []
    for t in range(T):
        gain[edge[L - 1, top, t]] = -1
    for layer in range(1, L):
        for node in range(T):
            row = np.zeros(len(edge))
            for other in range(T):
                row[edge[layer, other, node]] += 1
                row[edge[layer - 1, node, other]] -= 1
            rows.append(row)
    closed = {(layer, s, t) for layer, s, t in edge
              if (layer == L - 1 and s != top) or (layer == 0 and t != bottom)}  # fmt: skip
    limits = [(0, 0 if value in closed else layers[value]) for value in edge]
    result = linprog(gain, A_eq=np.array(rows), b_eq=np.zeros(len(rows)), bounds=limits)
    return -result.fun


def test_flow_is_the_answer_of_a_linear_program():
    rng = np.random.default_rng(3)
    alpha = rng.dirichlet(np.full(5, 0.3), size=(3, 2, 5))
    layers, reads = average_heads_with_residual(alpha), np.eye(5)[0]
    flows = maximum_flows(layers, reads)
    expected = [flow_by_linear_program(layers, 0, t) for t in range(5)]
    np.testing.assert_allclose(flows, expected, atol=1e-5)
    wrong = [flow_by_linear_program(layers, 1, t) for t in range(5)]
    assert np.abs(flows - wrong).max() > 1e-3  # the comparison can fail


def test_with_one_layer_rollout_and_flow_are_attention():
    model = tiny_model(2, outputs=3, scale=0.6)
    alpha, rollout, flow = (
        limelight.explain(model, "w1 w5 w8", method) for method in ("alpha-avg", "rollout", "flow")
    )
    np.testing.assert_array_equal(alpha.scores, rollout.scores)
    np.testing.assert_array_equal(alpha.scores, flow.scores)


def test_attention_times_gradient_adds_up_to_the_output_of_the_papers_classifier():
    from limelight.explainers import prepare_batch

    model = tiny_model(2, outputs=3, scale=0.6)
    e = limelight.explain(model, "w1 w5 w8", "alpha-grad", target=1)
    batch = prepare_batch(model, ["w1 w5 w8"], target=1)
    arrays = batch.collapsed_inputs
    remainder = (arrays.alpha * arrays.target_u(batch.target_gradient))[0].mean(axis=0)
    other = remainder[0] + remainder[4:].sum()
    assert e.scores.sum() + other == pytest.approx(e.prediction["class 1"])


def test_attention_times_gradient_is_the_change_when_attention_changes():
    """Finite differences: scale the weights of the last layer at one position, at the read row."""
    model = load_model.__wrapped__()
    e = limelight.explain(model, TEXT, "alpha-grad", target=1, features="positions")
    network = model.network.double()
    network.set_attn_implementation("eager")
    arguments = model.tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False)
    token = model.read(TEXT).encoding.token
    last = network.bert.encoder.layer[-1].attention.self

    def output(place, step):
        def scale_output(module, inputs, outputs):
            context, alpha = outputs[0], outputs[1]
            T = alpha.shape[-1]
            value = module.value(inputs[0]).view(1, T, 3, -1).transpose(1, 2)
            row = context.clone().view(1, T, 3, -1)
            row[:, 0] += step * alpha[:, :, 0, place, None] * value[:, :, place]
            return (row.view(context.shape), alpha)

        handle = last.register_forward_hook(scale_output)
        with torch.no_grad():
            result = network(**arguments, output_attentions=True).logits[0, 1]
        handle.remove()
        return float(result)

    step = 1e-4
    slope = np.array([(output(t, step) - output(t, -step)) / (2 * step) for t in range(len(token))])
    np.testing.assert_allclose(e.scores, sum_by_word("bert", slope), rtol=1e-3, atol=1e-5)
