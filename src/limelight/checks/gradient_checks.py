"""Gradients and integrated gradients against complex steps through the whole model."""

__all__ = ["gradient_checks"]

from collections.abc import Iterator

import numpy as np

from limelight.checks.check import ROUNDING, Check, arrays_of, base_value, classifier, explained
from limelight.explainers import Reading
from limelight.models.attention.weights import wide_weights
from limelight.shapes import Float

POSITIONS = 25  # tokens at which gradients are differentiated again
INTEGRATED = 5  # tokens whose integral is computed again
PANELS, NODES = 16, 16  # pieces of the way from UNK, and nodes on each


def gradient_checks(reading: Reading) -> Iterator[Check]:
    """The derivative along the direction that each method sums up, by a complex step."""
    e = arrays_of(reading).embedded[0]
    G = arrays_of(reading).gradient(reading.target_weights)[0]
    places = range(1, 1 + min(len(reading.documents[0].tokens), POSITIONS))
    norm = np.linalg.norm(G, axis=1, keepdims=True)
    directions = {
        "g-avg": np.full_like(G, 1 / G.shape[1]),
        "g-l1": np.sign(G),
        "g-l2": G / np.where(norm > 0, norm, 1),
        "gxi": e,
    }
    for method, v in directions.items():
        scores = explained(reading, method, features="positions").scores
        slopes = [_slope(reading, e, t, v[t]) for t in places]
        difference = np.abs(scores[: len(slopes)] - slopes)
        yield Check(
            method=method,
            against=f"complex steps at {len(slopes)} tokens",
            error=float((difference / (1e-3 + np.abs(slopes))).max()),
            allowed=ROUNDING,
            unit="relative",
        )
    yield from _integrated(reading)


def _slope(
    reading: Reading,
    at: Float[np.ndarray, "T_max d_e"],
    t: int,
    v: Float[np.ndarray, " d_e"],
) -> float:
    """Return the derivative of the target's logit along ``v`` at position ``t`` of embeddings."""
    h = 1e-30
    e = at.astype(np.complex128)
    e[t] += 1j * h * v
    m = classifier(reading)
    W_q, W_k, W_v, W_l = wide_weights(m).values()
    q = W_q @ e[0] if m.b_q is None else W_q @ e[0] + m.b_q
    k = W_k @ e.T if m.b_k is None else W_k @ e.T + m.b_k[..., None]
    if m.w_a is None:
        logit = (q[:, None] @ k)[:, 0] / np.sqrt(W_q.shape[1])
    else:
        logit = (m.w_a[:, None] @ np.tanh(q[..., None] + k))[:, 0]
    g = np.exp(logit - logit.real.max(axis=1, keepdims=True))
    alpha = g / g.sum(axis=1, keepdims=True)
    v = W_v @ e.T if m.b_v is None else W_v @ e.T + m.b_v[..., None]
    f = (alpha[:, None] * (W_l @ v)).sum(axis=-1).mean(axis=0)
    if m.W_s is not None:
        f = f + m.W_s @ (e[0] if m.skip == "cls" else e.mean(axis=0))
    return float((reading.target_weights[0] * f.imag).sum() / h)


def _integrated(reading: Reading) -> Iterator[Check]:
    """IG of a word by adding up slopes on the way from UNK, and completeness."""
    e = explained(reading, "ig")
    change = reading.targets.value(reading.outputs)[0] - base_value(reading)
    yield Check(
        method="ig",
        against="the change of the output",
        error=abs(float(e.scores.sum() - change)),
        allowed=(e.bound or 0) + 1e-10,
    )
    words = arrays_of(reading).embedded[0]
    model = classifier(reading)
    base = model.embedding[arrays_of(reading).base_ids[0]].astype(np.float64) + model.positions
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    way = (np.arange(PANELS)[:, None] + (1 + nodes) / 2).ravel() / PANELS
    weights = np.tile(weights / 2 / PANELS, PANELS)
    places = range(1, 1 + min(len(reading.documents[0].tokens), INTEGRATED))
    sums = [
        sum(
            w * _slope(reading, base + x * (words - base), t, words[t] - base[t])
            for x, w in zip(way, weights, strict=True)
        )
        for t in places
    ]
    scores = explained(reading, "ig", features="positions").scores
    yield Check(
        method="ig",
        against=f"{len(way)} complex steps at {len(sums)} tokens",
        error=float((np.abs(scores[: len(sums)] - sums) / (1e-3 + np.abs(sums))).max()),
        allowed=1e-6,
        unit="relative",
    )
