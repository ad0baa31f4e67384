"""What perturbation methods play: the explained number of one text under each mask."""

__all__ = ["TargetGame", "refusal_notice", "steadiness_notice"]

from functools import cached_property
from typing import final

import numpy as np

from limelight.explainers.reading import Reading
from limelight.explainers.text_game import NO_BASE, TextGame
from limelight.models.functions import MOST_LOG_ODDS
from limelight.sampling import watched
from limelight.shapes import Bool, Float

_STEADY = 0.01  # of the answer, or of 1: what half precision may do


@final
class TargetGame:
    """The explained number of one document under each mask.

    The answers are watched: probabilities of 0 or 1 have no log-odds, the untouched text must be
    answered the same way every time, and a text of which nothing is left may be refused.
    """

    def __init__(self, one: Reading, replacement: str) -> None:
        self._game, self._targets = one.game(replacement), one.targets
        self._watched = one.targets.scale == "logit"
        self._asked = self._held = 0
        self._stood_in = self._game.stood_in
        self._whole = float(one.targets.value(one.outputs)[0])
        self._again = self._whole

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        """Return the explained number for each mask."""
        found = self._counted(self._game(keep))
        for value in found[keep.all(axis=1), 0]:
            if abs(value - self._whole) > abs(self._again - self._whole):
                self._again = float(value)
        return found

    @property
    def of_outputs(self) -> TextGame:
        """The game of all outputs, of which this one is about the target's."""
        return self._game

    @cached_property
    def base_value(self) -> float | None:
        """The explained number with every feature removed; None where the model refuses that."""
        nothing = self._game.nothing
        return None if nothing is None else float(self._counted(nothing[None])[0, 0])

    @property
    def known_range(self) -> float:
        """How far the explained number is known to move: for a probability 1, else to its base."""
        if self._targets.scale == "probability":
            return 1.0 if self._targets.against is None else 2.0
        return 0.0 if self.base_value is None else abs(self._whole - self.base_value)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know about the answers so far."""
        unsteady = _unsteady(self._whole, self._again)
        return unsteady + self._certain() + self._refused()

    def _counted(self, outputs: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "n 1"]:
        found = self._targets.value(outputs[:, None])
        self._asked += len(found)
        if self._watched:  # exactly this number stands for a probability of 1
            self._held += int(np.count_nonzero(np.abs(found) == MOST_LOG_ODDS))
        return found

    def _certain(self) -> tuple[str, ...]:
        if not self._held:
            return ()
        return (
            f"{self._held} of {self._asked} answers were probabilities of 0 or 1, whose log-odds "
            f"are infinite; ±{MOST_LOG_ODDS:.1f} stands for them, so the size of the scores means "
            "little. Explain scale='probability', or let the function return logits.",
        )

    def _refused(self) -> tuple[str, ...]:
        return refusal_notice(self._game, since=self._stood_in)


def _unsteady(whole: float, again: float) -> tuple[str, ...]:
    """Say that a model answered the untouched text with ``whole`` and then with ``again``."""
    if abs(again - whole) <= _STEADY * max(1.0, abs(whole)):
        return ()
    return (
        f"The model answered the same text with {whole:.4g} and with {again:.4g}: its answers are "
        "partly noise, which no standard error here accounts for. Switch off whatever is random "
        "in it.",
    )


def steadiness_notice(one: Reading, game: TextGame) -> tuple[str, ...]:
    """Say if the model answers the untouched text of ``one`` otherwise than it did at first."""
    with watched(None):  # mostly known already, and nobody waits for it
        outputs = game(np.ones((1, len(game)), bool))
    first, again = one.targets.value(one.outputs)[0], one.targets.value(outputs[:, None])[0, 0]
    return _unsteady(float(first), float(again))


def refusal_notice(game: TextGame, *, since: int) -> tuple[str, ...]:
    """Say that a model refuses a text without words, and what has stood in for it ``since``."""
    if not game.refuses_nothing:
        return ()
    if game.stood_in == since:
        return (f"{NO_BASE}.",)
    return (f"{NO_BASE}; the mean of its answers to each word alone stands in for it.",)
