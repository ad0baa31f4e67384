"""Orders of words from scores; words of equal score are tied, and none of them comes first."""

__all__ = ["Groups", "drawn_orders", "flat", "tied", "tied_groups"]

from itertools import chain

import numpy as np

from limelight.shapes import Float, Int

Groups = list[list[int]]  # strongest first; the words of one group have the same score


def tied_groups(scores: Float[np.ndarray, " d"], *, signed: bool) -> Groups:
    """Return the words, strongest first, in groups of equal score; without signs by size."""
    strength = scores if signed else np.abs(scores)
    order = np.argsort(-strength, kind="stable")
    cuts = np.flatnonzero(np.diff(strength[order])) + 1
    return [part.tolist() for part in np.split(order, cuts)]


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
