"""Gradients and attention of deep models, from positions of pieces to scores of words."""

__all__ = ["DeepGradient", "DeepIntegrated", "deep_model", "pooled"]

from dataclasses import dataclass
from typing import Literal, cast, final

import numpy as np

from limelight.adapters import DeepModel
from limelight.errors import DomainError, InputError
from limelight.explainers.scores import Scores
from limelight.explainers.texts import TextReading
from limelight.shapes import Float
from limelight.theory.gradient import gradient_summary

_ROUNDING = 1e-4  # of the mean size of the gradient
_NODES = 16  # whose gradients are held at a time
_PADDED = (
    "Integrated gradients move words to the padding token's embedding, which the others still "
    "attend to; 'lime', 'shapley' and 'loo' with replacement 'pad' mask a removed word out."
)
Summary = Literal["mean", "l1", "l2", "input"]


def pooled(one: TextReading, scores: Float[np.ndarray, "*K T"]) -> Float[np.ndarray, "*K d"]:
    """Return scores of pieces summed over the pieces and places of each feature."""
    (passage,), (features,) = one.documents, one.features
    token = passage.own_pieces.token[passage.own_pieces.inside]
    feature = np.append(features.of_token, -1)[token]
    belongs = feature[:, None] == np.arange(len(features))
    return scores @ belongs.astype(np.float64)


def deep_model(one: TextReading) -> DeepModel:
    """Return the model, which shows what is inside."""
    return cast(DeepModel, one.model)


@final
@dataclass(frozen=True, kw_only=True)
class DeepGradient:
    """Settings of the gradient methods: how the gradient at a piece becomes a number."""

    summary: Summary

    def __call__(self, reading: TextReading) -> list[Scores]:
        """Score every feature by the gradient of the target at its embedded pieces."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: TextReading) -> Scores:
        model, passage = deep_model(one), one.documents[0]
        e = model.embedded(passage)
        found = model.differentiated(passage, e[None], one.targets.weights)
        G = found.gradient[0]
        along = (
            (G * e).sum(axis=-1) if self.summary == "input" else gradient_summary(G, self.summary)
        )
        scores = pooled(one, along)
        return Scores(scores=scores, notices=self._notices(scores, G))

    def _notices(
        self, scores: Float[np.ndarray, " d"], G: Float[np.ndarray, "T d_e"]
    ) -> tuple[str, ...]:
        """Say when scores are rounding: behind a layer norm, the gradient has mean zero."""
        if self.summary != "mean" or np.abs(scores).max() > _ROUNDING * np.abs(G).mean():
            return ()
        return (
            "The model normalises its embedded input, so the mean of the gradient is zero and "
            "these scores are rounding errors; use 'gxi' or 'ig'.",
        )


@final
@dataclass(frozen=True, kw_only=True)
class DeepIntegrated:
    """Settings of integrated gradients along replacement → word, by Gauss–Legendre nodes.

    ``steps`` are doubled until the scores add up to the change of the output within ``tolerance``
    of it, or there are ``max_steps``.
    """

    tolerance: float = 0.01
    steps: int = 16
    max_steps: int = 256
    replacement: str = "auto"

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance}.")
        if self.steps < 1:
            raise InputError(f"steps must be at least 1; got {self.steps}.")
        if self.max_steps < self.steps:
            raise InputError(
                f"max_steps must be at least steps ({self.steps}); got {self.max_steps}."
            )

    def __call__(self, reading: TextReading) -> list[Scores]:
        """Score every feature by the gradient summed along its way to the word."""
        return [self._scores(one) for one in reading.apart()]

    def _scores(self, one: TextReading) -> Scores:
        model, passage, targets = deep_model(one), one.documents[0], one.targets
        name = self._resting(one)
        end = model.embedded(passage)
        start = model.embedded(passage, one.features[0], name)
        ends = model.differentiated(passage, np.stack([start, end]), targets.weights).outputs
        base, whole = targets.value(ends[:, None])[:, 0]
        nodes = self.steps
        while True:
            piece_scores = self._integral(one, start, end, nodes)
            gap = abs(float(piece_scores.sum() - (whole - base)))
            if gap <= self.tolerance * abs(whole - base) or 2 * nodes > self.max_steps:
                break
            nodes *= 2
        return Scores(
            scores=pooled(one, piece_scores),
            base_value=float(base),
            notices=(
                *self._notices(gap, float(whole - base)),
                *([_PADDED] if name == "pad" else []),
            ),
            settings={"replacement": name, "completeness_gap": gap, "nodes": nodes},
        )

    def _resting(self, one: TextReading) -> str:
        """Where the way begins: "auto" is never a deletion, which has no place."""
        name = one.resolved(self.replacement)
        if self.replacement != "auto" or name != "delete":
            return name
        try:
            return one.resolved("pad")
        except InputError:
            raise DomainError(
                "integrated gradients start from a mask, unknown or padding token; this model has "
                "none of them. Use 'gxi' or 'lime'."
            ) from None

    def _integral(
        self,
        one: TextReading,
        start: Float[np.ndarray, "T d_e"],
        end: Float[np.ndarray, "T d_e"],
        nodes: int,
    ) -> Float[np.ndarray, " T"]:
        at, weight = np.polynomial.legendre.leggauss(nodes)
        ask, mean = deep_model(one).differentiated, np.zeros_like(end)
        for first in range(0, nodes, _NODES):
            some = slice(first, first + _NODES)
            points = start + (at[some, None, None] + 1) / 2 * (end - start)
            found = ask(one.documents[0], points, one.targets.weights)
            mean += np.einsum("n,nte->te", weight[some] / 2, found.gradient)
        return (mean * (end - start)).sum(axis=-1)

    def _notices(self, gap: float, change: float) -> tuple[str, ...]:
        if gap <= self.tolerance * abs(change):
            return ()
        return (
            f"The scores add up to the change of the output ({change:.3g}) within {gap:.1g}, not "
            f"within {self.tolerance:.1%} of it; raise max_steps.",
        )
