"""Leave-one-out."""

__all__ = ["ROWS", "Loo"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.results import Finding
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.namespace import host_array

_ROUNDING = 2.0**-52


@final
@dataclass(frozen=True, kw_only=True)
class Loo:
    """Settings of leave-one-out."""

    replacement: str = "auto"


def _loo_from_game(_: Loo, reading: Reading) -> list[Finding]:
    """Score every feature by what the explained output loses without it, in closed form."""
    targets, outputs = reading.targets, reading.outputs
    loss = leave_one_out(reading.collapsed.game)
    without = np.moveaxis(outputs[..., None] - host_array(loss.scores), -1, 0)
    scores = targets.value(outputs) - targets.value(without)
    # A logit is a sum of outputs, and so is its error; taking a loss off an output and back costs a
    # few roundings of it.
    off = host_array(loss.bound) + 8 * _ROUNDING * np.abs(outputs)
    bounds = (np.abs(reading.target_weights) * off).sum(axis=-1)
    return [
        Finding(
            scores=scores[: len(features), i],
            bound=float(bounds[i]) if targets.scale == "logit" else None,
        )
        for i, features in enumerate(reading.features)
    ]


def _loo_by_asking(settings: Loo, reading: Reading) -> list[Finding]:
    """Score every feature by what the explained output loses without it."""

    def found(one: Reading) -> Finding:
        game, d = TargetGame(one, settings.replacement), len(one.features[0])
        masks = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
        (whole, *without) = game(masks)[:, 0]
        return Finding(
            scores=whole - np.array(without), base_value=game.base_value, notices=game.notices
        )

    return [found(one) for one in reading.apart()]


ROWS = (
    Method(
        id="loo",
        label="LOO",
        formula="f(text) − f(text without the word)",
        sees="what really happens when one word is replaced by UNK",
        blind="words that stand in for each other: each alone seems not to matter",
        cost="one forward pass, O(d)",
        settings=Loo,
        ways=(
            Way(needs="collapses", exactness="bound", explain=_loo_from_game),
            Way(
                needs=None,
                exactness="exact",
                explain=_loo_by_asking,
                settings={"replacement": "what stands for a removed word"},
                calls=lambda _, d: d + 2,
                counted=Counted(lambda _, d: d + 2),
                cost="one call of the model per word",
            ),
        ),
    ),
)
