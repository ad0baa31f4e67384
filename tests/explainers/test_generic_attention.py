"""Generic attention explainability against the relevance matrix written out by hand."""

import numpy as np
import pytest
import torch
from torch import nn

import limelight
from limelight.explainers import prepare_batch

from tiny_models import tiny_model
from tiny_transformers import tiny

TEXT = "a superb film but the plot is predictable ."
TARGET = 1


def relevance_by_hand(network, ids, reads, monkeypatch):
    """R ← R + E_h[(∇A ⊙ A)⁺] R, entry by entry, with A as the softmax of the network returns it."""
    keep, softmax = [], nn.functional.softmax

    def keep_last(*args, **named):
        keep.append(softmax(*args, **named))
        keep[-1].retain_grad()
        return keep[-1]

    with monkeypatch.context() as patch:
        patch.setattr(nn.functional, "softmax", keep_last)
        network(input_ids=torch.tensor(ids[None])).logits[0, TARGET].backward()
    T = len(ids)
    R = np.eye(T)
    for matrix in keep:
        A, G = matrix.detach()[0], matrix.grad[0]
        before, heads = R.copy(), range(len(A))
        for s in range(T):
            for t in range(T):
                mean = np.mean([max(float(A[h, s, t] * G[h, s, t]), 0) for h in heads])
                R[s] += mean * before[t]
    assert len(keep) == 2
    return R[reads]


@pytest.mark.parametrize(("family", "reads"), [("bert", 0), ("gpt2", -1)])
def test_scores_are_the_read_row_of_the_relevance_matrix(family, reads, monkeypatch):
    network, tokenizer = tiny(family)
    model = limelight.wrap(network.double(), tokenizer=tokenizer)
    result = limelight.explain(
        model, TEXT, "generic-attention", features="positions", target=TARGET
    ).scores
    network, _ = tiny(family)
    network.double().set_attn_implementation("eager")
    pieces = model.read(TEXT).encoding
    row = relevance_by_hand(network, pieces.ids[pieces.read_indices], reads, monkeypatch)
    row[reads] -= 1  # the identity is no relevance
    token = pieces.token[pieces.read_indices]
    expected = np.array([row[token == j].sum() for j in range(token.max() + 1)])
    np.testing.assert_allclose(result, expected, rtol=1e-9)
    assert result.max() > 1e-4
    assert result.min() >= 0


def test_on_the_papers_classifier_only_the_row_of_cls_is_read():
    model, text = tiny_model(3, scale=0.7), "w1 w5 w2 w5 w7"
    batch = prepare_batch(model, [text])
    e = torch.tensor(model.embedding[batch.collapsed_inputs.ids[0]] + model.positions)
    W_q, W_k, W_v, W_l = (torch.tensor(getattr(model, n)) for n in ("W_q", "W_k", "W_v", "W_l"))
    K, d_att, _ = W_q.shape
    A = torch.softmax((e @ W_q.mT) @ (e @ W_k.mT).mT / d_att**0.5, dim=-1).requires_grad_()
    f = sum(W_l[h, 0] @ (A[h] @ (e @ W_v[h].T))[0] for h in range(K)) / K
    f.backward()
    row = (A * A.grad).clamp(min=0).mean(0).detach().numpy()[0]
    explanation = limelight.explain(model, text, "generic-attention", features="positions")
    np.testing.assert_allclose(explanation.scores, row[1:6], rtol=1e-9)


def test_two_equal_windows_share_the_scores_of_one():
    network, tokenizer = tiny("bert")
    model = limelight.wrap(network.double(), tokenizer=tokenizer)
    value = limelight.explain(model, "a superb film .", "generic-attention", features="positions")
    two = limelight.explain(
        model,
        "a superb film . a superb film .",
        "generic-attention",
        features="positions",
        window=6,
    )
    assert len(two.diagnostics["windows"]) == 2
    np.testing.assert_allclose(two.scores, np.tile(value.scores, 2) / 2, rtol=1e-9)
