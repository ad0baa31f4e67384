"""What methods need that only remove words and look at the answers."""

__all__ = ["Perturbable", "TargetGame"]

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, final, runtime_checkable

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


_STEADY = 0.01  # of the answer, or of 1: what half precision may do


@final
class TargetGame:
    """The explained number of one document under each mask.

    ``replacement`` is what stands for a removed word. The answers are watched: probabilities of 0
    or 1 have no log-odds, and the untouched text must be answered the same way every time.
    """

    def __init__(self, one: Perturbable, replacement: str) -> None:
        self.replacement = one.resolved(replacement)
        self._score, self._targets = one.scorer(replacement), one.targets
        logits = one.targets.output == "logit"
        self._ceiling = getattr(one.model, "ceiling", math.inf) if logits else math.inf
        self._asked = self._held = 0
        self._whole = float(one.targets.value(one.outputs)[0])
        self._again = self._whole

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        """Return the explained number for each mask."""
        found = self._targets.value(self._score(keep)[:, None])
        self._asked += len(found)
        for value in found[keep.all(axis=1), 0]:
            if abs(value - self._whole) > abs(self._again - self._whole):
                self._again = float(value)
        self._held += int(np.count_nonzero(np.abs(found) >= self._ceiling))
        return found

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know about the answers so far."""
        return self._unsteady() + self._certain()

    def _unsteady(self) -> tuple[str, ...]:
        if abs(self._again - self._whole) <= _STEADY * max(1.0, abs(self._whole)):
            return ()
        return (
            f"The model answered the same text with {self._whole:.4g} and with {self._again:.4g}: "
            "its answers are noise in part, which no standard error of single calls shows. "
            "Switch off what is random in it.",
        )

    def _certain(self) -> tuple[str, ...]:
        if not self._held:
            return ()
        return (
            f"{self._held} of {self._asked} answers were probabilities of 0 or 1, whose log-odds "
            f"are infinite; ±{self._ceiling:.1f} stands for them, so the size of the scores means "
            "little. Explain output='probability', or let the function return logits.",
        )
