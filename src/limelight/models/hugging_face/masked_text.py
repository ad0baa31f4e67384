"""A text of which words are removed, as a game; several of them may be asked together."""

__all__ = ["MaskedText"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from limelight.models.engine import Engine
from limelight.models.hugging_face.forward_pass import ForwardPass
from limelight.models.hugging_face.masked_pieces import MaskedRows
from limelight.models.hugging_face.network_call import MASKED_OUT
from limelight.shapes import Bool, Float, Int


@final
@dataclass(frozen=True, eq=False)
class MaskedText:
    """The outputs for each mask of one text."""

    engine: Engine
    forward: ForwardPass
    masked: MaskedRows

    def __call__(self, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n C"]:
        """Return the outputs of the model for each mask."""
        return self.engine.rows(
            self.masked.sizes(keep), lambda rows: self.forward(self.masked.ids(keep[rows]))
        )

    @property
    def joins(self) -> object:
        """What games that may be asked together have in common: the engine of their model."""
        return self.engine

    @staticmethod
    def joint(
        games: Sequence[Any], masks: Sequence[Bool[np.ndarray, "_ _d"]]
    ) -> list[Float[np.ndarray, "_ C"]]:
        """Return the outputs for the masks of each text, asked as if they were one text's."""
        sizes = np.concatenate(
            [game.masked.sizes(keep) for game, keep in zip(games, masks, strict=True)]
        )
        counts = [len(keep) for keep in masks]
        owner = np.repeat(np.arange(len(games)), counts)
        starts = np.cumsum([0, *counts[:-1]])

        def answer(places: Int[np.ndarray, " _"]) -> Float[np.ndarray, "_ C"]:
            whose = owner[places]
            rows = [
                (own, games[g].masked.ids(masks[g][places[own] - starts[g]]))
                for g in np.unique(whose)
                for own in [whose == g]
            ]
            ids = np.full((len(places), max(part.shape[1] for _, part in rows)), MASKED_OUT)
            for own, part in rows:
                ids[own, : part.shape[1]] = part
            found: np.ndarray = games[0].forward(ids)
            return found

        return np.split(games[0].engine.rows(sizes, answer), starts[1:])
