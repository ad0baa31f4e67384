"""What all exact methods on ratio games share."""

__all__ = ["head_scores", "need_logit", "semivalue"]

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.explainers.reading import Reading
from limelight.results import Finding
from limelight.shapes import Float
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame, of_heads


def need_logit(reading: Reading, method: str) -> None:
    """Refuse probabilities, on which no exact formula is known."""
    if reading.targets.scale != "logit":
        raise InputError(
            f"method {method!r} has a formula for logits only; ask for the logit, or use "
            "'lime-sampled', which samples probabilities."
        )


def head_scores(solve: Callable[[RatioGame], Any], games: RatioGame) -> Float[np.ndarray, "K n d"]:
    """Return the scores of every head's own game; their mean is the model's."""
    alone = (solve(of_heads(games, slice(i, i + 1))).scores for i in range(games.K))
    return np.stack([host_array(scores)[:, 0] for scores in alone])


def semivalue(
    settings: Any, reading: Reading, *, name: str, value: Callable[..., Any]
) -> list[Finding]:
    """Score every feature by its mean change of the logit over sets of the others."""
    need_logit(reading, name)
    games = reading.ratio_game
    solve = partial(value, tolerance=settings.tolerance)
    found = solve(games)
    scores, bounds = host_array(found.scores), host_array(found.bound)
    heads = head_scores(solve, games) if settings.per_head else None
    return [
        Finding(
            scores=scores[i, 0, : len(features)],
            bound=float(bounds[i, 0]),
            heads=None if heads is None else heads[:, i, : len(features)],
        )
        for i, features in enumerate(reading.features)
    ]
