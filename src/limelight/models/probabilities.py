"""From a model's outputs to probabilities."""

__all__ = ["class_probabilities"]

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float


def class_probabilities(
    outputs: Float[np.ndarray, "n C"], link: str = "softmax"
) -> Float[np.ndarray, "n classes"]:
    """Return the softmax of two or more logits; for a single one, its sigmoid as two classes.

    With the link "sigmoid" every one of several logits has a probability of its own; with "none"
    the outputs are scores, not logits, and there are no probabilities.
    """
    if link == "none":
        raise InputError(
            "the outputs of this model are scores, not log-odds, so it has no probabilities; "
            "explain the score."
        )
    if link == "sigmoid" and outputs.shape[1] > 1:
        return 0.5 * (1 + np.tanh(outputs / 2))
    if outputs.shape[1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
    weight = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)
