"""The method that scores words by effective attention."""

__all__ = ["EffectiveAttention"]

from typing import final

import numpy as np

from limelight import DomainError
from limelight.explainers import Attribution, Batch, Implementation, register_method
from limelight_reproduction.theory.effective_attention import effective_attention


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
    ),
)
class EffectiveAttention:
    """Settings of effective attention."""
