"""α-avg, α-max, rollout, flow and α×grad.

With one layer and no residual, as in the paper's classifier, rollout and flow are α-avg.
"""

__all__ = ["ROWS", "Attention", "TableGradient"]

from dataclasses import dataclass
from functools import partial
from typing import Literal, final

import numpy as np

from limelight.explainers.deep_attention import (
    AttentionGradient,
    DeepAttention,
    Flow,
    Rollout,
)
from limelight.explainers.method import Method
from limelight.explainers.reading import Reading
from limelight.explainers.scores import Scores
from limelight.shapes import Float
from limelight.text import Document
from limelight.theory.attention import max_attention, mean_attention

_SUMMARY = {"mean": mean_attention, "max": max_attention}


@final
@dataclass(frozen=True, kw_only=True)
class Attention:
    """Settings of the attention methods: how the heads are summarised."""

    over_heads: Literal["mean", "max"]

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by the attention of [cls] to it."""
        alpha = reading.alpha
        scores = reading.pooled(_SUMMARY[self.over_heads](alpha)[..., 1:])
        heads = reading.pooled(alpha[..., 1:])
        spread = [_where_it_goes(*pair) for pair in zip(alpha, reading.documents, strict=True)]
        return [
            Scores(scores=s, heads=h, notices=(notice,))
            for s, h, notice in zip(scores, heads, spread, strict=True)
        ]


@final
@dataclass(frozen=True, kw_only=True)
class TableGradient:
    """Settings of attention × gradient on the paper's classifier: none."""

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by Σ over heads of α ∂F/∂α = α u / K."""
        parts = reading.pooled((reading.alpha * reading.target_u)[..., 1:])
        return [Scores(scores=part.mean(axis=0), heads=part) for part in parts]


def _where_it_goes(alpha: Float[np.ndarray, "K T_max"], document: Document) -> str:
    mean, end = alpha.mean(axis=0), 1 + len(document.ids)
    return (
        f"Of the attention {mean[1:end].sum():.0%} goes to the text, {mean[0]:.0%} to [cls] "
        f"and {mean[end:].sum():.0%} to padding."
    )


ROWS = (
    Method(
        id="alpha-avg",
        label="α-avg",
        formula="mean over heads of α_t (Eq. 10)",
        sees="where [cls] looks",
        blind="values, the last layer, and so the sign and the class",
        cost="one forward pass",
        signed=False,
        explainer=partial(Attention, over_heads="mean"),
        deep=partial(DeepAttention, over_heads="mean"),
    ),
    Method(
        id="alpha-max",
        label="α-max",
        formula="max over heads of α_t (Eq. 11)",
        sees="where at least one head looks",
        blind="values, the last layer, and so the sign and the class",
        cost="one forward pass",
        signed=False,
        explainer=partial(Attention, over_heads="max"),
        deep=partial(DeepAttention, over_heads="max"),
    ),
    Method(
        id="alpha-grad",
        label="α×grad",
        formula="Σ over heads of α_t ∂f/∂α_t at the read position, one layer",
        sees="attention and, to first order, what it is worth to the class",
        blind="what reaches the output by other layers and through the residual",
        cost="one forward and one backward pass",
        explainer=TableGradient,
        deep=AttentionGradient,
    ),
    Method(
        id="rollout",
        label="Rollout",
        formula="Π over layers of (mean over heads of α + I)/2, the row that is read",
        sees="how attention mixes the words through all layers",
        blind="values, the last layer, and so the sign and the class",
        cost="one forward pass",
        signed=False,
        explainer=partial(Attention, over_heads="mean"),
        deep=Rollout,
    ),
    Method(
        id="flow",
        label="Flow",
        formula="maximum flow from the read position to the word, capacities (α + I)/2",
        sees="the widest ways of attention through all layers",
        blind="values, the last layer, and so the sign and the class",
        cost="one forward pass and one maximum flow per token: grows with the cube of the length",
        signed=False,
        explainer=partial(Attention, over_heads="mean"),
        deep=Flow,
    ),
)
