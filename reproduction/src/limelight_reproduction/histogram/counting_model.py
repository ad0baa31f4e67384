r"""Models with one layer of dot-product attention that count letters, computed in parallel.

Letter and position are added, :math:`e_t = a_{x_t} + p_t`; queries and keys are one matrix
(tied), :math:`A = \operatorname{softmax}(E Q Q^\top E^\top / \sqrt r)`; then
:math:`z = e + A e` and a small perceptron predicts the count.

All weights are trained. The first axis of each weight is the copy of the model. The last axis of
each array is the word, so that the products over 10 × 10 pairs of letters are fast.
"""

__all__ = [
    "KINDS",
    "Weights",
    "attention",
    "initial_weights",
    "losses",
    "outputs",
    "trainable_mask",
]

from typing import Any

import torch
from torch.nn import functional

from limelight_reproduction.histogram.task import LENGTH, LETTERS

Weights = dict[str, Any]

KINDS = ("positional", "semantic", "ordinary")
_HALF = 8  # number of dimensions for letters at the start, and for positions
_RANK = 8
_HIDDEN = 64
_PENALTY = 1e-5  # without a penalty the cross-entropy has no minimum, and weights grow forever
_LOGIT = 3.0  # initial logit of attention to the same letter or position. Other logits are 0.


def initial_weights(kind: str, seed: int) -> Weights:
    """Draw weights whose attention depends only on positions, only on letters, or on both.

    For "positional" and "semantic", letters and positions start in different halves of the
    embedding, and the queries read one half. The same seed gives the same perceptron.
    """
    generator = torch.Generator().manual_seed(seed)
    V, T, d = len(LETTERS), LENGTH, 2 * _HALF

    def normal(*shape: int) -> Any:
        """Draw normal numbers."""
        return torch.randn(*shape, generator=generator)

    weights = {
        "hidden": normal(_HIDDEN, d) / d**0.5,
        "hidden_bias": torch.zeros(_HIDDEN, 1),
        "out": normal(T, _HIDDEN) / _HIDDEN**0.5,
        "out_bias": torch.zeros(T, 1),
        "letter": torch.zeros(d, V),
        "position": torch.zeros(T, d, 1),
        "query": torch.zeros(_RANK, d),
    }
    if kind == "ordinary":
        return weights | {
            "letter": normal(d, V),
            "position": normal(T, d, 1),
            "query": normal(_RANK, d) / d**0.5,
        }
    letters, positions = slice(None, _HALF), slice(_HALF, None)
    orthogonal = torch.linalg.qr(normal(_HALF, V))[0]
    weights["letter"][letters] = orthogonal * _HALF**0.5
    weights["position"][:, positions, 0] = normal(T, _HALF)
    half = letters if kind == "semantic" else positions
    scale = (_LOGIT * _RANK**0.5 / _HALF) ** 0.5
    weights["query"][:, half] = scale * torch.eye(_RANK, _HALF)
    return weights


def trainable_mask(kind: str) -> Weights:
    """Return a mask: 0 for weights that stay 0 during the warm-up, 1 for the others."""
    mask = {name: torch.ones_like(weight) for name, weight in initial_weights(kind, 0).items()}
    if kind != "ordinary":
        letters, positions = slice(None, _HALF), slice(_HALF, None)
        mask["letter"][positions] = 0
        mask["position"][:, letters] = 0
        mask["query"][:, positions if kind == "semantic" else letters] = 0
    return mask


def _embed(weights: Weights, letters: Any) -> Any:
    """Return e of every copy (copies, T, d, n). ``letters`` is one-hot (T, V, n)."""
    return weights["letter"][:, None] @ letters + weights["position"]


def _attention_weights(weights: Weights, e: Any) -> Any:
    key = weights["query"][:, None] @ e
    logit = (key[:, :, None] * key[:, None]).sum(3) / _RANK**0.5
    return torch.softmax(logit, dim=2)


def attention(weights: Weights, letters: Any) -> Any:
    """Return the attention (copies, T, T, n) of every position to every position."""
    return _attention_weights(weights, _embed(weights, letters))


def outputs(weights: Weights, letters: Any) -> Any:
    """Return the logits (copies, T, counts, n). The first count is 1."""
    e = _embed(weights, letters)
    mixed = (_attention_weights(weights, e)[:, :, :, None] * e[:, None]).sum(2)
    hidden = weights["hidden"][:, None] @ (e + mixed) + weights["hidden_bias"][:, None]
    return weights["out"][:, None] @ torch.relu(hidden) + weights["out_bias"][:, None]


def losses(weights: Weights, letters: Any, counts: Any) -> tuple[Any, Any]:
    """Return cross-entropy and penalty of every copy. In ``counts`` (T, n), 0 stands for 1."""
    logit = outputs(weights, letters)
    targets = counts.expand(len(logit), *counts.shape)
    entropy = functional.cross_entropy(logit.transpose(1, 2), targets, reduction="none")
    penalty = sum((weight**2).flatten(1).sum(1) for weight in weights.values())
    return entropy.flatten(1).mean(1), _PENALTY * penalty
