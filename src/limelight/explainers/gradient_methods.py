"""G-avg, G-l1, G-l2 and G×I."""

__all__ = ["GL1", "GL2", "ROWS", "GAvg", "GxI"]

from dataclasses import dataclass
from functools import partial
from typing import Literal, cast, final

import numpy as np

from limelight.explainers.method import Method, Way
from limelight.explainers.pieces_pooled import pooled_pieces
from limelight.explainers.reading import Reading
from limelight.models import Differentiates
from limelight.results import Finding
from limelight.shapes import Float
from limelight.theory.gradient import gradient_summary, gradient_times_input

_BACKWARD = "one forward and one backward pass"
_ROUNDING = 1e-4  # of the mean size of the gradient
# Shares of the way from a random order (0) to the best order known (1): docs/judging.md and
# docs/models.md.
_WORSE_THAN_CHANCE = (
    "Worse than chance: of the way from a random order of the words to the best possible one, it "
    "goes −0.64 on the shipped model and 1,000 IMDB reviews, where Shapley values go 0.99. Its "
    "signs depend on the axes of the embedding, which are arbitrary; believe 'shapley' or 'lime'."
)
_CHANCE_ON_DEEP = (
    "No better than chance on deep models: of the way from a random order of the words to that of "
    "greedy search, it went −0.02 [−0.05, 0.02] on MiniLM and 110 IMDB reviews, where Shapley "
    "values went 0.88 and 'lrp', at the same cost, 0.66; use 'shapley', 'lime' or 'lrp'."
)
_PER_HEAD = {
    "per_head": "also score every head's own gradient; norms of those do not average to the whole"
}
Summary = Literal["mean", "l1", "l2"]


@final
@dataclass(frozen=True, kw_only=True)
class GAvg:
    """Settings of G-avg."""

    per_head: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class GL1:
    """Settings of G-l1."""

    per_head: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class GL2:
    """Settings of G-l2."""

    per_head: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class GxI:
    """Settings of gradient × input: none."""


def _from_tables(
    settings: GAvg | GL1 | GL2, reading: Reading, *, summary: Summary
) -> list[Finding]:
    """Score every feature by the gradient of the target at its places (Theorem 4.1)."""
    arrays, weights = reading.collapsed, reading.target_weights
    scores = arrays.pooled(gradient_summary(arrays.token_gradient(weights), summary))
    if not settings.per_head:
        return [Finding(scores=s) for s in scores]
    of_heads = arrays.head_gradients(weights)[..., 1:, :]
    heads = arrays.pooled(gradient_summary(of_heads, summary))
    return [Finding(scores=s, heads=h) for s, h in zip(scores, heads, strict=True)]


def _input_from_tables(_: GxI, reading: Reading) -> list[Finding]:
    """Score every feature by e_t · ∇_{e_t} f at its places; the heads come with it."""
    arrays = reading.collapsed
    u, read = (f(reading.target_weights) for f in (arrays.target_u, arrays.read_u))
    of_heads = gradient_times_input(arrays.alpha, u, arrays.read_logit, read=read)[..., 1:]
    scores, heads = arrays.pooled(of_heads.mean(axis=-2)), arrays.pooled(of_heads)
    return [Finding(scores=s, heads=h) for s, h in zip(scores, heads, strict=True)]


def _at_pieces(_: GAvg | GL1 | GL2, reading: Reading, *, summary: Summary) -> list[Finding]:
    """Score every feature by the gradient of the target at its embedded pieces."""

    def found(one: Reading) -> Finding:
        _, G = _embedded_and_gradient(one)
        scores = pooled_pieces(one, gradient_summary(G, summary))
        if summary != "mean" or (noise := _rounding(G)) < np.abs(scores).max():
            return Finding(scores=scores)
        return Finding(
            scores=scores, notices=(_only_noise(scores, noise),), diagnostics={"rounding": noise}
        )

    return [found(one) for one in reading.apart()]


def _times_input(_: GxI, reading: Reading) -> list[Finding]:
    """Score every feature by the gradient at its embedded pieces times what is embedded there."""

    def found(one: Reading) -> Finding:
        e, G = _embedded_and_gradient(one)
        return Finding(scores=pooled_pieces(one, (G * e).sum(axis=-1)))

    return [found(one) for one in reading.apart()]


def _embedded_and_gradient(
    one: Reading,
) -> tuple[Float[np.ndarray, "T d_e"], Float[np.ndarray, "T d_e"]]:
    model, document = cast(Differentiates, one.model), one.documents[0]
    e = model.embedded(document)
    return e, model.differentiated(document, e[None], one.targets.weights).gradient[0]


def _rounding(G: Float[np.ndarray, "T d_e"]) -> float:
    """Return the size below which means of the rows of ``G`` are rounding errors."""
    return float(_ROUNDING * np.abs(G).mean())


def _only_noise(scores: Float[np.ndarray, " d"], noise: float) -> str:
    """Say that scores are rounding: under a layer norm, the gradient has mean zero."""
    return (
        "The model normalises its embedded input, so the mean of the gradient is zero and these "
        f"scores are rounding errors: none is larger than {np.abs(scores).max():.0e}, and below "
        f"{noise:.0e} nothing can be said. Use 'shapley', 'lime' or 'lrp'."
    )


def _ways(summary: Summary, *, caution: str = "") -> tuple[Way, ...]:
    """The tables' own gradient, then automatic differentiation."""
    return (
        Way(
            needs="collapses",
            exactness="exact",
            explain=partial(_from_tables, summary=summary),
            settings=_PER_HEAD,
            caution=caution,
        ),
        Way(
            needs="differentiates",
            exactness="exact",
            explain=partial(_at_pieces, summary=summary),
            cost=_BACKWARD,
        ),
    )


_COST = "one forward pass and two small products"

ROWS = (
    Method(
        id="g-avg",
        label="G-avg",
        formula="mean over dimensions of ∇_{e_t} f (Theorem 4.1)",
        sees="attention, values and the last layer, to first order",
        blind="what happens far from the text; the axes of the embedding are arbitrary",
        cost=_COST,
        settings=GAvg,
        ways=_ways("mean", caution=_WORSE_THAN_CHANCE),
    ),
    Method(
        id="g-l1",
        label="G-l1",
        formula="‖∇_{e_t} f‖₁ (Theorem 4.1)",
        sees="how sensitive the output is to a word",
        blind="the sign; what happens far from the text",
        cost=_COST,
        signed=False,
        settings=GL1,
        ways=_ways("l1"),
    ),
    Method(
        id="g-l2",
        label="G-l2",
        formula="‖∇_{e_t} f‖₂ (Theorem 4.1)",
        sees="how sensitive the output is to a word",
        blind="the sign; what happens far from the text",
        cost=_COST,
        signed=False,
        settings=GL2,
        ways=_ways("l2"),
    ),
    Method(
        id="gxi",
        label="G×I",
        formula="e_t · ∇_{e_t} f (Theorem 4.1)",
        sees="attention, values and the last layer, with a sign",
        blind="saturation: it compares with the zero vector, which is not a word",
        cost="one forward pass: no embedding is touched",
        settings=GxI,
        ways=(
            Way(needs="collapses", exactness="exact", explain=_input_from_tables),
            Way(
                needs="differentiates",
                exactness="exact",
                explain=_times_input,
                cost=_BACKWARD,
                caution=_CHANCE_ON_DEEP,
            ),
        ),
    ),
)
