"""The paper's classifier written again from its Section 2, in NumPy and torch: an oracle.

It takes the five weights from a model and shares no line with the library.
"""

import itertools
import math

import numpy as np
import torch

NEVER = "zzz"  # a word that no vocabulary has


class OwnClassifier:
    """Full self-attention, T_max × T_max in every head, of which the row of [cls] is read."""

    def __init__(self, model):
        names = ("embedding", "W_q", "W_k", "W_v", "W_l")
        self.E, self.Q, self.K, self.V, self.L = (
            torch.tensor(np.array(getattr(model, name)), dtype=torch.float64) for name in names
        )
        self.row = {word: i for i, word in enumerate(model.vocabulary.words) if i > 1}
        self.T_max, d_e = model.T_max, self.E.shape[1]
        self.P = torch.zeros(self.T_max, d_e, dtype=torch.float64)
        for t in range(self.T_max):
            for i in range(d_e):
                angle = t / model.position_base ** ((i - i % 2) / d_e)
                turned = math.cos(angle) if i % 2 else math.sin(angle)
                self.P[t, i] = model.position_scale * turned

    def ids(self, words):
        """[cls], the words, and UNK as padding."""
        inside = [0, *(self.row.get(word, 1) for word in words)][: self.T_max]
        return inside + [1] * (self.T_max - len(inside))

    def embedded(self, words):
        return self.E[self.ids(words)] + self.P

    def heads(self, e):
        """Attention (T_max, T_max) and output (C) of every head."""
        for Q, K, V, L in zip(self.Q, self.K, self.V, self.L, strict=True):
            alpha = torch.softmax((e @ Q.T) @ (e @ K.T).T / math.sqrt(len(Q)), dim=1)
            yield alpha, L @ (alpha @ (e @ V.T))[0]

    def f(self, e):
        outputs = [output for _, output in self.heads(e)]
        return sum(outputs) / len(outputs)

    def __call__(self, words):
        """The last output for a list of words."""
        return float(self.f(self.embedded(words))[-1])

    def attention(self, words):
        """The row of [cls] in every head, (K, T_max)."""
        return np.array([alpha[0].numpy() for alpha, _ in self.heads(self.embedded(words))])

    def gradient(self, e):
        """Autograd of the last output at every row of e."""
        e = e.clone().requires_grad_()
        self.f(e)[-1].backward()
        return e.grad.numpy()


def mask_words(words, removed, *, delete=False):
    """The text with every occurrence of the words in ``removed`` replaced, or deleted."""
    if delete:
        return [word for word in words if word not in removed]
    return [NEVER if word in removed else word for word in words]


def game(own, words, *, delete=False):
    """f of every subset of distinct words that stay, as {frozenset of removed: f}."""
    distinct = list(dict.fromkeys(words))
    return distinct, {
        frozenset(gone): own(mask_words(words, gone, delete=delete))
        for size in range(len(distinct) + 1)
        for gone in itertools.combinations(distinct, size)
    }


def lime_by_all_masks(distinct, f, bandwidth):
    """Weighted least squares over all masks as LIME draws them: coefficients and R²."""
    d = len(distinct)
    rows, y, weight = [], [], []
    for gone, value in f.items():
        s = len(gone)
        if s == 0:  # LIME removes at least one word
            continue
        cosine = math.sqrt(1 - s / d)
        near = 1.0 if math.isinf(bandwidth) else math.exp(-((1 - cosine) ** 2) / 2 / bandwidth**2)
        rows.append([1.0, *(word not in gone for word in distinct)])
        y.append(value)
        weight.append(near / d / math.comb(d, s))
    X, y, w = np.array(rows, float), np.array(y), np.array(weight)
    beta = np.linalg.solve(X.T @ (w[:, None] * X), X.T @ (w * y))
    remaining = w @ (y - X @ beta) ** 2
    return beta[1:], 1 - remaining / (w @ (y - (w @ y) / w.sum()) ** 2)
