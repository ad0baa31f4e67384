"""Theorem 4.1 and its missing row, against autograd of the definition."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from limelight.explainers import prepare_batch
from limelight.theory.attention import attention, head_outputs, max_attention, mean_attention
from limelight.theory.gradient import (
    gradient,
    gradient_times_input,
    head_gradients,
    token_gradients,
)

from tiny_models import random_texts, tiny_model

seeds = st.integers(0, 10_000)


def assert_same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def gradient_from_autograd(model, ids, output):
    """Oracle: full self-attention as Eq. 1–9 define it, differentiated by torch."""
    as_double = {
        name: torch.tensor(getattr(model, name).astype(np.float64))
        for name in ("embedding", "W_q", "W_k", "W_v", "W_l")
    }
    e = as_double["embedding"][torch.tensor(ids, dtype=torch.long)] + torch.tensor(model.positions)
    e.requires_grad_(True)
    K, d_att, _ = as_double["W_q"].shape
    heads = []
    for i in range(K):
        q, k, v = (e @ as_double[name][i].T for name in ("W_q", "W_k", "W_v"))
        full = torch.softmax(q @ k.T / d_att**0.5, dim=-1) @ v
        heads.append(as_double["W_l"][i, output] @ full[0])
    per_head = [torch.autograd.grad(head, e, retain_graph=True)[0].numpy() for head in heads]
    return np.mean(per_head, axis=0), np.stack(per_head)


class AtTheText:
    """The arrays of one text, and the gradient of what is explained there."""

    def __init__(self, model, text, **question):
        self.batch = prepare_batch(model, [text], **question)
        self.arrays, weights = self.batch.collapsed_inputs, self.batch.target_gradient
        self.at_the_text = self.arrays.gradient_arguments(weights)
        self.gradient = self.arrays.gradient(weights)
        self.target_u = self.arrays.target_u(weights)
        self.ids, self.embedded = self.arrays.ids, self.arrays.embeddings
        self.alpha, self.logit = self.arrays.alpha, self.arrays.logit


@given(seeds)
def test_matches_autograd_at_every_position_cls_included(seed):
    model = tiny_model(seed, outputs=2, scale=0.7)
    (text,) = random_texts(1, seed)
    batch = AtTheText(model, text, target=1, scale="score")
    full, per_head = gradient_from_autograd(model, batch.ids[0], 1)
    assert_same(batch.gradient[0], full)
    assert_same(head_gradients(**batch.at_the_text)[0], per_head)


def test_matches_autograd_on_the_shipped_model(shipped):
    batch = AtTheText(shipped, "a great film, but the end is not as good as the book")
    full, _ = gradient_from_autograd(shipped, batch.ids[0], 0)
    np.testing.assert_allclose(batch.gradient[0], full, rtol=1e-9, atol=1e-15)
    rows = np.abs(full).max(axis=1)
    assert rows[0] > 0  # the row of [cls] is compared too


def test_without_the_query_path_the_row_of_cls_is_wrong():
    model = tiny_model(5)
    batch = AtTheText(model, "w1 w2 w3")
    arguments = dict(batch.at_the_text)
    arguments["query"] = np.zeros_like(arguments["query"])
    as_printed = gradient(**arguments)[0]
    full, _ = gradient_from_autograd(model, batch.ids[0], 0)
    assert_same(as_printed[1:], full[1:])
    with pytest.raises(AssertionError):
        assert_same(as_printed[0], full[0])


def test_the_comparison_can_fail():
    model = tiny_model(5)
    batch = AtTheText(model, "w1 w2 w3")
    arguments = dict(batch.at_the_text)
    arguments["key"] = arguments["key"] * (1 + 1e-6)
    with pytest.raises(AssertionError):
        assert_same(gradient(**arguments)[0], gradient_from_autograd(model, batch.ids[0], 0)[0])


@given(seeds)
def test_the_mean_of_the_heads_is_the_whole(seed):
    batch = AtTheText(tiny_model(seed), "w1 w5 never w5")
    assert_same(head_gradients(**batch.at_the_text).mean(axis=1), batch.gradient)


@given(seeds)
def test_gradients_of_tokens_are_the_rows_of_the_heads(seed):
    batch = AtTheText(tiny_model(seed), "w1 w5 never w5")
    alpha, u, key, value = (batch.at_the_text[name] for name in ("alpha", "u", "key", "value"))
    surplus = alpha * (u - (alpha * u).sum(axis=-1, keepdims=True))
    rows = token_gradients(alpha, surplus, key=key, value=value)
    assert_same(rows[:, 1:], batch.gradient[:, 1:])


@given(seeds, st.floats(-100, 100))
def test_a_constant_added_to_all_values_moves_no_gradient(seed, constant):
    batch = AtTheText(tiny_model(seed), "w1 w5 never w5")
    moved = dict(batch.at_the_text) | {"u": batch.target_u + constant}
    np.testing.assert_allclose(gradient(**moved), batch.gradient, rtol=1e-9, atol=1e-10)


@given(seeds)
def test_torch_gives_the_same_numbers(seed):
    batch = AtTheText(tiny_model(seed, outputs=3), "w1 w5 never w5", target=2)
    tensors = {name: torch.tensor(array) for name, array in batch.at_the_text.items()}
    assert_same(gradient(**tensors).numpy(), batch.gradient)
    assert_same(head_gradients(**tensors).numpy(), head_gradients(**batch.at_the_text))


@given(seeds)
def test_gradient_times_input_needs_no_embedding(seed):
    batch = AtTheText(tiny_model(seed, outputs=3), "w1 w5 never w5", target=2)
    by_definition = (batch.embedded[:, None] * head_gradients(**batch.at_the_text)).sum(-1)
    ours = gradient_times_input(batch.alpha, batch.target_u, batch.logit)
    assert_same(ours[..., 1:], by_definition[..., 1:])
    theirs = gradient_times_input(
        *(torch.tensor(x) for x in (batch.alpha, batch.target_u, batch.logit))
    )
    assert_same(theirs.numpy(), ours)


def test_probabilities_follow_the_chain_rule():
    for outputs, target in ((1, 0), (1, 1), (3, 2)):
        model = tiny_model(8, outputs=outputs)
        batch = AtTheText(model, "w1 w2 w2", target=target, scale="probability")
        base = batch.embedded[0]
        rng = np.random.default_rng(0)
        direction = rng.standard_normal(base.shape)
        direction[0] = 0  # [cls] moves the query, on which the tables depend

        def probability(step, batch=batch, base=base, direction=direction):
            e = base + step * direction
            d = batch.batch.model.directions
            logit, u = d.key @ e.T, d.value @ e.T
            f = (attention(logit) * u).sum(-1).mean(-1)
            return batch.batch.targets.value(f[None])[0]

        h = 1e-5
        slope = (probability(h) - probability(-h)) / (2 * h)
        assert np.isclose((batch.gradient[0] * direction).sum(), slope, rtol=1e-6)


def test_attention_is_a_softmax_for_logits_of_any_size():
    logit = np.array([[800.0, 0.0, -800.0], [5.0, 5.0, 5.0]])
    alpha = attention(logit)
    np.testing.assert_allclose(alpha, [[1, 0, 0], [1 / 3] * 3])
    assert_same(mean_attention(alpha), alpha.mean(axis=0))
    assert_same(max_attention(alpha), [1, 1 / 3, 1 / 3])
    assert_same(head_outputs(alpha, np.array([[2.0, 9, 9], [1, 2, 3]])), [2, 2])


@given(seeds)
def test_with_one_head_both_norms_are_attention_times_a_norm(seed):
    """Comment (i) on Eq. 14 sets G-l2 apart from G-l1; both are homogeneous of degree 1 in α_t."""
    model = tiny_model(seed, K=1, scale=0.7)
    (text,) = random_texts(1, seed)
    at = AtTheText(model, text)
    alpha, u = at.alpha[0, 0], at.target_u[0, 0]
    q = model.W_q[0] @ at.embedded[0, 0]
    key = model.W_k[0].T @ q / np.sqrt(len(q))
    bracket = model.W_l[0, 0] @ model.W_v[0] + (u - alpha @ u)[:, None] * key
    for order in (1, 2):
        sizes = np.linalg.norm(at.gradient[0, 1:], ord=order, axis=1)
        assert_same(sizes, alpha[1:] * np.linalg.norm(bracket[1:], ord=order, axis=1))
    means = at.gradient[0, 1:].mean(axis=1)  # G-avg, whose sign is the bracket's
    assert_same(means, alpha[1:] * bracket[1:].mean(axis=1))


def test_the_first_display_of_appendix_a_is_zero_as_printed():
    """∇_{e_t} α_t with the sum over all s vanishes, since Σ_s α_s = 1; with s = t it is right."""
    rng = np.random.default_rng(0)
    T, d_att, d_e, t = 5, 2, 3, 1
    W_k, q, e = rng.normal(size=(d_att, d_e)), rng.normal(size=d_att), rng.normal(size=(T, d_e))
    tokens = torch.tensor(e, requires_grad=True)
    alpha = torch.softmax(tokens @ torch.tensor(W_k.T @ q) / d_att**0.5, dim=0)
    (wanted,) = torch.autograd.grad(alpha[t], tokens)
    alpha, direction = alpha.detach().numpy(), W_k.T @ q
    factor = alpha[t] / d_att**0.5
    assert_same(factor * (direction - alpha.sum() * direction), np.zeros(d_e))
    assert_same(factor * (direction - alpha[t] * direction), wanted[t].numpy())
    assert np.abs(wanted[t].numpy()).max() > 1e-2
