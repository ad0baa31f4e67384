"""Effective attention: the part of attention that reaches the output of a head.

A head returns A V. If a text has more tokens than V has columns, many attention matrices A give the
same A V. Effective attention is the one of least norm (Brunner et al., 2020, who subtract the part
in the left null space of V; Sun and Marasović, 2021). It can be negative.
"""

__all__ = ["EffectiveAttention", "effective_attention", "read_layers"]

from typing import Any, NamedTuple, final

import numpy as np

from limelight import DomainError
from limelight.explainers import Attribution, Batch, Implementation, per_input, register_method
from limelight.explainers.batch import sum_subword_scores
from limelight.shapes import Float
from limelight.text import ModelInput

_RANK = 1e-6  # singular values below this share of the largest count as 0, in single precision


def effective_attention(
    alpha: Float[np.ndarray, "*b S T"], values: Float[np.ndarray, "*b T d"]
) -> Float[np.ndarray, "*b S T"]:
    """Return the attention of least norm with the same product with the values."""
    left, sizes, _ = np.linalg.svd(values, full_matrices=False)
    is_used = sizes > _RANK * sizes[..., :1]
    basis = left * is_used[..., None, :]
    return (alpha @ basis) @ np.swapaxes(basis, -1, -2)


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


def _explain_table_model(_: "EffectiveAttention", batch: Batch) -> list[Attribution]:
    """Score every feature by the effective attention of [cls], a mean over heads."""
    arrays = batch.collapsed_inputs
    model = arrays.model
    if model.head_embeddings or arrays.attention.shape[1] != len(model.W_v):
        raise DomainError("effective attention needs heads that share their embeddings.")
    values = np.einsum("kae,nte->nkta", model.W_v.astype(np.float64), arrays.embeddings)
    values = values if model.b_v is None else values + model.b_v[:, None]
    scores = effective_attention(arrays.attention[:, :, None], values)[:, :, 0].mean(axis=1)
    return [Attribution(scores=x) for x in arrays.pool_features(scores[:, 1:])]


def _explain_bert(_: "EffectiveAttention", batch: Batch) -> Attribution:
    """Score every feature by the effective attention of [CLS] in the last layer."""
    layers = read_layers(batch.model, batch.inputs[0])
    scores = effective_attention(layers.alpha[-1], layers.values[-1])[:, 0].mean(axis=0)
    return Attribution(scores=sum_subword_scores(batch, scores))


@final
@register_method(
    id="effective-attention",
    label="effective α",
    formula="mean over heads of the attention of [cls], projected on the column space of V",
    sees="the part of attention that reaches the output of its head",
    blind="signs and sizes of what the values mean for the class",
    cost="one forward pass and a singular value decomposition",
    implementations=(
        Implementation(needs="tables", exactness="exact", explain=_explain_table_model),
        Implementation(needs="attention", exactness="exact", explain=per_input(_explain_bert)),
    ),
)
class EffectiveAttention:
    """Settings of effective attention."""
