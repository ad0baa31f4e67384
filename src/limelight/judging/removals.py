"""What removing words of one text does: curves, areas, what guessing reaches, and what is best."""

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from limelight.explainers.reading import Reading
from limelight.explainers.target_game import TargetGame
from limelight.explainers.text_game import TextGame
from limelight.judging.orders import (
    EVERY_WORD,
    STEPS,
    GreedySearch,
    Groups,
    drawn_orders,
    flat,
    sampled_chance,
    tied,
)
from limelight.sampling.masks import text_rng
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
from limelight.theory.namespace import host_array
from limelight.theory.per_document import one_document
from limelight.theory.ratio_game import RatioGame, mapped, value

_TIE_ORDERS = 8  # drawn where words are tied, and each order costs questions
_EXACT_TIE_ORDERS = 16  # where |change| of tied words is wanted, of which no mean is known
_MOST_PAIRS = 512
_MASKS = 8192  # asked at a time


class Areas(NamedTuple):
    """The three areas of one order; of tied words, the mean over their orders."""

    deletion: float
    insertion: float
    change: float


class JudgedOrder(NamedTuple):
    """An order that was judged, under the name of its method."""

    name: str
    groups: Groups
    areas: Areas


class AreaRange(NamedTuple):
    """Chance, its standard error (None: exact) and the ceiling of one measure."""

    chance: float
    stderr: float | None
    ceiling: float


class TextRanges(NamedTuple):
    """What areas lie between; ``greedy`` is the area of the greedy order, if there was time.

    ``best`` names the order that stands for the ceiling where ``kind`` says "best found".
    """

    deletion: AreaRange
    insertion: AreaRange
    change: AreaRange | None
    greedy: float | None
    kind: str
    best: str = ""


def read_at(d: int) -> Int[np.ndarray, " m"]:
    """Return the numbers of removed words at which a curve is read."""
    if d <= EVERY_WORD:
        return np.arange(1, d + 1)
    return np.unique(np.linspace(0, d, STEPS + 1).round().astype(int))[1:]


@final
@dataclass(frozen=True, eq=False)
class AskedRemovals:
    """One text of ``d`` words under a model that has to be asked; ``full`` is its whole text's."""

    game: TargetGame
    d: int
    full: float
    rng: np.random.Generator
    lowest: None = None  # nothing is proven of what the explained number is at least

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know about the model's answers."""
        return self.game.notices

    @property
    def asks(self) -> TextGame:
        """What is asked about the text."""
        return self.game.of_outputs

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""
        return self.game(masks)[:, 0]

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words go, for each order."""
        place = np.argsort(orders, axis=1)
        masks = (place[:, None, :] >= read_at(self.d)[:, None]).reshape(-1, self.d)
        parts = [self.values(masks[i : i + _MASKS]) for i in range(0, len(masks), _MASKS)]
        found = np.concatenate(parts).reshape(len(orders), -1)
        return np.concatenate([np.full((len(orders), 1), self.full), found], axis=1)

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
        # Words that come in strongest first are those that go weakest first, read backwards.
        return [
            Areas(float(f.mean()), self.full - float(b.mean()), float(c.mean()))
            for f, b, c in zip(*parts, strict=True)
        ]

    def _both(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "2 n"]:
        curves = self.curves(orders)
        return np.stack([deletion_area(curves), change_area(curves)])

    def search(self, judged: list[JudgedOrder]) -> GreedySearch:
        """Return the search for a good order, to be run; it starts from the best judged one."""
        best = max(judged, key=lambda one: one.areas.deletion, default=None)
        return GreedySearch(list(range(self.d)) if best is None else flat(best.groups))

    def ranges(
        self,
        judged: list[JudgedOrder],
        searched: GreedySearch | None,
        *,
        change: bool,
        seconds: float | None,
    ) -> TextRanges:
        """Return the best of all judged orders and of greedy search, and chance by sampling.

        With ``change`` also for that measure; ``seconds`` is the time for chance, for which each
        random order asks the model.
        """
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        # Orders that were judged may beat greedy search: none of them may have a share above 1.
        every = list(judged)
        if searched is not None:
            groups = [[j] for j in searched.order]
            every.append(JudgedOrder("greedy", groups, *self.areas([groups])))
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
        return TextRanges(
            AreaRange(float(mean[0]), float(stderr[0]), best.areas.deletion),
            # Orders come with their reverses, so the two chances add up to f(N) draw by draw.
            AreaRange(self.full - float(mean[0]), float(stderr[0]), inserted),
            AreaRange(float(mean[1]), float(stderr[1]), changed) if change else None,
            every[-1].areas.deletion if finished else None,
            "best found",
            best.name,
        )


@final
@dataclass(frozen=True, eq=False)
class ExactRemovals:
    """One text under a model that collapses; no order asks the model anything."""

    game: RatioGame
    rng: np.random.Generator
    notices: tuple[str, ...] = ()
    asks: None = None  # sums over tables answer everything

    @property
    def d(self) -> int:
        """Number of words."""
        return self.game.d

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

    @property
    def lowest(self) -> Float[np.ndarray, " d"]:
        """The least that the explained number can be without k words, k = 1..d; proven."""
        return self._extremes.low

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""
        return value(self.game, masks)[0]

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words go, for each order."""
        return deletion_curves(self.game, orders)

    def areas(self, several: list[Groups]) -> list[Areas]:
        """Return the areas of the orders that each of ``several`` stands for; of ties, exactly."""
        return [self._areas(groups) for groups in several]

    def _areas(self, groups: Groups) -> Areas:
        """Return the areas of the order that ``groups`` stand for; of ties, exact means."""
        order = np.array(flat(groups))
        curve, reverse = deletion_curves(self.game, np.stack([order, order[::-1]]))
        # In which order idle words go does not matter, however many of them are tied.
        open_ = [g for g in groups if len(g) > 1 and not self._idle[g].all()]
        if not open_:
            return Areas(
                float(deletion_area(curve)), float(reverse[1:].mean()), float(change_area(curve))
            )
        drawn = deletion_curves(self.game, drawn_orders(groups, self.rng, _EXACT_TIE_ORDERS))
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

    def search(self, judged: list[JudgedOrder]) -> None:
        """Return nothing to search: greedy needs no answers here, and the ceiling is proven."""

    def ranges(
        self,
        judged: list[JudgedOrder],  # noqa: ARG002  (the bound holds for all orders)
        searched: GreedySearch | None,  # noqa: ARG002
        *,
        change: bool,
        seconds: float | None,  # noqa: ARG002
    ) -> TextRanges:
        """Return exact chance and proven ceilings; nothing here takes long enough for a budget."""
        left, low, high = mean_removed_value(self.game), *self._extremes
        most = self.full + float(self._full.bound)  # a ceiling holds whatever was rounded
        greedy = deletion_curves(self.game, greedy_order(self.game)[None])
        return TextRanges(
            AreaRange(self.full - float(left.value), None, most - float(low.mean())),
            AreaRange(float(left.value), None, float(high.mean())),
            self._change_range() if change else None,
            float(deletion_area(greedy)[0]),
            "proven",
        )

    def _change_range(self) -> AreaRange:
        low, high = self._extremes
        ceiling = float(np.maximum(self.full - low, high - self.full).mean() + self._full.bound)
        mean, stderr = sampled_chance(
            lambda orders: change_area(self.curves(orders))[None],
            self.d,
            np.array([ceiling]),
            self.rng,
            most=_MOST_PAIRS,
        )
        return AreaRange(float(mean[0]), float(stderr[0]), ceiling)


Removals = AskedRemovals | ExactRemovals


def removals_of(
    one: Reading, *, replacement: str, seed: int, among: tuple[Reading, int] | None = None
) -> Removals:
    """Return what removing words of the one document of ``one`` does.

    ``among`` is a reading of several, and its place there: their tables are made together. Tables
    replace words the model's own way, and are of its outputs themselves; with another
    ``replacement``, or for probabilities, the model is asked.
    """
    rng = text_rng(seed, one.documents[0].text)
    own_way = replacement == one.model.replacements[0]
    if one.exact and own_way:
        reading, i = (one, 0) if among is None else among
        return ExactRemovals(_on_host(one_document(reading.ratio_game, i)), rng)
    full = float(one.targets.value(one.outputs)[0])
    return AskedRemovals(TargetGame(one, replacement), len(one.features[0]), full, rng)


def _on_host(game: RatioGame) -> RatioGame:
    """Return the game as NumPy arrays: orders are sorted and drawn here."""
    return mapped(game, host_array)
