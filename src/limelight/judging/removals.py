"""Orders of words, and what removing by them does: curves, areas, guessing, what is best."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.explainers.batch import Batch, bound_kind
from limelight.explainers.target_game import TargetGame
from limelight.models.protocol import has_exact_game
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
    insertion_area,
    mean_removed_value,
    size_extremes,
    without_first,
)
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame, mapped, one_document, value
from limelight.threads import cached_property

Groups = list[list[int]]  # strongest first; the words of one group have the same score


def tied_groups(scores: Float[np.ndarray, " d"], *, signed: bool) -> Groups:
    """Return the words, strongest first, in groups of equal score; without signs by size."""
    strength = scores if signed else np.abs(scores)
    order = strongest_first(scores, signed=signed)
    cuts = [0, *(np.flatnonzero(np.diff(strength[order])) + 1).tolist(), len(order)]
    words = order.tolist()
    return [words[start:end] for start, end in pairwise(cuts)]


def strongest_first(scores: Float[np.ndarray, " d"], *, signed: bool) -> Int[np.ndarray, " d"]:
    """Return the words, strongest first, tied ones as they come; without signs by size."""
    # Stable, so that a model that is asked twice is asked about the same orders.
    return np.argsort(-scores if signed else -np.abs(scores), kind="stable")


def flat(groups: Groups) -> list[int]:
    """Return one of the orders that ``groups`` allow."""
    return list(chain.from_iterable(groups))


def tied(groups: Groups) -> int:
    """Return how many words share their score with another."""
    return sum(len(group) for group in groups if len(group) > 1)


def drawn_orders(groups: Groups, rng: np.random.Generator, count: int) -> Int[np.ndarray, "n d"]:
    """Return ``count`` orders in which each group is shuffled."""
    return np.array(
        [[j for group in groups for j in rng.permutation(group).tolist()] for _ in range(count)]
    )


_FEWEST = 8  # pairs: with fewer their spread says nothing
PRECISE = 0.01  # of best − chance
_AT_ONCE = 32  # pairs

# From orders to the area of each under one or several measures.
AreasOf = Callable[[Int[np.ndarray, "n d"]], Float[np.ndarray, "m n"]]


def sampled_chance(
    areas_of: AreasOf,
    d: int,
    best: Float[np.ndarray, " m"],
    rng: np.random.Generator,
    *,
    most: int = 512,
    deadline: float = math.inf,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return the mean areas over all orders and their standard errors.

    Pairs are drawn until each error is below 1 % of ``best`` less the mean, or there are ``most``,
    or the monotonic clock has passed ``deadline``.
    """
    # An order and its reverse remove each word early once and late once: on additive games every
    # pair has the same mean.
    draws = _pairs(areas_of, d, rng, _FEWEST)
    while True:
        n, mean = draws.shape[1], draws.mean(axis=1)
        stderr = draws.std(axis=1, ddof=1) / math.sqrt(n)
        allowed = PRECISE * np.maximum(best - mean, 0.0)
        # Where nothing is better than chance there is no range, and no number of pairs would do.
        lacking = (stderr > allowed) & (allowed > 0)
        if n >= most or not lacking.any() or time.monotonic() >= deadline:
            return mean, stderr
        # Errors fall like 1/√n. At least one pair more, so that a rounding does not end in a loop;
        # a few at a time, since the first eight may have guessed far too much.
        needed = n * float(np.max((stderr[lacking] / allowed[lacking]) ** 2))
        count = max(1, math.ceil(min(needed, most)) - n)
        draws = np.concatenate([draws, _pairs(areas_of, d, rng, min(count, _AT_ONCE, most - n))], 1)


def _pairs(
    areas_of: AreasOf, d: int, rng: np.random.Generator, count: int
) -> Float[np.ndarray, "m n"]:
    # One by one: a stream of draws gives the same orders however many are wanted at a time.
    orders = np.array([rng.permutation(d) for _ in range(count)])
    areas = areas_of(np.concatenate([orders, orders[:, ::-1]]))
    return areas.reshape(len(areas), 2, count).mean(axis=1)


EVERY_WORD = 256  # words; curves of more are read, and searched, at so many even steps
STEPS = 64
_TIE_ORDERS = 8  # drawn where words are tied, and each order costs questions
_EXACT_TIE_ORDERS = 16  # where |change| of tied words is wanted, of which no mean is known
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


# Chance, its standard error (None where it is exact), and the ceiling of one measure.
Level = tuple[float, float | None, float]


class Levels(NamedTuple):
    """What the areas of a text lie between, by measure, and what stands for the ceiling.

    The last three are those of :class:`~limelight.results.judgment.JudgedText`.
    """

    of: dict[str, Level]
    ceiling_kind: str
    greedy: float | None
    best: str = ""


def read_at(d: int) -> Int[np.ndarray, " m"]:
    """Return the numbers of removed words at which a curve is read."""
    if d <= EVERY_WORD:
        return np.arange(1, d + 1)
    # An order of d words costs d questions and a search d²/2: 1,000 words would be half a million.
    return np.unique(np.linspace(0, d, STEPS + 1).round().astype(int))[1:]


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

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""
        return self.game(masks)[:, 0]

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words go, for each order."""
        place = np.argsort(orders, axis=1)
        masks = (place[:, None, :] >= read_at(self.d)[:, None]).reshape(-1, self.d)
        # Eight methods with ties ask 30,000 masks of 256 words at once, 64 orders both ways.
        parts = [self.values(masks[i : i + _MASKS]) for i in range(0, len(masks), _MASKS)]
        found = np.concatenate(parts).reshape(len(orders), -1)
        return np.concatenate([np.full((len(orders), 1), self.full), found], axis=1)

    def areas(self, several: list[Groups]) -> list[Areas]:
        """Return the areas of the orders, over a few drawn ones where words are tied."""
        if not several:
            return []
        # No closed form is known of a model that is asked, so a tie is the mean of a few drawn
        # orders.
        drawn = [
            drawn_orders(groups, self.rng, _TIE_ORDERS if tied(groups) else 1) for groups in several
        ]
        orders = np.concatenate(drawn)
        # All methods, both ways, in one question.
        deletion, change = self.both(np.concatenate([orders, orders[:, ::-1]]))
        cuts = np.cumsum([len(own) for own in drawn])[:-1]
        forward, backward = np.split(deletion, 2)
        parts = (np.split(x, cuts) for x in (forward, backward, change[: len(orders)]))
        # Words that come in strongest first are those that go weakest first, read backwards.
        return [
            Areas(float(f.mean()), self.full - float(b.mean()), float(c.mean()))
            for f, b, c in zip(*parts, strict=True)
        ]

    def both(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "2 n"]:
        """Return the areas of deletion and of |change| of each order."""
        curves = self.curves(orders)
        return np.stack([deletion_area(curves), change_area(curves)])

    def search(self, judged: list[JudgedOrder]) -> "GreedySearch":
        """Return the search for a good order, to be run."""
        return GreedySearch(self, judged)


class GreedySearch:
    """An order that grows step by step, and before that is the best of the ``judged`` ones."""

    def __init__(self, removals: AskedRemovals, judged: list[JudgedOrder]) -> None:
        self.removals, self._judged, d = removals, judged, removals.d
        # Words that are not chosen yet follow the best order known: a search that is cut short is
        # then no worse than where it began, and equal answers are taken in that order.
        best = max(judged, key=lambda one: one.areas.deletion, default=None)
        self.order, self._chosen = list(range(d)) if best is None else flat(best.groups), 0
        self._a_step = 1 if d <= EVERY_WORD else math.ceil(d / STEPS)
        self.refused: InputError | None = None  # by the model, which ends the search

    @property
    def finished(self) -> bool:
        """Whether nothing is left to choose."""
        return len(self.order) - self._chosen <= self._a_step

    def masks(self) -> Bool[np.ndarray, "left d"]:
        """Return the question of this step: the text without each of the words that are left."""
        left = self.order[self._chosen :]
        masks = np.zeros((len(left), self.removals.d), bool)
        masks[:, left] = True
        masks[np.arange(len(left)), left] = False
        return masks

    def choose(self, values: Float[np.ndarray, " left"]) -> None:
        """Take the words whose removal leaves the least."""
        # A few at a time on long texts, by the same answers: asking again after each would be d²/2.
        left = np.array(self.order[self._chosen :])
        next_ = np.argsort(values, kind="stable")[: self._a_step]
        self.order[self._chosen :] = [*left[next_].tolist(), *np.delete(left, next_).tolist()]
        self._chosen += len(next_)

    def levels(self, *, change: bool, seconds: float) -> Levels:
        """Return sampled chance, and the best of all judged orders and of the search.

        With ``change`` also for that measure; ``seconds`` is the time for chance, for which each
        random order asks the model.
        """
        # Monotonic: a clock that is set while a judgment runs must not end it, nor let it run on.
        deadline, asked = time.monotonic() + seconds, self.removals
        # Orders that were judged may beat greedy search: none of them may have a share above 1.
        groups = [[j] for j in self.order]
        every = [*self._judged, JudgedOrder("greedy", groups, *asked.areas([groups]))]
        best = max(every, key=lambda one: one.areas.deletion)
        tops = [best.areas.deletion] + [max(one.areas.change for one in every)] * change
        means, errors = sampled_chance(
            lambda orders: asked.both(orders)[: len(tops)],
            asked.d,
            np.array(tops),
            asked.rng,
            deadline=deadline,
        )
        names = ("deletion", "change")[: len(tops)]
        found = zip(means.tolist(), errors.tolist(), tops, strict=True)
        of: dict[str, Level] = dict(zip(names, found, strict=True))
        chance, stderr, _ = of["deletion"]
        # Orders come with their reverses, so the two chances add up to f(N) draw by draw.
        of["insertion"] = asked.full - chance, stderr, max(one.areas.insertion for one in every)
        greedy = every[-1].areas.deletion if self.finished else None
        return Levels(of, "best found", greedy, best.name)


@dataclass(frozen=True, eq=False)
class ExactRemovals:
    """One text under a model that collapses; no order asks the model anything."""

    game: RatioGame
    rng: np.random.Generator
    ceiling_kind: str
    notices: tuple[str, ...] = ()
    refused: None = None  # by nobody: sums over tables answer everything

    @cached_property
    def d(self) -> int:
        """Number of words."""
        return self.game.d

    @cached_property
    def full(self) -> float:
        """The explained number of the whole text."""
        # From the tables, as all curves are: what two roads differ by would else be in every area.
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
        """The least that the explained number can be without k words, k = 1..d."""
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
            found = deletion_area(curve), insertion_area(reverse), change_area(curve)
            return Areas(*map(float, found))
        # Of sums the mean over all orders is known, of their absolute values it is not.
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

    def search(self, judged: list[JudgedOrder]) -> "ExactRemovals":  # noqa: ARG002
        """Return itself: nothing is to be searched for, since the ceiling holds for all orders."""
        return self

    def levels(self, *, change: bool, seconds: float) -> Levels:  # noqa: ARG002
        """Return exact chance and ceilings, of |change| a sampled one; no budget ends it."""
        left, (low, high) = float(mean_removed_value(self.game).value), self._extremes
        bound = self._full.bound  # a ceiling holds whatever was rounded
        most = self.full + float(bound) - float(low.mean())
        of: dict[str, Level] = {
            "deletion": (self.full - left, None, most),
            "insertion": (left, None, float(high.mean())),
        }
        if change:
            # At each number of words whichever extreme is farther: no order reaches both, so it is
            # a bound and nothing more.
            ceiling = float(np.maximum(self.full - low, high - self.full).mean() + bound)
            (mean,), (error,) = sampled_chance(
                lambda orders: change_area(self.curves(orders))[None],
                self.d,
                np.array([ceiling]),
                self.rng,
            )
            of["change"] = float(mean), float(error), ceiling
        greedy = deletion_curves(self.game, greedy_order(self.game)[None])
        return Levels(of, self.ceiling_kind, float(deletion_area(greedy)[0]))


Removals = AskedRemovals | ExactRemovals


def removals_of(
    one: Batch, *, replacement: str, seed: int, among: tuple[Batch, int] | None = None
) -> Removals:
    """Return what removing words of the one document of ``one`` does.

    ``among`` is a reading of several, and its place there: their tables are made together. Tables
    replace words the model's own way, and are of its outputs themselves; with another
    ``replacement``, or for probabilities, the model is asked.
    """
    # By the text: its chance is the same alone, among others, and when a judgment is run again.
    rng = text_rng(seed, one.inputs[0].text)
    if has_exact_game(one.model, one.targets.scale, replacement):
        batch, i = (one, 0) if among is None else among
        # NumPy's arrays: orders are sorted and drawn here.
        game = mapped(one_document(batch.ratio_game, i), host_array)
        return ExactRemovals(game, rng, bound_kind(one.inputs[0]))
    full = float(one.targets.value(one.outputs)[0])
    return AskedRemovals(TargetGame(one, replacement), len(one.features[0]), full, rng)
