r"""One layer of dot-product attention that counts letters, many copies of it at a time.

Letter and position are added, :math:`e_t = a_{x_t} + p_t`; queries and keys are one matrix
(tied), :math:`A = \operatorname{softmax}(E Q Q^\top E^\top / \sqrt r)`; then
:math:`z = e + A e` and a small perceptron says the count.

All weights are trained, and the first axis of each is the copy. Words come last everywhere: the
products over 10 × 10 pairs of letters are then long and quick.
"""

__all__ = ["KINDS", "Weights", "attention", "held", "losses", "outputs", "start"]

from typing import Any

import torch
from torch.nn import functional

from limelight_reproduction.histogram.task import LENGTH, LETTERS

Weights = dict[str, Any]

KINDS = ("positional", "semantic", "ordinary")
_HALF = 8  # dimensions in which letters start, and in which positions start
_RANK = 8
_HIDDEN = 64
_PENALTY = 1e-5  # with no penalty the cross-entropy has no minimum, only weights without end
_LOGIT = 3.0  # what attention to oneself starts with, where others have 0


def start(kind: str, seed: int) -> Weights:
    """Return weights whose attention sees only positions, only letters, or both.

    In the first two, letters and positions begin in halves of their own of the embedding, and the
    queries read one of them. The same seed gives the same perceptron.
    """
    generator = torch.Generator().manual_seed(seed)
    V, T, d = len(LETTERS), LENGTH, 2 * _HALF

    def normal(*shape: int) -> Any:
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
    read = letters if kind == "semantic" else positions
    scale = (_LOGIT * _RANK**0.5 / _HALF) ** 0.5
    weights["query"][:, read] = scale * torch.eye(_RANK, _HALF)
    return weights


def held(kind: str) -> Weights:
    """Return 0 for the weights that stay at zero while a start warms up, 1 for the others."""
    free = {name: torch.ones_like(weight) for name, weight in start(kind, 0).items()}
    if kind != "ordinary":
        letters, positions = slice(None, _HALF), slice(_HALF, None)
        free["letter"][positions] = 0
        free["position"][:, letters] = 0
        free["query"][:, positions if kind == "semantic" else letters] = 0
    return free


def _embedded(weights: Weights, letters: Any) -> Any:
    """Return e of every copy (copies, T, d, n); ``letters`` is one-hot (T, V, n)."""
    return weights["letter"][:, None] @ letters + weights["position"]


def _attended(weights: Weights, e: Any) -> Any:
    key = weights["query"][:, None] @ e
    logit = (key[:, :, None] * key[:, None]).sum(3) / _RANK**0.5
    return torch.softmax(logit, dim=2)


def attention(weights: Weights, letters: Any) -> Any:
    """Return the attention (copies, T, T, n) of every place to every place."""
    return _attended(weights, _embedded(weights, letters))


def outputs(weights: Weights, letters: Any) -> Any:
    """Return the logits (copies, T, counts, n); the first count is 1."""
    e = _embedded(weights, letters)
    mixed = (_attended(weights, e)[:, :, :, None] * e[:, None]).sum(2)
    hidden = weights["hidden"][:, None] @ (e + mixed) + weights["hidden_bias"][:, None]
    return weights["out"][:, None] @ torch.relu(hidden) + weights["out_bias"][:, None]


def losses(weights: Weights, letters: Any, counts: Any) -> tuple[Any, Any]:
    """Return cross-entropy and penalty of every copy; ``counts`` (T, n) begin with 0 for 1."""
    logit = outputs(weights, letters)
    wanted = counts.expand(len(logit), *counts.shape)
    entropy = functional.cross_entropy(logit.transpose(1, 2), wanted, reduction="none")
    penalty = sum((weight**2).flatten(1).sum(1) for weight in weights.values())
    return entropy.flatten(1).mean(1), _PENALTY * penalty
