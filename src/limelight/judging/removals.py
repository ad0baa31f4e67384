"""Orders of words, and the model's output as words are removed in an order.

Curves, areas under them, chance, and the best order.
"""

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
from limelight.sampling.masks import text_rng
from limelight.shapes import Bool, Float, Int
from limelight.theory.faithfulness import (
    CertifiedValue,
    SizeExtremes,
    certified_full_value,
    change_area,
    deletion_area,
    deletion_curves,
    greedy_order,
    insertion_area,
    random_removal_mean,
    restrict_game,
    size_extremes,
)
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame, extract_document, map_arrays, value
from limelight.threads import cached_property

Groups = list[list[int]]  # strongest first; the words of one group have the same score


def tied_groups(scores: Float[np.ndarray, " d"], *, signed: bool) -> Groups:
    """Return the words, strongest first, in groups of equal score; without signs by size."""
    strength = scores if signed else np.abs(scores)
    order = order_by_strength(scores, signed=signed)
    cuts = [0, *(np.flatnonzero(np.diff(strength[order])) + 1).tolist(), len(order)]
    words = order.tolist()
    return [words[start:end] for start, end in pairwise(cuts)]


def order_by_strength(scores: Float[np.ndarray, " d"], *, signed: bool) -> Int[np.ndarray, " d"]:
    """Return the words, strongest first, ties in the order of the text; without signs by size."""
    # A stable sort, so that a second call evaluates the model on the same orders.
    return np.argsort(-scores if signed else -np.abs(scores), kind="stable")


def flatten(groups: Groups) -> list[int]:
    """Return one of the orders that ``groups`` allow."""
    return list(chain.from_iterable(groups))


def count_ties(groups: Groups) -> int:
    """Return the number of words that share their score with another word."""
    return sum(len(group) for group in groups if len(group) > 1)


def draw_orders(groups: Groups, rng: np.random.Generator, count: int) -> Int[np.ndarray, "n d"]:
    """Return ``count`` orders in which each group is shuffled."""
    return np.array(
        [[j for group in groups for j in rng.permutation(group).tolist()] for _ in range(count)]
    )


_MIN_PAIRS = 8  # with fewer pairs of orders their spread shows nothing
CHANCE_PRECISION = 0.01  # of best − chance
_PAIRS_AT_ONCE = 32
_MAX_PAIRS, _MAX_NOISY_PAIRS = 512, 24  # random answers never reach that precision

# A function from orders to the area of each under one or several measures.
AreaFunction = Callable[[Int[np.ndarray, "n d"]], Float[np.ndarray, "m n"]]


def sample_chance(
    compute_areas: AreaFunction,
    d: int,
    best: Float[np.ndarray, " m"],
    rng: np.random.Generator,
    *,
    max_pairs: int = _MAX_PAIRS,
    deadline: float = math.inf,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return the mean areas over all orders and their standard errors, by sampling.

    Pairs of an order and its reverse are drawn until each error is below 1 % of ``best`` minus the
    mean.

    Parameters
    ----------
    compute_areas
        Returns the area of each order under each measure.
    d
        Number of words.
    best
        The best area under each measure.
    rng
        Source of random orders.
    max_pairs
        Sampling ends after this number of pairs.
    deadline
        Sampling ends at this time of the monotonic clock.

    Returns
    -------
    Means and standard errors, one for each measure.
    """
    # An order and its reverse remove each word early once and late once. On additive games every
    # pair has the same mean.
    draws = _draw_pair_areas(compute_areas, d, rng, _MIN_PAIRS)
    while True:
        n, mean = draws.shape[1], draws.mean(axis=1)
        stderr = draws.std(axis=1, ddof=1) / math.sqrt(n)
        allowed = CHANCE_PRECISION * np.maximum(best - mean, 0.0)
        # If no order is better than chance there is no range, and no number of pairs would do.
        is_imprecise = (stderr > allowed) & (allowed > 0)
        if n >= max_pairs or not is_imprecise.any() or time.monotonic() >= deadline:
            return mean, stderr
        # Errors fall like 1/√n. At least one more pair, so that rounding cannot cause an endless
        # loop. A few at a time, since the first eight may have estimated far too much.
        needed = n * float(np.max((stderr[is_imprecise] / allowed[is_imprecise]) ** 2))
        count = max(1, math.ceil(min(needed, max_pairs)) - n)
        count = min(count, _PAIRS_AT_ONCE, max_pairs - n)
        draws = np.concatenate([draws, _draw_pair_areas(compute_areas, d, rng, count)], 1)


def _draw_pair_areas(
    compute_areas: AreaFunction, d: int, rng: np.random.Generator, count: int
) -> Float[np.ndarray, "m n"]:
    """Return the mean area of an order and its reverse, for ``count`` random orders."""
    # One permutation per call: so the stream gives the same orders for any number at a time.
    orders = np.array([rng.permutation(d) for _ in range(count)])
    areas = compute_areas(np.concatenate([orders, orders[:, ::-1]]))
    return areas.reshape(len(areas), 2, count).mean(axis=1)


MAX_SINGLE_STEPS = 256  # words; longer curves, and searches, have STEPS even steps
STEPS = 64
_TIE_ORDERS = 8  # random orders if words are tied; each order costs model calls
_EXACT_TIE_ORDERS = 16  # for |change| of tied words, whose mean has no formula
_MASKS = 8192  # evaluated at a time
_NOISE_WARNING = (
    "Areas come from single random answers, so the best area found is too high and shares are too "
    "low."
)


class Areas(NamedTuple):
    """The three areas of one order; if words are tied, the mean over their orders."""

    deletion: float
    insertion: float
    change: float


class JudgedOrder(NamedTuple):
    """The order of one method and its areas."""

    name: str
    groups: Groups
    areas: Areas


# Chance, its standard error (None if it is exact), and the ceiling of one measure.
Level = tuple[float, float | None, float]


class Levels(NamedTuple):
    """Chance and ceiling of every measure on a text, and the kind of the ceiling.

    The last three fields are those of :class:`~limelight.results.judgment.JudgedText`.
    """

    by_measure: dict[str, Level]
    ceiling_kind: str
    greedy: float | None
    best: str = ""


def removal_counts(d: int) -> Int[np.ndarray, " m"]:
    """Return the numbers of removed words at which a curve has points."""
    if d <= MAX_SINGLE_STEPS:
        return np.arange(1, d + 1)
    # An order of d words costs d model calls, and a search d²/2: half a million for 1,000 words.
    return np.unique(np.linspace(0, d, STEPS + 1).round().astype(int))[1:]


@dataclass(frozen=True, eq=False)
class SampledRemovals:
    """Removals from one text, evaluated by calls of the model.

    Parameters
    ----------
    game
        The explained number as a function of the words that are present.
    d
        Number of words.
    full
        The explained number of the text without removals.
    rng
        Source of random orders.
    lowest
        None: there is no lower bound of the explained number.
    """

    game: TargetGame
    d: int
    full: float
    rng: np.random.Generator
    lowest: None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about unreliable outputs of the model, such as random or clipped ones."""
        return self.game.warnings + (_NOISE_WARNING,) * self.game.is_random

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""
        return self.game(masks)[:, 0]

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words are removed, for each order."""
        rank = np.argsort(orders, axis=1)
        masks = (rank[:, None, :] >= removal_counts(self.d)[:, None]).reshape(-1, self.d)
        # Eight methods with ties need 30,000 masks of 256 words: 64 orders in both directions.
        parts = [self.values(masks[i : i + _MASKS]) for i in range(0, len(masks), _MASKS)]
        values = np.concatenate(parts).reshape(len(orders), -1)
        return np.concatenate([np.full((len(orders), 1), self.full), values], axis=1)

    def areas(self, orders: list[Groups]) -> list[Areas]:
        """Return the areas of each order; if words are tied, the mean of a few random orders."""
        if not orders:
            return []
        # A black-box model has no formula for the mean over the orders of tied words.
        orders_per_method = [
            draw_orders(groups, self.rng, _TIE_ORDERS if count_ties(groups) else 1)
            for groups in orders
        ]
        single_orders = np.concatenate(orders_per_method)
        # All methods, in both directions, in one batch.
        deletion, change = self.deletion_and_change(
            np.concatenate([single_orders, single_orders[:, ::-1]])
        )
        cuts = np.cumsum([len(method_orders) for method_orders in orders_per_method])[:-1]
        forward, backward = np.split(deletion, 2)
        parts = (np.split(x, cuts) for x in (forward, backward, change[: len(single_orders)]))
        # Insertion, strongest first, is deletion, weakest first, read backwards.
        return [
            Areas(float(f.mean()), self.full - float(b.mean()), float(c.mean()))
            for f, b, c in zip(*parts, strict=True)
        ]

    def deletion_and_change(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "2 n"]:
        """Return the areas of deletion and of |change| of each order."""
        curves = self.curves(orders)
        return np.stack([deletion_area(curves), change_area(curves)])

    def search(self, judged: list[JudgedOrder]) -> "GreedySearch":
        """Return a greedy search for a good order, which has not begun."""
        return GreedySearch(self, judged)


class GreedySearch:
    """A search for a good order that begins with the best of the ``judged`` orders.

    Each step selects the next words of the order.
    """

    def __init__(self, removals: SampledRemovals, judged: list[JudgedOrder]) -> None:
        self.removals, self._judged, d = removals, judged, removals.d
        # Words that are not selected yet follow the best judged order. So a search that is cut
        # short is no worse than its start, and equal values are taken in that order.
        best = max(judged, key=lambda order: order.areas.deletion, default=None)
        self.order = list(range(d)) if best is None else flatten(best.groups)
        self._selected = 0
        self._step_size = 1 if d <= MAX_SINGLE_STEPS else math.ceil(d / STEPS)
        self.error: InputError | None = None  # raised by the model, which ends the search

    @property
    def is_finished(self) -> bool:
        """Whether there is no choice between words anymore."""
        return len(self.order) - self._selected <= self._step_size

    def masks(self) -> Bool[np.ndarray, "remaining d"]:
        """Return the masks of this step: each removes one of the words that remain."""
        remaining = self.order[self._selected :]
        masks = np.zeros((len(remaining), self.removals.d), bool)
        masks[:, remaining] = True
        masks[np.arange(len(remaining)), remaining] = False
        return masks

    def choose(self, values: Float[np.ndarray, " remaining"]) -> None:
        """Select the words whose removal leaves the smallest values.

        ``values`` are the explained numbers of :meth:`masks`.
        """
        # A few at a time on long texts, by the same values. One at a time would need d²/2 calls.
        remaining = np.array(self.order[self._selected :])
        selected = np.argsort(values, kind="stable")[: self._step_size]
        self.order[self._selected :] = [
            *remaining[selected].tolist(),
            *np.delete(remaining, selected).tolist(),
        ]
        self._selected += len(selected)

    def levels(self, *, change: bool, seconds: float) -> Levels:
        """Return sampled chance, and the best of all judged orders and of the search.

        With ``change``, that measure is included. ``seconds`` is the time for chance, because each
        random order calls the model.
        """
        # Monotonic: setting the clock must neither end nor prolong a judgment.
        deadline, removals = time.monotonic() + seconds, self.removals
        # Judged orders may be better than greedy search, and no share may be above 1.
        groups = [[j] for j in self.order]
        orders = [*self._judged, JudgedOrder("greedy", groups, *removals.areas([groups]))]
        best = max(orders, key=lambda order: order.areas.deletion)
        ceilings = [best.areas.deletion] + [max(order.areas.change for order in orders)] * change
        means, errors = sample_chance(
            lambda random_orders: removals.deletion_and_change(random_orders)[: len(ceilings)],
            removals.d,
            np.array(ceilings),
            removals.rng,
            max_pairs=_MAX_NOISY_PAIRS if removals.game.is_random else _MAX_PAIRS,
            deadline=deadline,
        )
        names = ("deletion", "change")[: len(ceilings)]
        levels = zip(means.tolist(), errors.tolist(), ceilings, strict=True)
        by_measure: dict[str, Level] = dict(zip(names, levels, strict=True))
        chance, stderr, _ = by_measure["deletion"]
        # Orders come with their reverses, so the two chances add up to f(N), draw by draw.
        best_insertion = max(order.areas.insertion for order in orders)
        by_measure["insertion"] = removals.full - chance, stderr, best_insertion
        greedy = orders[-1].areas.deletion if self.is_finished else None
        return Levels(by_measure, "best found", greedy, best.name)


@dataclass(frozen=True, eq=False)
class ExactRemovals:
    """Removals from one text of a model with tables, without model calls.

    Parameters
    ----------
    game
        The explained number as a ratio game.
    rng
        Source of random orders.
    ceiling_kind
        How the ceiling is known: a kind of ``CEILING_KINDS``.
    warnings
        Warnings about the model's outputs.
    error
        None: tables have a value for every mask.
    """

    game: RatioGame
    rng: np.random.Generator
    ceiling_kind: str
    warnings: tuple[str, ...] = ()
    error: None = None

    @cached_property
    def d(self) -> int:
        """Number of words."""
        return self.game.d

    @cached_property
    def full(self) -> float:
        """The explained number of the text without removals."""
        # From the tables, like all curves. Otherwise the difference between two ways of computing
        # it would be in every area.
        return float(self._full.value)

    @cached_property
    def _full(self) -> CertifiedValue:
        """The explained number of the whole text, with its bound."""
        return certified_full_value(self.game)

    @cached_property
    def _is_irrelevant(self) -> Bool[np.ndarray, " d"]:
        """Which words never change the output, such as unknown words."""
        game = self.game
        is_equal = (game.a == game.b).all(axis=0)
        return is_equal & (game.A == game.B).all(axis=(0, 1))

    @cached_property
    def _extremes(self) -> SizeExtremes:
        """Bounds of the explained number without k words, for every k."""
        return size_extremes(self.game)

    @property
    def lowest(self) -> Float[np.ndarray, " d"]:
        """The smallest possible explained number without k words, k = 1..d."""
        return self._extremes.low

    def values(self, masks: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the explained number for each mask."""
        return value(self.game, masks)[0]

    def curves(self, orders: Int[np.ndarray, "n d"]) -> Float[np.ndarray, "n steps"]:
        """Return the explained number before and after words are removed, for each order."""
        return deletion_curves(self.game, orders)

    def areas(self, orders: list[Groups]) -> list[Areas]:
        """Return the areas of each order; if words are tied, the exact mean over their orders."""
        return [self._order_areas(groups) for groups in orders]

    def _order_areas(self, groups: Groups) -> Areas:
        """Return the areas of one order; if words are tied, the exact mean over their orders."""
        order = np.array(flatten(groups))
        curve, reverse = deletion_curves(self.game, np.stack([order, order[::-1]]))
        # The order of irrelevant words does not matter, even if many of them are tied.
        relevant_ties = [g for g in groups if len(g) > 1 and not self._is_irrelevant[g].all()]
        if not relevant_ties:
            areas = deletion_area(curve), insertion_area(reverse), change_area(curve)
            return Areas(*map(float, areas))
        # The mean of sums over all orders has a formula. The mean of absolute values has none.
        random_orders = draw_orders(groups, self.rng, _EXACT_TIE_ORDERS)
        sampled_curves = deletion_curves(self.game, random_orders)
        return Areas(
            self.full - self._mean_output(groups, curve),
            self._mean_output(groups[::-1], reverse),
            float(change_area(sampled_curves).mean()),
        )

    def _mean_output(self, groups: Groups, curve: Float[np.ndarray, " steps"]) -> float:
        """Return the mean of f along the curve, over all orders within the groups."""
        # While the words of a group are removed, the words before it are absent and those after it
        # are present. This is a game of the group alone, whose mean over random removals has a
        # formula.
        total, done = float(curve[1:].sum()), 0
        for group in groups:
            removed, size = flatten(groups)[:done], len(group)
            if size > 1 and not self._is_irrelevant[group].all():
                mean = random_removal_mean(restrict_game(self.game, removed, group))
                total += size * float(mean.value) - float(curve[done + 1 : done + size + 1].sum())
            done += size
        return total / self.d

    def search(self, judged: list[JudgedOrder]) -> "ExactRemovals":  # noqa: ARG002
        """Return itself: the ceiling holds for all orders, so no search is needed."""
        return self

    def levels(self, *, change: bool, seconds: float) -> Levels:  # noqa: ARG002
        """Return exact chance and ceilings; for |change| a sampled chance, without a time limit."""
        mean, (low, high) = float(random_removal_mean(self.game).value), self._extremes
        bound = self._full.bound  # the ceiling must hold in spite of rounding
        max_deletion = self.full + float(bound) - float(low.mean())
        by_measure: dict[str, Level] = {
            "deletion": (self.full - mean, None, max_deletion),
            "insertion": (mean, None, float(high.mean())),
        }
        if change:
            # For each number of words, the extreme that is farther away. No order reaches both
            # extremes, so it is only an upper bound.
            ceiling = float(np.maximum(self.full - low, high - self.full).mean() + bound)
            (change_mean,), (error,) = sample_chance(
                lambda orders: change_area(self.curves(orders))[None],
                self.d,
                np.array([ceiling]),
                self.rng,
            )
            by_measure["change"] = float(change_mean), float(error), ceiling
        greedy = deletion_curves(self.game, greedy_order(self.game)[None])
        return Levels(by_measure, self.ceiling_kind, float(deletion_area(greedy)[0]))


Removals = SampledRemovals | ExactRemovals


def make_removals(
    batch: Batch, *, replacement: str, seed: int, larger_batch: tuple[Batch, int] | None = None
) -> Removals:
    """Return the removals from the only text of ``batch``.

    They are exact if the model has tables. Tables use the model's own replacement and contain its
    outputs as they are. With another ``replacement``, or for probabilities, the model is called.

    Parameters
    ----------
    batch
        A batch of one text.
    replacement
        Replacement of removed words.
    seed
        Seed for random orders.
    larger_batch
        A batch that contains the text, and its position there. The tables of a batch are computed
        together.

    Returns
    -------
    Exact or sampled removals.
    """
    # Seeded by the text: its chance is the same in every batch, and when a judgment is repeated.
    rng = text_rng(seed, batch.inputs[0].text)
    table_batch, i = (batch, 0) if larger_batch is None else larger_batch
    if table_batch.known_game(replacement) is not None:
        # NumPy arrays, because orders are sorted and drawn on the CPU.
        game = map_arrays(extract_document(table_batch.ratio_game, i), host_array)
        return ExactRemovals(game, rng, bound_kind(batch.inputs[0]))
    full = float(batch.targets.value(batch.outputs)[0])
    return SampledRemovals(TargetGame(batch, replacement), len(batch.features[0]), full, rng)
