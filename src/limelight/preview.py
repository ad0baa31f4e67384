"""A quick explanation that a display shows until the sampled scores arrive."""

from collections.abc import Sequence
from typing import Any

from limelight.errors import InputError
from limelight.explainers.batch import Batch
from limelight.explainers.budget import time_calls
from limelight.explainers.explaining import explain_batch, stream_batches
from limelight.explainers.method import ConfiguredMethod, select_implementation
from limelight.explainers.registry import (
    METHODS,
    SAMPLED_DEFAULT,
    configure_method,
    default_method,
)
from limelight.models import Model
from limelight.request import Request, prepare_model
from limelight.results import Explanation

_PREVIEW = "lrp"  # exact and fast. On deep models its share is two thirds, and attention's a sixth
_PATIENCE = 2.0  # seconds; a sampled method that is done sooner needs no preview


def preview_method(model: Model) -> str | None:
    """Return the quick method to show until sampled scores arrive, or None if none is needed."""
    if default_method(model) != SAMPLED_DEFAULT:
        return None
    implementations = [
        select_implementation(METHODS[name], model) for name in (SAMPLED_DEFAULT, _PREVIEW)
    ]
    sampled, quick = implementations
    if sampled is None or quick is None or sampled.cost.calls is None:
        return None
    return _PREVIEW


def preview_explanation(model: Model, texts: Sequence[Any], request: Request) -> Explanation | None:
    """Explain a text by a quick method if the default method is sampled and slow.

    Parameters
    ----------
    model, texts, request
        The model, the texts and the options, as :func:`limelight.explain` takes them.

    Returns
    -------
    The quick explanation of the only text. None if there are several texts, if the default method
    takes less than about two seconds, or if the quick method is not defined for the text.
    """
    if len(texts) != 1:
        return None
    try:
        model, request = prepare_model(model, request)
        name = preview_method(model)
        if name is None:
            return None
        (batch,) = stream_batches(model, texts, request)
        sampled = configure_method(default_method(model), model, {})
        if _estimate_seconds(sampled, batch) < _PATIENCE:
            return None
        return explain_batch(configure_method(name, model, {}), batch)[0]
    except InputError:  # a preview is a favor: the explanation itself raises the error
        return None


def _estimate_seconds(method: ConfiguredMethod, batch: Batch) -> float:
    """Estimate the time of a sampled method for the only input of a batch."""
    seconds_per_call, _ = time_calls(_PATIENCE, batch.game())
    return method.expected_calls(len(batch.features[0])) * seconds_per_call
