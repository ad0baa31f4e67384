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
from limelight.explainers import Batch, prepare_batch
from limelight.models import (
    Model,
    check_model,
    class_probabilities,
    reason_missing,
)
from limelight.models.attention import AttentionClassifier
from limelight.models.attention.weights import wide_weights
from limelight.models.bags import blank_features
from limelight.models.functions import Function
from limelight.models.queries import read_input
from limelight.results import Explanation, Pairs
from limelight.shapes import Bool, Float
from limelight.text import UNK, UserInput, build_features
from limelight.theory.enumeration import enumerate_masks

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
    if (why := reason_missing(check_model(model), "exact_game")) is not None:
        raise InputError(
            "verify checks the exact methods of a model whose removals are known; here the "
            f"scores carry standard errors, since {why}."
        )
    model_input = read_input(model, text)
    if not model_input.is_text:
        raise InputError("verify cuts a text shorter, and an image cannot be; give a text model.")
    return _checks(model, str(model_input.text), seed)


def _checks(model: Model, text: str, seed: int) -> Iterator[Check]:
    batch = prepare_batch(model, [text])
    several = len(batch.features[0]) > 1  # LIME needs two words
    if batch.has_tables:
        yield from _attention(batch)
        yield from gradient_checks(batch)
    yield from _left_out(batch)
    words = batch.inputs[0].tokens
    short = text[: words.spans[min(SHORT, len(words)) - 1][1]]
    if len(prepare_batch(model, [short]).features[0]) > 1:
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


def explained(batch: Batch, method: str, **options: Any) -> Explanation:
    """Return the explanation of the one text of ``reading``."""
    return explain(batch.model, batch.inputs[0].text, method, **options)


def classifier(batch: Batch) -> AttentionClassifier:
    """Return the model with its weights, which the oracles go back to."""
    return cast(AttentionClassifier, batch.model)


def change(batch: Batch) -> float:
    """Return by how much the explained output of the one text falls without any word."""
    return float(batch.targets.value(batch.outputs)[0]) - cast(float, batch.base_values[0])


def masked_rows(batch: Batch, keep: Bool[np.ndarray, "n d"]) -> list[np.ndarray]:
    """Return the ids of the one text with UNK in place of removed words."""
    ids, feature_index = batch.inputs[0].encoding.ids, batch.features[0].feature_index
    return [np.where(kept[feature_index], ids, UNK) for kept in keep]


def output_values(batch: Batch, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the explained number with words removed, from the model itself."""
    if batch.has_tables:
        outputs = classifier(batch).logits_of_ids(masked_rows(batch, keep))
    else:
        (model_input,), (features,) = batch.inputs, batch.features
        texts = [
            blank_features(model_input, features, row) for row in keep
        ]  # no vectorizer reads a space
        outputs = cast(Function, batch.model).logits(texts)
    return batch.targets.value(outputs[:, None])[:, 0]


POSITIONS = 25  # tokens at which gradients are differentiated again
INTEGRATED = 5  # tokens whose integral is computed again
PANELS, NODES = 16, 16  # pieces of the way from UNK, and nodes on each


def gradient_checks(batch: Batch) -> Iterator[Check]:
    """The derivative along the direction that each method sums up, by a complex step."""
    e = batch.collapsed_inputs.embeddings[0]
    G = batch.collapsed_inputs.gradient(batch.target_gradient)[0]
    places = range(1, 1 + min(len(batch.inputs[0].tokens), POSITIONS))
    norm = np.linalg.norm(G, axis=1, keepdims=True)
    directions = {
        "g-avg": np.full_like(G, 1 / G.shape[1]),
        "g-l1": np.sign(G),
        "g-l2": G / np.where(norm > 0, norm, 1),
        "gxi": e,
    }
    for method, v in directions.items():
        scores = explained(batch, method, features="positions").scores
        slopes = np.array([_slope(batch, e, t, v[t]) for t in places])
        what, over = f"complex steps at {len(slopes)} tokens", 1e-3 + np.abs(slopes)
        yield _compared(method, what, scores[: len(slopes)], slopes, over=over, unit="relative")
    yield from _integrated(batch)


def _slope(
    batch: Batch, at: Float[np.ndarray, "T_max d_e"], t: int, v: Float[np.ndarray, " d_e"]
) -> float:
    """Return the derivative of the target's logit along ``v`` at position ``t`` of embeddings."""
    h = 1e-30
    e = at.astype(np.complex128)
    e[t] += 1j * h * v
    m = classifier(batch)
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
    return float((batch.target_gradient[0] * f.imag).sum() / h)


def _integrated(batch: Batch) -> Iterator[Check]:
    """IG of a word by adding up slopes on the way from UNK, and completeness."""
    e = explained(batch, "ig")
    total, allowed = e.scores.sum(keepdims=True), (e.bound or 0) + 1e-10
    yield _compared("ig", "the change of the output", total, change(batch), allowed=allowed)
    words = batch.collapsed_inputs.embeddings[0]
    model = classifier(batch)
    base = model.embedding[batch.collapsed_inputs.base_ids[0]].astype(np.float64) + model.positions
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    way = (np.arange(PANELS)[:, None] + (1 + nodes) / 2).ravel() / PANELS
    weights = np.tile(weights / 2 / PANELS, PANELS)
    places = range(1, 1 + min(len(batch.inputs[0].tokens), INTEGRATED))
    slopes = [
        [_slope(batch, base + x * (words - base), t, words[t] - base[t]) for x in way]
        for t in places
    ]
    sums = np.array(slopes) @ weights
    scores = explained(batch, "ig", features="positions").scores[: len(sums)]
    what, over = f"{len(way)} complex steps at {len(sums)} tokens", 1e-3 + np.abs(sums)
    yield _compared("ig", what, scores, sums, allowed=1e-6, over=over, unit="relative")


def subset_checks(model: Model, short: str) -> Iterator[Check]:
    """Yield what all subsets of the words of ``short`` say about the exact methods."""
    batch = prepare_batch(model, [short])
    keep, f, added = _dividends(batch)
    size = keep.sum(axis=1)
    oracles = {
        "lime": _lime_limit(keep, f),
        "shapley": (added / np.maximum(size, 1)) @ keep,
        "banzhaf": (added / 2.0 ** (size - 1)) @ keep,
    }
    subsets = f"all {len(keep)} subsets of {keep.shape[1]} words"
    for method, expected in oracles.items():
        for tolerance, rounding, what in ((1e-9, ROUNDING, ""), (1e-4, 0.0, ", its bound")):
            e = explained(batch, method, tolerance=tolerance)
            allowed = (e.bound or 0) + rounding
            yield _compared(method, f"{subsets}{what}", e.scores, expected, allowed=allowed)
    e = explained(batch, "interactions", tolerance=1e-9, top=None)
    pairs, allowed = cast(Pairs, e.pairs), (e.bound or 0) + ROUNDING
    together = (keep.T * (added / np.maximum(size - 1, 1))) @ keep
    together = together[tuple(pairs.features.T)]
    yield _compared("interactions", subsets, pairs.scores, together, allowed=allowed)
    if batch.has_tables:
        yield _enumerated_anchor(batch)
        yield _enumerated_owen(model, short)


def _dividends(
    batch: Batch,
) -> tuple[Bool[np.ndarray, "n d"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return every subset S of a short text's words, f(S), and what S adds to its own subsets.

    Each value is a sum over S of what S adds (Harsanyi's dividends), divided among its words.
    """
    # Not the weighted sums by which methods that sample answer about few words: a fault in those
    # would be in the check as well.
    keep = enumerate_masks(d := len(batch.features[0]))
    added = f = output_values(batch, keep)
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


def _enumerated_anchor(batch: Batch) -> Check:
    """How far the share of masks that keep the class lies outside the interval of the precision."""
    anchor, keep = explained(batch, "anchors").anchor, enumerate_masks(len(batch.features[0]))
    if anchor is None:
        return Check(method="anchors", against="an anchor", error=float("nan"), allowed=0.0)
    held = keep[keep[:, list(anchor.features)].all(axis=1)]  # the whole text comes last
    rows = masked_rows(batch, held)
    classes = class_probabilities(classifier(batch).logits_of_ids(rows)).argmax(axis=1)
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
    batch = prepare_batch(model, [short], features="positions")
    sentence = build_features(batch.inputs[0], "sentences").feature_index
    keep, _, added = _dividends(batch)
    # Sentences with a word in S divide what it adds evenly, then those words of each do.
    inside = np.stack([keep[:, sentence == one].sum(axis=1) for one in sentence], axis=1)
    touched = sum(keep[:, sentence == one].any(axis=1) for one in set(sentence.tolist()))
    expected = added @ (keep / np.maximum(inside * np.maximum(touched, 1)[:, None], 1))
    e = explained(batch, "owen", features="positions", tolerance=1e-9)
    what = f"whole sentences and all {len(keep)} subsets of {keep.shape[1]} tokens"
    return _compared("owen", what, e.scores, expected, allowed=(e.bound or 0) + ROUNDING)


def _attention(batch: Batch) -> Iterator[Check]:
    m = classifier(batch)
    rows = m.attention_matrices(batch.inputs[0])[:, 0, 1:]
    e = batch.collapsed_inputs.embeddings[0, 1 : 1 + rows.shape[1]]
    _, _, W_v, W_l = wide_weights(m).values()
    v = np.einsum("koe,te->kot", W_v, e)
    values = np.einsum("kco,kot->ckt", W_l, v if m.b_v is None else v + m.b_v[..., None])
    of_heads = np.einsum("kt,c,ckt->kt", rows, batch.target_gradient[0], values) / len(rows)
    mean, worth = rows.mean(axis=0), of_heads.sum(axis=0)
    # With frozen attention every part is linear in the embedding; a bias is not read of it.
    read = np.einsum("kco,kot->ckt", W_l, v)
    frozen = np.einsum("kt,c,ckt->t", rows, batch.target_gradient[0], read) / len(rows)
    if m.skip == "mean" and m.W_s is not None:
        frozen = frozen + batch.target_gradient[0] @ m.W_s @ e.T / m.T_max
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
        scores = explained(batch, method, features="positions").scores
        yield _compared(method, "full T×T attention", scores, summary, over=1 + np.abs(summary))


def _left_out(batch: Batch) -> Iterator[Check]:
    e = explained(batch, "loo")
    d = len(e.features)
    lost = output_values(batch, np.ones((1, d), dtype=bool)) - output_values(
        batch, ~np.eye(d, dtype=bool)
    )
    allowed = (e.bound or 0) + ROUNDING
    yield _compared("loo", "predictions without each word", e.scores, lost, allowed=allowed)


def _sampled(model: Model, text: str, seed: int) -> Iterator[Check]:
    batch = prepare_batch(model, [text])
    exact = explained(batch, "lime", penalty=1 / 20_000)
    drawn = explained(batch, "lime-sampled", samples=20_000, row0=False, seed=seed)
    errors: dict[str, Any] = {"allowed": SIGMAS, "unit": "standard errors"}
    if drawn.stderr is not None:
        what, over = "lime-sampled, 20000 samples", drawn.stderr + ROUNDING
        yield _compared("lime", what, exact.scores, drawn.scores, over=over, **errors)
    e = explained(batch, "shapley")
    total, allowed = e.scores.sum(keepdims=True), len(e) * (e.bound or 0) + ROUNDING
    what = "efficiency: the scores add up"
    yield _compared("shapley", what, total, change(batch), allowed=allowed)
    mean, stderr = _by_permutations(batch, np.random.default_rng(seed))
    what, over = f"{2 * PERMUTATIONS} permutations", stderr + ROUNDING
    yield _compared("shapley", what, e.scores, mean, over=over, **errors)


def _by_permutations(
    batch: Batch, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Mean change when each word comes in, over random orders and their reverses."""
    d = len(batch.features[0])
    means = []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(d)
        both = []
        for one in (order, order[::-1]):
            keep = np.tril(np.ones((d + 1, d), dtype=bool), k=-1)[:, np.argsort(one)]
            both.append(np.diff(output_values(batch, keep))[np.argsort(one)])
        means.append(np.mean(both, axis=0))
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(PERMUTATIONS)
