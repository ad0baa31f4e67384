"""Do the scores of words add up to what removing them together takes away?"""

__all__ = ["Sets", "additivity", "drawn_sets"]

import math
from typing import NamedTuple

import numpy as np

from limelight.shapes import Bool, Float
from limelight.theory.enumeration import all_keeps


class Sets(NamedTuple):
    """Sets of words to remove, and what each weighs; ``exact`` where they are all there are."""

    removed: Bool[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    exact: bool


def drawn_sets(d: int, rng: np.random.Generator, *, most: int) -> Sets:
    """Return sets S whose size is uniform on 0..d, and uniform among the sets of that size.

    It is the law by which a random order removes words. All sets where ``most`` allow it, else
    ``most`` drawn ones, each with its complement, which makes the mean of linear terms exact.
    """
    # E[x f] and E[f]² follow from E_p f on ratio games, but E[f²] needs the double sums of LIME's
    # R², seconds a text; a few thousand masks cost milliseconds there, and their error is known.
    if 2**d <= most:
        removed = ~all_keeps(d)
        size = removed.sum(axis=1)
        per_size = np.array([math.comb(d, k) for k in range(d + 1)], dtype=float)
        return Sets(removed, 1 / ((d + 1) * per_size[size]), exact=True)
    half = rng.integers(0, d + 1, size=most // 2)
    place = np.argsort(rng.random((most // 2, d)), axis=1)
    removed = place < half[:, None]
    both = np.concatenate([removed, ~removed])
    return Sets(both, np.full(len(both), 1 / len(both)), exact=False)


def additivity(
    scores: Float[np.ndarray, " d"], sets: Sets, drops: Float[np.ndarray, " n"]
) -> tuple[float, float | None] | None:
    """Return the correlation of Σ_{j∈S} scores_j with f(N) − f(N ∖ S), and its standard error.

    The error is that of its linear part, (z z' − ρ (z² + z'²)/2) for standardised z and z', and
    None where all sets were seen. None where either side is constant.
    """
    w, sums = sets.weights, sets.removed @ scores
    x, y = sums - w @ sums, drops - w @ drops
    norm = math.sqrt(float(w @ x**2) * float(w @ y**2))
    if norm <= 1e-12 * (float(np.abs(sums).max()) * float(np.abs(drops).max()) or 1.0):
        return None
    rho = float(np.clip((w @ (x * y)) / norm, -1.0, 1.0))
    if sets.exact:
        return rho, None
    zx, zy = x / math.sqrt(float(w @ x**2)), y / math.sqrt(float(w @ y**2))
    linear = zx * zy - rho * (zx**2 + zy**2) / 2
    return rho, float(linear.std()) / math.sqrt(len(w))
