"""Every method against an oracle that takes another road, on the user's own model and text."""

__all__ = ["Check", "verify"]

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import final

import numpy as np

from limelight.explainers.api import explain
from limelight.explainers.reading import Reading, read
from limelight.explanation import Explanation
from limelight.model import AttentionClassifier
from limelight.shapes import Bool, Float
from limelight.text import UNK
from limelight.theory.attention import attention

SHORT = 8  # words of which all subsets are tried
POSITIONS = 25  # tokens at which gradients are differentiated again
PERMUTATIONS = 300
SIGMAS = 5.0
ROUNDING = 1e-9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison: the error found, and what is allowed."""

    method: str
    against: str
    error: float
    allowed: float
    unit: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is within what is allowed (a NaN is not)."""
        return self.error <= self.allowed


def verify(model: AttentionClassifier, text: str, *, seed: int = 0) -> Iterator[Check]:
    """Yield one check after the other; gradients by complex steps, values by all subsets of the
    first words, and by sampling where the text is longer.
    """
    reading = read(model, [text])
    yield from _attention(reading)
    yield from _gradients(reading)
    yield from _completeness(reading)
    yield from _left_out(reading)
    yield from _first_order(reading)
    words = reading.documents[0].tokens
    short = text[: words.spans[min(SHORT, len(words)) - 1][1]]
    if len(read(model, [short]).features[0]) > 1:
        yield from _enumerated(model, short)
    if len(words) > SHORT and len(reading.features[0]) > 1:
        yield from _sampled(model, text, seed)


def _explained(reading: Reading, method: str, **options: object) -> Explanation:
    return explain(reading.model, reading.documents[0].text, method, **options)


def _attention(reading: Reading) -> Iterator[Check]:
    rows = reading.model.attention_matrices(reading.documents[0])[:, 0, 1:]
    m = reading.model
    e = reading.embedded[0, 1 : 1 + rows.shape[1]]
    W_l, W_v = m.W_l.astype(np.float64), m.W_v.astype(np.float64)
    values = np.einsum("kco,koe,te->ckt", W_l, W_v, e, optimize=True)
    worth = np.einsum("kt,c,ckt->t", rows, reading.target_weights[0], values) / len(rows)
    mean = rows.mean(axis=0)
    summaries = {"alpha-avg": mean, "alpha-max": rows.max(axis=0), "alpha-grad": worth}
    for method, summary in (summaries | {"rollout": mean, "flow": mean}).items():
        scores = _explained(reading, method, features="positions").scores
        yield Check(
            method=method,
            against="full T×T attention",
            error=float((np.abs(scores - summary) / (1 + np.abs(summary))).max()),
            allowed=ROUNDING,
        )


def _gradients(reading: Reading) -> Iterator[Check]:
    """The derivative along the direction that each method sums up, by a complex step."""
    e, G = reading.embedded[0], reading.gradient[0]
    places = range(1, 1 + min(len(reading.documents[0].ids), POSITIONS))
    norm = np.linalg.norm(G, axis=1, keepdims=True)
    directions = {
        "g-avg": np.full_like(G, 1 / G.shape[1]),
        "g-l1": np.sign(G),
        "g-l2": G / np.where(norm > 0, norm, 1),
        "gxi": e,
    }
    for method, v in directions.items():
        scores = _explained(reading, method, features="positions").scores
        slopes = [_slope(reading, t, v[t]) for t in places]
        difference = np.abs(scores[: len(slopes)] - slopes)
        yield Check(
            method=method,
            against=f"complex steps at {len(slopes)} tokens",
            error=float((difference / (1e-3 + np.abs(slopes))).max()),
            allowed=ROUNDING,
            unit="relative",
        )


def _slope(reading: Reading, t: int, v: Float[np.ndarray, " d_e"]) -> float:
    """Return the derivative of the target's logit along ``v`` at position ``t``."""
    h = 1e-30
    e = reading.embedded[0].astype(np.complex128)
    e[t] += 1j * h * v
    m = reading.model
    W_q, W_k, W_v, W_l = (w.astype(np.float64) for w in (m.W_q, m.W_k, m.W_v, m.W_l))
    q = np.einsum("kae,e->ka", W_q, e[0])
    logit = np.einsum("ka,kae,te->kt", q, W_k, e, optimize=True) / np.sqrt(W_q.shape[1])
    g = np.exp(logit - logit.real.max(axis=1, keepdims=True))
    alpha = g / g.sum(axis=1, keepdims=True)
    f = np.einsum("kt,kco,koe,te->c", alpha, W_l, W_v, e, optimize=True) / len(W_q)
    return float((reading.target_weights[0] * f.imag).sum() / h)


def _completeness(reading: Reading) -> Iterator[Check]:
    e = _explained(reading, "ig")
    change = reading.targets.value(reading.outputs)[0] - reading.base_values[0]
    yield Check(
        method="ig",
        against="the change of the output",
        error=abs(float(e.scores.sum() - change)),
        allowed=1e-10,
    )


def _left_out(reading: Reading) -> Iterator[Check]:
    e = _explained(reading, "loo")
    d = len(e.features)
    lost = _values(reading, np.ones((1, d), dtype=bool)) - _values(reading, ~np.eye(d, dtype=bool))
    yield Check(
        method="loo",
        against="predictions without each word",
        error=float(np.abs(e.scores - lost).max()),
        allowed=(e.bound or 0) + ROUNDING,
    )


def _first_order(reading: Reading) -> Iterator[Check]:
    """Both first-order formulas, position by position."""
    weights = reading.target_weights[0]
    alpha, u = reading.alpha[0], np.einsum("c,ckt->kt", weights, reading.u[0])
    alpha_h, u_h = (
        attention(reading.base_logit[0]),
        np.einsum("c,ckt->kt", weights, reading.base_u[0]),
    )
    f = (alpha * u).sum(axis=1, keepdims=True)
    formulas = {
        "lime-theorem": 1.5 * (alpha * u - alpha_h * u_h),
        "lime-first-order": alpha * (u - f) - alpha_h * (u_h - f),
    }
    for method, rows in formulas.items():
        (expected,) = reading.pooled(rows.mean(axis=0)[None, 1:])
        scores = _explained(reading, method).scores
        yield Check(
            method=method,
            against="its formula, token by token",
            error=float(np.abs(scores - expected).max()),
            allowed=ROUNDING,
        )


def _values(reading: Reading, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the explained logit with UNK in place of removed words, from the model itself."""
    ids, of_token = reading.documents[0].ids, reading.features[0].of_token
    rows = [np.where(kept[of_token], ids, UNK) for kept in keep]
    return reading.targets.value(reading.model.logits_of_ids(rows)[:, None])[:, 0]


def _enumerated(model: AttentionClassifier, short: str) -> Iterator[Check]:
    reading = read(model, [short])
    d = len(reading.features[0])
    keep = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 > 0
    v = _values(reading, keep)
    oracles = {
        "lime": _least_squares(keep, v),
        "shapley": _mean_changes(keep, v, [1 / (d * comb(d - 1, s)) for s in range(d)]),
        "banzhaf": _mean_changes(keep, v, [0.5 ** (d - 1)] * d),
    }
    for method, expected in oracles.items():
        for tolerance, rounding, what in ((1e-9, ROUNDING, ""), (1e-4, 0.0, ", its bound")):
            e = _explained(reading, method, tolerance=tolerance)
            yield Check(
                method=method,
                against=f"all {len(keep)} subsets of {d} words{what}",
                error=float(np.abs(e.scores - expected).max()),
                allowed=(e.bound or 0) + rounding,
            )
    yield _enumerated_pairs(reading, keep, v)


def _least_squares(
    keep: Bool[np.ndarray, "n d"], v: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " d"]:
    d = keep.shape[1]
    s = d - keep.sum(axis=1)
    weight = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * 0.25**2))
    root = np.sqrt(np.where(s > 0, weight / [comb(d, k) for k in s], 0))
    X = np.column_stack([np.ones(len(keep)), keep])
    return np.linalg.lstsq(root[:, None] * X, root * v, rcond=None)[0][1:]


def _mean_changes(
    keep: Bool[np.ndarray, "n d"], v: Float[np.ndarray, " n"], weight: list[float]
) -> Float[np.ndarray, " d"]:
    """Σ_S w(|S|) (v(S ∪ j) − v(S)) over the sets S without j."""
    sizes = keep.sum(axis=1)
    changes = []
    for j in range(keep.shape[1]):
        without = np.flatnonzero(~keep[:, j])
        by_size = np.array(weight)[sizes[without]]
        changes.append(by_size @ (v[without | 1 << j] - v[without]))
    return np.array(changes)


def _enumerated_pairs(
    reading: Reading, keep: Bool[np.ndarray, "n d"], v: Float[np.ndarray, " n"]
) -> Check:
    e = _explained(reading, "interactions", tolerance=1e-9, top=None)
    d, worst = keep.shape[1], 0.0
    found = (
        {}
        if e.pairs is None
        else dict(zip(map(tuple, e.pairs.features.tolist()), e.pairs.scores.tolist(), strict=True))
    )
    for i, j in combinations(range(d), 2):
        S = np.flatnonzero(~keep[:, i] & ~keep[:, j])
        weight = [1 / ((d - 1) * comb(d - 2, s)) for s in keep[S].sum(axis=1)]
        mixed = v[S | 1 << i | 1 << j] - v[S | 1 << i] - v[S | 1 << j] + v[S]
        worst = max(worst, abs(found[i, j] - float(weight @ mixed)))
    return Check(
        method="interactions",
        against=f"all {len(keep)} subsets of {d} words",
        error=worst,
        allowed=(e.bound or 0) + ROUNDING,
    )


def _sampled(model: AttentionClassifier, text: str, seed: int) -> Iterator[Check]:
    reading = read(model, [text])
    exact = _explained(reading, "lime", penalty=1 / 20_000)
    drawn = _explained(reading, "lime-sampled", samples=20_000, row0=False, seed=seed)
    if drawn.stderr is not None:
        yield Check(
            method="lime",
            against="lime-sampled, 20000 samples",
            error=float((np.abs(exact.scores - drawn.scores) / (drawn.stderr + ROUNDING)).max()),
            allowed=SIGMAS,
            unit="standard errors",
        )
    e = _explained(reading, "shapley")
    d = len(e.features)
    full = reading.targets.value(reading.outputs)[0]
    yield Check(
        method="shapley",
        against="efficiency: the scores add up",
        error=abs(float(e.scores.sum() - (full - reading.base_values[0]))),
        allowed=d * (e.bound or 0) + ROUNDING,
    )
    mean, stderr = _by_permutations(reading, np.random.default_rng(seed))
    yield Check(
        method="shapley",
        against=f"{2 * PERMUTATIONS} permutations",
        error=float((np.abs(e.scores - mean) / (stderr + ROUNDING)).max()),
        allowed=SIGMAS,
        unit="standard errors",
    )


def _by_permutations(
    reading: Reading, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Mean change when each word comes in, over random orders and their reverses."""
    d = len(reading.features[0])
    means = []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(d)
        both = []
        for one in (order, order[::-1]):
            keep = np.tril(np.ones((d + 1, d), dtype=bool), k=-1)[:, np.argsort(one)]
            both.append(np.diff(_values(reading, keep))[np.argsort(one)])
        means.append(np.mean(both, axis=0))
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(PERMUTATIONS)
