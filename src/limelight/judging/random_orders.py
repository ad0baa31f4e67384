"""What guessing reaches: random orders with their reverses, until the mean is known well enough."""

__all__ = ["PRECISE", "sampled_chance"]

import math
import time
from collections.abc import Callable

import numpy as np

from limelight.shapes import Float, Int

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
