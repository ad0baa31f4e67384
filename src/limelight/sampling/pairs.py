"""Pair interactions as weighted sums of f over masks: of all of them, or of a random sample."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limelight.sampling.masks import Indicators, PerMask, Rng, coin_masks, sized_masks
from limelight.sampling.regression import left_out_residuals
from limelight.sampling.sample import Sample, WeightedMasks
from limelight.sampling.spread import ROUNDING, Spread, unseen_error
from limelight.shapes import Bool, Float
from limelight.threads import cached_property

PerPair = Float[np.ndarray, "d d"]
PerSize = Float[np.ndarray, " sizes"]  # by the number of words kept, 0..d
PairShares = Float[np.ndarray, "3 sizes"]  # coefficients of f(S): none, one, both of two words kept

INDICES = ("shapley", "banzhaf")
_SIGNS = np.array([[1.0], [-1.0], [1.0]])


def pair_shares(d: int, index: str) -> PairShares:
    """Return the coefficients that give the interactions as sums over all 2^d masks.

    "banzhaf": all sets of the others alike; "shapley": their sizes uniform on 0..d − 2. Domain:
    d ≥ 2.
    """
    if index == "banzhaf":
        return np.repeat(_SIGNS * 0.5 ** (d - 2), d + 1, axis=1)
    return shapley_shares(d) / [math.comb(d, m) for m in range(d + 1)]


def shapley_shares(d: int) -> PairShares:
    """Coefficients of the Shapley interaction index by how many sets are as large as S."""
    # Without the binomial coefficients, which overflow: d/(m (m − 1)) where both are kept.
    m = np.arange(d + 1)
    products = np.stack([(d - m) * (d - m - 1), m * (d - m), m * (m - 1)])
    return _SIGNS * np.where(products > 0, d / np.maximum(products, 1), 0.0)


def pair_sums(keep: Indicators, f: PerMask, shares: PairShares) -> PerPair:
    """Return Σ over the masks of f times the coefficient of each pair; 0 on the diagonal."""
    none, one, both = f * shares[:, keep.sum(axis=1).astype(np.int64)]
    alone = keep.T @ (one - none)
    sums = (keep.T * (both - 2 * one + none)) @ keep + alone[:, None] + alone + none.sum()
    np.fill_diagonal(sums, 0.0)
    return sums


_CELLS = 2**20  # rows × pairs that are looked at together


@dataclass(frozen=True)
class PairSampler:
    """Masks for pair interactions, all of weight 1.

    For "banzhaf" fair coins. For "shapley" the number of kept words is drawn so that the mean
    variance of a pair is least where f beyond its line varies alike at all sizes: in proportion to
    the root of the mean square of the coefficients, which is about 1/m + 1/(d − m).
    """

    d: int
    index: str

    @cached_property
    def shares(self) -> PairShares:
        """The coefficients over the chance of a mask: their mean is an interaction."""
        if self.index == "banzhaf":
            return np.repeat(4 * _SIGNS, self.d + 1, axis=1)
        return shapley_shares(self.d) / self._chances

    @cached_property
    def typical(self) -> float:
        """The root of the mean square of a coefficient, over masks and pairs."""
        return float(np.sqrt(self._chances @ _mean_squares(self.shares)))

    @cached_property
    def _chances(self) -> PerSize:
        chance = np.sqrt(_mean_squares(shapley_shares(self.d)))
        return chance / chance.sum()

    def __call__(self, n: int, rng: Rng) -> WeightedMasks:
        """Return ``n`` masks and the weight of each."""
        if self.index == "banzhaf":
            return coin_masks(self.d, n, rng), np.ones(n)
        # Sizes by chance, and within a size every set alike: the coefficients depend on the size
        # alone.
        removed = self.d - rng.choice(self.d + 1, n, p=self._chances)
        return sized_masks(self.d, removed, rng), np.ones(n)


def _mean_squares(shares: PairShares) -> PerSize:
    """Return the mean over pairs of a squared coefficient, by the number of kept words."""
    d = shares.shape[1] - 1
    m = np.arange(d + 1)
    pairs = np.stack([(d - m) * (d - m - 1), 2 * m * (d - m), m * (m - 1)])
    return (pairs * shares**2).sum(axis=0) / (d * (d - 1))


class PairFit(NamedTuple):
    """Interactions of all pairs for each output, their standard errors, and what was drawn."""

    scores: Float[np.ndarray, "m d d"]
    stderr: Float[np.ndarray, "m d d"]
    samples: int
    flat: Bool[np.ndarray, " m"]


def fitted_pairs(sample: Sample, *, sampler: PairSampler, known_range: float = 0.0) -> PairFit:
    r"""Return the mean over masks of each pair's coefficient times what f does beyond its line.

    A linear f has no interactions, so subtracting one does not change their expectation; it takes
    off most of the variance (at 14 words 200 times on smooth f, 2 on rare effects). Each
    mask is compared with the line through the others, which makes the mean unbiased. Standard
    errors are those of :class:`Spread`; the variance of a pair is at least the mean over pairs,
    because the masks that weigh most for a pair are rare. Where the line is perfect, three masks
    are allowed for that are off by ``known_range``, or by the largest difference between answers.
    """
    n, d, m = sample.n, sample.d, len(sample.origin)
    # Sums over chunks: the influences of all rows on all pairs would be n d² numbers.
    spreads = [Spread.zero(d, d)] * m
    farthest = np.zeros(m)
    for keep, residual in left_out_residuals(sample):
        spreads = [
            spread.plus(pair_influence(keep, residual[:, column] / n, sampler.shares))
            for column, spread in enumerate(spreads)
        ]
        farthest = np.maximum(farthest, np.abs(residual).max(axis=0))
    size = np.maximum(known_range, sample.range)
    flat = farthest <= ROUNDING * size
    apart = 1 - np.eye(d)
    errors = np.stack([pair_error(spread, n, d) for spread in spreads])
    unseen = unseen_error(size * sampler.typical / n)[:, None, None]
    return PairFit(
        scores=np.stack([spread.first for spread in spreads]),
        stderr=np.where(flat[:, None, None], unseen, errors) * apart,
        samples=n,
        flat=flat,
    )


def pair_influence(keep: Indicators, share: PerMask, weights: PairShares) -> Spread:
    """Return what each mask adds to the interaction of each pair, as sums of powers."""
    first, second, fourth = (pair_sums(keep, share**power, weights**power) for power in (1, 2, 4))
    return Spread(first, second, fourth, _largest(keep, np.abs(share), weights))


def _largest(keep: Indicators, share: PerMask, weights: PairShares) -> PerPair:
    """Return the largest |addition| of a mask to each pair."""
    n, d = keep.shape
    size, kept = keep.sum(axis=1).astype(np.int64), keep.astype(np.int64)
    by_count = share[:, None] * np.abs(weights[:, size].T)
    # A few rows at a time: 2,000 masks of 700 words have 10⁹ pairs, 8 GB of them.
    largest = np.zeros((d, d))
    rows = max(1, _CELLS // d**2)
    for i in range(0, n, rows):
        some = slice(i, i + rows)
        both = kept[some, :, None] + kept[some, None, :]
        found = np.take_along_axis(by_count[some], both.reshape(len(both), -1), axis=1)
        largest = np.maximum(largest, found.max(axis=0).reshape(d, d))
    return largest


def pair_error(spread: Spread, n: int, d: int) -> PerPair:
    """Return the standard error of each pair from the sums of ``n`` masks of ``d`` words."""
    off = ~np.eye(d, dtype=bool)
    # Both sums are raised together: second and fourth powers must be of one law.
    low = spread.second < (mean := float(spread.second[off].mean()))
    fourth = np.where(low, float(spread.fourth[off].mean()), spread.fourth)
    seen = spread._replace(second=np.where(low, mean, spread.second), fourth=fourth)
    return seen.error(n, degrees=n - d - 1)
