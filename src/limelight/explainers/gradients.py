"""G-avg, G-l1, G-l2 and G×I."""

__all__ = ["ROWS", "Gradient", "GradientTimesInput"]

from dataclasses import dataclass
from functools import partial
from typing import Literal, final

from limelight.explainers.deep import DeepGradient
from limelight.explainers.method import Method
from limelight.explainers.reading import Reading
from limelight.explainers.scores import Scores
from limelight.theory.gradient import gradient_summary, gradient_times_input, head_gradients


@final
@dataclass(frozen=True, kw_only=True)
class Gradient:
    """Settings of the gradient methods: how the gradient at a token becomes a number.

    ``per_head`` also stores the score of every head's own gradient; norms of those do not
    average to the norm of the whole.
    """

    summary: Literal["mean", "l1", "l2"]
    per_head: bool = False

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by the gradient of the target at its places."""
        scores = reading.pooled(gradient_summary(reading.token_gradient, self.summary))
        if not self.per_head:
            return [Scores(scores=s) for s in scores]
        of_heads = head_gradients(**reading.at_the_text)[..., 1:, :]
        heads = reading.pooled(gradient_summary(of_heads, self.summary))
        return [Scores(scores=s, heads=h) for s, h in zip(scores, heads, strict=True)]


@final
@dataclass(frozen=True, kw_only=True)
class GradientTimesInput:
    """Settings of gradient × input: none. The scores of every head come with it."""

    def __call__(self, reading: Reading) -> list[Scores]:
        """Score every feature by e_t · ∇_{e_t} f at its places."""
        of_heads = gradient_times_input(reading.alpha, reading.target_u, reading.logit)[..., 1:]
        scores, heads = reading.pooled(of_heads.mean(axis=-2)), reading.pooled(of_heads)
        return [Scores(scores=s, heads=h) for s, h in zip(scores, heads, strict=True)]


ROWS = (
    Method(
        id="g-avg",
        label="G-avg",
        formula="mean over dimensions of ∇_{e_t} f (Theorem 4.1)",
        sees="attention, values and the last layer, to first order",
        blind="what happens far from the text; the axes of the embedding are arbitrary",
        cost="one forward pass and two small products",
        explainer=partial(Gradient, summary="mean"),
        deep=partial(DeepGradient, summary="mean"),
    ),
    Method(
        id="g-l1",
        label="G-l1",
        formula="‖∇_{e_t} f‖₁ (Theorem 4.1)",
        sees="how sensitive the output is to a word",
        blind="the sign; what happens far from the text",
        cost="one forward pass and two small products",
        signed=False,
        explainer=partial(Gradient, summary="l1"),
        deep=partial(DeepGradient, summary="l1"),
    ),
    Method(
        id="g-l2",
        label="G-l2",
        formula="‖∇_{e_t} f‖₂ (Theorem 4.1)",
        sees="how sensitive the output is to a word",
        blind="the sign; what happens far from the text",
        cost="one forward pass and two small products",
        signed=False,
        explainer=partial(Gradient, summary="l2"),
        deep=partial(DeepGradient, summary="l2"),
    ),
    Method(
        id="gxi",
        label="G×I",
        formula="e_t · ∇_{e_t} f (Theorem 4.1)",
        sees="attention, values and the last layer, with a sign",
        blind="saturation: it compares with the zero vector, which is no word",
        cost="one forward pass: no embedding is touched",
        explainer=GradientTimesInput,
        deep=partial(DeepGradient, summary="input"),
    ),
)
