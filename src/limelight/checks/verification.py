"""Every method against an oracle that takes another road, on the user's own model and text."""

from collections.abc import Iterator

import numpy as np

from limelight.checks.oracles import (
    ROUNDING,
    Check,
    base_value,
    classifier,
    explained,
    gradient_checks,
    mean_field_checks,
    output_values,
    subset_checks,
)
from limelight.errors import InputError
from limelight.explainers import Reading, read
from limelight.models import Model, checked_model, why_not
from limelight.models.attention.weights import wide_weights
from limelight.models.protocol import document_by
from limelight.shapes import Float
from limelight.text import Given
from limelight.theory.attention import attention

SHORT = 8  # words of which all subsets are tried
PERMUTATIONS = 300
SIGMAS = 5.0


def verify(model: Model, text: Given, *, seed: int = 0) -> Iterator[Check]:
    """Return checks of the exact methods on ``model`` and ``text``, one after another.

    Gradients are checked by complex steps, values by all subsets of the first words, and by
    sampling where the text is longer.
    """
    if (why := why_not(checked_model(model), "collapses")) is not None:
        raise InputError(
            "verify checks the exact methods of a model that collapses into tables; here the "
            f"scores carry standard errors, since {why}."
        )
    return _checks(model, str(document_by(model, text).text), seed)


def _checks(model: Model, text: str, seed: int) -> Iterator[Check]:
    reading = read(model, [text])
    yield from _attention(reading)
    yield from gradient_checks(reading)
    yield from _left_out(reading)
    yield from _first_order(reading)
    yield from mean_field_checks(reading)
    words = reading.documents[0].tokens
    short = text[: words.spans[min(SHORT, len(words)) - 1][1]]
    if len(read(model, [short]).features[0]) > 1:
        yield from subset_checks(model, short)
    if len(words) > SHORT and len(reading.features[0]) > 1:
        yield from _sampled(model, text, seed)


def _attention(reading: Reading) -> Iterator[Check]:
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
        yield Check(
            method=method,
            against="full T×T attention",
            error=float((np.abs(scores - summary) / (1 + np.abs(summary))).max()),
            allowed=ROUNDING,
        )


def _left_out(reading: Reading) -> Iterator[Check]:
    e = explained(reading, "loo")
    d = len(e.features)
    lost = output_values(reading, np.ones((1, d), dtype=bool)) - output_values(
        reading, ~np.eye(d, dtype=bool)
    )
    yield Check(
        method="loo",
        against="predictions without each word",
        error=float(np.abs(e.scores - lost).max()),
        allowed=(e.bound or 0) + ROUNDING,
    )


def _first_order(reading: Reading) -> Iterator[Check]:
    """Both first-order formulas, position by position."""
    arrays, weights = reading.collapsed, reading.target_weights[0]
    alpha, u = arrays.alpha[0], np.einsum("c,ckt->kt", weights, arrays.u[0])
    alpha_h, u_h = (
        attention(arrays.base_logit[0]),
        np.einsum("c,ckt->kt", weights, arrays.base_u[0]),
    )
    f = (alpha * u).sum(axis=1, keepdims=True)
    formulas = {
        "lime-theorem": 1.5 * (alpha * u - alpha_h * u_h),
        "lime-first-order": alpha * (u - f) - alpha_h * (u_h - f),
    }
    for method, rows in formulas.items():
        (expected,) = arrays.pooled(rows.mean(axis=0)[None, 1:])
        scores = explained(reading, method).scores
        yield Check(
            method=method,
            against="its formula, token by token",
            error=float(np.abs(scores - expected).max()),
            allowed=ROUNDING,
        )


def _sampled(model: Model, text: str, seed: int) -> Iterator[Check]:
    reading = read(model, [text])
    exact = explained(reading, "lime", penalty=1 / 20_000)
    drawn = explained(reading, "lime-sampled", samples=20_000, row0=False, seed=seed)
    if drawn.stderr is not None:
        yield Check(
            method="lime",
            against="lime-sampled, 20000 samples",
            error=float((np.abs(exact.scores - drawn.scores) / (drawn.stderr + ROUNDING)).max()),
            allowed=SIGMAS,
            unit="standard errors",
        )
    e = explained(reading, "shapley")
    d = len(e.features)
    full = reading.targets.value(reading.outputs)[0]
    yield Check(
        method="shapley",
        against="efficiency: the scores add up",
        error=abs(float(e.scores.sum() - (full - base_value(reading)))),
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
            both.append(np.diff(output_values(reading, keep))[np.argsort(one)])
        means.append(np.mean(both, axis=0))
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(PERMUTATIONS)
