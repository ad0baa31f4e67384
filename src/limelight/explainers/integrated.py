"""Integrated gradients."""

__all__ = ["ROWS", "Integrated"]

from dataclasses import dataclass
from typing import final

from limelight.errors import InputError
from limelight.explainers.deep import DeepIntegrated
from limelight.explainers.method import Method
from limelight.explainers.reading import Reading
from limelight.explainers.scores import Scores
from limelight.theory.integrated_gradients import integrated_gradients


@final
@dataclass(frozen=True, kw_only=True)
class Integrated:
    """Settings of integrated gradients along UNK → word: nodes double until ``tolerance`` holds."""

    tolerance: float = 1e-11

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance}.")

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by the gradient summed along its way from UNK to the word."""
        ig = integrated_gradients(
            reading.logit,
            reading.u,
            reading.base_logit,
            reading.base_u,
            weigh=reading.targets.weights,
            value_of=reading.targets.value,
            tolerance=self.tolerance,
        )
        scores = reading.pooled(ig.scores.sum(axis=-2)[..., 1:])
        heads = reading.pooled(ig.scores[..., 1:] * ig.scores.shape[-2])
        return [
            Scores(
                scores=s,
                heads=h,
                notices=self._notice(float(gap), float(change)),
                settings={"completeness_gap": float(gap), "nodes": ig.nodes},
            )
            for s, h, gap, change in zip(scores, heads, ig.gap, ig.change, strict=True)
        ]

    def _notice(self, gap: float, change: float) -> tuple[str, ...]:
        if max(gap, change) <= self.tolerance:
            return ()
        return (
            f"The scores add up to the change of the output within {gap:.1g}, not within the "
            f"tolerance {self.tolerance:.1g}.",
        )


ROWS = (
    Method(
        id="ig",
        label="IG",
        formula="∫₀¹ (e_t − h)·∇_{e_t} f dx along UNK → word",
        sees="the whole way from UNK to the word; scores add up to f − f(all UNK)",
        blind="mixtures of kept and removed words off that way",
        cost="32 to 128 forward passes on the tables",
        explainer=Integrated,
        deep=DeepIntegrated,
    ),
)
