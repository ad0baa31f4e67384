from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.explainers import prepare_batch
from limelight.theory import integrated_gradients as module
from limelight.theory import path_quadrature as quadrature
from limelight.theory.integrated_gradients import integrated_gradients
from limelight.theory.logit_path import LogitPath
from limelight.theory.path_quadrature import NODES, DerivativeBounds
from path_integrals import integral_by_tanh_sinh

from tiny_models import tiny_model

TEXT = "w1 w5 never w5 w8"


def ig(batch, **changes):
    arguments = {
        "logits": batch.collapsed_inputs.path(slice(None)),
        "u": batch.collapsed_inputs.u,
        "base_u": batch.collapsed_inputs.base_u,
        "output_gradient": batch.targets.output_gradient,
        "explained_value": batch.targets.value,
        "derivative_bounds": batch.targets.derivative_bounds(batch.collapsed_inputs.u.shape[1]),
        "tolerance": 1e-11,
    }
    return integrated_gradients(**(arguments | changes))


@given(st.integers(0, 999), st.sampled_from([(1, "logit"), (3, "logit"), (3, "probability")]))
@settings(max_examples=25)
def test_scores_add_up_to_the_change_of_the_output(seed, question):
    outputs, output = question
    model = tiny_model(seed, outputs=outputs, scale=0.7)
    batch = prepare_batch(model, [TEXT], target=1, scale=output)
    result = ig(batch)
    change = batch.targets.value(batch.outputs) - batch.base_values
    assert abs(result.scores.sum() - change[0]) < 1e-10
    assert result.gap[0] < 1e-10


def test_is_complete_on_the_shipped_model(shipped):
    text = "Not a great film, " * 40 + "but the end is superb."
    result = ig(prepare_batch(shipped, [text, "superb", "a dull, dull, dull thing"]))
    assert result.gap.max() < 1e-10


def test_matches_the_path_integral_of_autograd():
    model = tiny_model(3, outputs=2, scale=0.7)
    batch = prepare_batch(model, [TEXT], target=1, scale="score")
    start = model.embedding[batch.collapsed_inputs.base_ids[0]] + model.positions
    end = batch.collapsed_inputs.embeddings[0]
    W_q, W_k, W_v, W_l = (torch.tensor(w) for w in (model.W_q, model.W_k, model.W_v, model.W_l))

    def path_gradient(x):
        e = torch.tensor(start + x * (end - start), requires_grad=True)
        total = 0.0
        for i in range(len(W_q)):
            alpha = torch.softmax(e @ W_k[i].T @ (W_q[i] @ e[0]) / W_q.shape[1] ** 0.5, dim=0)
            total = total + W_l[i, 1] @ (alpha @ (e @ W_v[i].T))
        (gradient,) = torch.autograd.grad(total / len(W_q), e)
        return ((end - start) * gradient.numpy()).sum(axis=1)

    nodes, weights = np.polynomial.legendre.leggauss(60)
    oracle = sum(w / 2 * path_gradient((x + 1) / 2) for x, w in zip(nodes, weights, strict=True))
    np.testing.assert_allclose(ig(batch).scores[0].sum(axis=0), oracle, rtol=1e-9, atol=1e-12)


LOGIT = DerivativeBounds(lambda psi: np.ones((*psi.shape, 1)), curvature=0.0)


def integrate_arrays(logit, base, u, base_u, tolerance=1e-11, units=None):
    """IG of one output from its logits (K, T) and values (K, T) at both ends of the path."""
    return integrated_gradients(
        LogitPath(base[None], logit[None], units),
        u[None, None],
        base_u[None, None],
        output_gradient=np.ones_like,
        explained_value=lambda f: f[..., 0],
        derivative_bounds=LOGIT,
        tolerance=tolerance,
    )


def two_positions(swing):
    """One head, two positions, a swing of the logit between them."""
    logit, base = np.array([[swing / 2, 0.0]]), np.array([[-swing / 2, 0.0]])
    return logit, base, np.array([[3.0, -1.0]]), np.array([[-2.0, -1.0]])


@pytest.mark.parametrize(
    ("swing", "nodes"), [(0.1, 32), (1.0, 32), (16.0, 64), (80.0, 320), (400.0, 1280)]
)
def test_sharp_attention_gets_more_nodes_and_the_same_accuracy(swing, nodes):
    path = two_positions(swing)
    result, exact = integrate_arrays(*path), integral_by_tanh_sinh(*path)
    assert result.nodes == pytest.approx(nodes, rel=0.3)
    assert abs(result.scores[0, 0, 0] - exact[0]) <= result.bound[0] < 1e-8
    assert result.scores[0, 0, 1] == 0


def test_the_comparison_can_fail():
    path = two_positions(16.0)
    result, exact = integrate_arrays(*path), integral_by_tanh_sinh(*path)
    assert abs(result.scores[0, 0, 0] * (1 + 1e-9) - exact[0]) > result.bound[0]


def hidden_bump(slope=3000.0, where=0.345):
    """A third position that holds the attention on a hundredth of the path, between two others.

    Position 0 holds it before and position 1 after; both have the same value.
    """
    base = np.array([[slope * where - 4, -slope * where - 4, 0.0]])
    logit = np.array([[-slope * (1 - where) - 4, slope * (1 - where) - 4, 0.0]])
    return logit, base, np.array([[1.0, 1.0, 0.0]]), np.array([[1.0, 1.0, 0.0]])


def test_a_bump_between_the_nodes_is_not_overlooked():
    path = hidden_bump()
    result = integrate_arrays(*path)
    exact = integral_by_tanh_sinh(*path, halvings=17)
    assert np.abs(exact).max() > 0.7
    assert np.abs(result.scores[0, 0] - exact).max() <= result.bound[0] < 1e-5
    assert result.gap[0] < 1e-9


def test_panels_that_are_doubled_until_the_gap_closes_overlook_it(monkeypatch):
    path = hidden_bump()
    exact = integral_by_tanh_sinh(*path, halvings=17)
    monkeypatch.setattr(quadrature, "MAX_PANELS", 2)  # 96 nodes were enough to fool the gap
    result = integrate_arrays(*path)
    assert result.gap[0] < 1e-9
    assert np.abs(result.scores[0, 0] - exact).max() > 0.7
    assert (
        result.bound[0] >= np.abs(result.scores[0, 0] - exact).max()
    )  # yet the bound is not fooled


@given(st.integers(0, 2**32 - 1), st.floats(-1, 2.3), st.sampled_from([1e-3, 1e-7, 1e-11]))
@settings(max_examples=25, deadline=None)
def test_scores_of_random_heads_are_within_the_bound(seed, decades, tolerance):
    rng = np.random.default_rng(seed)
    logit, base = 10**decades * rng.uniform(-1, 1, (2, 2, 3))
    u, base_u = rng.normal(size=(2, 2, 3)) * 10.0 ** rng.integers(-2, 3)
    result = integrate_arrays(logit, base, u, base_u, tolerance)
    exact = integral_by_tanh_sinh(logit, base, u, base_u)
    off = result.scores[0].sum(axis=0) - exact
    assert max(np.abs(off).max(), abs(off.sum())) <= result.bound[0]
    assert result.quadrature[0] <= max(tolerance, result.bound[0] - result.quadrature[0])


def test_coarse_panels_are_seen_by_the_bound(monkeypatch):
    path = two_positions(200.0)
    exact = integral_by_tanh_sinh(*path)
    monkeypatch.setattr(quadrature, "MAX_PANELS", 3)
    result = integrate_arrays(*path)
    assert 1e-6 < abs(result.scores[0, 0, 0] - exact[0]) <= result.bound[0]


def test_nodes_and_weights_are_right_to_rounding():
    off = 0.0
    with mpmath.workdps(30):
        for x, w in zip(2 * module.PANEL - 1, 2 * module.WEIGHTS, strict=True):
            at = mpmath.findroot(lambda z: mpmath.legendre(NODES, z), mpmath.mpf(float(x)))
            slope = NODES * (at * mpmath.legendre(NODES, at) - mpmath.legendre(NODES - 1, at))
            assert abs(at - x) < 8 * 2.0**-53
            off += abs(float(2 * (1 - at**2) / slope**2 - w))
    assert off < 64 * 2.0**-52


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("against", [None, 0])
def test_probabilities_are_within_their_bound_too(outputs, against):
    model = tiny_model(5, outputs=outputs, scale=0.8, K=1, T_max=5)
    batch = prepare_batch(model, ["w1 w5 w8"], target=1, scale="probability")
    if against is not None:
        targets = replace(batch.targets, against=np.array([against]))
        batch = replace(batch, targets=targets)
    result, fine = ig(batch), ig(batch, tolerance=1e-15)
    assert np.isfinite(result.bound).all()
    # Oracle: Simpson's rule, 20,001 points, on the integrand of the definition.
    x = np.linspace(0, 1, 20001)
    weights = np.ones_like(x)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    weights /= 3 * (len(x) - 1)
    arrays = batch.collapsed_inputs
    logit = arrays.base_logit[0] + x[:, None, None] * (arrays.logit - arrays.base_logit)[0]
    u = arrays.base_u[0] + x[:, None, None, None] * (arrays.u - arrays.base_u)[0]
    alpha = np.exp(logit - logit.max(axis=-1, keepdims=True))
    alpha /= alpha.sum(axis=-1, keepdims=True)
    f = (alpha[:, None] * u).sum(axis=-1)
    w = batch.targets.output_gradient(f.mean(axis=-1)[:, None])[:, 0]
    slope, moved = (arrays.logit - arrays.base_logit)[0], (arrays.u - arrays.base_u)[0]
    terms = alpha[:, None] * (moved + slope * (u - f[..., None])) * w[:, :, None, None]
    oracle = np.einsum("x,xckt->t", weights, terms) / len(slope)
    assert np.abs(result.scores[0].sum(axis=0) - oracle).max() <= result.bound[0] + 1e-12
    assert fine.bound[0] <= result.bound[0]


def test_many_documents_at_once_are_the_same_one_by_one():
    model = tiny_model(4)
    texts = [TEXT, "w3", "never seen w9 w9"]
    together = ig(prepare_batch(model, texts)).scores
    for i, text in enumerate(texts):
        np.testing.assert_allclose(
            together[i], ig(prepare_batch(model, [text])).scores[0], rtol=1e-9, atol=1e-12
        )


def test_torch_gives_the_same_numbers():
    batch = prepare_batch(tiny_model(4), [TEXT])
    tensors = {
        name: torch.tensor(getattr(batch.collapsed_inputs, name))
        for name in ("logit", "u", "base_logit", "base_u")
    }
    logits = LogitPath(tensors.pop("base_logit"), tensors.pop("logit"))
    result = ig(
        batch,
        logits=logits,
        **tensors,
        output_gradient=torch.ones_like,
        explained_value=lambda f: f[..., 0],
    )
    np.testing.assert_allclose(result.scores.numpy(), ig(batch).scores, rtol=1e-9, atol=1e-12)
