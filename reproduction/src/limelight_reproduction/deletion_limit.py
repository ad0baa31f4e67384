"""Exact LIME for texts whose removed words are deleted."""

__all__ = ["deletion_game", "limit_under_deletion"]

from typing import Any

import numpy as np

from limelight import AttentionClassifier, DomainError, InputError, Model
from limelight.explainers import Batch, read_single_text
from limelight.request import Request
from limelight.shapes import Float
from limelight.text import Features, ModelInput, UserInput
from limelight.theory.lime_weights import LimeLimit
from limelight_reproduction.theory.deletion import DeletionGame, lime_under_deletion


def limit_under_deletion(
    model: Model,
    text: UserInput,
    *,
    bandwidth: float = 0.25,
    penalty: float = 0.0,
    rows: int | None = None,
    tolerance: float = 1e-6,
    **request: Any,
) -> LimeLimit:
    """Return the limit of LIME on ``text`` when removed words are deleted.

    The words after a deleted word move up.

    Parameters
    ----------
    model
        The paper's classifier, or a model that collapses into the same tables.
    text
        A text that fits the window of the model and repeats no token.
    bandwidth
        Width of LIME's kernel.
    penalty
        The ridge penalty per sample.
    rows
        Number of samples to which the untouched text is added, as the `lime` package does.
    tolerance
        Largest error of a score, relative to the range of the model's output.
    **request
        The keywords of :func:`limelight.explain` that say what is explained.

    Returns
    -------
    LimeLimit
        Scores by word, their bound, the intercept and its bound.

    Raises
    ------
    InputError
        If the model is not such a classifier or reads images, or if a probability is explained.
    DomainError
        If the text has fewer than two words, repeats a token or is longer than the window.
    """
    batch = read_single_text("limit_under_deletion", model, text, Request(**request))
    classifier: object = batch.model  # for mypy, no `Model` is an AttentionClassifier
    is_logit = batch.targets.scale != "probability"
    if not isinstance(classifier, AttentionClassifier) or not is_logit:
        raise InputError(
            "LIME under deletion is exact for logits of an AttentionClassifier. For others, use "
            "limelight.explain(model, text, 'lime', replacement='delete'), which samples."
        )
    if batch.inputs[0].image is not None:
        raise InputError(
            "LIME under deletion needs the words of a text, not an image. Use "
            "limelight.explain(model, image, 'lime'), which is exact."
        )
    limit = lime_under_deletion(
        deletion_game(batch, 0),
        bandwidth=bandwidth,
        penalty=penalty,
        rows=rows,
        tolerance=tolerance,
    )
    return LimeLimit(*(values[0] for values in limit))


def deletion_game(batch: Batch, i: int) -> DeletionGame:
    """Return the game of input ``i`` of a batch when removed words are deleted."""
    model_input, arrays = batch.inputs[i], batch.collapsed_inputs
    tables, weights = arrays.model.tables, batch.target_gradient[i]
    if (reason := _reason_inexact(model_input, batch.features[i])) is not None:
        raise DomainError(
            "exact LIME under deletion needs texts that fit the window and repeat no token, but "
            f"{reason}. Use method 'lime' with replacement='delete', which samples."
        )
    ids = model_input.encoding.ids
    d = len(ids)
    word, position = ids[:, None], 1 + np.arange(d)[None, :]
    logit = tables.logit(word, position)
    u = tables.value(word, position)
    # The maximum per head: a head with much smaller logits than another must not underflow.
    top = np.maximum(logit.max(axis=(0, 1)), arrays.base_logit[i].max(axis=-1))
    g = np.exp(np.moveaxis(logit - top, -1, 0))
    padding = np.exp(arrays.base_logit[i] - top[:, None])
    padding_gu = padding * np.einsum("c,ckt->kt", weights, arrays.base_u[i])
    tail_g = _sums_around_words(padding, d)
    # Σg is smallest for [cls] and padding alone, because every word adds to it.
    smallest = np.broadcast_to(tail_g.min(axis=-1), arrays.bounds.logit.shape)
    error = arrays.bounds.output_errors(arrays.possible_ids.shape[1], smallest)[i]
    return DeletionGame(
        g=g,
        u=np.einsum("c,tpck->ktp", weights, u)[None],
        tail_g=tail_g,
        tail_gu=_sums_around_words(padding_gu, d)[None],
        error=np.abs(weights[None]) @ error,
    )


def _reason_inexact(model_input: ModelInput, features: Features) -> str | None:
    """Return the reason why the exact formula does not apply to an input, or None.

    It needs positions that depend only on the number of words that remain before.
    """
    strings = model_input.tokens.strings
    # When words are deleted, a word beyond the window moves into it, at varying positions.
    if model_input.cutoff is not None:
        return "the last words were cut off"
    if len(features) == len(strings):
        return None
    repeated = next((s for s in strings if strings.count(s) > 1), None)
    if features.kind == "words" and repeated is not None and (features.feature_index >= 0).all():
        return f"{repeated!r} repeats"
    return "not every token is a feature of its own"


def _sums_around_words(x: Float[np.ndarray, "K T_max"], d: int) -> Float[np.ndarray, "K kept"]:
    """Sum ``x`` over [cls] and padding, for 0, 1, … d words between them."""
    # Summed from the end. A difference of sums would cancel where late positions weigh little.
    suffix_sums = np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    after = np.concatenate([suffix_sums[:, 1:], np.zeros((len(x), 1))], axis=1)
    return x[:, :1] + after[:, : d + 1]
