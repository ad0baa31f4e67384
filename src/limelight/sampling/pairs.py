"""Pair interactions as weighted sums of f over all masks, or over a random sample of masks."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limelight.sampling.masks import Indicators, PerMask, draw_coin_masks, draw_masks_by_size
from limelight.sampling.regression import leave_one_out_residuals
from limelight.sampling.sample import Sample, WeightedMasks
from limelight.sampling.spread import ROUNDING, PowerSums, unseen_effect_error
from limelight.shapes import Bool, Float, Rng
from limelight.threads import cached_property

PerPair = Float[np.ndarray, "d d"]
PerSize = Float[np.ndarray, " sizes"]  # by the number of features that are kept, 0..d
# Coefficients of f(S) for a pair, by the size of S: if S has none, one or both of the features.
PairCoefficients = Float[np.ndarray, "3 sizes"]

INDICES = ("shapley", "banzhaf")
_SIGNS = np.array([[1.0], [-1.0], [1.0]])


def pair_coefficients(d: int, index: str) -> PairCoefficients:
    """Return coefficients that give pair interactions as sums over all 2^d masks.

    For "banzhaf" all sets of the other features have the same weight. For "shapley" all sizes of
    these sets, 0..d − 2, have the same weight. Domain: d ≥ 2.
    """
    if index == "banzhaf":
        return np.repeat(_SIGNS * 0.5 ** (d - 2), d + 1, axis=1)
    return shapley_pair_coefficients(d) / [math.comb(d, m) for m in range(d + 1)]


def shapley_pair_coefficients(d: int) -> PairCoefficients:
    """Return coefficients of the Shapley interaction index, times the number of sets as large as S.

    They are therefore weights of a mean over the sets of each size.
    """
    # Without the binomial coefficients, which overflow: d/(m (m − 1)) if both features are kept.
    m = np.arange(d + 1)
    products = np.stack([(d - m) * (d - m - 1), m * (d - m), m * (m - 1)])
    return _SIGNS * np.where(products > 0, d / np.maximum(products, 1), 0.0)


def weighted_pair_sums(keep: Indicators, f: PerMask, coefficients: PairCoefficients) -> PerPair:
    """Return the sum over masks of f times the coefficient of each pair, with diagonal 0."""
    no_feature, one_feature, both_features = f * coefficients[:, keep.sum(axis=1).astype(np.int64)]
    single = keep.T @ (one_feature - no_feature)
    joint = (keep.T * (both_features - 2 * one_feature + no_feature)) @ keep
    sums = joint + single[:, None] + single + no_feature.sum()
    np.fill_diagonal(sums, 0.0)
    return sums


_MAX_CELLS = 2**20  # rows × pairs that are processed together


@dataclass(frozen=True)
class PairSampler:
    """Function that draws masks for pair interactions, all of weight 1.

    For "banzhaf" masks are drawn by fair coins. For "shapley" the number m of kept features is
    drawn in proportion to the root mean square of the coefficients, which is about
    1/m + 1/(d − m). This minimizes the mean variance of a pair if the nonlinear part of f varies
    equally at all sizes.
    """

    d: int
    index: str

    @cached_property
    def coefficients(self) -> PairCoefficients:
        """Return the coefficients of a mask divided by its probability.

        The mean over masks of f times its coefficient is an interaction.
        """
        if self.index == "banzhaf":
            return np.repeat(4 * _SIGNS, self.d + 1, axis=1)
        return shapley_pair_coefficients(self.d) / self._size_probabilities

    @cached_property
    def typical_coefficient(self) -> float:
        """Return the root mean square of the coefficients over masks and pairs."""
        return float(np.sqrt(self._size_probabilities @ _mean_squares(self.coefficients)))

    @cached_property
    def _size_probabilities(self) -> PerSize:
        """The probability of each number of kept features, for a small variance."""
        weight = np.sqrt(_mean_squares(shapley_pair_coefficients(self.d)))
        return weight / weight.sum()

    def __call__(self, n: int, rng: Rng) -> WeightedMasks:
        """Draw ``n`` masks, and return them with the weight of each."""
        if self.index == "banzhaf":
            return draw_coin_masks(self.d, n, rng), np.ones(n)
        # Every set of a size is equally likely, because the coefficients depend on the size only.
        removed_counts = self.d - rng.choice(self.d + 1, n, p=self._size_probabilities)
        return draw_masks_by_size(self.d, removed_counts, rng), np.ones(n)


def _mean_squares(coefficients: PairCoefficients) -> PerSize:
    """Return the mean over pairs of a squared coefficient, by the number of kept features."""
    d = coefficients.shape[1] - 1
    m = np.arange(d + 1)
    pair_counts = np.stack([(d - m) * (d - m - 1), 2 * m * (d - m), m * (m - 1)])
    return (pair_counts * coefficients**2).sum(axis=0) / (d * (d - 1))


class PairFit(NamedTuple):
    """Interactions of all pairs for each output, estimated from a sample of masks."""

    scores: Float[np.ndarray, "m d d"]
    stderr: Float[np.ndarray, "m d d"]
    samples: int
    has_no_spread: Bool[np.ndarray, " m"]


def fit_pair_interactions(
    sample: Sample, *, sampler: PairSampler, known_range: float = 0.0
) -> PairFit:
    r"""Estimate pair interactions as means over masks of the residual of f times a coefficient.

    The residual is the difference of f from a linear fit. A linear f has no interactions, so
    subtracting one does not change the expectation, and it removes most of the variance (at 14
    words 200 times on smooth f, 2 on rare effects). The residual of each mask is taken from the fit
    to the other masks, which makes the mean unbiased.

    Standard errors are those of :class:`PowerSums`. The variance of a pair is at least the mean
    over pairs, because the masks with the largest coefficients for a pair are rare. If the linear
    fit is perfect, the errors allow for three masks that are off by ``known_range``, or by the
    largest difference between outputs.
    """
    n, d, m = sample.n, sample.d, len(sample.reference_output)
    # Sums over chunks: the influences of all rows on all pairs would be n d² numbers.
    spreads = [PowerSums.zeros(d, d)] * m
    farthest = np.zeros(m)
    for keep, residual in leave_one_out_residuals(sample):
        spreads = [
            spread.merge(pair_influence_sums(keep, residual[:, column] / n, sampler.coefficients))
            for column, spread in enumerate(spreads)
        ]
        farthest = np.maximum(farthest, np.abs(residual).max(axis=0))
    allowed_effect = np.maximum(known_range, sample.output_range)
    has_no_spread = farthest <= ROUNDING * allowed_effect
    errors = np.stack([pair_standard_error(spread, n, d) for spread in spreads])
    unseen = unseen_effect_error(allowed_effect * sampler.typical_coefficient / n)[:, None, None]
    off_diagonal = 1 - np.eye(d)
    return PairFit(
        scores=np.stack([spread.first for spread in spreads]),
        stderr=np.where(has_no_spread[:, None, None], unseen, errors) * off_diagonal,
        samples=n,
        has_no_spread=has_no_spread,
    )


def pair_influence_sums(
    keep: Indicators, share: PerMask, coefficients: PairCoefficients
) -> PowerSums:
    """Return the power sums of the contributions of masks to the interaction of each pair."""
    first, second, fourth = (
        weighted_pair_sums(keep, share**power, coefficients**power) for power in (1, 2, 4)
    )
    largest = _largest_contribution(keep, np.abs(share), coefficients)
    return PowerSums(first, second, fourth, largest)


def _largest_contribution(
    keep: Indicators, share: PerMask, coefficients: PairCoefficients
) -> PerPair:
    """Return the largest absolute contribution of a mask to each pair."""
    n, d = keep.shape
    size, indicators = keep.sum(axis=1).astype(np.int64), keep.astype(np.int64)
    contributions = share[:, None] * np.abs(coefficients[:, size].T)  # by features of a pair kept
    # A few rows at a time: 2,000 masks of 700 words have 10⁹ pairs, which take 8 GB.
    largest = np.zeros((d, d))
    row_count = max(1, _MAX_CELLS // d**2)
    for i in range(0, n, row_count):
        rows = slice(i, i + row_count)
        kept_of_pair = indicators[rows, :, None] + indicators[rows, None, :]
        kept_of_pair = kept_of_pair.reshape(len(kept_of_pair), -1)
        chunk = np.take_along_axis(contributions[rows], kept_of_pair, axis=1)
        largest = np.maximum(largest, chunk.max(axis=0).reshape(d, d))
    return largest


def pair_standard_error(spread: PowerSums, n: int, d: int) -> PerPair:
    """Return the standard error of each pair from the sums over ``n`` masks of ``d`` features."""
    off_diagonal = ~np.eye(d, dtype=bool)
    # Both sums are raised together: second and fourth powers must belong to one distribution.
    is_low = spread.second < (mean := float(spread.second[off_diagonal].mean()))
    fourth = np.where(is_low, float(spread.fourth[off_diagonal].mean()), spread.fourth)
    raised = spread._replace(second=np.where(is_low, mean, spread.second), fourth=fourth)
    return raised.standard_error(n, degrees=n - d - 1)
