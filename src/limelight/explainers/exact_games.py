"""What all exact methods on ratio games share."""

__all__ = ["head_scores", "need_logit"]

from collections.abc import Callable
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.explainers.reading import Reading
from limelight.shapes import Float
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame, of_heads


def need_logit(reading: Reading, method: str) -> None:
    """Refuse probabilities, on which no exact formula is known."""
    if reading.targets.scale != "logit":
        raise InputError(
            f"method {method!r} is exact for logits only; ask for the logit, or use "
            "'lime-sampled', which samples probabilities."
        )


def head_scores(solve: Callable[[RatioGame], Any], games: RatioGame) -> Float[np.ndarray, "K n d"]:
    """Return the scores of every head's own game; their mean is the model's."""
    alone = (solve(of_heads(games, slice(i, i + 1))).scores for i in range(games.K))
    return np.stack([host_array(scores)[:, 0] for scores in alone])
