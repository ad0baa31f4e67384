"""The values of the heads of a BERT, and scores of features from its last layer."""

__all__ = ["Layers", "read_layers", "score_last_layer"]

from typing import Any, NamedTuple

import numpy as np

from limelight import DomainError
from limelight.explainers import Batch
from limelight.explainers.batch import sum_subword_scores
from limelight.shapes import Float
from limelight.text import ModelInput
from limelight_reproduction.theory.effective_attention import effective_attention


class Layers(NamedTuple):
    """The attention and the values of all layers of a BERT for one text."""

    alpha: Float[np.ndarray, "L H T T"]
    values: Float[np.ndarray, "L H T d"]


def read_layers(model: Any, model_input: ModelInput) -> Layers:
    """Return the attention and the values of every layer of a BERT for one text.

    Raises
    ------
    DomainError
        If the network has no modules with the names of a BERT, or reads the text in windows.
    """
    network = getattr(model, "network", None)
    layers = [
        module.value
        for name, module in (network.named_modules() if network is not None else ())
        if name.endswith("attention.self") and hasattr(module, "value")
    ]
    if not layers or model_input.windows is not None:
        raise DomainError(
            "effective attention needs a BERT and a text without windows. Use 'alpha-avg' instead."
        )
    values: list[Any] = []
    hooks = [
        layer.register_forward_hook(lambda _module, _inputs, output: values.append(output))
        for layer in layers
    ]
    try:
        (attention,) = model.attention(model_input)
    finally:
        for hook in hooks:
            hook.remove()
    L, H, T, _ = attention.alpha.shape
    split = [value.detach()[0].double().cpu().numpy().reshape(T, H, -1) for value in values[-L:]]
    return Layers(attention.alpha, np.stack(split).transpose(0, 2, 1, 3))


def score_last_layer(batch: Batch) -> Float[np.ndarray, " d"]:
    """Return the effective attention of [CLS] to every feature, a mean over the last heads."""
    layers = read_layers(batch.model, batch.inputs[0])
    scores = effective_attention(layers.alpha[-1], layers.values[-1])[:, 0].mean(axis=0)
    return sum_subword_scores(batch, scores)
