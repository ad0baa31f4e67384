"""What methods need that only remove words and look at the answers."""

__all__ = ["Perturbable", "target_game"]

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from limelight.explainers.targets import Targets
from limelight.sampling import Game
from limelight.shapes import Bool, Float
from limelight.text import Features


@runtime_checkable
class Perturbable(Protocol):
    """A reading whose words can be removed."""

    @property
    def model(self) -> Any:
        """The model."""

    @property
    def documents(self) -> Sequence[Any]:
        """The texts as the model reads them."""

    @property
    def features(self) -> Sequence[Features]:
        """What is scored in each document."""

    @property
    def targets(self) -> Targets:
        """What is explained."""

    @property
    def outputs(self) -> Float[np.ndarray, "n C"]:
        """The model's outputs."""

    def apart(self) -> Iterator["Perturbable"]:
        """Yield every document as a reading of its own."""

    def resolved(self, replacement: str) -> str:
        """Return what is put in place of a removed word."""

    def scorer(self, replacement: str) -> Game:
        """Return the outputs of the one document as a function of which features stay."""


def target_game(one: Perturbable, replacement: str) -> tuple[str, Game]:
    """Return what stands for a removed word, and the explained number under each mask."""
    score = one.scorer(replacement)

    def game(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        return one.targets.value(score(keep)[:, None])

    return one.resolved(replacement), game
