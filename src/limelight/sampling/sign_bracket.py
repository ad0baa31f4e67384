"""How often a random sum is positive: rigorous brackets from a convolution on a grid."""

__all__ = ["sign_bracket"]

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float, Int

_EPS = float(np.finfo(float).eps)
_LARGEST = 12  # steps whose 4096 combinations are taken as they are


def sign_bracket(
    start: float, steps: Float[np.ndarray, " m"], *, cells: int = 2**17, slack: float = 0.0
) -> tuple[float, float]:
    r"""Return bounds on P(start + Σ_j X_j steps_j > 0) with fair coins X_j ∈ {0, 1}.

    For one attention head f = N/D has the sign of N, which is additive over the words, so this
    is the precision of an anchor. The 12 largest steps are enumerated. The others are rounded to a
    grid of ``cells`` over their own range, where their sum has a distribution by convolution; with
    rounding errors r_j the true sum lies within [Σ min(r_j, 0), Σ max(r_j, 0)] of it, so the
    bracket narrows like m / cells. Rounding of floats is covered, and ``slack`` adds what the
    caller knows to be uncertain about the sum.
    """
    if cells < 2:
        raise InputError(f"cells must be at least 2; got {cells}.")
    # The grid is as coarse as the sum of what it holds: one heavy word on it would blur all others.
    order = np.argsort(-np.abs(steps), kind="stable")
    large, small = steps[order[:_LARGEST]], steps[order[_LARGEST:]]
    slack += 4 * _EPS * (len(steps) + 4) * (abs(start) + float(np.abs(steps).sum()))
    sums = start + _all_sums(large)
    width = float(np.abs(small).sum()) / cells or 1.0  # of an empty grid: any but 0
    grid = np.rint(small / width).astype(np.int64)
    rounding = small - grid * width
    chance = _sum_distribution(np.abs(grid))
    # A step below 0 runs from the far end: X·(−g) = −g + (1 − X)·g, and 1 − X is a fair coin too.
    places = width * (int(grid[grid < 0].sum()) + np.arange(len(chance)))
    above = np.append(np.cumsum(chance[::-1])[::-1], 0.0)  # P(place i or a later one)

    def positive(shift: float) -> float:
        return float(above[np.searchsorted(places, -sums - shift, side="right")].mean())

    # Halving a float is exact; the additions of the convolution and of the cumulative sum are not.
    inflation = 4 * _EPS * (len(steps) + len(chance))
    low = positive(float(rounding[rounding < 0].sum()) - slack) - inflation
    high = positive(float(rounding[rounding > 0].sum()) + slack) + inflation
    return max(low, 0.0), min(high, 1.0)


def _all_sums(steps: Float[np.ndarray, " m"]) -> Float[np.ndarray, " sums"]:
    sums = np.zeros(1)
    for step in steps:
        sums = np.concatenate([sums, sums + step])
    return sums


def _sum_distribution(grid: Int[np.ndarray, " m"]) -> Float[np.ndarray, " cells"]:
    """P(Σ X_j grid_j = i) for i = 0, 1, …: one average of two shifted copies per step."""
    chance = np.zeros(int(grid.sum()) + 1)
    chance[0] = 1.0
    reach = 1
    for step in np.sort(grid):  # small ones first: the part that has to be moved stays short
        old = chance[:reach] / 2
        chance[:reach] = old
        chance[step : step + reach] += old
        reach += int(step)
    return chance
