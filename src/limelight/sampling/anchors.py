"""Anchors: words that hold a prediction whatever happens to the others (Ribeiro et al., 2018)."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.progress import expect_calls
from limelight.sampling.masks import Rng, coin_masks
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import all_keeps

Shares = Float[np.ndarray, " n"]  # of each candidate
Words = tuple[int, ...]
# Whether the prediction stays the same under each mask.
Holds = Callable[[Bool[np.ndarray, "n d"]], Bool[np.ndarray, " n"]]

# A precision this close to the threshold is decided by its estimate: telling them apart would take
# samples like 1/distance².
_UNDECIDED = 0.01
_MOST_AT_ONCE = 10_000  # masks in one call
_HALVINGS = 24  # to 6e-8, on the safe side
# Against 40 digits an end of the interval is off by less than (4 + |log(δ/2)|) 2⁻⁵² of itself, up
# to a million trials; four times as much is added outwards.
_ROUNDING = 2.0**-50
_EPS = float(np.finfo(float).eps)
_LARGEST = 12  # steps whose 4096 combinations are taken as they are


class FoundAnchor(NamedTuple):
    """The words found, whether the search is confident of the threshold, and what it spent."""

    words: Words
    reached: bool
    spent: int


@dataclass(frozen=True, kw_only=True)
class AnchorSearch:
    """How to search: ``slack`` is the precision two candidates may differ by and still tie."""

    threshold: float = 0.95
    delta: float = 0.05
    slack: float = 0.15
    batch: int = 100
    beam: int = 4
    max_size: int | None = None
    max_samples: int = 1_000_000


def find_anchor(holds: Holds, d: int, *, rng: Rng, search: AnchorSearch) -> FoundAnchor:
    """Return the shortest anchor a beam search finds whose precision reaches the threshold.

    Precision is the chance that the prediction holds when every other word is kept or removed by
    a fair coin. The coverage of s words is then 2^−s, so the shortest anchor covers most, and of
    several the one of highest estimated precision is taken. Without one, the best of the last
    beam comes back with ``reached`` False.
    """
    # The search steers by these trials and stops on them, so they flatter what it finds: callers
    # estimate its precision anew, on masks that the search has not seen.
    trials = _Trials(holds, d, rng)
    if _confirmed(trials, (), search):
        return FoundAnchor((), True, trials.spent)
    beam: list[Words] = [()]
    for _ in range(min(d, search.max_size or d)):
        # Sorted, so that the draws do not depend on the order in which a set is walked.
        longer = {tuple(sorted({*words, j})) for words in beam for j in range(d) if j not in words}
        beam = _best(trials, sorted(longer), search)
        if valid := [words for words in beam if _confirmed(trials, words, search)]:
            return FoundAnchor(trials.highest(valid), True, trials.spent)
        if trials.spent >= search.max_samples:
            break
    return FoundAnchor(trials.highest(beam), False, trials.spent)


def anchor_of_all_masks(
    held: Bool[np.ndarray, " masks"], d: int, *, search: AnchorSearch
) -> FoundAnchor:
    """Return the shortest anchor of all.

    ``held`` is whether the prediction holds for each row of ``all_keeps(d)``. Of several as short
    the one of highest precision is taken; without one, the set of highest precision among those of
    at most ``max_size`` words.
    """
    # Σ over the masks that contain A, for all A at once: one word after the other, masks with the
    # word are added to those without it.
    sums = held.astype(np.float64).reshape((2,) * d)
    for axis in range(d):
        sums[(slice(None),) * axis + (0,)] += sums[(slice(None),) * axis + (1,)]
    size = all_keeps(d).sum(axis=1)
    precision = sums.ravel() / 2.0 ** (d - size)
    allowed = size <= (search.max_size or d)
    enough = allowed & (precision >= search.threshold)
    reached = bool(enough.any())
    among = enough & (size == size[enough].min()) if reached else allowed
    best = int(np.argmax(np.where(among, precision, -1.0)))
    words = tuple(j for j in range(d) if best >> j & 1)
    return FoundAnchor(words, reached, 0)


class _Trials:
    """How often each candidate has held so far."""

    def __init__(self, holds: Holds, d: int, rng: Rng) -> None:
        self._holds, self.d, self._rng = holds, d, rng
        self._held, self._count = Counter[Words](), Counter[Words]()
        self.spent = 0

    def draw(self, candidates: Sequence[Words], n: int) -> None:
        """Try each candidate ``n`` more times, several in one call of the model."""
        expect_calls(n * len(candidates))
        together = max(1, _MOST_AT_ONCE // n)
        for i in range(0, len(candidates), together):
            some = candidates[i : i + together]
            masks = [coin_masks(self.d, n, self._rng, held=words) for words in some]
            held = self._holds(np.concatenate(masks)).reshape(len(some), n).sum(axis=1)
            for words, successes in zip(some, held, strict=True):
                self._held[words] += int(successes)
                self._count[words] += n
        self.spent += n * len(candidates)

    def untried(self, candidates: Sequence[Words]) -> list[Words]:
        """Return the candidates without a single trial."""
        return [words for words in candidates if words not in self._count]

    def of(self, candidates: Sequence[Words]) -> tuple[Shares, Shares]:
        """Return the estimated precision of each candidate and its number of trials."""
        count = np.array([self._count[words] for words in candidates], dtype=float)
        return np.array([self._held[words] for words in candidates]) / count, count

    def highest(self, candidates: Sequence[Words]) -> Words:
        """Return the candidate of highest estimated precision, the first of equals."""
        return candidates[int(np.argmax(self.of(candidates)[0]))]


def _best(trials: _Trials, candidates: Sequence[Words], search: AnchorSearch) -> list[Words]:
    """KL-LUCB (Kaufmann & Kalyanakrishnan, 2013): the ``beam`` best candidates up to ``slack``.

    The original draws the weakest of the best and the strongest of the rest; ours draws the
    ``beam`` strongest of the rest and all of the best in one call: calls cost more than masks.
    """
    trials.draw(trials.untried(candidates), search.batch)
    count = min(search.beam, len(candidates))
    for t in range(1, 1 + search.max_samples // search.batch):
        mean, n = trials.of(candidates)
        order = np.argsort(-mean, kind="stable")
        top, rest = order[:count], order[count:]
        if not len(rest) or trials.spent >= search.max_samples:
            break
        # β(t) of the paper, with its constants k = 405.5 and α = 1.1.
        rate = math.log(405.5 * len(candidates) * t**1.1 / search.delta)
        level = (rate + math.log(rate)) / n
        low, high = kl_limit(mean[top], level[top], 0), kl_limit(mean[rest], level[rest], 1)
        if high.max() - low.min() <= search.slack:
            break
        strongest = rest[np.argsort(-high, kind="stable")[:count]]
        trials.draw([candidates[i] for i in (*top, *strongest)], search.batch)
    return [candidates[i] for i in top]


def _confirmed(trials: _Trials, words: Words, search: AnchorSearch) -> bool:
    """Try ``words`` until its precision is known to lie above or below the threshold."""
    if trials.untried([words]):
        trials.draw([words], search.batch)
    # As in the authors' code: at most beam − 1 candidates are confirmed at each of d sizes.
    level = math.log((1 + (search.beam - 1) * trials.d) / search.delta)
    while True:
        mean, n = trials.of([words])
        low, high = (float(kl_limit(mean, level / n, end)[0]) for end in (0, 1))
        if low >= search.threshold or high < search.threshold:
            return low >= search.threshold
        close = high - low <= 2 * _UNDECIDED
        if close or trials.spent >= search.max_samples:
            return bool(mean[0] >= search.threshold)
        # Doubling: few looks, and at most twice the trials that were needed.
        trials.draw([words], min(int(n[0]), _MOST_AT_ONCE))


def kl_limit(mean: Shares, level: Shares, end: int) -> Shares:
    """Return the q nearest to ``end``, 0 or 1, with KL(mean ‖ q) ≤ ``level``.

    With level = log(1/δ)/n the true chance lies beyond it with probability at most δ (Chernoff).
    """
    near, far = mean, np.full_like(mean, end)
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        # The clip matters only where mean and far are both 0 or both 1: any answer then does.
        inside = bernoulli_kl(mean, np.clip(middle, 1e-15, 1 - 1e-15)) <= level
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return far  # of the last two the one on the far, safe side


def clopper_pearson(successes: int, trials: int, *, delta: float) -> tuple[float, float]:
    """Return the exact interval that misses the chance of success with probability at most δ.

    At its lower end so many successes or more, at its upper end so many or fewer, have probability
    δ/2; both ends are rounded outwards. Domain: 0 ≤ successes ≤ trials, 0 < δ < 1.
    """
    failures = trials - successes
    log_tail = math.log(delta) - math.log(2)
    margin = _ROUNDING * (4 - log_tail)
    low, high = 0.0, 1.0
    if successes:
        low = successes / trials * math.exp(_log_shrinkage(successes, trials, log_tail))
    if failures:
        # Of failures this is the lower end. Written as 1 − that, a chance of 1e-6 would lose six
        # digits; expm1 is negative, so here two positive numbers are added.
        shrunk = -math.expm1(_log_shrinkage(failures, trials, log_tail))
        high = (successes + failures * shrunk) / trials
    return low * (1 - margin), min(high * (1 + margin), 1.0)


def _log_shrinkage(k: int, n: int, log_tail: float) -> float:
    """Return t with log P(k or more of n succeed | chance e^t k/n) = ``log_tail`` < −log 2.

    A Beta quantile, without the 110 MB of SciPy (whose ``betaincinv`` is 15 % off at k = 62,
    n = 100, δ = 1e-300).
    """
    rest = n - k
    if rest == 0:
        return log_tail / n
    # P(k succeed) where the chance is k/n, from all terms relative to it. The difference of three
    # log n!, each 1e7 at n = 1e6, would be off by 1e-9, and so would the limit of k = 1.
    log_mode = -math.log(_sum_from(k, n, k / rest) + _sum_from(rest, n, rest / k) - 1)

    def improved(t: float) -> float:
        lost = -k * math.expm1(t)  # of k expected successes
        terms = _sum_from(k, n, k * math.exp(t) / (rest + lost))
        # Relative to the mean both logarithms are of the size np − k, not n: with the factor below
        # their rounding errors move log p by about 2⁻⁵².
        log_reached = log_mode + k * t + rest * math.log1p(lost / rest) + math.log(terms)
        return t + (log_tail - log_reached) * terms / k

    # As a function of log p the tail is the distribution function of a log-concave density, that
    # of the logarithm of a Beta variable, so its logarithm is concave: after one step Newton's
    # method approaches t from below, the safe side, until rounding no longer lets it rise. It
    # starts at the mean, where the tail is 1/2 or more.
    t = improved(0.0)
    while (further := improved(t)) > t:
        t = further
    return t


def _sum_from(k: int, n: int, odds: float) -> float:
    """Return P(k or more of n succeed)/P(k succeed) for a chance up to k/n, given by its odds.

    Terms are positive and fall, by ratios below 1, from 1.
    """
    # Ten standard deviations on they are below e⁻⁵⁰; the 64 are for small k, where the law is
    # skewed and its upper tail longer.
    count = min(n - k, 64 + int(10 * math.sqrt(k * (n - k) / n)))
    i = np.arange(count)
    return 1 + float(np.cumprod((n - k - i) / (k + 1 + i) * odds).sum())


def bernoulli_kl(p: Shares, q: Shares) -> Shares:
    """Return KL(p ‖ q) = p log(p/q) + (1 − p) log((1 − p)/(1 − q)), with q inside (0, 1)."""
    kept, gone = (np.where(x > 0, x, 1.0) for x in (p, 1 - p))  # 0 log 0 is 0
    return p * np.log(kept / q) + (1 - p) * np.log(gone / (1 - q))


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
    sums = np.zeros(1)
    for step in large:
        sums = np.concatenate([sums, sums + step])
    sums = start + sums
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
