r"""Pair interactions as weighted sums of f over masks, every mask counting for every pair.

With m words kept, the coefficient of f(S) in the interaction of j and k depends on m and on how
many of the two S keeps: two, one or none. All pairs at once are then one matrix product,

.. math:: \sum_S f(S) [c_0 + (c_1 - c_0)(x_j + x_k) + (c_2 - 2 c_1 + c_0) x_j x_k].
"""

__all__ = ["INDICES", "PairShares", "pair_shares", "pair_sums"]

import math
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError, nearest
from limelight.shapes import Float

INDICES = ("shapley", "banzhaf")


class PairShares(NamedTuple):
    """Coefficients of f(S) by the number of words kept, 0..d, and how many of the two are."""

    both: Float[np.ndarray, " sizes"]
    one: Float[np.ndarray, " sizes"]
    none: Float[np.ndarray, " sizes"]

    def power(self, exponent: int) -> "PairShares":
        """Return every coefficient to a power."""
        return PairShares(*(share**exponent for share in self))

    def over(self, chance: Float[np.ndarray, " sizes"]) -> "PairShares":
        """Return the coefficients over the chance of a mask of that size."""
        drawn = chance > 0
        return PairShares(*(np.where(drawn, x / np.where(drawn, chance, 1.0), 0.0) for x in self))


def pair_shares(d: int, index: str) -> PairShares:
    """Return the coefficients that give the interactions as sums over all 2^d masks.

    "banzhaf": all sets of the others alike; "shapley": their sizes uniform on 0..d − 2. Domain:
    d ≥ 2.
    """
    if index not in INDICES:
        raise InputError(nearest("index", index, INDICES))
    if index == "banzhaf":
        weight = np.full(d - 1, 0.5 ** (d - 2))
    else:
        weight = np.array([1 / ((d - 1) * math.comb(d - 2, t)) for t in range(d - 1)])
    # t of the other words are kept: two fewer than m, one fewer, or m.
    zeros = np.zeros(2)
    return PairShares(
        both=np.concatenate([zeros, weight]),
        one=-np.concatenate([zeros[:1], weight, zeros[:1]]),
        none=np.concatenate([weight, zeros]),
    )


def pair_sums(
    keep: Float[np.ndarray, "n d"], f: Float[np.ndarray, " n"], shares: PairShares
) -> Float[np.ndarray, "d d"]:
    """Return Σ over the masks of f times the coefficient of each pair; 0 on the diagonal."""
    size = keep.sum(axis=1).astype(np.int64)
    both, one, none = (f * share[size] for share in shares)
    alone = keep.T @ (one - none)
    sums = (keep.T * (both - 2 * one + none)) @ keep + alone[:, None] + alone + none.sum()
    np.fill_diagonal(sums, 0.0)
    return sums
