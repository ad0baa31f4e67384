"""Questions about several texts at once, for models that take them together."""

__all__ = ["JointGame", "joint_answers"]

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from limelight.sampling import Game
from limelight.shapes import Bool, Float


@runtime_checkable
class JointGame(Protocol):
    """A game whose questions may be asked together with those about other texts."""

    @property
    def joins(self) -> object:
        """What games that may be asked together have in common."""

    def joint(
        self, games: Sequence[Game], masks: Sequence[Bool[np.ndarray, "_ _d"]]
    ) -> list[Float[np.ndarray, "_ C"]]:
        """Return the outputs for the masks of each game."""


def joint_answers(
    games: Sequence[Game], masks: Sequence[Bool[np.ndarray, "_ _d"]]
) -> list[Float[np.ndarray, "_ C"]] | None:
    """Return the outputs of each game in one question; None where they cannot be joined."""
    first = games[0]
    if not isinstance(first, JointGame):
        return None
    if not all(isinstance(one, JointGame) and one.joins is first.joins for one in games):
        return None
    return first.joint(games, masks)
