"""Orders of words: from scores with ties, by chance, and by a greedy search."""

import math
import time
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import final

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Bool, Float, Int

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
    most: int,
    deadline: float = math.inf,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return the mean areas over all orders and their standard errors.

    Pairs are drawn until each error is below 1 % of ``best`` less the mean, or there are ``most``,
    or the monotonic clock has passed ``deadline``.
    """
    # An order and its reverse remove each word early once and late once: on additive games every
    # pair has the same mean.
    draws = _pairs(areas_of, d, rng, _FEWEST)
    while (wanted := _lacking(draws, best, most)) > 0 and time.monotonic() < deadline:
        more = _pairs(areas_of, d, rng, min(wanted, _AT_ONCE))
        draws = np.concatenate([draws, more], axis=1)
    return draws.mean(axis=1), _stderr(draws)


def _stderr(draws: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " m"]:
    return draws.std(axis=1, ddof=1) / math.sqrt(draws.shape[1])


def _lacking(draws: Float[np.ndarray, "m n"], best: Float[np.ndarray, " m"], most: int) -> int:
    """Return how many pairs are still to be drawn, as far as those drawn can tell."""
    n = draws.shape[1]
    allowed = PRECISE * np.maximum(best - draws.mean(axis=1), 0.0)
    # Where nothing is better than chance there is no range, and no number of pairs would do.
    open_ = (_stderr(draws) > allowed) & (allowed > 0)
    if n >= most or not open_.any():
        return 0
    needed = n * float(np.max((_stderr(draws)[open_] / allowed[open_]) ** 2))
    return min(most, max(n + 1, math.ceil(min(needed, 2.0 * most)))) - n


def _pairs(
    areas_of: AreasOf, d: int, rng: np.random.Generator, count: int
) -> Float[np.ndarray, "m n"]:
    orders = np.array([rng.permutation(d) for _ in range(count)])
    areas = areas_of(np.concatenate([orders, orders[:, ::-1]]))
    return areas.reshape(len(areas), 2, count).mean(axis=1)


EVERY_WORD = 256  # words; curves of more are read, and searched, at so many even steps
STEPS = 64


@final
class GreedySearch:
    """An order that grows step by step; ``start`` is the order of the words not yet reached."""

    def __init__(self, start: Sequence[int]) -> None:
        self._order, self._left, self.d = list[int](), list(start), len(start)
        self._a_step = 1 if self.d <= EVERY_WORD else math.ceil(self.d / STEPS)
        self.refused: InputError | None = None  # by the model, which ends the search

    @property
    def going_on(self) -> bool:
        """Whether there is another step to take."""
        return not self.finished and self.refused is None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to choose."""
        return len(self._left) <= self._a_step

    @property
    def order(self) -> list[int]:
        """The words chosen so far, then the others as they came."""
        return self._order + self._left

    def masks(self) -> Bool[np.ndarray, "left d"]:
        """Return the question of this step: the text without each of the words that are left."""
        masks = np.zeros((len(self._left), self.d), bool)
        masks[:, self._left] = True
        masks[np.arange(len(self._left)), self._left] = False
        return masks

    def choose(self, values: Float[np.ndarray, " left"]) -> None:
        """Take the words whose removal leaves the least."""
        chosen = [self._left[i] for i in np.argsort(values, kind="stable")[: self._a_step]]
        gone = set(chosen)
        self._order += chosen
        self._left = [j for j in self._left if j not in gone]
