"""G-avg, G-l1, G-l2 and G×I."""

__all__ = ["Gradient"]

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from limelight.explainers.reading import Reading, Scores
from limelight.shapes import Float
from limelight.theory.gradient import gradient, gradient_times_input, head_gradients

Summary = Literal["mean", "l1", "l2", "input"]


@final
@dataclass(frozen=True, kw_only=True)
class Gradient:
    """Settings of the gradient methods: how the gradient at a token becomes a number.

    ``per_head`` also stores the score of every head's own gradient; norms of those do not
    average to the norm of the whole.
    """

    summary: Summary
    per_head: bool = False

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by the gradient of the target at its places."""
        scores = reading.pooled(self._summary(model_gradient(reading), reading.embedded))
        if not self.per_head:
            return [Scores(scores=s) for s in scores]
        of_heads = head_gradients(**_at(reading))
        heads = reading.pooled(self._summary(of_heads, reading.embedded[:, None]))
        return [Scores(scores=s, heads=h) for s, h in zip(scores, heads, strict=True)]

    def _summary(
        self, G: Float[np.ndarray, "*n T d_e"], e: Float[np.ndarray, "*m T d_e"]
    ) -> Float[np.ndarray, "*n T"]:
        match self.summary:
            case "mean":
                return G.mean(axis=-1)
            case "l1":
                return np.abs(G).sum(axis=-1)
            case "l2":
                return np.sqrt((G**2).sum(axis=-1))
            case "input":
                return gradient_times_input(G, np.broadcast_to(e, G.shape))


def model_gradient(reading: Reading) -> Float[np.ndarray, "n T d_e"]:
    """Return the gradient of the explained output at every position of the window."""
    return gradient(**_at(reading))


def _at(reading: Reading) -> dict[str, np.ndarray]:
    """The arguments of Theorem 4.1 for the explained output, which may mix several classes."""
    directions = reading.model.directions
    return {
        "alpha": reading.alpha,
        "u": reading.target_u,
        "e": reading.embedded,
        "key": directions.key,
        "value": np.einsum("nc,cke->nke", reading.target_weights, directions.value),
        "query": directions.query,
    }
