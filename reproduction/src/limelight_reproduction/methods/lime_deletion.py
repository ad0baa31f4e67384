"""LIME of texts whose removed words are deleted, without sampling."""

__all__ = ["LIME_DELETION", "LimeDeletion", "deletion_game"]

from typing import Annotated

import numpy as np

from limelight import DomainError
from limelight.explainers import (
    MEANS,
    Finding,
    Method,
    NotNegative,
    OneOf,
    Positive,
    Reading,
    Way,
    settings_class,
)
from limelight.shapes import Float
from limelight.text import Document, Features
from limelight_reproduction.theory.deletion import DeletionGame, lime_under_deletion


@settings_class
class LimeDeletion:
    """Settings of exact LIME under deletion."""

    bandwidth: Annotated[float, Positive] = 0.25
    penalty: Annotated[float, NotNegative] = 0.0
    rows: int | None = None
    tolerance: Annotated[float, Positive] = 1e-6
    replacement: Annotated[str, OneOf(["delete"])] = "delete"


def _explain(settings: LimeDeletion, reading: Reading) -> list[Finding]:
    """Score every feature by LIME's coefficient, in the limit of all samples."""
    attributions = []
    for i in range(len(reading.documents)):
        limit = lime_under_deletion(
            deletion_game(reading, i),
            bandwidth=settings.bandwidth,
            penalty=settings.penalty,
            rows=settings.rows,
            tolerance=settings.tolerance,
        )
        attribution = Finding(
            scores=limit.scores[0],
            bound=float(limit.bound[0]),
            intercept=float(limit.intercept[0]),
            diagnostics={"intercept_bound": float(limit.intercept_bound[0])},
        )
        attributions.append(attribution)
    return attributions


def deletion_game(reading: Reading, i: int) -> DeletionGame:
    """Return the game of document ``i`` if removed words vanish and later ones move up."""
    document, arrays = reading.documents[i], reading.collapsed
    tables, weights = arrays.model.tables, reading.target_weights[i]
    if (reason := _reason_inexact(document, reading.features[i])) is not None:
        raise DomainError(
            "exact LIME under deletion needs texts that fit the window and repeat no token; here "
            f"{reason}. Use method 'lime' with replacement='delete', which samples."
        )
    ids = document.input.ids
    d = len(ids)
    word, place = ids[:, None], 1 + np.arange(d)[None, :]
    logit = tables.logit(word, place)
    u = tables.value(word, place)
    # Per head, as in other games: a head far below another must not underflow.
    top = np.maximum(logit.max(axis=(0, 1)), arrays.base_logit[i].max(axis=-1))
    g = np.exp(np.moveaxis(logit - top, -1, 0))
    padding = np.exp(arrays.base_logit[i] - top[:, None])
    padding_gu = padding * np.einsum("c,ckt->kt", weights, arrays.base_u[i])
    tail_g = _sums_beside(padding, d)
    # The least Σg is that of [cls] and padding, for a word adds to it wherever it stands.
    smallest = np.broadcast_to(tail_g.min(axis=-1), arrays.bounds.logit.shape)
    error = arrays.bounds.of_outputs(arrays.seen_ids.shape[1], smallest)[i]
    return DeletionGame(
        g=g,
        u=np.einsum("c,tpck->ktp", weights, u)[None],
        tail_g=tail_g,
        tail_gu=_sums_beside(padding_gu, d)[None],
        error=np.abs(weights[None]) @ error,
    )


def _reason_inexact(document: Document, features: Features) -> str | None:
    """Say why positions under deletion depend on more than the number of words kept before."""
    strings = document.tokens.strings
    # A word beyond the window moves into it when others go, at a place that depends on which.
    if document.cut is not None:
        return "the last words were cut off"
    if len(features) == len(strings):
        return None
    repeated = next((s for s in strings if strings.count(s) > 1), None)
    if features.unit == "words" and repeated is not None and (features.of_token >= 0).all():
        return f"{repeated!r} repeats"
    return "not every token is a feature of its own"


def _sums_beside(x: Float[np.ndarray, "K T_max"], d: int) -> Float[np.ndarray, "K kept"]:
    """Sum over [cls] and padding when 0, 1, … d words stand between them."""
    # From the end: the whole less what stands before would cancel where a late place weighs little.
    behind = np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    after = np.concatenate([behind[:, 1:], np.zeros((len(x), 1))], axis=1)
    return x[:, :1] + after[:, : d + 1]


LIME_DELETION = Method(
    id="lime-deletion",
    label="LIME (deletion)",
    formula="weighted least squares of f on kept words, removed words deleted, in the limit of "
    "all samples",
    sees="the linear trend of f around the text if removed words vanish and later ones move up",
    blind="what is not linear; texts that repeat a token or are longer than the window",
    cost="O(d²) for each head and node of the quadrature, with a bound",
    settings=LimeDeletion,
    ways=(
        Way(
            needs="collapses",
            exactness="bound",
            explain=_explain,
            settings={
                "bandwidth": "ν, the width of the kernel; 0.25 is the `lime` package's",
                "penalty": "the ridge penalty per sample",
                "rows": "add the untouched text to that many samples, as `lime` does",
                "tolerance": MEANS["tolerance"],
                "replacement": "always 'delete': removed words vanish",
            },
            logits=True,
        ),
    ),
)
