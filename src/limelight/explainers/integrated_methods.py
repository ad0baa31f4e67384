"""Integrated gradients."""

__all__ = ["IG", "ROWS"]

from dataclasses import dataclass, replace
from typing import cast, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.budget import STEP
from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.pieces_pooled import pooled_pieces
from limelight.explainers.reading import Reading
from limelight.models import Differentiates
from limelight.models.protocol import replacement_in_place
from limelight.render.wording import rounded_up
from limelight.results import Finding
from limelight.shapes import Float
from limelight.theory.integrated_gradients import IntegratedGradients, integrated_gradients
from limelight.theory.path_quadrature import nested_rules

_NODES = 16  # whose gradients are held at a time
_CERTAIN = 0.2  # of the largest score: what half of the points may be off by without a word
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
    """Score every feature by the gradient summed along its path from UNK to the word."""
    # One text at a time: each has the panels that its own logits need, whatever comes beside it.
    found = [_path_of(settings, reading, i) for i in range(len(reading.documents))]
    tokens = np.concatenate([ig.scores for ig in found])[..., 1:]
    scores, heads = (
        reading.collapsed.pooled(x) for x in (tokens.sum(axis=-2), tokens * tokens.shape[-2])
    )
    return [
        Finding(
            scores=s,
            heads=h,
            bound=float(ig.bound[0]),
            notices=_unproven(ig, cast(float, settings.tolerance)),
            diagnostics={"completeness_gap": float(ig.gap[0]), "nodes": ig.nodes},
        )
        for s, h, ig in zip(scores, heads, found, strict=True)
    ]


def _path_of(settings: IG, reading: Reading, i: int) -> IntegratedGradients:
    arrays, one = reading.collapsed, slice(i, i + 1)
    targets = reading.targets.only(i)
    return integrated_gradients(
        arrays.path(one),
        arrays.u[one],
        arrays.base_u[one],
        weigh=targets.weights,
        value_of=targets.value,
        outer=targets.outer(arrays.u.shape[1]),
        tolerance=cast(float, settings.tolerance),
        logit_error=arrays.logit_error[one],
        value_error=arrays.value_error[one],
    )


def _unproven(found: IntegratedGradients, tolerance: float) -> tuple[str, ...]:
    """Say that the integral is not as exact as was asked, where it is not for rounding alone.

    Below what rounding does no node is spent; the bound has both.
    """
    quadrature, bound = float(found.quadrature[0]), float(found.bound[0])
    if quadrature <= max(tolerance, bound - quadrature):
        return ()
    return (
        f"The integral of a score is proven within {rounded_up(quadrature)} only, not within the "
        f"tolerance {tolerance:.1g}.",
    )


def _along_points(settings: IG, reading: Reading) -> list[Finding]:
    """Score every feature by the gradient summed along its path to the word."""
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
        piece_scores, *coarse = _integrals(one, start, end, nodes)
        gap = abs(float(piece_scores.sum() - (whole - base)))
        if gap <= tolerance * abs(whole - base) or 2 * nodes > settings.max_steps:
            break
        nodes *= 2
    scores = pooled_pieces(one, piece_scores)
    errors = np.max([np.abs(pooled_pieces(one, half) - scores) for half in coarse], axis=0)
    padded = (_PADDED,) if settings.replacement == "pad" else ()
    return Finding(
        scores=scores,
        base_value=float(base),
        notices=_coarse(scores, errors) + _still_open(gap, float(whole - base), tolerance) + padded,
        diagnostics={
            "completeness_gap": gap,
            "nodes": nodes,
            "score_errors": errors.tolist(),
        },
    )


def _fitted(settings: IG, _: int, calls: int) -> IG:
    """Return as many steps as fit beside both ends; they are doubled, so their sum counts twice."""
    most = max((calls // STEP - 2) // 2, 1)
    return replace(settings, steps=min(settings.steps, most), max_steps=most)


def _integrals(
    one: Reading,
    start: Float[np.ndarray, "T d_e"],
    end: Float[np.ndarray, "T d_e"],
    nodes: int,
) -> Float[np.ndarray, "3 T"]:
    """The scores of all tokens, and the same from either half of the nodes."""
    at, weights = nested_rules(nodes)
    ask, means = cast(Differentiates, one.model).differentiated, np.zeros((3, *end.shape))
    for first in range(0, nodes, _NODES):
        some = slice(first, first + _NODES)
        points = start + at[some, None, None] * (end - start)
        found = ask(one.documents[0], points, one.targets.weights)
        means += np.einsum("rn,nte->rte", weights[:, some], found.gradient)
    return (means * (end - start)).sum(axis=-1)


def _coarse(scores: Float[np.ndarray, " d"], errors: Float[np.ndarray, " d"]) -> tuple[str, ...]:
    worst, largest = float(errors.max(initial=0.0)), float(np.abs(scores).max(initial=0.0))
    if worst <= _CERTAIN * largest:
        return ()
    return (
        f"From half of the points a score would differ by up to {worst:.2g}; the largest is "
        f"{largest:.2g}. Do not read much into smaller differences, or raise steps.",
    )


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
        sees="the whole path from UNK to the word; scores add up to f − f(all UNK)",
        blind="mixtures of kept and removed words off that path",
        cost="32 forward passes on the tables for each 16 that logits move by",
        settings=IG,
        ways=(
            Way(
                needs="collapses",
                exactness="bound",
                explain=_from_tables,
                settings={"tolerance": "largest error of the integral of a score, in units of f"},
                defaults={"tolerance": 1e-11},
            ),
            Way(
                needs="differentiates",
                exactness="estimated",
                explain=_along_points,
                settings={
                    "tolerance": "the largest gap to adding up, as a share of the change",
                    "steps": "Gauss–Legendre nodes at first; doubled until the tolerance is met",
                    "max_steps": "the most nodes",
                    "replacement": "the token at which the path to the word starts",
                },
                defaults={"tolerance": 0.01},
                counted=Counted(lambda *_: 4 * STEP, ("steps", "max_steps"), _fitted),
                cost="one forward and one backward pass per step",
                replaced=replacement_in_place,
            ),
        ),
    ),
)
