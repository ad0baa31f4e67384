"""A ratio game as the ground: curves are sums, chance is exact, and the ceiling is proven."""

__all__ = ["ProvenGround"]

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from limelight.judging.greedy_search import GreedySearch
from limelight.judging.grounds import Areas, Frame, Judged, Level
from limelight.judging.random_orders import sampled_chance
from limelight.judging.tied_words import Groups, drawn_orders, flat
from limelight.shapes import Bool, Float, Int
from limelight.theory.faithfulness import (
    Certified,
    SizeExtremes,
    certified_value,
    change_area,
    deletion_area,
    deletion_curves,
    greedy_order,
    mean_removed_value,
    size_extremes,
    without_first,
)
from limelight.theory.ratio_game import RatioGame, value

_TIE_ORDERS = 16  # drawn where |change| of tied words is wanted, of which no mean is known
_MOST_PAIRS = 512


@final
@dataclass(frozen=True, eq=False)
class ProvenGround:
    """One text under a model that collapses; no order asks the model anything."""

    game: RatioGame
    rng: np.random.Generator
    notices: tuple[str, ...] = ()

    @property
    def d(self) -> int:
        """Number of words."""
        return self.game.d

    @property
    def asks(self) -> None:
        """Nothing: sums over tables answer everything."""
        return None

    @property
    def full(self) -> float:
        """The explained number of the whole text."""
        return float(self._full.value)

    @cached_property
    def _full(self) -> Certified:
        return certified_value(self.game)

    @cached_property
    def _idle(self) -> Bool[np.ndarray, " d"]:
        """Words whose removal changes nothing whatever else is there, such as unknown ones."""
        game = self.game
        same = (game.a == game.b).all(axis=0)
        return same & (game.A == game.B).all(axis=(0, 1))

    @cached_property
    def _extremes(self) -> SizeExtremes:
        return size_extremes(self.game)

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words go, for each order."""
        return deletion_curves(self.game, orders)

    @property
    def lowest(self) -> Float[np.ndarray, " d"]:
        """The least that the explained number can be without k words, k = 1..d; proven."""
        return self._extremes.low

    def areas(self, several: list[Groups]) -> list[Areas]:
        """Return the areas of the orders that each of ``several`` stands for."""
        return [self._areas(groups) for groups in several]

    def _areas(self, groups: Groups) -> Areas:
        """Return the areas of the order that ``groups`` stand for; of ties, exact means."""
        order = np.array(flat(groups))
        curve, reverse = deletion_curves(self.game, np.stack([order, order[::-1]]))
        open_ = [g for g in groups if len(g) > 1 and not self._idle[g].all()]
        if not open_:
            return Areas(
                float(deletion_area(curve)), float(reverse[1:].mean()), float(change_area(curve))
            )
        drawn = deletion_curves(self.game, drawn_orders(groups, self.rng, _TIE_ORDERS))
        return Areas(
            self.full - self._mean_left(groups, curve),
            self._mean_left(groups[::-1], reverse),
            float(change_area(drawn).mean()),
        )

    def _mean_left(self, groups: Groups, curve: Float[np.ndarray, " steps"]) -> float:
        """Return the mean of f along the curve, over all orders within the groups."""
        # While the words of a group go, those before are gone and those after are there: what is
        # left is a game of the group alone, and its mean over random removals is known.
        total, done = float(curve[1:].sum()), 0
        for group in groups:
            before, size = flat(groups)[:done], len(group)
            if size > 1 and not self._idle[group].all():
                alone = mean_removed_value(without_first(self.game, before, group))
                total += size * float(alone.value) - float(curve[done + 1 : done + size + 1].sum())
            done += size
        return total / self.d

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""
        return value(self.game, masks)[0]

    def search(self, judged: list[Judged]) -> GreedySearch | None:  # noqa: ARG002
        """Return nothing to search: greedy needs no answers here, and the ceiling is proven."""
        return None

    def frame(
        self,
        judged: list[Judged],  # noqa: ARG002  (the bound holds for all orders)
        searched: GreedySearch | None,  # noqa: ARG002
        *,
        change: bool,
        seconds: float | None,  # noqa: ARG002
    ) -> Frame:
        """Return exact chance and proven ceilings; nothing here takes long enough for a budget."""
        left, low, high = mean_removed_value(self.game), *self._extremes
        most = self.full + float(self._full.bound)
        greedy = deletion_curves(self.game, greedy_order(self.game)[None])
        return Frame(
            Level(self.full - float(left.value), None, most - float(low.mean())),
            Level(float(left.value), None, float(high.mean())),
            self._change_level() if change else None,
            float(deletion_area(greedy)[0]),
            "proven",
        )

    def _change_level(self) -> Level:
        low, high = self._extremes
        ceiling = float(np.maximum(self.full - low, high - self.full).mean() + self._full.bound)
        mean, stderr = sampled_chance(
            self._changes, self.d, np.array([ceiling]), self.rng, most=_MOST_PAIRS
        )
        return Level(float(mean[0]), float(stderr[0]), ceiling)

    def _changes(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "1 n"]:
        return change_area(deletion_curves(self.game, orders))[None]
