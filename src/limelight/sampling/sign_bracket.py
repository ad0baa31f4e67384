"""How often a random sum is positive: rigorous brackets from a convolution on a grid."""

__all__ = ["sign_bracket"]

import numpy as np

from limelight.errors import InputError
from limelight.shapes import Float


def sign_bracket(
    start: float, steps: Float[np.ndarray, " m"], *, cells: int = 2**17, slack: float = 0.0
) -> tuple[float, float]:
    r"""Return bounds on P(start + Σ_j X_j steps_j > 0) with fair coins X_j ∈ {0, 1}.

    For one attention head f = N/D has the sign of N, which is additive over the words, so this
    is the precision of an anchor. Each step is rounded to a grid of ``cells`` over the range of
    the sum; with rounding errors r_j the sum lies within [Σ min(r_j, 0), Σ max(r_j, 0)] of the
    rounded one, whose distribution is a convolution. The bracket narrows like m / cells. Rounding
    of floats is covered, and ``slack`` adds what the caller knows to be uncertain about the sum.
    """
    if cells < 2:
        raise InputError(f"cells must be at least 2; got {cells}.")
    size = float(np.abs(steps).sum())
    slack += 4 * np.finfo(float).eps * (len(steps) + 2) * (abs(start) + size)
    if size == 0:
        return float(start - slack > 0), float(start + slack > 0)
    width = size / cells
    grid = np.rint(steps / width).astype(np.int64)
    rounding = steps - grid * width
    chance = _sum_distribution(np.abs(grid))
    # A step below 0 runs from the far end: X·(−g) = −g + (1 − X)·g, and 1 − X is a fair coin too.
    lowest = start + width * float(grid[grid < 0].sum())
    places = lowest + width * np.arange(len(chance))
    low = chance[places + rounding[rounding < 0].sum() - slack > 0].sum()
    high = chance[places + rounding[rounding > 0].sum() + slack > 0].sum()
    inflation = 4 * np.finfo(float).eps * (len(steps) + np.log2(len(chance)))
    return float(max(low - inflation, 0.0)), float(min(high + inflation, 1.0))


def _sum_distribution(grid: np.ndarray) -> Float[np.ndarray, " cells"]:
    """P(Σ X_j grid_j = i) for i = 0, 1, …: one average of two shifted copies per word."""
    chance = np.zeros(int(grid.sum()) + 1)
    chance[0] = 1.0
    reach = 1
    for step in np.sort(grid):
        old = chance[:reach] / 2
        reach += int(step)
        chance[:reach] = 0.0
        chance[: len(old)] += old
        chance[step : step + len(old)] += old
    return chance
