"""Anchors: words that hold a prediction whatever happens to the others (Ribeiro et al., 2018)."""

__all__ = ["AnchorSearch", "FoundAnchor", "Holds", "anchor_of_all_masks", "find_anchor"]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from limelight.sampling.bernoulli import kl_high, kl_low
from limelight.sampling.masks import coin_masks
from limelight.sampling.watching import expect
from limelight.shapes import Bool, Float
from limelight.theory.enumeration import all_keeps

Words = tuple[int, ...]
# A precision this close to the threshold is decided by its estimate: telling them apart would take
# samples like 1/distance².
_UNDECIDED = 0.01
_MOST_AT_ONCE = 10_000  # masks in one call


# Whether the prediction stays the same under each mask.
Holds = Callable[[Bool[np.ndarray, "n d"]], Bool[np.ndarray, " n"]]


class FoundAnchor(NamedTuple):
    """The words found, whether the search is confident of the threshold, and what it spent."""

    words: Words
    reached: bool
    spent: int


@final
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


def find_anchor(
    holds: Holds, d: int, *, rng: np.random.Generator, search: AnchorSearch
) -> FoundAnchor:
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
) -> tuple[FoundAnchor, Float[np.ndarray, " masks"]]:
    """Return the shortest anchor of all, and the precision of every set of words.

    ``held`` is whether the prediction holds for each row of ``all_keeps(d)``, in whose order the
    precisions come too. Of several as short the one of highest precision is taken; without one, the
    set of highest precision among those of at most ``max_size`` words.
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
    return FoundAnchor(words, reached, 0), precision


class _Trials:
    """How often each candidate has held so far."""

    def __init__(self, holds: Holds, d: int, rng: np.random.Generator) -> None:
        self._holds, self.d, self._rng = holds, d, rng
        self._held: dict[Words, int] = {}
        self._count: dict[Words, int] = {}
        self.spent = 0

    def draw(self, candidates: Sequence[Words], n: int) -> None:
        """Try each candidate ``n`` more times, several in one call of the model."""
        expect(n * len(candidates))
        together = max(1, _MOST_AT_ONCE // n)
        for i in range(0, len(candidates), together):
            some = candidates[i : i + together]
            masks = [coin_masks(self.d, n, self._rng, held=words) for words in some]
            held = self._holds(np.concatenate(masks)).reshape(len(some), n).sum(axis=1)
            for words, successes in zip(some, held, strict=True):
                self._held[words] = self._held.get(words, 0) + int(successes)
                self._count[words] = self._count.get(words, 0) + n
        self.spent += n * len(candidates)

    def untried(self, candidates: Sequence[Words]) -> list[Words]:
        """Return the candidates without a single trial."""
        return [words for words in candidates if words not in self._count]

    def of(
        self, candidates: Sequence[Words]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
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
        level = _exploration(len(candidates), t, search.delta) / n
        low, high = kl_low(mean[top], level[top]), kl_high(mean[rest], level[rest])
        if high.max() - low.min() <= search.slack:
            break
        strongest = rest[np.argsort(-high, kind="stable")[:count]]
        trials.draw([candidates[i] for i in (*top, *strongest)], search.batch)
    return [candidates[i] for i in top]


def _exploration(candidates: int, t: int, delta: float) -> float:
    """β(t) of KL-LUCB with the constants of the paper: k = 405.5, α = 1.1."""
    rate = math.log(405.5 * candidates * t**1.1 / delta)
    return rate + math.log(rate)


def _confirmed(trials: _Trials, words: Words, search: AnchorSearch) -> bool:
    """Try ``words`` until its precision is known to lie above or below the threshold."""
    if trials.untried([words]):
        trials.draw([words], search.batch)
    # As in the authors' code: at most beam − 1 candidates are confirmed at each of d sizes.
    level = math.log((1 + (search.beam - 1) * trials.d) / search.delta)
    while True:
        mean, n = trials.of([words])
        low, high = float(kl_low(mean, level / n)[0]), float(kl_high(mean, level / n)[0])
        if low >= search.threshold or high < search.threshold:
            return low >= search.threshold
        close = high - low <= 2 * _UNDECIDED
        if close or trials.spent >= search.max_samples:
            return bool(mean[0] >= search.threshold)
        # Doubling: few looks, and at most twice the trials that were needed.
        trials.draw([words], min(int(n[0]), _MOST_AT_ONCE))
