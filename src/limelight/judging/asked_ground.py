"""Any other model as the ground: it is asked about every text of every curve."""

__all__ = ["AskedGround", "read_at"]

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from limelight.explainers.target_game import TargetGame
from limelight.judging.grounds import Areas, Frame, Level
from limelight.judging.random_orders import sampled_chance
from limelight.judging.tied_words import Groups, drawn_orders, flat, tied
from limelight.shapes import Float, Int
from limelight.theory.faithfulness import change_area, deletion_area

_ALL = 256  # words; curves of more are read at so many even steps
_STEPS = 64
_TIE_ORDERS = 8
_MOST_PAIRS = 512
_MASKS = 2048  # asked at a time


def read_at(d: int) -> Int[np.ndarray, " m"]:
    """Return the numbers of removed words at which a curve is read."""
    if d <= _ALL:
        return np.arange(1, d + 1)
    return np.unique(np.linspace(0, d, _STEPS + 1).round().astype(int))[1:]


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

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words go, for each order."""
        place = np.argsort(orders, axis=1)
        masks = (place[:, None, :] >= self._counts[:, None]).reshape(-1, self.d)
        parts = [self.game(masks[i : i + _MASKS])[:, 0] for i in range(0, len(masks), _MASKS)]
        found = np.concatenate(parts).reshape(len(orders), -1)
        return np.concatenate([np.full((len(orders), 1), self.full), found], axis=1)

    def areas(self, groups: Groups) -> Areas:
        """Return the areas of the order, over a few drawn orders where words are tied."""
        count = _TIE_ORDERS if tied(groups) else 1
        orders = drawn_orders(groups, self.rng, count)
        deletion, change = self._both(orders)
        (reverse, _) = self._both(orders[:, ::-1])
        return Areas(
            float(deletion.mean()), self.full - float(reverse.mean()), float(change.mean())
        )

    def _both(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "2 n"]:
        curves = self.curves(orders)
        return np.stack([deletion_area(curves), change_area(curves)])

    def frame(
        self, judged: list[tuple[Groups, Areas]], *, change: bool, seconds: float | None
    ) -> Frame:
        """Return the best of all judged orders and of greedy search, and chance by sampling."""
        # Greedy search comes first: what is left of the time makes chance more precise.
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        ranked = sorted(judged, key=lambda one: -one[1].deletion)
        start = flat(ranked[0][0]) if ranked else list(range(self.d))
        order, finished = self._greedy(start, seconds)
        found = self.areas([[j] for j in order])
        every = [areas for _, areas in judged] + [found]
        best = np.array([max(one.deletion for one in every), max(one.change for one in every)])
        measures = slice(0, 2 if change else 1)
        mean, stderr = sampled_chance(
            lambda orders: self._both(orders)[measures],
            self.d,
            best[measures],
            self.rng,
            most=_MOST_PAIRS,
            deadline=deadline,
        )
        inserted = max(one.insertion for one in every)
        return Frame(
            Level(float(mean[0]), float(stderr[0]), float(best[0])),
            # Orders come with their reverses, so the two chances add up to f(N) draw by draw.
            Level(self.full - float(mean[0]), float(stderr[0]), inserted),
            Level(float(mean[1]), float(stderr[1]), float(best[1])) if change else None,
            found.deletion if finished else None,
            "best found",
        )

    def _greedy(self, rest: list[int], seconds: float | None) -> tuple[list[int], bool]:
        """Return an order of greedy steps as long as there is time, then ``rest`` as it is."""
        start, order, left = time.monotonic(), list[int](), list(rest)
        a_step = 1 if self.d <= _ALL else -(-self.d // _STEPS)
        while len(left) > a_step:
            if seconds is not None and time.monotonic() - start >= seconds:
                return order + left, False
            masks = np.zeros((len(left), self.d), bool)
            masks[:, left] = True
            masks[np.arange(len(left)), left] = False
            values = self.game(masks)[:, 0]
            best = [left[i] for i in np.argsort(values, kind="stable")[:a_step]]
            order += best
            left = [j for j in left if j not in best]
        return order + left, True
