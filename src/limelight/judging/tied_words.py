"""Orders of words from scores; words of equal score are tied, and none of them comes first."""

__all__ = ["Groups", "drawn_orders", "flat", "strongest_first", "tied", "tied_groups"]

from itertools import chain, pairwise

import numpy as np

from limelight.shapes import Float, Int

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
