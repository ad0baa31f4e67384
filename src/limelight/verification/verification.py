"""Compare every exact method with an independent reference, on the user's model and text.

The references are complex steps for gradients, all subsets of the first words for values, and
another quadrature rule for integrals.
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
from limelight.models.protocol import REFILL
from limelight.models.queries import read_input
from limelight.results import Explanation, Pairs
from limelight.shapes import Bool, Float
from limelight.text import UNK, UserInput, build_features
from limelight.theory.enumeration import enumerate_masks

ROUNDING = 1e-9
SHORT = 8  # words of the shortened text, whose subsets are all evaluated
PERMUTATIONS = 300
SIGMAS = 5.0
_LOG_STEP = 0.25  # of log λ: the trapezoid rule for 1/x has an error of 1e-16


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The comparison of a method with a reference.

    Parameters
    ----------
    method
        The method that is checked.
    against
        The reference.
    error
        The largest difference from the reference.
    allowed
        The largest difference that is allowed.
    unit
        The unit of both numbers, such as "relative" or "standard errors".
    """

    method: str
    against: str
    error: float
    allowed: float
    unit: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is allowed; False if it is NaN, or if everything would be allowed."""
        return self.error <= self.allowed < math.inf


def verify(model: Model, text: UserInput, *, seed: int = 0) -> Iterator[Check]:
    """Check the exact methods on a model and a text.

    Gradients are checked with complex steps. Values are checked with all subsets of the first
    words and, if the text is longer, with sampling.

    Parameters
    ----------
    model
        A model from :func:`limelight.load` or :func:`limelight.wrap` whose values are exact.
    text
        A text, not an image.
    seed
        The seed of the samples.

    Returns
    -------
    An iterator over the checks. Each is computed when you ask for it.

    Raises
    ------
    InputError
        If the model has no exact values, or if the input is an image.

    Examples
    --------
    >>> import limelight
    >>> model = limelight.load()
    >>> checks = list(limelight.verify(model, "A superb film."))
    >>> len(checks), all(check.passed for check in checks)
    (23, True)
    """
    if (reason := reason_missing(check_model(model), "exact_game")) is not None:
        raise InputError(
            "verify checks exact scores, but the scores of this model are sampled, because "
            f"{reason}."
        )
    model_input = read_input(model, text)
    if not model_input.is_text:
        raise InputError("verify needs a model that reads texts, because it shortens the text.")
    return _all_checks(model, str(model_input.text), seed)


def _all_checks(model: Model, text: str, seed: int) -> Iterator[Check]:
    """Yield all checks that are possible for the model and the text."""
    batch = prepare_batch(model, [text])
    if batch.has_tables:
        yield from _attention_checks(batch)
        yield from gradient_checks(batch)
    yield _leave_one_out_check(batch)
    words = batch.inputs[0].tokens
    short = text[: words.spans[min(SHORT, len(words)) - 1][1]]
    if len(prepare_batch(model, [short]).features[0]) > 1:
        yield from subset_checks(model, short)
        if REFILL in model.replacements:
            yield from refill_checks(model, short)
    if len(words) > SHORT and len(batch.features[0]) > 1:  # LIME needs two words
        yield from _sampling_checks(model, text, seed)


def _compare_scores(
    method: str,
    against: str,
    scores: Float[np.ndarray, "*n"],
    expected: Float[np.ndarray, "*n"] | float,
    *,
    allowed: float = ROUNDING,
    unit: str = "",
    scale: Float[np.ndarray, "*n"] | float = 1.0,
) -> Check:
    """Return the check of the largest |scores − expected|/scale."""
    error = float((np.abs(scores - expected) / scale).max())
    return Check(method=method, against=against, error=error, allowed=allowed, unit=unit)


def explain_batch(batch: Batch, method: str, **options: Any) -> Explanation:
    """Explain the single text of a batch."""
    return explain(batch.model, batch.inputs[0].text, method, progress=False, **options)


def classifier(batch: Batch) -> AttentionClassifier:
    """Return the model as an ``AttentionClassifier``, whose weights the references use."""
    return cast(AttentionClassifier, batch.model)


def total_change(batch: Batch) -> float:
    """Return f(all words) − f(no words) of the single text."""
    return float(batch.targets.value(batch.outputs)[0]) - cast(float, batch.base_values[0])


def masked_rows(batch: Batch, keep: Bool[np.ndarray, "n d"]) -> list[np.ndarray]:
    """Return the ids of the single text for each mask, with UNK in place of removed words."""
    ids, feature_index = batch.inputs[0].encoding.ids, batch.features[0].feature_index
    return [np.where(mask[feature_index], ids, UNK) for mask in keep]


def output_values(batch: Batch, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the explained output of the model for each mask."""
    if batch.has_tables:
        outputs = classifier(batch).logits_of_ids(masked_rows(batch, keep))
    else:
        (model_input,), (features,) = batch.inputs, batch.features
        # No vectorizer reads a space.
        texts = [blank_features(model_input, features, mask) for mask in keep]
        outputs = cast(Function, batch.model).logits(texts)
    return batch.targets.value(outputs[:, None])[:, 0]


POSITIONS = 25  # tokens whose gradient is checked
INTEGRATED = 5  # tokens whose integral is checked
PANELS, NODES = 16, 16  # parts of the path from UNK, and quadrature nodes in each


def gradient_checks(batch: Batch) -> Iterator[Check]:
    """Check gradient methods with derivatives along their directions, by complex steps."""
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
        scores = explain_batch(batch, method, features="positions").scores
        slopes = np.array([_slope(batch, e, t, v[t]) for t in places])
        yield _compare_scores(
            method,
            f"complex steps at {len(slopes)} tokens",
            scores[: len(slopes)],
            slopes,
            scale=1e-3 + np.abs(slopes),
            unit="relative",
        )
    yield from _integration_checks(batch)


def _slope(
    batch: Batch, embeddings: Float[np.ndarray, "T_max d_e"], t: int, v: Float[np.ndarray, " d_e"]
) -> float:
    """Return the derivative of the target's logit along ``v`` at position ``t``."""
    h = 1e-30
    e = embeddings.astype(np.complex128)
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


def _integration_checks(batch: Batch) -> Iterator[Check]:
    """Check IG: its completeness, and scores of words with slopes on the path from UNK."""
    e = explain_batch(batch, "ig")
    total, allowed = e.scores.sum(keepdims=True), (e.bound or 0) + 1e-10
    yield _compare_scores(
        "ig", "the change of the output", total, total_change(batch), allowed=allowed
    )
    words = batch.collapsed_inputs.embeddings[0]
    model = classifier(batch)
    base = model.embedding[batch.collapsed_inputs.base_ids[0]].astype(np.float64) + model.positions
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    path = (np.arange(PANELS)[:, None] + (1 + nodes) / 2).ravel() / PANELS
    weights = np.tile(weights / 2 / PANELS, PANELS)
    places = range(1, 1 + min(len(batch.inputs[0].tokens), INTEGRATED))
    slopes = [
        [_slope(batch, base + x * (words - base), t, words[t] - base[t]) for x in path]
        for t in places
    ]
    sums = np.array(slopes) @ weights
    scores = explain_batch(batch, "ig", features="positions").scores[: len(sums)]
    reference = f"{len(path)} complex steps at {len(sums)} tokens"
    scale = 1e-3 + np.abs(sums)
    yield _compare_scores("ig", reference, scores, sums, allowed=1e-6, scale=scale, unit="relative")


def subset_checks(model: Model, short: str) -> Iterator[Check]:
    """Check the exact methods with all subsets of the words of a short text."""
    batch = prepare_batch(model, [short])
    keep = enumerate_masks(len(batch.features[0]))
    f = output_values(batch, keep)
    dividends, size = _harsanyi_dividends(f), keep.sum(axis=1)
    yield from _compare_with_subsets(batch, keep, f)
    subsets = _describe_subsets(keep)
    e = explain_batch(batch, "interactions", tolerance=1e-9, top=None)
    pairs, allowed = cast(Pairs, e.pairs), (e.bound or 0) + ROUNDING
    all_pairs = (keep.T * (dividends / np.maximum(size - 1, 1))) @ keep
    expected = all_pairs[tuple(pairs.features.T)]
    yield _compare_scores("interactions", subsets, pairs.scores, expected, allowed=allowed)
    if batch.has_tables:
        yield _anchor_check(batch)
        yield _owen_check(model, short)


def refill_checks(model: Model, short: str) -> Iterator[Check]:
    """Check the values under random refilling with all subsets of the words of a short text.

    The value of each subset comes from all words of the background and another quadrature.
    """
    batch = prepare_batch(model, [short])
    keep = enumerate_masks(len(batch.features[0]))
    f = _mean_refilled_values(batch, keep)
    yield from _compare_with_subsets(batch, keep, f, replacement=REFILL)


def _mean_refilled_values(batch: Batch, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the mean over all refills of the explained output, for each mask.

    With 1/D = ∫ e^{−λD} dλ, the mean of N e^{−λD} is a product over the positions. The trapezoid
    rule in log λ is exact to rounding.
    """
    classifier_model, arrays = classifier(batch), batch.collapsed_inputs
    background, tables = cast(Any, classifier_model.background), classifier_model.tables
    features, weights = arrays.position_features[0], batch.target_gradient[0]
    positions = np.flatnonzero(features >= 0)
    fixed = np.flatnonzero(features < 0)
    u = np.einsum("c,ckt->kt", weights, arrays.u[0])
    word_value = np.einsum("nck,c->nk", tables.word_value[background.ids], weights)
    position_value = np.einsum("tck,c->tk", tables.position_value[positions], weights)
    total, probability = np.zeros(len(keep)), background.probability
    is_kept = keep[:, features[positions]].astype(float)
    for k in range(len(u)):
        logits = tables.word_logit[background.ids, k, None] + tables.position_logit[positions, k]
        top = max(float(logits.max()), float(arrays.logit[0, k].max()))
        g, b = np.exp(arrays.logit[0, k] - top), np.exp(logits - top)
        values = word_value[:, k, None] + position_value[:, k]
        D0, N0 = g[fixed].sum(), g[fixed] @ u[k, fixed]
        least = D0 + np.minimum(g[positions], b.min(axis=0)).sum()
        low, high = np.log(1e-13 / (D0 + len(positions) + len(fixed))), np.log(50 / least)
        for lam in np.exp(np.arange(low, high, _LOG_STEP)):
            tilt = probability[:, None] * np.exp(-lam * b)
            factor = tilt.sum(axis=0)
            mean = (tilt * b * values).sum(axis=0) / np.maximum(factor, 1e-300)
            text = g[positions]
            with np.errstate(divide="ignore"):
                log_product = is_kept @ (-lam * text) + (1 - is_kept) @ np.log(factor)
            N = N0 + is_kept @ (text * u[k, positions]) + (1 - is_kept) @ mean
            total += _LOG_STEP * lam * np.exp(log_product - lam * D0) * N
    return total / len(u)


def _compare_with_subsets(
    batch: Batch, keep: Bool[np.ndarray, "n d"], f: Float[np.ndarray, " n"], **options: Any
) -> Iterator[Check]:
    """Check LIME, Shapley and Banzhaf values with the values ``f`` of all subsets."""
    dividends, size = _harsanyi_dividends(f), keep.sum(axis=1)
    references = {
        "lime": _lime_limit(keep, f),
        "shapley": (dividends / np.maximum(size, 1)) @ keep,
        "banzhaf": (dividends / 2.0 ** (size - 1)) @ keep,
    }
    subsets = _describe_subsets(keep) + "".join(f", {name}" for name in options.values())
    for method, expected in references.items():
        for tolerance, rounding, note in ((1e-9, ROUNDING, ""), (1e-4, 0.0, ", its bound")):
            e = explain_batch(batch, method, tolerance=tolerance, **options)
            allowed = (e.bound or 0) + rounding
            yield _compare_scores(method, f"{subsets}{note}", e.scores, expected, allowed=allowed)


def _describe_subsets(keep: Bool[np.ndarray, "n d"]) -> str:
    """Return the name of the reference with all subsets."""
    return f"all {len(keep)} subsets of {keep.shape[1]} words"


def _harsanyi_dividends(f: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return Harsanyi's dividend of each subset S, in the order of `enumerate_masks`.

    The dividend of S is the part of f(S) that no smaller subset has.

    A Shapley value is the sum of all dividends, each divided among the words of its subset.
    """
    # Not the weighted sums that the methods use for few words: their errors would be in the check
    # too.
    d, dividends = len(f).bit_length() - 1, f
    for axis in range(d):
        dividends = np.diff(dividends.reshape((2,) * d), axis=axis, prepend=0)
    return dividends.ravel()


def _lime_limit(keep: Bool[np.ndarray, "n d"], f: Float[np.ndarray, " n"]) -> Any:
    """Return LIME's slopes by a singular value decomposition; the full text has weight 0."""
    d, size = keep.shape[1], keep.sum(axis=1)
    set_counts = np.array([math.comb(d, k) for k in range(d + 1)])
    kernel = np.exp(-((1 - np.sqrt(size / d)) ** 2) / (2 * 0.25**2))
    root = np.sqrt(np.where(size < d, kernel / set_counts[size], 0.0))[:, None]
    x = np.column_stack([np.ones(len(f)), keep])
    return np.linalg.lstsq(root * x, root[:, 0] * f, rcond=None)[0][1:]


def _anchor_check(batch: Batch) -> Check:
    """Check that the precision interval of the anchor contains the precision over all masks."""
    anchor, keep = explain_batch(batch, "anchors").anchor, enumerate_masks(len(batch.features[0]))
    if anchor is None:
        return Check(method="anchors", against="an anchor", error=float("nan"), allowed=0.0)
    masks = keep[keep[:, list(anchor.features)].all(axis=1)]  # the full text comes last
    rows = masked_rows(batch, masks)
    classes = class_probabilities(classifier(batch).logits_of_ids(rows)).argmax(axis=1)
    share = float(np.mean(classes == classes[-1]))
    low, high = anchor.precision_interval
    return Check(
        method="anchors",
        against=f"all {len(masks)} masks that contain it",
        error=max(low - share, share - high, 0.0),
        allowed=ROUNDING,
    )


def _owen_check(model: Model, short: str) -> Check:
    """Check Owen values of tokens with their definition: full sentences, then single words."""
    batch = prepare_batch(model, [short], features="positions")
    sentence = build_features(batch.inputs[0], "sentences").feature_index
    keep = enumerate_masks(len(batch.features[0]))
    dividends = _harsanyi_dividends(output_values(batch, keep))
    # Sentences with a word in S share its dividend evenly, and then so do their words in S.
    words_in_sentence = np.stack([keep[:, sentence == i].sum(axis=1) for i in sentence], axis=1)
    sentence_count = sum(keep[:, sentence == i].any(axis=1) for i in set(sentence.tolist()))
    divisor = words_in_sentence * np.maximum(sentence_count, 1)[:, None]
    expected = dividends @ (keep / np.maximum(divisor, 1))
    e = explain_batch(batch, "owen", features="positions", tolerance=1e-9)
    reference = f"whole sentences and all {len(keep)} subsets of {keep.shape[1]} tokens"
    allowed = (e.bound or 0) + ROUNDING
    return _compare_scores("owen", reference, e.scores, expected, allowed=allowed)


def _attention_checks(batch: Batch) -> Iterator[Check]:
    """Check attention methods with the full attention matrices."""
    m = classifier(batch)
    rows = m.attention_matrices(batch.inputs[0])[:, 0, 1:]
    e = batch.collapsed_inputs.embeddings[0, 1 : 1 + rows.shape[1]]
    _, _, W_v, W_l = wide_weights(m).values()
    v = np.einsum("koe,te->kot", W_v, e)
    values = np.einsum("kco,kot->ckt", W_l, v if m.b_v is None else v + m.b_v[..., None])
    head_scores = np.einsum("kt,c,ckt->kt", rows, batch.target_gradient[0], values) / len(rows)
    mean = rows.mean(axis=0)
    # With frozen attention every part is linear in the embedding, apart from the bias.
    linear_values = np.einsum("kco,kot->ckt", W_l, v)
    frozen = np.einsum("kt,c,ckt->t", rows, batch.target_gradient[0], linear_values) / len(rows)
    if m.skip == "mean" and m.W_s is not None:
        frozen = frozen + batch.target_gradient[0] @ m.W_s @ e.T / m.T_max
    summaries = {
        "alpha-avg": mean,
        "alpha-max": rows.max(axis=0),
        "alpha-grad": head_scores.sum(axis=0),
        "rollout": mean,
        "flow": mean,
        "generic-attention": np.maximum(head_scores, 0).mean(axis=0),
        "lrp": frozen,
    }
    for method, expected in summaries.items():
        scores = explain_batch(batch, method, features="positions").scores
        yield _compare_scores(
            method, "full T×T attention", scores, expected, scale=1 + np.abs(expected)
        )


def _leave_one_out_check(batch: Batch) -> Check:
    """Check leave-one-out scores: compare with the model's outputs without each word."""
    e = explain_batch(batch, "loo")
    d = len(e.features)
    full = output_values(batch, np.ones((1, d), dtype=bool))
    expected = full - output_values(batch, ~np.eye(d, dtype=bool))
    allowed = (e.bound or 0) + ROUNDING
    return _compare_scores(
        "loo", "predictions without each word", e.scores, expected, allowed=allowed
    )


def _sampling_checks(model: Model, text: str, seed: int) -> Iterator[Check]:
    """Check LIME and Shapley values with samples."""
    batch = prepare_batch(model, [text])
    exact = explain_batch(batch, "lime", penalty=1 / 20_000)
    sampled = explain_batch(batch, "lime-sampled", samples=20_000, row0=False, seed=seed)
    limit: dict[str, Any] = {"allowed": SIGMAS, "unit": "standard errors"}
    if sampled.stderr is not None:
        reference, scale = "lime-sampled, 20000 samples", sampled.stderr + ROUNDING
        yield _compare_scores("lime", reference, exact.scores, sampled.scores, scale=scale, **limit)
    e = explain_batch(batch, "shapley")
    total, allowed = e.scores.sum(keepdims=True), len(e) * (e.bound or 0) + ROUNDING
    reference = "efficiency: the scores add up"
    yield _compare_scores("shapley", reference, total, total_change(batch), allowed=allowed)
    mean, stderr = _permutation_values(batch, np.random.default_rng(seed))
    reference, scale = f"{2 * PERMUTATIONS} permutations", stderr + ROUNDING
    yield _compare_scores("shapley", reference, e.scores, mean, scale=scale, **limit)


def _permutation_values(
    batch: Batch, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return sampled Shapley values and their standard errors.

    A value is the mean change of the output when the word is added, over random orders and their
    reverses.
    """
    d = len(batch.features[0])
    means = []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(d)
        changes = []
        for direction in (order, order[::-1]):
            keep = np.tril(np.ones((d + 1, d), dtype=bool), k=-1)[:, np.argsort(direction)]
            changes.append(np.diff(output_values(batch, keep))[np.argsort(direction)])
        means.append(np.mean(changes, axis=0))
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(PERMUTATIONS)
