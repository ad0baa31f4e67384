"""Search for anchors: features that keep a prediction if others are removed (Ribeiro, 2018)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.progress import expect_calls
from limelight.sampling.masks import draw_coin_masks
from limelight.shapes import Bool, Float, Int, Rng
from limelight.theory.enumeration import enumerate_masks

PerCandidate = Float[np.ndarray, " n"]
FeatureSet = tuple[int, ...]
# Returns whether the prediction stays the same, for each mask.
KeepsPrediction = Callable[[Bool[np.ndarray, "n d"]], Bool[np.ndarray, " n"]]

# If a precision may be this close to the threshold, its estimate decides. A confident decision
# would take samples like 1/distance².
_DECISION_MARGIN = 0.01
_MAX_BATCH = 10_000  # masks in one call
_SHARE_PER_FEATURE = 4  # a fourth of the remaining masks may choose the next feature
_BISECTIONS = 24  # gives 6e-8, rounded to the safe side
# Compared with 40 digits, the relative error of a limit of the interval is less than
# (4 + |log(δ/2)|) 2⁻⁵² for up to a million trials. Four times as much widens the interval.
_ROUNDING = 2.0**-50
_EPS = float(np.finfo(float).eps)
_ENUMERATED_STEPS = 12  # the 4096 combinations of the largest steps are enumerated


class AnchorSearchResult(NamedTuple):
    """The features of an anchor and the number of masks that the search has evaluated.

    ``reaches_threshold`` says whether the search is confident of the threshold.
    """

    features: FeatureSet
    reaches_threshold: bool
    sample_count: int


@dataclass(frozen=True, kw_only=True)
class AnchorSearchSettings:
    """Settings of the search for an anchor."""

    threshold: float = 0.95
    delta: float = 0.05
    batch: int = 100
    max_size: int | None = None
    max_samples: int = 1_000_000


def find_anchor(
    keeps_prediction: KeepsPrediction, d: int, *, rng: Rng, settings: AnchorSearchSettings
) -> AnchorSearchResult:
    """Find a short anchor whose precision reaches the threshold, within ``max_samples`` masks.

    The precision is the probability that the prediction stays the same if every other feature is
    kept or removed by a fair coin. The anchor grows by the feature that keeps the prediction most
    often. One set of masks estimates this for all features. Masks that keep the new feature are
    used again. In the end, features that are not needed are left out.

    Parameters
    ----------
    keeps_prediction
        Returns whether the prediction stays the same, for each mask.
    d
        Number of features.
    rng
        Source of the random masks.
    settings
        Settings of the search.

    Returns
    -------
    The anchor, or the best candidate if no anchor reaches the threshold.
    """
    # The search is guided by these masks and stops because of them, so they overestimate the
    # precision of its result. Callers estimate the precision again on new masks.
    trials = _Trials(keeps_prediction, d, rng, settings)
    largest = min(d, settings.max_size or d)
    sample = trials.draw((), settings.batch)
    features: FeatureSet = ()
    while True:
        reaches_threshold, sample = trials.decide(features, sample)
        if reaches_threshold or len(features) == largest or not trials.remaining:
            break
        count = max(2 * settings.batch, trials.remaining // _SHARE_PER_FEATURE)
        sample = sample.append(trials.draw(features, count - len(sample.is_kept)))
        features, sample = _add_feature(features, sample)
    if reaches_threshold:
        features = _leave_out(trials, features)
    return AnchorSearchResult(features, reaches_threshold, trials.sample_count)


class _MaskSample(NamedTuple):
    """Random masks, and whether each of them keeps the prediction."""

    masks: Bool[np.ndarray, "n d"]
    is_kept: Bool[np.ndarray, " n"]

    def append(self, other: "_MaskSample") -> "_MaskSample":
        """Return these masks and others."""
        return _MaskSample(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def _add_feature(features: FeatureSet, sample: _MaskSample) -> tuple[FeatureSet, _MaskSample]:
    """Add the feature with which the prediction stays most often, and select the masks with it."""
    kept_counts = sample.is_kept @ sample.masks.astype(np.float64)
    # One success and one failure more, so that few masks do not win by chance.
    precision = (kept_counts + 1) / (sample.masks.sum(axis=0) + 2)
    precision[list(features)] = -1.0
    j = int(np.argmax(precision))
    rows = sample.masks[:, j]
    return tuple(sorted((*features, j))), _MaskSample(sample.masks[rows], sample.is_kept[rows])


def _leave_out(trials: "_Trials", features: FeatureSet) -> FeatureSet:
    """Leave out each feature without which the precision still reaches the threshold."""
    for j in features if len(features) > 1 else ():
        smaller = tuple(i for i in features if i != j)
        reaches_threshold, _ = trials.decide(smaller, trials.draw(smaller, trials.batch))
        # At the limit, an estimate from few masks is too weak to give a feature up.
        if reaches_threshold and trials.remaining:
            features = smaller
    return features


def anchor_from_all_masks(
    is_kept: Bool[np.ndarray, " masks"], d: int, *, settings: AnchorSearchSettings
) -> AnchorSearchResult:
    """Find the shortest anchor from all masks.

    ``is_kept`` says whether the prediction stays the same, for each row of ``enumerate_masks(d)``.
    Of anchors of the same size, the one with the highest precision is returned. If no anchor
    reaches the threshold, the set of highest precision of at most ``max_size`` features is
    returned.
    """
    # Σ over the masks that contain A, for all A at once: for one feature after another, masks with
    # the feature are added to masks without it.
    sums = is_kept.astype(np.float64).reshape((2,) * d)
    for axis in range(d):
        sums[(slice(None),) * axis + (0,)] += sums[(slice(None),) * axis + (1,)]
    size = enumerate_masks(d).sum(axis=1)
    precision = sums.ravel() / 2.0 ** (d - size)
    is_allowed = size <= (settings.max_size or d)
    is_precise = is_allowed & (precision >= settings.threshold)
    reaches_threshold = bool(is_precise.any())
    is_candidate = is_allowed
    if reaches_threshold:
        is_candidate = is_precise & (size == size[is_precise].min())
    best = int(np.argmax(np.where(is_candidate, precision, -1.0)))
    features = tuple(j for j in range(d) if best >> j & 1)
    return AnchorSearchResult(features, reaches_threshold, 0)


class _Trials:
    """Draws masks that keep certain features, up to the largest number of masks."""

    def __init__(
        self,
        keeps_prediction: KeepsPrediction,
        d: int,
        rng: Rng,
        settings: AnchorSearchSettings,
    ) -> None:
        self._keeps_prediction, self.d, self._rng = keeps_prediction, d, rng
        self._settings, self.batch = settings, settings.batch
        self.sample_count = 0

    @property
    def remaining(self) -> int:
        """The number of masks that may still be drawn."""
        return self._settings.max_samples - self.sample_count

    def draw(self, features: FeatureSet, n: int) -> _MaskSample:
        """Evaluate ``n`` random masks that keep the features, or as many as remain."""
        n = max(0, min(n, self.remaining))
        masks = draw_coin_masks(self.d, n, self._rng, fixed_features=features)
        if n == 0:
            return _MaskSample(masks, np.zeros(0, bool))
        expect_calls(n)
        self.sample_count += n
        return _MaskSample(masks, self._keeps_prediction(masks))

    def decide(self, features: FeatureSet, sample: _MaskSample) -> tuple[bool, _MaskSample]:
        """Draw masks until the precision is confidently above or below the threshold."""
        threshold = self._settings.threshold
        # At most d sizes are tested, and each feature once more at the end.
        level = np.array([math.log((1 + 2 * self.d) / self._settings.delta)])
        while n := len(sample.is_kept):
            mean = np.array([sample.is_kept.mean()])
            low, high = (float(kl_confidence_limit(mean, level / n, end)[0]) for end in (0, 1))
            if low >= threshold or high < threshold:
                return low >= threshold, sample
            if high - low <= 2 * _DECISION_MARGIN or not self.remaining:
                return bool(mean[0] >= threshold), sample
            # Doubling takes few rounds, and at most twice the masks that were needed.
            sample = sample.append(self.draw(features, min(n, _MAX_BATCH)))
        return False, sample


def kl_confidence_limit(mean: PerCandidate, level: PerCandidate, end: int) -> PerCandidate:
    """Return the q nearest to ``end``, which is 0 or 1, with KL(mean ‖ q) ≤ ``level``.

    With level = log(1/δ)/n the true probability lies beyond q with probability at most δ
    (Chernoff).
    """
    near, far = mean, np.full_like(mean, end)
    for _ in range(_BISECTIONS):
        middle = (near + far) / 2
        # The clip matters only if mean and far are both 0 or both 1. Any result is right then.
        is_inside = bernoulli_kl(mean, np.clip(middle, 1e-15, 1 - 1e-15)) <= level
        near, far = np.where(is_inside, middle, near), np.where(is_inside, far, middle)
    return far  # the safe one of the last two


def clopper_pearson_interval(successes: int, trials: int, *, delta: float) -> tuple[float, float]:
    """Return the exact confidence interval of the probability of success.

    The interval misses the probability with probability at most δ. At its lower end, this many
    successes or more have probability δ/2, and at its upper end, this many or fewer. Both ends are
    rounded outwards. Domain: 0 ≤ successes ≤ trials, 0 < δ < 1.
    """
    failures = trials - successes
    log_tail = math.log(delta) - math.log(2)
    margin = _ROUNDING * (4 - log_tail)
    low, high = 0.0, 1.0
    if successes:
        low = successes / trials * math.exp(_log_shrinkage(successes, trials, log_tail))
    if failures:
        # The upper end is 1 − the lower end for failures. Computed that way, a probability of 1e-6
        # would lose six digits. expm1 is negative, so two positive numbers are added here.
        shrunk = -math.expm1(_log_shrinkage(failures, trials, log_tail))
        high = (successes + failures * shrunk) / trials
    return low * (1 - margin), min(high * (1 + margin), 1.0)


def _log_shrinkage(k: int, n: int, log_tail: float) -> float:
    """Return t with log P(k or more of n succeed | p = e^t k/n) = ``log_tail`` < −log 2.

    This is a Beta quantile without the 110 MB of SciPy, whose ``betaincinv`` is 15 % off at k = 62,
    n = 100, δ = 1e-300.
    """
    failures = n - k
    if failures == 0:
        return log_tail / n
    # P(k succeed) for p = k/n, from all terms relative to it. The difference of three log n!, each
    # 1e7 at n = 1e6, would be off by 1e-9, and so would the limit for k = 1.
    log_mode = -math.log(
        _tail_ratio(k, n, k / failures) + _tail_ratio(failures, n, failures / k) - 1
    )

    def take_newton_step(t: float) -> float:
        """Return the next approximation of t by Newton's method."""
        decrease = -k * math.expm1(t)  # of k expected successes
        terms = _tail_ratio(k, n, k * math.exp(t) / (failures + decrease))
        # Relative to the mean both logarithms are of the size np − k, not n. With the factor below
        # their rounding errors move log p by about 2⁻⁵².
        log_tail_at_t = (
            log_mode + k * t + failures * math.log1p(decrease / failures) + math.log(terms)
        )
        return t + (log_tail - log_tail_at_t) * terms / k

    # As a function of log p the tail is the distribution function of the logarithm of a Beta
    # variable, whose density is log-concave. Its logarithm is therefore concave. After one step
    # Newton's method approaches t from below, the safe side, until rounding stops it. It starts at
    # the mean, where the tail is 1/2 or more.
    t = take_newton_step(0.0)
    while (next_t := take_newton_step(t)) > t:
        t = next_t
    return t


def _tail_ratio(k: int, n: int, odds: float) -> float:
    """Return P(k or more of n succeed)/P(k succeed) for odds of success up to k/(n − k).

    The first term is 1. The terms are positive and decrease.
    """
    # After ten standard deviations they are below e⁻⁵⁰. The 64 are for small k, for which the
    # distribution is skewed and has a longer upper tail.
    count = min(n - k, 64 + int(10 * math.sqrt(k * (n - k) / n)))
    i = np.arange(count)
    return 1 + float(np.cumprod((n - k - i) / (k + 1 + i) * odds).sum())


def bernoulli_kl(p: PerCandidate, q: PerCandidate) -> PerCandidate:
    """Return KL(p ‖ q) = p log(p/q) + (1 − p) log((1 − p)/(1 − q)), with q inside (0, 1)."""
    success, failure = (np.where(x > 0, x, 1.0) for x in (p, 1 - p))  # 0 log 0 is 0
    return p * np.log(success / q) + (1 - p) * np.log(failure / (1 - q))


def positive_probability_bounds(
    start: float, steps: Float[np.ndarray, " m"], *, cells: int = 2**17, slack: float = 0.0
) -> tuple[float, float]:
    r"""Return bounds on P(start + Σ_j X_j steps_j > 0) with fair coins X_j ∈ {0, 1}.

    For one attention head f = N/D has the sign of N, which is additive over the features, so this
    is the precision of an anchor. The 12 largest steps are enumerated. The others are rounded to a
    grid over their own range, and a convolution gives the distribution of their sum. With rounding
    errors r_j the true sum lies within [Σ min(r_j, 0), Σ max(r_j, 0)] of it, so the bounds narrow
    like m / cells. They allow for floating-point rounding.

    Parameters
    ----------
    start
        The sum if no step is added.
    steps
        Numbers that are added or not, each by a fair coin.
    cells
        Number of cells of the grid.
    slack
        How far the sum is uncertain.

    Returns
    -------
    The lower and the upper bound.

    Raises
    ------
    InputError
        If ``cells`` is below 2.
    """
    if cells < 2:
        raise InputError(f"cells must be at least 2, not {cells}.")
    # The cells are as wide as the sum of the steps on the grid allows. One large step on it would
    # make them too wide for all others.
    order = np.argsort(-np.abs(steps), kind="stable")
    large, small = steps[order[:_ENUMERATED_STEPS]], steps[order[_ENUMERATED_STEPS:]]
    slack += 4 * _EPS * (len(steps) + 4) * (abs(start) + float(np.abs(steps).sum()))
    sums = np.zeros(1)
    for step in large:
        sums = np.concatenate([sums, sums + step])
    sums = start + sums
    width = float(np.abs(small).sum()) / cells or 1.0  # an empty grid may have any width but 0
    grid = np.rint(small / width).astype(np.int64)
    rounding = small - grid * width
    probability = _sum_distribution(np.abs(grid))
    # A step below 0 runs from the far end: X·(−g) = −g + (1 − X)·g, and 1 − X is a fair coin too.
    grid_sums = width * (int(grid[grid < 0].sum()) + np.arange(len(probability)))
    tail = np.append(np.cumsum(probability[::-1])[::-1], 0.0)  # P(grid sum i or a larger one)

    def positive_probability(shift: float) -> float:
        """Return the probability that the sum is positive after it is shifted."""
        return float(tail[np.searchsorted(grid_sums, -sums - shift, side="right")].mean())

    # Halving a float is exact. The additions of the convolution and the cumulative sum are not.
    inflation = 4 * _EPS * (len(steps) + len(probability))
    low = positive_probability(float(rounding[rounding < 0].sum()) - slack) - inflation
    high = positive_probability(float(rounding[rounding > 0].sum()) + slack) + inflation
    return max(low, 0.0), min(high, 1.0)


def _sum_distribution(grid: Int[np.ndarray, " m"]) -> Float[np.ndarray, " cells"]:
    """Return P(Σ X_j grid_j = i) for i = 0, 1, … and fair coins X_j."""
    # For each step the distribution is averaged with a shifted copy of itself.
    probability = np.zeros(int(grid.sum()) + 1)
    probability[0] = 1.0
    length = 1
    for step in np.sort(grid):  # small steps first, so that the part that is shifted stays short
        half = probability[:length] / 2
        probability[:length] = half
        probability[step : step + length] += half
        length += int(step)
    return probability
