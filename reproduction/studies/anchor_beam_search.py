"""The beam search for anchors of version 0.3, as a rival of the search of today.

It follows Ribeiro et al. (2018): it draws masks for each candidate by KL-LUCB.
"""

__all__ = ["BeamSettings", "find_anchor_by_beam"]

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limelight.sampling.anchors import (
    AnchorSearchResult,
    FeatureSet,
    KeepsPrediction,
    PerCandidate,
    kl_confidence_limit,
)
from limelight.sampling.masks import draw_coin_masks
from limelight.shapes import Rng

_DECISION_MARGIN = 0.01
_MAX_BATCH = 10_000  # masks in one call


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """Settings of the beam search. Precisions that differ by less than ``slack`` tie."""

    threshold: float = 0.95
    delta: float = 0.05
    slack: float = 0.15
    batch: int = 50
    beam: int = 4
    max_size: int | None = None
    max_samples: int = 2000


def find_anchor_by_beam(
    keeps_prediction: KeepsPrediction, d: int, *, rng: Rng, settings: BeamSettings
) -> AnchorSearchResult:
    """Find the shortest anchor whose precision reaches the threshold, by a beam search.

    The precision is the probability that the prediction stays the same if every other feature is
    kept or removed by a fair coin. The coverage of s features is then 2^−s, so the shortest anchor
    has the largest coverage. Of anchors of the same size, the one with the highest estimated
    precision is returned. If no anchor reaches the threshold, the best set of the last beam is
    returned.

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
    """
    # The search is guided by these trials and stops because of them, so they overestimate the
    # precision of its result. Callers estimate the precision again on new masks.
    trials = _Trials(keeps_prediction, d, rng)
    if _reaches_threshold(trials, (), settings):
        return AnchorSearchResult((), True, trials.sample_count)
    beam: list[FeatureSet] = [()]
    for _ in range(min(d, settings.max_size or d)):
        # Sorted, so that the draws do not depend on the iteration order of a set.
        candidates = {
            tuple(sorted({*features, j}))
            for features in beam
            for j in range(d)
            if j not in features
        }
        beam = _select_best_candidates(trials, sorted(candidates), settings)
        anchors = [features for features in beam if _reaches_threshold(trials, features, settings)]
        if anchors:
            return AnchorSearchResult(trials.most_precise(anchors), True, trials.sample_count)
        if trials.sample_count >= settings.max_samples:
            break
    return AnchorSearchResult(trials.most_precise(beam), False, trials.sample_count)


class _Trials:
    """Counts of how often each candidate has kept the prediction."""

    def __init__(self, keeps_prediction: KeepsPrediction, d: int, rng: Rng) -> None:
        self._keeps_prediction, self.d, self._rng = keeps_prediction, d, rng
        self._successes, self._trials = Counter[FeatureSet](), Counter[FeatureSet]()
        self.sample_count = 0

    def draw(self, candidates: Sequence[FeatureSet], n: int) -> None:
        """Evaluate ``n`` more masks for each candidate, for several candidates in one call."""
        batch_size = max(1, _MAX_BATCH // n)
        for i in range(0, len(candidates), batch_size):
            batch = candidates[i : i + batch_size]
            masks = [
                draw_coin_masks(self.d, n, self._rng, fixed_features=features) for features in batch
            ]
            is_kept = self._keeps_prediction(np.concatenate(masks))
            success_counts = is_kept.reshape(len(batch), n).sum(axis=1)
            for features, successes in zip(batch, success_counts, strict=True):
                self._successes[features] += int(successes)
                self._trials[features] += n
        self.sample_count += n * len(candidates)

    def select_untried(self, candidates: Sequence[FeatureSet]) -> list[FeatureSet]:
        """Return the candidates without a trial."""
        return [features for features in candidates if features not in self._trials]

    def estimate_precision(
        self, candidates: Sequence[FeatureSet]
    ) -> tuple[PerCandidate, PerCandidate]:
        """Return the estimated precision and the number of trials of each candidate."""
        trials = np.array([self._trials[features] for features in candidates], dtype=float)
        return np.array([self._successes[features] for features in candidates]) / trials, trials

    def most_precise(self, candidates: Sequence[FeatureSet]) -> FeatureSet:
        """Return the candidate with the highest estimated precision, the first one of ties."""
        return candidates[int(np.argmax(self.estimate_precision(candidates)[0]))]


def _select_best_candidates(
    trials: _Trials, candidates: Sequence[FeatureSet], settings: BeamSettings
) -> list[FeatureSet]:
    """Select the ``beam`` best candidates, up to ``slack``, by KL-LUCB.

    The algorithm is by Kaufmann & Kalyanakrishnan (2013). It draws the weakest of the best and the
    strongest of the other candidates. Here all of the best and the ``beam`` strongest of the others
    are drawn in one call, because calls cost more than masks.
    """
    trials.draw(trials.select_untried(candidates), settings.batch)
    count = min(settings.beam, len(candidates))
    for t in range(1, 1 + settings.max_samples // settings.batch):
        mean, n = trials.estimate_precision(candidates)
        order = np.argsort(-mean, kind="stable")
        best, outside = order[:count], order[count:]
        if not len(outside) or trials.sample_count >= settings.max_samples:
            break
        # β(t) of the paper, with its constants k = 405.5 and α = 1.1.
        rate = math.log(405.5 * len(candidates) * t**1.1 / settings.delta)
        level = (rate + math.log(rate)) / n
        low = kl_confidence_limit(mean[best], level[best], 0)
        high = kl_confidence_limit(mean[outside], level[outside], 1)
        if high.max() - low.min() <= settings.slack:
            break
        strongest = outside[np.argsort(-high, kind="stable")[:count]]
        trials.draw([candidates[i] for i in (*best, *strongest)], settings.batch)
    return [candidates[i] for i in best]


def _reaches_threshold(trials: _Trials, features: FeatureSet, settings: BeamSettings) -> bool:
    """Draw masks until the precision is confidently above or below the threshold."""
    if trials.select_untried([features]):
        trials.draw([features], settings.batch)
    # As in the authors' code: at most beam − 1 candidates are tested at each of d sizes.
    level = math.log((1 + (settings.beam - 1) * trials.d) / settings.delta)
    while True:
        mean, n = trials.estimate_precision([features])
        low, high = (float(kl_confidence_limit(mean, level / n, end)[0]) for end in (0, 1))
        if low >= settings.threshold or high < settings.threshold:
            return low >= settings.threshold
        is_close = high - low <= 2 * _DECISION_MARGIN
        if is_close or trials.sample_count >= settings.max_samples:
            return bool(mean[0] >= settings.threshold)
        # Doubling takes few rounds, and at most twice the trials that were needed.
        trials.draw([features], min(int(n[0]), _MAX_BATCH))
