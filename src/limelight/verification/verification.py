"""Every method against an oracle that takes another road, on the user's own model and text.

Complex steps for gradients, all subsets of the first words for values, integrals by another rule.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from limelight.api import explain
from limelight.errors import InputError
from limelight.explainers import Batch, read
from limelight.models import (
    Model,
    checked_model,
    class_probabilities,
    reason_missing,
)
from limelight.models.attention import AttentionClassifier
from limelight.models.attention.weights import wide_weights
from limelight.models.bags import blanked
from limelight.models.functions import Function
from limelight.models.queries import read_input
from limelight.results import Explanation, Pairs
from limelight.shapes import Bool, Float
from limelight.text import UNK, UserInput, features_of
from limelight.theory.enumeration import all_keeps

ROUNDING = 1e-9
SHORT = 8  # words of which all subsets are tried
PERMUTATIONS = 300
SIGMAS = 5.0


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
        """Whether the error is within what is allowed (a NaN is not, and ∞ allows nothing)."""
        return self.error <= self.allowed < math.inf


def verify(model: Model, text: UserInput, *, seed: int = 0) -> Iterator[Check]:
    """Return checks of the exact methods on ``model`` and ``text``, one after another.

    Gradients are checked by complex steps, values by all subsets of the first words, and by
    sampling where the text is longer.
    """
    if (why := reason_missing(checked_model(model), "exact_game")) is not None:
        raise InputError(
            "verify checks the exact methods of a model whose removals are known; here the "
            f"scores carry standard errors, since {why}."
        )
    document = read_input(model, text)
    if not document.is_text:
        raise InputError("verify cuts a text shorter, and an image cannot be; give a text model.")
    return _checks(model, str(document.text), seed)


def _checks(model: Model, text: str, seed: int) -> Iterator[Check]:
    reading = read(model, [text])
    several = len(reading.features[0]) > 1  # LIME needs two words
    if reading.has_tables:
        yield from _attention(reading)
        yield from gradient_checks(reading)
    yield from _left_out(reading)
    words = reading.documents[0].tokens
    short = text[: words.spans[min(SHORT, len(words)) - 1][1]]
    if len(read(model, [short]).features[0]) > 1:
        yield from subset_checks(model, short)
    if len(words) > SHORT and several:
        yield from _sampled(model, text, seed)


def _compared(
    method: str,
    against: str,
    found: Float[np.ndarray, "*n"],
    expected: Float[np.ndarray, "*n"] | float,
    *,
    allowed: float = ROUNDING,
    unit: str = "",
    over: Float[np.ndarray, "*n"] | float = 1.0,
) -> Check:
    """Return the check of the largest |found − expected|/over."""
    error = float((np.abs(found - expected) / over).max())
    return Check(method=method, against=against, error=error, allowed=allowed, unit=unit)


def explained(reading: Batch, method: str, **options: Any) -> Explanation:
    """Return the explanation of the one text of ``reading``."""
    return explain(reading.model, reading.documents[0].text, method, **options)


def classifier(reading: Batch) -> AttentionClassifier:
    """Return the model with its weights, which the oracles go back to."""
    return cast(AttentionClassifier, reading.model)


def change(reading: Batch) -> float:
    """Return by how much the explained output of the one text falls without any word."""
    return float(reading.targets.value(reading.outputs)[0]) - cast(float, reading.base_values[0])


def masked_rows(reading: Batch, keep: Bool[np.ndarray, "n d"]) -> list[np.ndarray]:
    """Return the ids of the one text with UNK in place of removed words."""
    ids, of_token = reading.documents[0].input.ids, reading.features[0].of_token
    return [np.where(kept[of_token], ids, UNK) for kept in keep]


def output_values(reading: Batch, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the explained number with words removed, from the model itself."""
    if reading.has_tables:
        outputs = classifier(reading).logits_of_ids(masked_rows(reading, keep))
    else:
        (document,), (features,) = reading.documents, reading.features
        texts = [blanked(document, features, row) for row in keep]  # no vectorizer reads a space
        outputs = cast(Function, reading.model).logits(texts)
    return reading.targets.value(outputs[:, None])[:, 0]


POSITIONS = 25  # tokens at which gradients are differentiated again
INTEGRATED = 5  # tokens whose integral is computed again
PANELS, NODES = 16, 16  # pieces of the way from UNK, and nodes on each


def gradient_checks(reading: Batch) -> Iterator[Check]:
    """The derivative along the direction that each method sums up, by a complex step."""
    e = reading.collapsed.embedded[0]
    G = reading.collapsed.gradient(reading.target_weights)[0]
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
        slopes = np.array([_slope(reading, e, t, v[t]) for t in places])
        what, over = f"complex steps at {len(slopes)} tokens", 1e-3 + np.abs(slopes)
        yield _compared(method, what, scores[: len(slopes)], slopes, over=over, unit="relative")
    yield from _integrated(reading)


def _slope(
    reading: Batch, at: Float[np.ndarray, "T_max d_e"], t: int, v: Float[np.ndarray, " d_e"]
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


def _integrated(reading: Batch) -> Iterator[Check]:
    """IG of a word by adding up slopes on the way from UNK, and completeness."""
    e = explained(reading, "ig")
    total, allowed = e.scores.sum(keepdims=True), (e.bound or 0) + 1e-10
    yield _compared("ig", "the change of the output", total, change(reading), allowed=allowed)
    words = reading.collapsed.embedded[0]
    model = classifier(reading)
    base = model.embedding[reading.collapsed.base_ids[0]].astype(np.float64) + model.positions
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    way = (np.arange(PANELS)[:, None] + (1 + nodes) / 2).ravel() / PANELS
    weights = np.tile(weights / 2 / PANELS, PANELS)
    places = range(1, 1 + min(len(reading.documents[0].tokens), INTEGRATED))
    slopes = [
        [_slope(reading, base + x * (words - base), t, words[t] - base[t]) for x in way]
        for t in places
    ]
    sums = np.array(slopes) @ weights
    scores = explained(reading, "ig", features="positions").scores[: len(sums)]
    what, over = f"{len(way)} complex steps at {len(sums)} tokens", 1e-3 + np.abs(sums)
    yield _compared("ig", what, scores, sums, allowed=1e-6, over=over, unit="relative")


def subset_checks(model: Model, short: str) -> Iterator[Check]:
    """Yield what all subsets of the words of ``short`` say about the exact methods."""
    reading = read(model, [short])
    keep, f, added = _dividends(reading)
    size = keep.sum(axis=1)
    oracles = {
        "lime": _lime_limit(keep, f),
        "shapley": (added / np.maximum(size, 1)) @ keep,
        "banzhaf": (added / 2.0 ** (size - 1)) @ keep,
    }
    subsets = f"all {len(keep)} subsets of {keep.shape[1]} words"
    for method, expected in oracles.items():
        for tolerance, rounding, what in ((1e-9, ROUNDING, ""), (1e-4, 0.0, ", its bound")):
            e = explained(reading, method, tolerance=tolerance)
            allowed = (e.bound or 0) + rounding
            yield _compared(method, f"{subsets}{what}", e.scores, expected, allowed=allowed)
    e = explained(reading, "interactions", tolerance=1e-9, top=None)
    pairs, allowed = cast(Pairs, e.pairs), (e.bound or 0) + ROUNDING
    together = (keep.T * (added / np.maximum(size - 1, 1))) @ keep
    together = together[tuple(pairs.features.T)]
    yield _compared("interactions", subsets, pairs.scores, together, allowed=allowed)
    if reading.has_tables:
        yield _enumerated_anchor(reading)
        yield _enumerated_owen(model, short)


def _dividends(
    reading: Batch,
) -> tuple[Bool[np.ndarray, "n d"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return every subset S of a short text's words, f(S), and what S adds to its own subsets.

    Each value is a sum over S of what S adds (Harsanyi's dividends), divided among its words.
    """
    # Not the weighted sums by which methods that sample answer about few words: a fault in those
    # would be in the check as well.
    keep = all_keeps(d := len(reading.features[0]))
    added = f = output_values(reading, keep)
    for axis in range(d):
        added = np.diff(added.reshape((2,) * d), axis=axis, prepend=0)
    return keep, f, added.ravel()


def _lime_limit(keep: Bool[np.ndarray, "n d"], f: Float[np.ndarray, " n"]) -> Any:
    """Return LIME's slopes by a singular value decomposition; the whole text is never drawn."""
    d, size = keep.shape[1], keep.sum(axis=1)
    sets = np.array([math.comb(d, k) for k in range(d + 1)])
    near = np.exp(-((1 - np.sqrt(size / d)) ** 2) / (2 * 0.25**2))
    root = np.sqrt(np.where(size < d, near / sets[size], 0.0))[:, None]
    x = np.column_stack([np.ones(len(f)), keep])
    return np.linalg.lstsq(root * x, root[:, 0] * f, rcond=None)[0][1:]


def _enumerated_anchor(reading: Batch) -> Check:
    """How far the share of masks that keep the class lies outside the interval of the precision."""
    anchor, keep = explained(reading, "anchors").anchor, all_keeps(len(reading.features[0]))
    if anchor is None:
        return Check(method="anchors", against="an anchor", error=float("nan"), allowed=0.0)
    held = keep[keep[:, list(anchor.features)].all(axis=1)]  # the whole text comes last
    rows = masked_rows(reading, held)
    classes = class_probabilities(classifier(reading).logits_of_ids(rows)).argmax(axis=1)
    share = float(np.mean(classes == classes[-1]))
    low, high = anchor.precision_interval
    return Check(
        method="anchors",
        against=f"all {len(held)} masks that hold it",
        error=max(low - share, share - high, 0.0),
        allowed=ROUNDING,
    )


def _enumerated_owen(model: Model, short: str) -> Check:
    """Owen values of the tokens by their definition: whole sentences, then words of one's own."""
    reading = read(model, [short], features="positions")
    sentence = features_of(reading.documents[0], "sentences").of_token
    keep, _, added = _dividends(reading)
    # Sentences with a word in S divide what it adds evenly, then those words of each do.
    inside = np.stack([keep[:, sentence == one].sum(axis=1) for one in sentence], axis=1)
    touched = sum(keep[:, sentence == one].any(axis=1) for one in set(sentence.tolist()))
    expected = added @ (keep / np.maximum(inside * np.maximum(touched, 1)[:, None], 1))
    e = explained(reading, "owen", features="positions", tolerance=1e-9)
    what = f"whole sentences and all {len(keep)} subsets of {keep.shape[1]} tokens"
    return _compared("owen", what, e.scores, expected, allowed=(e.bound or 0) + ROUNDING)


def _attention(reading: Batch) -> Iterator[Check]:
    m = classifier(reading)
    rows = m.attention_matrices(reading.documents[0])[:, 0, 1:]
    e = reading.collapsed.embedded[0, 1 : 1 + rows.shape[1]]
    _, _, W_v, W_l = wide_weights(m).values()
    v = np.einsum("koe,te->kot", W_v, e)
    values = np.einsum("kco,kot->ckt", W_l, v if m.b_v is None else v + m.b_v[..., None])
    of_heads = np.einsum("kt,c,ckt->kt", rows, reading.target_weights[0], values) / len(rows)
    mean, worth = rows.mean(axis=0), of_heads.sum(axis=0)
    # With frozen attention every part is linear in the embedding; a bias is not read of it.
    read = np.einsum("kco,kot->ckt", W_l, v)
    frozen = np.einsum("kt,c,ckt->t", rows, reading.target_weights[0], read) / len(rows)
    if m.skip == "mean" and m.W_s is not None:
        frozen = frozen + reading.target_weights[0] @ m.W_s @ e.T / m.T_max
    summaries = {
        "alpha-avg": mean,
        "alpha-max": rows.max(axis=0),
        "alpha-grad": worth,
        "rollout": mean,
        "flow": mean,
        "generic-attention": np.maximum(of_heads, 0).mean(axis=0),
        "lrp": frozen,
    }
    for method, summary in summaries.items():
        scores = explained(reading, method, features="positions").scores
        yield _compared(method, "full T×T attention", scores, summary, over=1 + np.abs(summary))


def _left_out(reading: Batch) -> Iterator[Check]:
    e = explained(reading, "loo")
    d = len(e.features)
    lost = output_values(reading, np.ones((1, d), dtype=bool)) - output_values(
        reading, ~np.eye(d, dtype=bool)
    )
    allowed = (e.bound or 0) + ROUNDING
    yield _compared("loo", "predictions without each word", e.scores, lost, allowed=allowed)


def _sampled(model: Model, text: str, seed: int) -> Iterator[Check]:
    reading = read(model, [text])
    exact = explained(reading, "lime", penalty=1 / 20_000)
    drawn = explained(reading, "lime-sampled", samples=20_000, row0=False, seed=seed)
    errors: dict[str, Any] = {"allowed": SIGMAS, "unit": "standard errors"}
    if drawn.stderr is not None:
        what, over = "lime-sampled, 20000 samples", drawn.stderr + ROUNDING
        yield _compared("lime", what, exact.scores, drawn.scores, over=over, **errors)
    e = explained(reading, "shapley")
    total, allowed = e.scores.sum(keepdims=True), len(e) * (e.bound or 0) + ROUNDING
    what = "efficiency: the scores add up"
    yield _compared("shapley", what, total, change(reading), allowed=allowed)
    mean, stderr = _by_permutations(reading, np.random.default_rng(seed))
    what, over = f"{2 * PERMUTATIONS} permutations", stderr + ROUNDING
    yield _compared("shapley", what, e.scores, mean, over=over, **errors)


def _by_permutations(
    reading: Batch, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Mean change when each word comes in, over random orders and their reverses."""
    d = len(reading.features[0])
    means = []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(d)
        both = []
        for one in (order, order[::-1]):
            keep = np.tril(np.ones((d + 1, d), dtype=bool), k=-1)[:, np.argsort(one)]
            both.append(np.diff(output_values(reading, keep))[np.argsort(one)])
        means.append(np.mean(both, axis=0))
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(PERMUTATIONS)
