"""Any other model as the ground: it is asked about every text of every curve."""

__all__ = ["AskedGround", "read_at"]

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from limelight.explainers.target_game import TargetGame
from limelight.explainers.text_game import TextGame
from limelight.judging.greedy_search import EVERY_WORD, STEPS, GreedySearch
from limelight.judging.grounds import Areas, Frame, Judged, Level
from limelight.judging.random_orders import sampled_chance
from limelight.judging.tied_words import Groups, drawn_orders, flat, tied
from limelight.shapes import Bool, Float, Int
from limelight.theory.faithfulness import change_area, deletion_area

_TIE_ORDERS = 8
_MOST_PAIRS = 512
_MASKS = 8192  # asked at a time


def read_at(d: int) -> Int[np.ndarray, " m"]:
    """Return the numbers of removed words at which a curve is read."""
    if d <= EVERY_WORD:
        return np.arange(1, d + 1)
    return np.unique(np.linspace(0, d, STEPS + 1).round().astype(int))[1:]


@final
@dataclass(frozen=True, eq=False)
class AskedGround:
    """One text under a model that has to be asked."""

    game: TargetGame
    d: int
    full: float
    rng: np.random.Generator

    @cached_property
    def _counts(self) -> Int[np.ndarray, " m"]:
        return read_at(self.d)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know about the model's answers."""
        return self.game.notices

    @property
    def asks(self) -> TextGame:
        """What is asked about the text."""
        return self.game.of_outputs

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words go, for each order."""
        place = np.argsort(orders, axis=1)
        masks = (place[:, None, :] >= self._counts[:, None]).reshape(-1, self.d)
        parts = [self.values(masks[i : i + _MASKS]) for i in range(0, len(masks), _MASKS)]
        found = np.concatenate(parts).reshape(len(orders), -1)
        return np.concatenate([np.full((len(orders), 1), self.full), found], axis=1)

    @property
    def lowest(self) -> None:
        """Nothing is proven of a model that has to be asked."""
        return None

    def areas(self, several: list[Groups]) -> list[Areas]:
        """Return the areas of the orders, over a few drawn ones where words are tied."""
        if not several:
            return []
        drawn = [
            drawn_orders(groups, self.rng, _TIE_ORDERS if tied(groups) else 1) for groups in several
        ]
        orders = np.concatenate(drawn)
        # All methods, both ways, in one question.
        deletion, change = self._both(np.concatenate([orders, orders[:, ::-1]]))
        cuts = np.cumsum([len(own) for own in drawn])[:-1]
        forward, backward = np.split(deletion, 2)
        parts = (np.split(x, cuts) for x in (forward, backward, change[: len(orders)]))
        return [
            Areas(float(f.mean()), self.full - float(b.mean()), float(c.mean()))
            for f, b, c in zip(*parts, strict=True)
        ]

    def _both(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "2 n"]:
        curves = self.curves(orders)
        return np.stack([deletion_area(curves), change_area(curves)])

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""
        return self.game(masks)[:, 0]

    def search(self, judged: list[Judged]) -> GreedySearch:
        """Return the search that starts from the best of the judged orders."""
        best = max(judged, key=lambda one: one.areas.deletion, default=None)
        return GreedySearch(list(range(self.d)) if best is None else flat(best.groups))

    def frame(
        self,
        judged: list[Judged],
        searched: GreedySearch | None,
        *,
        change: bool,
        seconds: float | None,
    ) -> Frame:
        """Return the best of all judged orders and of greedy search, and chance by sampling."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        every = list(judged)
        if searched is not None:
            groups = [[j] for j in searched.order]
            every.append(Judged("greedy", groups, *self.areas([groups])))
        best = max(every, key=lambda one: one.areas.deletion)
        changed = max(one.areas.change for one in every)
        tops = np.array([best.areas.deletion, changed])[: 2 if change else 1]
        mean, stderr = sampled_chance(
            lambda orders: self._both(orders)[: len(tops)],
            self.d,
            tops,
            self.rng,
            most=_MOST_PAIRS,
            deadline=deadline,
        )
        inserted = max(one.areas.insertion for one in every)
        finished = searched is not None and searched.finished
        return Frame(
            Level(float(mean[0]), float(stderr[0]), best.areas.deletion),
            # Orders come with their reverses, so the two chances add up to f(N) draw by draw.
            Level(self.full - float(mean[0]), float(stderr[0]), inserted),
            Level(float(mean[1]), float(stderr[1]), changed) if change else None,
            every[-1].areas.deletion if finished else None,
            "best found",
            best.name,
        )
