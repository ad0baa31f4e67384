"""Integrated gradients."""

__all__ = ["IG", "ROWS"]

from dataclasses import dataclass
from typing import cast, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.method import Method, Way
from limelight.explainers.pieces_pooled import pooled_pieces
from limelight.explainers.reading import Reading
from limelight.models import Differentiates
from limelight.models.protocol import replacement_in_place
from limelight.results import Finding
from limelight.shapes import Float
from limelight.theory.integrated_gradients import integrated_gradients

_NODES = 16  # whose gradients are held at a time
_PADDED = (
    "Integrated gradients move words to the padding token's embedding, which the others still "
    "attend to; 'lime', 'shapley' and 'loo' with replacement 'pad' mask a removed word out."
)


@final
@dataclass(frozen=True, kw_only=True)
class IG:
    """Settings of integrated gradients along replacement → word."""

    tolerance: float | None = None
    steps: int = 16
    max_steps: int = 256
    replacement: str = "auto"

    def __post_init__(self) -> None:
        if self.tolerance is not None and not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance}.")
        if self.steps < 1:
            raise InputError(f"steps must be at least 1; got {self.steps}.")
        if self.max_steps < self.steps:
            raise InputError(
                f"max_steps must be at least steps ({self.steps}); got {self.max_steps}."
            )


def _from_tables(settings: IG, reading: Reading) -> list[Finding]:
    """Score every feature by the gradient summed along its way from UNK to the word."""
    arrays, tolerance = reading.collapsed, cast(float, settings.tolerance)
    ig = integrated_gradients(
        arrays.logit,
        arrays.u,
        arrays.base_logit,
        arrays.base_u,
        weigh=reading.targets.weights,
        value_of=reading.targets.value,
        tolerance=tolerance,
    )
    scores = arrays.pooled(ig.scores.sum(axis=-2)[..., 1:])
    heads = arrays.pooled(ig.scores[..., 1:] * ig.scores.shape[-2])
    return [
        Finding(
            scores=s,
            heads=h,
            notices=_open_gap(float(gap), float(change), tolerance),
            diagnostics={"completeness_gap": float(gap), "nodes": ig.nodes},
        )
        for s, h, gap, change in zip(scores, heads, ig.gap, ig.change, strict=True)
    ]


def _open_gap(gap: float, change: float, tolerance: float) -> tuple[str, ...]:
    if max(gap, change) <= tolerance:
        return ()
    return (
        f"The scores add up to the change of the output within {gap:.1g}, not within the "
        f"tolerance {tolerance:.1g}.",
    )


def _along_points(settings: IG, reading: Reading) -> list[Finding]:
    """Score every feature by the gradient summed along its way to the word."""
    return [_along(settings, one) for one in reading.apart()]


def _along(settings: IG, one: Reading) -> Finding:
    model, document, targets = cast(Differentiates, one.model), one.documents[0], one.targets
    tolerance = cast(float, settings.tolerance)
    end = model.embedded(document)
    start = model.embedded(document, one.features[0], settings.replacement)
    ends = model.differentiated(document, np.stack([start, end]), targets.weights).outputs
    base, whole = targets.value(ends[:, None])[:, 0]
    nodes = settings.steps
    while True:
        piece_scores = _integral(one, start, end, nodes)
        gap = abs(float(piece_scores.sum() - (whole - base)))
        if gap <= tolerance * abs(whole - base) or 2 * nodes > settings.max_steps:
            break
        nodes *= 2
    padded = (_PADDED,) if settings.replacement == "pad" else ()
    return Finding(
        scores=pooled_pieces(one, piece_scores),
        base_value=float(base),
        notices=_still_open(gap, float(whole - base), tolerance) + padded,
        diagnostics={"completeness_gap": gap, "nodes": nodes},
    )


def _integral(
    one: Reading,
    start: Float[np.ndarray, "T d_e"],
    end: Float[np.ndarray, "T d_e"],
    nodes: int,
) -> Float[np.ndarray, " T"]:
    at, weight = np.polynomial.legendre.leggauss(nodes)
    ask, mean = cast(Differentiates, one.model).differentiated, np.zeros_like(end)
    for first in range(0, nodes, _NODES):
        some = slice(first, first + _NODES)
        points = start + (at[some, None, None] + 1) / 2 * (end - start)
        found = ask(one.documents[0], points, one.targets.weights)
        mean += np.einsum("n,nte->te", weight[some] / 2, found.gradient)
    return (mean * (end - start)).sum(axis=-1)


def _still_open(gap: float, change: float, tolerance: float) -> tuple[str, ...]:
    if gap <= tolerance * abs(change):
        return ()
    return (
        f"The scores add up to the change of the output ({change:.3g}) within {gap:.1g}, not "
        f"within {tolerance:.1%} of it; raise max_steps.",
    )


ROWS = (
    Method(
        id="ig",
        label="IG",
        formula="∫₀¹ (e_t − h)·∇_{e_t} f dx along UNK → word",
        sees="the whole way from UNK to the word; scores add up to f − f(all UNK)",
        blind="mixtures of kept and removed words off that way",
        cost="32 to 128 forward passes on the tables",
        settings=IG,
        ways=(
            Way(
                needs="collapses",
                exactness="exact",
                explain=_from_tables,
                settings={"tolerance": "how far the scores may be from adding up to the change"},
                defaults={"tolerance": 1e-11},
            ),
            Way(
                needs="differentiates",
                exactness="exact",
                explain=_along_points,
                settings={
                    "tolerance": "how far the scores may be from adding up, as a share",
                    "steps": "Gauss–Legendre nodes at first; doubled until tolerance holds",
                    "max_steps": "nodes at most",
                    "replacement": "the token from which the way to the word begins",
                },
                defaults={"tolerance": 0.01},
                cost="one forward and one backward pass per step",
                replaced=replacement_in_place,
            ),
        ),
    ),
)
