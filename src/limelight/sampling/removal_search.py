"""Search for a small set of features whose removal changes a prediction, by model calls.

The search evaluates every single feature if the calls allow it, and then removes features in the
order of their effects until the prediction changes. It puts features back that are not needed, and
exchanges features until the calls are used up. If all sets of a size were evaluated without a
change, a smaller set cannot exist.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np

from limelight.sampling.anchors import clopper_pearson_interval
from limelight.sampling.masks import draw_masks_by_size
from limelight.shapes import Bool, Float, Rng

# From masks, True where a feature is present, to the margin of the prediction (small: close to a
# change) and to whether the prediction has changed.
EvaluateMasks = Callable[
    [Bool[np.ndarray, "n d"]], tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]
]
_SINGLES_SHARE = 0.5  # of the calls; more features than that are first evaluated in blocks
_BLOCKS_SHARE = 0.25  # of the calls, for blocks
_GREEDY_SHARE = 0.6  # of the remaining calls, for a greedy search with new effects at each step
_EFFECTS_SHARE = 0.5  # of the remaining calls, for effects near a change
_MIN_CANDIDATES = 4  # features that are tried in each step of the greedy search
_BATCH = 32  # sets evaluated together; the search can stop after each batch
_ENUMERATED_AT_ONCE = 4096


class SearchedRemovals(NamedTuple):
    """The smallest set of a search, and the size below which no set exists.

    Parameters
    ----------
    removed
        The features of the smallest set that changes the prediction, or None.
    lower_bound
        No set of fewer features changes the prediction: all of them were evaluated. It is d + 1 if
        all sets were evaluated and none changes it.
    calls
        The number of evaluated sets.
    has_singles
        Whether every single feature was evaluated.
    """

    removed: tuple[int, ...] | None
    lower_bound: int
    calls: int
    has_singles: bool


class RemovalStability(NamedTuple):
    """How often the prediction stays if a random set of ``size`` features is removed.

    ``low`` and ``high`` are the ends of an exact binomial interval with 95 % confidence. If all
    sets of this size were evaluated, both are the exact probability.
    """

    size: int
    draws: int
    unchanged: int
    low: float
    high: float

    @property
    def probability(self) -> float:
        """The share of the sets after whose removal the prediction stays."""
        return self.unchanged / self.draws


@dataclass
class _Evaluations:
    """The evaluated sets, and the number of calls that remain."""

    evaluate_masks: EvaluateMasks
    d: int
    remaining: int

    def __post_init__(self) -> None:
        self.calls = 0
        self._results: dict[bytes, tuple[float, bool]] = {}

    def evaluate(
        self, sets: Sequence[Sequence[int]]
    ) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Return margins and changes of the first sets for which there are calls."""
        keep = np.ones((len(sets), self.d), bool)
        for row, removed in zip(keep, sets, strict=True):
            row[list(removed)] = False
        keys = [bits.tobytes() for bits in np.packbits(keep, axis=1)]
        new_rows = dict[bytes, int]()
        count = len(keys)
        for i, key in enumerate(keys):
            if key not in self._results and key not in new_rows:
                if len(new_rows) == self.remaining:
                    count = i
                    break
                new_rows[key] = i
        if new_rows:
            margins, changes = self.evaluate_masks(keep[list(new_rows.values())])
            self.calls += len(new_rows)
            self.remaining -= len(new_rows)
            results = zip(margins.tolist(), changes.tolist(), strict=True)
            self._results.update(zip(new_rows, results, strict=True))
        rows = [self._results[key] for key in keys[:count]]
        return np.array([row[0] for row in rows]), np.array([row[1] for row in rows], bool)


def search_removals(
    evaluate_masks: EvaluateMasks, d: int, *, full_margin: float, calls: int
) -> SearchedRemovals:
    """Search for the smallest set of features whose removal changes the prediction.

    Parameters
    ----------
    evaluate_masks
        Returns the margin of the prediction for each mask, and whether the prediction has changed.
    d
        Number of features.
    full_margin
        The margin with all features present.
    calls
        The largest number of sets to evaluate.

    Returns
    -------
    The smallest set, the lower bound and the number of evaluated sets.
    """
    evaluations = _Evaluations(evaluate_masks, d, calls)
    if 2**d - 1 <= calls:
        return _enumerate_removals(evaluations)
    search = _Search(evaluations, full_margin)
    search.run()
    removed = None if search.best is None else tuple(sorted(search.best))
    return SearchedRemovals(removed, search.lower_bound, evaluations.calls, search.has_singles)


def prune_removal(
    evaluate_masks: EvaluateMasks,
    d: int,
    removed: Sequence[int],
    *,
    lower_bound: int,
    calls: int,
) -> tuple[int, ...]:
    """Put features of a removal back as long as the prediction stays changed without them.

    Parameters
    ----------
    evaluate_masks
        As in `search_removals`.
    d
        Number of features.
    removed
        Features whose removal changes the prediction.
    lower_bound
        No removal of fewer features changes the prediction.
    calls
        The largest number of sets to evaluate.

    Returns
    -------
    Some of the features, in increasing order, whose removal changes the prediction.
    """
    search = _Search(_Evaluations(evaluate_masks, d, calls), full_margin=0.0)
    search.best, search.lower_bound = list(removed), lower_bound
    search.put_back()
    return tuple(sorted(search.best))


def _enumerate_removals(evaluations: _Evaluations) -> SearchedRemovals:
    """Evaluate all sets in the order of their sizes, until a set changes the prediction."""
    d = evaluations.d
    for size in range(1, d + 1):
        removed = _evaluate_size(evaluations, size)
        if removed is not None:
            return SearchedRemovals(removed, size, evaluations.calls, has_singles=True)
    return SearchedRemovals(None, d + 1, evaluations.calls, has_singles=True)


def _evaluate_size(evaluations: _Evaluations, size: int) -> tuple[int, ...] | None:
    """Evaluate all sets of a size, and return the set whose change is the clearest."""
    best, lowest = None, math.inf
    sets = combinations(range(evaluations.d), size)
    while batch := list(islice(sets, _ENUMERATED_AT_ONCE)):
        margins, changes = evaluations.evaluate(batch)
        for j in np.flatnonzero(changes).tolist():
            if best is None or margins[j] < lowest:
                best, lowest = batch[j], float(margins[j])
    return best


class _Search:
    """A search that has evaluated too few sets to enumerate them."""

    def __init__(self, evaluations: _Evaluations, full_margin: float) -> None:
        self._evaluations, self._full_margin = evaluations, full_margin
        self.d = evaluations.d
        self.best: list[int] | None = None
        self.lower_bound = 1
        self.has_singles = False
        # The estimated decrease of the margin if a feature is removed.
        self._effects = np.zeros(self.d)

    @property
    def is_finished(self) -> bool:
        """Whether no calls remain, or no smaller set can exist."""
        return self._evaluations.remaining <= 0 or (
            self.best is not None and len(self.best) <= self.lower_bound
        )

    def run(self) -> None:
        """Search until the calls are used up or the smallest set is known."""
        self._measure_effects()
        if self.is_finished:
            return
        base = self._remove_in_order()
        self._halve_best()
        while not self.is_finished:
            size = self.d + 1 if self.best is None else len(self.best)
            self._measure_removal_effects(base)
            base = self._remove_in_order()
            if self.best is None or len(self.best) >= size:
                break
        self._grow_set()
        self._halve_best()
        self.put_back()
        while not self.is_finished and self.best is not None:
            if not (self._evaluate_pairs() or self._shrink_best()):
                break

    def _measure_effects(self) -> None:
        """Evaluate each feature by itself, or first blocks of neighbors if there are too many."""
        d, calls = self.d, self._evaluations.remaining
        features = list(range(d))
        if d > _SINGLES_SHARE * calls:
            block_count = max(int(_BLOCKS_SHARE * calls), 1)
            blocks = [block.tolist() for block in np.array_split(np.arange(d), min(block_count, d))]
            margins, changes = self._evaluations.evaluate(blocks)
            for block, margin, is_changed in zip(blocks, margins, changes, strict=False):
                self._effects[block] = (self._full_margin - margin) / len(block)
                if is_changed:
                    self._accept(block)
            features = np.argsort(-self._effects, kind="stable").tolist()
            features = features[: int(_BLOCKS_SHARE * calls)]
        margins, changes = self._evaluations.evaluate([[j] for j in features])
        self._effects[features[: len(margins)]] = self._full_margin - margins
        self.has_singles = len(margins) == d
        if changes.any():
            # The clearest of the changes.
            candidates = np.flatnonzero(changes)
            self.best = [features[int(candidates[margins[candidates].argmin()])]]
        elif self.has_singles:
            self.lower_bound = 2

    def _accept(self, removed: Sequence[int]) -> None:
        """Take a set that changes the prediction if it is smaller than the best set so far."""
        if self.best is None or len(removed) < len(self.best):
            self.best = list(removed)

    def _measure_removal_effects(self, base: Sequence[int]) -> None:
        """Measure the effects of features again where the features of ``base`` are removed.

        Effects near a change may differ from those in the complete text.
        """
        calls = int(_EFFECTS_SHARE * self._evaluations.remaining)
        order = np.argsort(-self._effects, kind="stable").tolist()
        inside = list(base)[:calls]
        outside = [j for j in order if j not in base][: calls - len(inside)]
        sets = [[k for k in base if k != j] for j in inside] + [[*base, j] for j in outside]
        margins, changes = self._evaluations.evaluate([list(base), *sets])
        if len(margins) <= len(sets):
            return
        for removed, is_changed in zip(sets, changes[1:].tolist(), strict=True):
            if is_changed and removed:
                self._accept(removed)
        count = len(inside)
        self._effects[inside] = margins[1 : 1 + count] - margins[0]
        self._effects[outside] = margins[0] - margins[1 + count :]

    def _remove_in_order(self) -> list[int]:
        """Remove features in the order of their effects until the prediction changes.

        Return the removed features, or all whose effects are positive if nothing changes it.
        """
        order: list[int] = np.argsort(-self._effects, kind="stable").tolist()
        sizes = [2**i for i in range(1, self.d.bit_length()) if 2**i < self.d]
        helpful = int(np.count_nonzero(self._effects > 0))
        sizes = sorted({*sizes, self.d, *([helpful] if helpful > 1 else [])})
        _, changes = self._evaluations.evaluate([order[:size] for size in sizes])
        if not changes.any():
            return order[: max(helpful, 1)]
        first = int(np.flatnonzero(changes)[0])
        low, high = sizes[first - 1] if first else 1, sizes[first]
        while high - low > 1:
            middle = (low + high) // 2
            _, changes = self._evaluations.evaluate([order[:middle]])
            if not len(changes):
                break
            low, high = (low, middle) if changes[0] else (middle, high)
        self._accept(order[:high])
        return order[:high]

    def _halve_best(self) -> None:
        """Take the second half of the best set as long as its removal changes the prediction.

        The last feature of a set is the one that changed the prediction. If it suffices, this finds
        it in few calls.
        """
        while self.best is not None and len(self.best) > max(self.lower_bound, 1):
            half = self.best[len(self.best) // 2 :]
            _, changes = self._evaluations.evaluate([half])
            if not changes.any():
                break
            self.best = half

    def put_back(self) -> None:
        """Put features back as long as the prediction stays changed without them."""
        if self.best is None:
            return
        best = self.best
        while len(best) > max(self.lower_bound, 1):
            margins, changes = self._evaluations.evaluate(
                [[k for k in best if k != j] for j in best]
            )
            order = [i for i in np.argsort(margins, kind="stable").tolist() if changes[i]]
            if not order:
                break
            # Several at a time, because there may be hundreds: halve the number until it works.
            count = len(order)
            while count > 1:
                returned = {best[i] for i in order[:count]}
                smaller = [k for k in best if k not in returned]
                _, change = self._evaluations.evaluate([smaller])
                if smaller and len(change) and change[0]:
                    break
                count //= 2
            returned = {best[i] for i in order[:count]}
            best = [k for k in best if k not in returned]
        self.best = best

    def _grow_set(self) -> None:
        """Remove the feature with the largest effect, measured again after each removal."""
        removed, effects, margin = list[int](), self._effects.copy(), self._full_margin
        per_step = int(_GREEDY_SHARE * self._evaluations.remaining / self._expected_size())
        per_step = max(per_step, _MIN_CANDIDATES)
        limit = self.d if self.best is None else len(self.best) - 1
        while len(removed) < limit and self._evaluations.remaining > 0:
            order = [j for j in np.argsort(-effects, kind="stable").tolist() if j not in removed]
            candidates = order[:per_step]
            margins, changes = self._evaluations.evaluate([[*removed, j] for j in candidates])
            if not len(margins):
                return
            effects[candidates[: len(margins)]] = margin - margins
            choice = int(margins.argmin())
            if changes.any():
                choice = int(np.flatnonzero(changes)[margins[changes].argmin()])
            removed.append(candidates[choice])
            margin = float(margins[choice])
            if changes.any():
                self._accept(removed)
                return

    def _expected_size(self) -> int:
        """Return the number of features whose effects add up to the margin."""
        effects = np.sort(np.maximum(self._effects, 0.0))[::-1]
        count = 1 + int(np.searchsorted(np.cumsum(effects), self._full_margin))
        return max(1, min(count, self.d if self.best is None else len(self.best)))

    def _evaluate_pairs(self) -> bool:
        """Evaluate all pairs if that settles whether two features are enough."""
        count = self.d * (self.d - 1) // 2
        is_next = self.lower_bound == 2 and self.best is not None and len(self.best) > 2
        remaining = self._evaluations.remaining
        if not is_next or count > remaining or (len(self.best or ()) > 3 and 4 * count > remaining):
            return False
        removed = _evaluate_size(self._evaluations, 2)
        if removed is None:
            self.lower_bound = 3
        else:
            self.best = list(removed)
        return True

    def _shrink_best(self) -> bool:
        """Look for a set with a feature less: two features go back, and another is removed."""
        best = self.best or []
        for batch in self._smaller_sets(best):
            margins, changes = self._evaluations.evaluate(batch)
            if changes.any():
                candidates = np.flatnonzero(changes)
                self._accept(batch[int(candidates[margins[candidates].argmin()])])
                self.put_back()
                return True
            if len(margins) < len(batch):
                return False
        return False

    def _smaller_sets(self, best: list[int]) -> Iterator[list[list[int]]]:
        """Yield batches of sets with a feature less than ``best``, the most promising first."""
        if len(best) < 2:
            return
        without_one, _ = self._evaluations.evaluate([[k for k in best if k != j] for j in best])
        if len(without_one) < len(best):
            return
        losses = dict(zip(best, without_one.tolist(), strict=True))
        candidates = [
            j for j in np.argsort(-self._effects, kind="stable").tolist() if j not in losses
        ]
        pairs = sorted(combinations(best, 2), key=lambda pair: losses[pair[0]] + losses[pair[1]])
        # The sum of ranks: neither all features for the first pair nor all pairs for one feature.
        ranks = (
            (i, rank - i)
            for rank in range(len(pairs) + len(candidates))
            for i in range(max(0, rank - len(candidates) + 1), min(rank + 1, len(pairs)))
        )
        sets = (
            [k for k in best if k not in pairs[i]] + [candidates[j]]
            for i, j in ranks
            if j < len(candidates)
        )
        while batch := list(islice(sets, _BATCH)):
            yield batch


STABILITY_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
_CONFIDENCE_DELTA = 0.05
_MIN_DRAWS = 10  # of a size; fewer say nearly nothing


def measure_stability(
    evaluate_masks: EvaluateMasks,
    d: int,
    *,
    calls: int,
    rng: Rng,
    has_singles: bool = False,
) -> tuple[RemovalStability, ...]:
    """Measure how often the prediction stays if random sets of several sizes are removed.

    Parameters
    ----------
    evaluate_masks
        As in `search_removals`.
    d
        Number of features.
    calls
        The largest number of sets to draw, for all sizes together. A size has no entry if there are
        fewer than ten sets for it.
    rng
        Source of random sets.
    has_singles
        Whether each single feature was evaluated before, so that its stored output costs no call.

    Returns
    -------
    One entry for each size, in increasing order.
    """
    sizes = [size for size in STABILITY_SIZES if size < d]
    entries, remaining = list[RemovalStability](), calls
    for i, size in enumerate(sizes):
        # If the calls are too few for all sizes, the smallest sizes get them.
        draws = remaining // max(1, min(len(sizes) - i, remaining // _MIN_DRAWS))
        is_stored = size == 1 and has_singles
        is_enumerable = is_stored or math.comb(d, size) <= draws
        if not is_enumerable and draws < _MIN_DRAWS:
            break
        if is_enumerable:
            masks = np.ones((math.comb(d, size), d), bool)
            for row, removed in zip(masks, combinations(range(d), size), strict=True):
                row[list(removed)] = False
        else:
            masks = draw_masks_by_size(d, np.full(draws, size), rng)
        _, changes = evaluate_masks(masks)
        remaining -= 0 if is_stored else len(masks)
        unchanged = int(np.count_nonzero(~changes))
        share = unchanged / len(masks)
        low, high = share, share
        if not is_enumerable:
            low, high = clopper_pearson_interval(unchanged, len(masks), delta=_CONFIDENCE_DELTA)
        entries.append(RemovalStability(size, len(masks), unchanged, low, high))
    return tuple(entries)
