import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.explainers import read
from limelight.theory.integrated_gradients import integrated_gradients

from tiny_models import tiny_model

TEXT = "w1 w5 never w5 w8"


def ig(reading, **changes):
    arguments = {
        "logit": reading.collapsed.logit,
        "u": reading.collapsed.u,
        "base_logit": reading.collapsed.base_logit,
        "base_u": reading.collapsed.base_u,
        "weigh": reading.targets.weights,
        "value_of": reading.targets.value,
        "tolerance": 1e-11,
    }
    return integrated_gradients(**(arguments | changes))


@given(st.integers(0, 999), st.sampled_from([(1, "logit"), (3, "logit"), (3, "probability")]))
@settings(max_examples=25)
def test_scores_add_up_to_the_change_of_the_output(seed, question):
    outputs, output = question
    model = tiny_model(seed, outputs=outputs, scale=0.7)
    reading = read(model, [TEXT], target=1, scale=output)
    found = ig(reading)
    change = reading.targets.value(reading.outputs) - reading.base_values
    assert abs(found.scores.sum() - change[0]) < 1e-10
    assert found.gap[0] < 1e-10


def test_is_complete_on_the_shipped_model(shipped):
    text = "Not a great film, " * 40 + "but the end is superb."
    found = ig(read(shipped, [text, "superb", "a dull, dull, dull thing"]))
    assert found.gap.max() < 1e-10


def test_matches_the_path_integral_of_autograd():
    model = tiny_model(3, outputs=2, scale=0.7)
    reading = read(model, [TEXT], target=1)
    start = model.embedding[reading.collapsed.base_ids[0]] + model.positions
    end = reading.collapsed.embedded[0]
    W_q, W_k, W_v, W_l = (torch.tensor(w) for w in (model.W_q, model.W_k, model.W_v, model.W_l))

    def gradient_at(x):
        e = torch.tensor(start + x * (end - start), requires_grad=True)
        total = 0.0
        for i in range(len(W_q)):
            alpha = torch.softmax(e @ W_k[i].T @ (W_q[i] @ e[0]) / W_q.shape[1] ** 0.5, dim=0)
            total = total + W_l[i, 1] @ (alpha @ (e @ W_v[i].T))
        (gradient,) = torch.autograd.grad(total / len(W_q), e)
        return ((end - start) * gradient.numpy()).sum(axis=1)

    nodes, weights = np.polynomial.legendre.leggauss(60)
    oracle = sum(w / 2 * gradient_at((x + 1) / 2) for x, w in zip(nodes, weights, strict=True))
    np.testing.assert_allclose(ig(reading).scores[0].sum(axis=0), oracle, rtol=1e-9, atol=1e-12)


def two_positions(swing):
    """One head, two positions, a swing of the logit between them: an integral mpmath can do."""
    logit = np.array([[[swing / 2, 0.0]]])
    base = np.array([[[-swing / 2, 0.0]]])
    u, base_u = np.array([[[[3.0, -1.0]]]]), np.array([[[[-2.0, -1.0]]]])
    found = integrated_gradients(
        logit,
        u,
        base,
        base_u,
        weigh=lambda f: np.ones_like(f),
        value_of=lambda f: f[..., 0],
        tolerance=1e-11,
    )

    def integrand(x):
        ell, value = -swing / 2 + x * swing, -2 + 5 * x
        alpha = 1 / (1 + mpmath.exp(-ell))
        f = alpha * value - (1 - alpha)
        return alpha * (5 + swing * (value - f))

    exact = mpmath.quad(integrand, mpmath.linspace(0, 1, 33))
    return found, float(exact)


@pytest.mark.parametrize(
    ("swing", "nodes"), [(0.1, 64), (1.0, 64), (16.0, 128), (80.0, 256), (400.0, 1024)]
)
def test_sharp_attention_gets_more_nodes_and_the_same_accuracy(swing, nodes):
    found, exact = two_positions(swing)
    assert found.nodes == nodes
    assert abs(found.scores[0, 0, 0] - exact) < 1e-9
    assert found.scores[0, 0, 1] == 0


def test_the_comparison_can_fail():
    found, exact = two_positions(16.0)
    assert abs(found.scores[0, 0, 0] * (1 + 1e-8) - exact) > 1e-9


def test_a_tolerance_out_of_reach_is_admitted(monkeypatch):
    assert ig(read(tiny_model(3), [TEXT]), tolerance=1e-300).nodes == 128 * 32
    results = []
    for panels in (2, 4):
        monkeypatch.setattr("limelight.theory.integrated_gradients.MAX_PANELS", panels)
        results.append(two_positions(400.0))
    (before, _), (found, exact) = results
    assert found.nodes == 4 * 32
    assert found.gap[0] == pytest.approx(abs(found.scores.sum() - exact), abs=1e-13)
    assert found.change[0] == pytest.approx(np.abs(found.scores - before.scores).max())
    assert min(found.gap[0], found.change[0]) > 1e-6  # 1e-11 was asked for


def test_many_documents_at_once_are_the_same_one_by_one():
    model = tiny_model(4)
    texts = [TEXT, "w3", "never seen w9 w9"]
    together = ig(read(model, texts)).scores
    for i, text in enumerate(texts):
        np.testing.assert_allclose(
            together[i], ig(read(model, [text])).scores[0], rtol=1e-9, atol=1e-12
        )


def test_torch_gives_the_same_numbers():
    reading = read(tiny_model(4), [TEXT])
    tensors = {
        name: torch.tensor(getattr(reading.collapsed, name))
        for name in ("logit", "u", "base_logit", "base_u")
    }
    found = ig(reading, **tensors, weigh=torch.ones_like, value_of=lambda f: f[..., 0])
    np.testing.assert_allclose(found.scores.numpy(), ig(reading).scores, rtol=1e-9, atol=1e-12)
