"""Certified decisions: how many words must be removed to change a prediction, and which keep it.

The margins of the predicted class against every other class are ratio or power games. The
prediction changes if one of them is negative. Games of one head are decided by sorting, other
games by branch and bound. A bound θ_i of each head gives a sum over words below the margin,

    mean_i f_i ≥ mean_i [θ_i + (N_i − θ_i D_i)/U_i],    θ_i ≤ min f_i,    U_i ≥ max D_i,

which a sort minimizes for all heads together. Statement and proof: ``docs/theorems/decisions.md``.
"""

import math
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Bool, Float, Int
from limelight.theory.faithfulness import certified_full_value, restrict_game, size_extremes
from limelight.theory.heavy_form import heavy_form
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import RatioGame, map_arrays
from limelight.theory.table_rounding import ROUNDING

_BATCH = 64  # nodes in one call of NumPy
_STEPS = 5  # of Dinkelbach's method; fewer steps only make the bounds weaker
_INTERVALS = 8  # of √D at the start
_SHRINKS = 0.75  # a node with fewer words is bounded again before it is split


class RemovalCertificate(NamedTuple):
    """How many words must be removed to make a margin negative.

    Parameters
    ----------
    lower_bound
        No removal of fewer words makes a margin negative or 0. This is d + 1 if no removal does.
    removed
        The smallest set that was found whose removal makes a margin negative in spite of rounding.
        None if no set was found.
    is_robust
        Whether it is proven that no removal makes a margin negative or 0.
    node_count
        The number of nodes of branch and bound.
    limit
        The limit that ended the search, "seconds" or "nodes". None if no limit did.
    """

    lower_bound: int
    removed: tuple[int, ...] | None
    is_robust: bool
    node_count: int = 0
    limit: str | None = None

    @property
    def is_minimal(self) -> bool:
        """Whether the set has the proven minimum size."""
        return self.removed is not None and len(self.removed) == self.lower_bound

    @property
    def is_settled(self) -> bool:
        """Whether the minimum size is proven, or that no removal changes the prediction."""
        return self.is_robust or self.is_minimal


class SufficientSet(NamedTuple):
    """Words that keep every margin positive for each removal of other words.

    Parameters
    ----------
    features
        The words, in increasing order.
    is_subset_minimal
        Whether it is proven that no word can be left out.
    is_smallest
        Whether it is proven that no smaller set is sufficient.
    node_count
        The number of nodes of branch and bound.
    limit
        The limit that ended the search, "seconds" or "nodes". None if no limit did.
    """

    features: tuple[int, ...]
    is_subset_minimal: bool
    is_smallest: bool
    node_count: int = 0
    limit: str | None = None


def certify_removals(
    games: Sequence[RatioGame], *, seconds: float = 1.0, nodes: int = 100_000
) -> RemovalCertificate:
    """Bound the number of words whose removal makes one of several margins negative.

    Parameters
    ----------
    games
        The margins of the predicted class against each other class: games of the same words, each
        of one document and one output. They must be positive if no word is removed.
    seconds, nodes
        Limits of the search. With ``seconds=math.inf`` the result is reproducible.

    Returns
    -------
    A proven lower bound, and the smallest set found.

    Raises
    ------
    DomainError
        If a margin of the complete text is not certainly positive.
    """
    margins, limits = _check_margins(games), _SearchLimits(seconds, nodes)
    d = margins[0].d
    kept_words = np.zeros(d, bool)
    removed = _shortest(margin.terms.find_greedy_removal(kept_words) for margin in margins)
    if removed is None:
        # Greedy search found nothing, so perhaps there is nothing: one search without a size.
        answers = [margin.search(kept_words, d, limits) for margin in margins]
        removed = _shortest(answer.removed for answer in answers)
        if all(answer.is_impossible for answer in answers):
            return RemovalCertificate(d + 1, None, True, limits.node_count)
    largest = d if removed is None else len(removed) - 1
    lower_bound = 1 + min(margin.bound_size(largest) for margin in margins)
    while lower_bound <= largest and limits.limit is None:
        answers = [margin.search(kept_words, lower_bound, limits) for margin in margins]
        smaller = _shortest(answer.removed for answer in answers)
        if smaller is not None:
            removed = smaller
        if not all(answer.is_impossible for answer in answers):
            break
        lower_bound += 1
    is_robust = lower_bound > d
    return RemovalCertificate(
        lower_bound,
        None if removed is None else tuple(np.flatnonzero(removed).tolist()),
        is_robust,
        limits.node_count,
        limits.limit,
    )


def find_sufficient_set(
    games: Sequence[RatioGame], *, seconds: float = 1.0, nodes: int = 100_000
) -> SufficientSet:
    """Find few words that keep all margins positive for each removal of other words.

    Words are released in the order of their support, and each release is proven. A set is smallest
    if no smaller set shares a word with every removal that is known to change the prediction.

    Parameters
    ----------
    games
        The margins of the predicted class against each other class, as for `certify_removals`.
    seconds, nodes
        Limits of the search. With ``seconds=math.inf`` the result is reproducible.

    Returns
    -------
    A set that is proven to be sufficient, and what is proven about its size.

    Raises
    ------
    DomainError
        If a margin of the complete text is not certainly positive.
    """
    margins, limits = _check_margins(games), _SearchLimits(seconds, nodes)
    search = _SufficientSearch(margins, limits)
    words, is_subset_minimal = search.release_words()
    smallest = search.find_smallest(words)
    is_smallest = smallest is not None
    if smallest is not None:
        # No smaller set is sufficient, hence none inside it.
        words, is_subset_minimal = smallest, True
    features = tuple(np.flatnonzero(words).tolist())
    return SufficientSet(features, is_subset_minimal, is_smallest, limits.node_count, limits.limit)


def bound_margin(game: RatioGame) -> Float[np.ndarray, " d"]:
    """Return lower bounds on a margin over the sets of at most k removed words, for k = 1..d.

    All heads have the same set, unlike in `size_extremes`. Rounding is counted. Domain: p = 1 and
    D > 0.
    """
    terms = _Terms.make(map_arrays(game, host_array))
    if game.power != 1 or np.any(terms.base == 0):
        raise DomainError(
            "the joint bound of heads needs a ratio game with D > 0 for every set of words, not a "
            f"game with the power {game.power} and the least D = {terms.base.min():g}."
        )
    return _BranchAndBound(terms).bound_sizes(game.d)


class _SearchLimits:
    """The limits of a search, and the number of its nodes."""

    def __init__(self, seconds: float, nodes: int) -> None:
        self.deadline, self.nodes = time.perf_counter() + seconds, nodes
        self.node_count = 0
        self.limit: str | None = None

    def spend(self, nodes: int) -> bool:
        """Count nodes, and return whether the search may go on."""
        self.node_count += nodes
        if self.node_count > self.nodes:
            self.limit = "nodes"
        elif time.perf_counter() > self.deadline:
            self.limit = "seconds"
        return self.limit is None


Words = Bool[np.ndarray, " d"]


class _Answer(NamedTuple):
    """Whether a removal makes a margin negative: proven impossible, a set, or neither."""

    is_impossible: bool
    removed: Words | None = None


_IMPOSSIBLE, _UNKNOWN = _Answer(is_impossible=True), _Answer(is_impossible=False)


def _shortest(removals: Iterable[Words | None]) -> Words | None:
    """Return the set of the fewest words, None if there is none."""
    sets = [removed for removed in removals if removed is not None]
    return min(sets, key=lambda removed: int(removed.sum()), default=None)


def _check_margins(games: Sequence[RatioGame]) -> "list[_Margin]":
    """Prepare the games, or raise an error if they are no positive margins."""
    if not games or len({game.d for game in games}) > 1:
        raise InputError("certified decisions need one or more games of the same features.")
    games = [map_arrays(game, host_array) for game in games]
    for game in games:
        full = certified_full_value(game)
        if not full.value > full.bound:
            raise DomainError(
                "certified decisions need a positive margin, but the margin of the complete text "
                f"is {float(full.value):.3g} with an error of {float(full.bound):.1g}."
            )
    return [_prepare_margin(game) for game in games]


def _prepare_margin(game: RatioGame) -> "_Margin":
    """Return the margin in the form that decides it best."""
    terms = _Terms.make(game)
    return _choose_form(terms) or _BoundedOnly(terms, game)


def _choose_form(terms: "_Terms") -> "_SingleHead | _BranchAndBound | None":
    """Return the form that decides margins of these terms, None if there is none."""
    # A head without any weight, such as a text of unknown words, has the value 0 = 0/1.
    is_weightless = (terms.base == 0) & ~np.any(terms.D_kept + terms.D_removed, axis=1)
    terms = terms._replace(base=np.where(is_weightless, 1.0, terms.base))
    # Without words D = 0, and the margin is c.
    vanishes = bool(np.any(terms.base == 0))
    is_deleted = not np.any(terms.D_removed)
    if len(terms.n0) == 1 and terms.power in (0.5, 1) and (is_deleted or not vanishes):
        is_linear = terms.power == 1 or terms.c - terms.tolerance >= 0
        return _SingleHead(terms) if is_linear else _BranchAndBound(terms)
    if terms.power == 1 and not vanishes:
        return _BranchAndBound(terms)
    return None


class _Terms(NamedTuple):
    """A margin as c + mean_i N_i/D_i^p, with the terms of each word if it is kept or removed.

    Terms of D are at least 0, so that sums of them never cancel. The least D is ``base``, 1 or 0.
    """

    n0: Float[np.ndarray, " K"]
    base: Float[np.ndarray, " K"]
    N_kept: Float[np.ndarray, "K d"]
    N_removed: Float[np.ndarray, "K d"]
    D_kept: Float[np.ndarray, "K d"]
    D_removed: Float[np.ndarray, "K d"]
    c: float
    power: float
    tolerance: float  # a bound on the error of computed margins
    slack: Float[np.ndarray, " K"]  # times D^p, a bound on the error of N − θD^p

    @classmethod
    def make(cls, game: RatioGame) -> "_Terms":
        form, d = heavy_form(game), game.d
        step, zero = form.step[:, 0], np.zeros_like(form.delta)
        heavy = form.kept_is_heavy
        rounding = 8 * ROUNDING * (d + 8) * form.magnitude[:, 0]
        return cls(
            n0=form.n0[:, 0],
            base=form.base,
            N_kept=np.where(heavy, step, zero),
            N_removed=np.where(heavy, zero, step),
            D_kept=np.where(heavy, form.delta, zero),
            D_removed=np.where(heavy, zero, form.delta),
            c=float(form.c[:, 0].mean()),
            power=game.power,
            tolerance=float((form.error[:, 0] + rounding).mean()),
            slack=rounding,
        )

    @property
    def d(self) -> int:
        """The number of words."""
        return int(self.N_kept.shape[1])

    def sums(
        self, removed: Bool[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n K"]]:
        """Return N and D for each set of removed words."""
        out = removed.astype(np.float64)
        keep = 1 - out
        N = self.n0 + keep @ self.N_kept.T + out @ self.N_removed.T
        return N, self.base + keep @ self.D_kept.T + out @ self.D_removed.T

    def values(self, removed: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return the margin for each set of removed words."""
        N, D = self.sums(removed)
        # Where D is 0, N is 0, and the margin is c.
        safe_D = np.where(D > 0, D, 1.0)
        return self.c + np.where(D > 0, N / safe_D**self.power, 0.0).mean(axis=1)

    def is_negative(self, removed: Words) -> bool:
        """Return whether the removal makes the margin negative in spite of rounding."""
        return bool(self.values(removed[None])[0] < -self.tolerance)

    def restrict(self, free: Words, removed: Words) -> "_Terms":
        """Return the margin of the words ``free``. All other words are kept or ``removed``."""
        keep = ~free & ~removed
        return self._replace(
            n0=self.n0 + self.N_kept[:, keep].sum(1) + self.N_removed[:, removed].sum(1),
            base=self.base + self.D_kept[:, keep].sum(1) + self.D_removed[:, removed].sum(1),
            N_kept=self.N_kept[:, free],
            N_removed=self.N_removed[:, free],
            D_kept=self.D_kept[:, free],
            D_removed=self.D_removed[:, free],
        )

    def find_greedy_removal(self, kept_words: Words) -> Words | None:
        """Remove the word that lowers the margin most until it is negative, None if it never is."""
        removed = np.zeros(self.d, bool)
        blocked = np.where(kept_words, np.inf, 0.0)
        for _ in range(self.d - int(kept_words.sum())):
            j = int(np.argmin(self.toggled_values(removed) + blocked))
            removed[j], blocked[j] = True, np.inf
            if self.is_negative(removed):
                return removed
        return None

    def toggled_values(self, removed: Words) -> Float[np.ndarray, " d"]:
        """Return about the margin after the state of each word alone is changed."""
        # D loses digits if a word of nearly all the weight is removed. So these values only choose
        # words, and `values` decides.
        (N,), (D,) = self.sums(removed[None])
        sign = np.where(removed, -1.0, 1.0)
        new_N = N[:, None] + sign * (self.N_removed - self.N_kept)
        new_D = np.maximum(D[:, None] + sign * (self.D_removed - self.D_kept), self.base[:, None])
        safe_D = np.where(new_D > 0, new_D, 1.0) ** self.power
        return self.c + np.where(new_D > 0, new_N / safe_D, 0.0).mean(axis=0)

    def exchange_states(self) -> "_Terms":
        """Return −f as a function of the kept words: a kept word becomes a removed one."""
        return self._replace(
            n0=-self.n0,
            N_kept=-self.N_removed,
            N_removed=-self.N_kept,
            D_kept=self.D_removed,
            D_removed=self.D_kept,
            c=-self.c,
        )


class _BoundedOnly:
    """A margin for which only the bounds of `size_extremes` are known."""

    def __init__(self, terms: _Terms, game: RatioGame) -> None:
        self.terms, self.game, self.d = terms, game, game.d

    def linear_form(self) -> tuple[float, Float[np.ndarray, " d"]]:
        """Return the margin, and its change by each removal alone."""
        complete = np.zeros(self.d, bool)
        start = float(self.terms.values(complete[None])[0])
        return start, self.terms.toggled_values(complete) - start

    def bound_size(self, largest: int) -> int:
        """Return a size up to which no removal makes the margin 0 or negative."""
        reachable = np.flatnonzero(size_extremes(self.game).low[:largest] <= 0)
        return int(reachable[0]) if len(reachable) else largest

    def search(self, kept_words: Words, k: int, limits: _SearchLimits) -> _Answer:
        """Search for a removal of at most k words that makes the margin negative."""
        free = np.flatnonzero(~kept_words).tolist()
        if not free or not limits.spend(1):
            return _IMPOSSIBLE if not free else _UNKNOWN
        low = size_extremes(restrict_game(self.game, [], free)).low[:k]
        if np.all(low > 0):
            return _IMPOSSIBLE
        removed = self.terms.find_greedy_removal(kept_words)
        if removed is None or removed.sum() > k:
            return _UNKNOWN
        return _Answer(is_impossible=False, removed=removed)


class _SingleHead:
    """A margin of one head, c + N/D^p with p = 1, or with p = ½ and c ≥ 0.

    It has the sign of N + cD^p. For p = 1 this is a sum over words. For p = ½ and √D in an interval
    the chord of the square root is below it, and N + c times the chord is a sum over words. The
    intervals are halved until they decide.
    """

    def __init__(self, terms: _Terms) -> None:
        self.terms, self.d = terms, terms.d
        # A margin above the tolerance is certainly positive.
        self.c = terms.c - terms.tolerance
        self.high = float(terms.base[0] + np.maximum(terms.D_kept, terms.D_removed).sum())
        ends = np.geomspace(1 - 1e-12, math.sqrt(self.high) * (1 + 1e-12), _INTERVALS + 1)
        self.intervals = np.stack([ends[:-1], ends[1:]], axis=1)
        if terms.power == 1:
            self.intervals = np.array([[1.0, 1.0]])
        # D = 0 without any word of positive weight. For p = 1 and c > 0 the margin is then c, but
        # N + cD is 0: at most all but one of these words are removed.
        self.weighted = terms.D_kept[0] > 0
        self.excludes_all = terms.power == 1 and terms.base[0] == 0 and self.c > 0

    def bound_size(self, largest: int) -> int:
        """Return a size up to which no removal makes the margin 0 or negative."""
        low = self._lows(self.intervals, np.zeros(self.d, bool))[0][:, 1 : largest + 1].min(axis=0)
        reachable = np.flatnonzero(low <= 0)
        return int(reachable[0]) if len(reachable) else largest

    def search(self, kept_words: Words, k: int, limits: "_SearchLimits") -> "_Answer":
        """Search for a removal of at most k words that makes the margin negative."""
        intervals = self.intervals
        while True:
            low, gains = self._lows(intervals, kept_words)
            is_open = low[:, k] <= 0
            if not np.any(is_open):
                return _IMPOSSIBLE
            intervals, gains = intervals[is_open], gains[is_open]
            candidates = _select_least(np.minimum(gains, 0.0), np.full(len(gains), k))
            f = self.terms.values(candidates)
            if np.min(f) < -self.terms.tolerance:
                return _Answer(is_impossible=False, removed=candidates[np.argmin(f)])
            width = intervals[:, 1] / intervals[:, 0]
            if not limits.spend(len(intervals)) or np.any(width < 1 + 1e-9):
                return _UNKNOWN
            middle = np.sqrt(intervals[:, 0] * intervals[:, 1])
            intervals = np.concatenate(
                [
                    np.stack([intervals[:, 0], middle], axis=1),
                    np.stack([middle, intervals[:, 1]], axis=1),
                ]
            )

    def linear_form(self) -> tuple[float, Float[np.ndarray, " d"]]:
        """Return a sum over words with about the sign of the margin: its start and its gains."""
        start, gains, _ = self._forms(self.intervals, np.zeros(self.d, bool))
        return float(start.mean()), gains.mean(axis=0)

    def _forms(
        self, intervals: Float[np.ndarray, "n 2"], kept_words: Words
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """Return each sum with all words kept, the gain of each removal, and an error bound."""
        terms, (first, last) = self.terms, intervals.T
        slope, constant = np.ones_like(first), np.zeros_like(first)
        if terms.power == 0.5:
            slope, constant = 1 / (first + last), first * last / (first + last)
        N, D = terms.n0[0] + terms.N_kept.sum(), terms.base[0] + terms.D_kept.sum()
        start = N + self.c * (slope * D + constant)
        dN, dD = (terms.N_removed - terms.N_kept)[0], (terms.D_removed - terms.D_kept)[0]
        gains = np.where(kept_words, 0.0, dN + self.c * slope[:, None] * dD)
        size = np.abs(self.c) * (slope * self.high + constant)
        error = terms.slack[0] * self.high**terms.power + 8 * ROUNDING * (self.d + 8) * size
        return start, gains, error

    def _lows(
        self, intervals: Float[np.ndarray, "n 2"], kept_words: Words
    ) -> tuple[Float[np.ndarray, "n d+1"], Float[np.ndarray, "n d"]]:
        """Return a lower bound of each sum with at most k removed words, k = 0..d, and the gains.

        If it is positive, so is every margin in the interval.
        """
        start, gains, error = self._forms(intervals, kept_words)
        losses = np.sort(np.minimum(gains, 0.0), axis=1)
        if self.excludes_all and not np.any(self.weighted & kept_words):
            losses[:, int(self.weighted.sum()) - 1 :] = 0.0
        low = start[:, None] + np.cumsum(losses, axis=1) - error[:, None]
        return np.concatenate([(start - error)[:, None], low], axis=1), gains


class _Nodes(NamedTuple):
    """Nodes of branch and bound: words that are free or removed, and how many may be removed."""

    free: Bool[np.ndarray, "n d"]
    removed: Bool[np.ndarray, "n d"]
    size: Int[np.ndarray, " n"]

    def select(self, rows: Bool[np.ndarray, " n"] | slice) -> "_Nodes":
        """Return some of the nodes."""
        return _Nodes(*(x[rows] for x in self))

    def append(self, *more: "_Nodes") -> "_Nodes":
        """Return these nodes and others."""
        return _Nodes(*(np.concatenate(parts) for parts in zip(self, *more, strict=True)))


class _NodeBounds(NamedTuple):
    """Linear lower bounds of the margin, positive only if every margin of a node is."""

    low: Float[np.ndarray, " n"]
    gains: Float[np.ndarray, "n d"]  # of removals, infinite for words that are not free
    removed: Bool[np.ndarray, "n d"]  # the free words whose removal minimizes the linear bound
    weights: Float[np.ndarray, "n d"]  # the largest weight is branched on


class _BranchAndBound:
    """A margin of several heads with p = 1, or of one head with p = ½ and c < 0."""

    def __init__(self, terms: _Terms) -> None:
        self.terms, self.d = terms, terms.d

    def bound_size(self, largest: int) -> int:
        """Return a size up to which no removal makes the margin 0 or negative."""
        for i in range(0, largest, _BATCH):
            low = self.bound_sizes(min(i + _BATCH, largest), i)
            if len(reachable := np.flatnonzero(low <= 0)):
                return i + int(reachable[0])
        return largest

    def bound_sizes(self, largest: int, smallest: int = 0) -> Float[np.ndarray, " n"]:
        """Return lower bounds for at most k removed words, smallest < k ≤ largest."""
        sizes = np.arange(smallest + 1, largest + 1)
        shape = (len(sizes), self.d)
        nodes = _Nodes(np.ones(shape, bool), np.zeros(shape, bool), sizes)
        return _bound_nodes(self.terms, nodes).low

    def linear_form(self) -> tuple[float, Float[np.ndarray, " d"]]:
        """Return a sum over words below the margin: its start and the gain of each removal."""
        shape = (1, self.d)
        nodes = _Nodes(np.ones(shape, bool), np.zeros(shape, bool), np.array([self.d]))
        bounds = _bound_nodes(self.terms, nodes)
        return float(bounds.low[0] - bounds.gains[bounds.removed].sum()), bounds.gains[0]

    def search(self, kept_words: Words, k: int, limits: "_SearchLimits") -> "_Answer":
        """Search for a removal of at most k words that makes the margin negative."""
        free, removed = ~kept_words, np.zeros(self.d, bool)
        terms, size, is_decided = self.terms.restrict(free, removed), k, True
        nodes = _root(int(free.sum()), size)
        while len(nodes.size):
            if not limits.spend(min(len(nodes.size), _BATCH)):
                return _UNKNOWN
            block, nodes = nodes.select(slice(-_BATCH, None)), nodes.select(slice(-_BATCH))
            is_root = not len(nodes.size) and not np.any(block.removed) and len(block.size) == 1
            bounds = _bound_nodes(terms, block)
            block, bounds = _drop(block, bounds, bounds.low > 0)
            if not len(block.size):
                continue
            f = terms.values(candidates := block.removed | bounds.removed)
            if np.min(f) < -terms.tolerance:
                words = np.flatnonzero(free)[candidates[np.argmin(f)]]
                removed[words] = True
                return _Answer(is_impossible=False, removed=removed)
            before = block.free.sum(axis=1)
            block = _fix_words(block, bounds)
            if is_root and np.all(before * _SHRINKS > block.free.sum(axis=1)):
                # The root has most words. The other nodes are made without those it has fixed.
                words = np.flatnonzero(free)
                removed[words[block.removed[0]]] = True
                free = np.zeros(self.d, bool)
                free[words[block.free[0]]] = True
                terms = self.terms.restrict(free, removed)
                nodes = _root(int(free.sum()), int(block.size[0]))
                continue
            is_leaf = (block.size == 0) | ~np.any(block.free, axis=1)
            # A leaf is a single set. Its margin is certainly positive, or within rounding of 0.
            values = terms.values(block.removed[is_leaf])
            is_decided = is_decided and bool(np.all(values > terms.tolerance))
            is_smaller = ~is_leaf & (block.free.sum(axis=1) < _SHRINKS * before)
            is_branched = ~is_leaf & ~is_smaller
            nodes = nodes.append(
                block.select(is_smaller),
                *_branch(block.select(is_branched), bounds.weights[is_branched]),
            )
        return _IMPOSSIBLE if is_decided else _UNKNOWN


def _root(d: int, size: int) -> _Nodes:
    """Return the node in which all words are free."""
    return _Nodes(np.ones((1, d), bool), np.zeros((1, d), bool), np.array([size]))


def _drop(
    nodes: _Nodes, bounds: _NodeBounds, is_done: Bool[np.ndarray, " n"]
) -> tuple[_Nodes, _NodeBounds]:
    """Return the nodes that are not done, and their bounds."""
    return nodes.select(~is_done), _NodeBounds(*(x[~is_done] for x in bounds))


def _branch(nodes: _Nodes, weights: Float[np.ndarray, "n d"]) -> tuple[_Nodes, _Nodes]:
    """Split each node at its free word of largest weight: the word is kept, or removed."""
    rows = np.arange(len(nodes.size))
    word = np.argmax(np.where(nodes.free, weights, -1.0), axis=1) if len(rows) else rows
    free, removed = nodes.free.copy(), nodes.removed.copy()
    free[rows, word] = False
    removed[rows, word] = True
    return _Nodes(free, nodes.removed, nodes.size), _Nodes(free, removed, nodes.size - 1)


def _fix_words(nodes: _Nodes, bounds: _NodeBounds) -> _Nodes:
    """Keep or remove the free words for which the other choice makes the bound positive."""
    low, gains = bounds.low[:, None], bounds.gains
    losses = np.minimum(np.sort(gains, axis=1), 0.0)
    losses = np.concatenate([losses, np.zeros_like(low)], axis=1)
    d, size = gains.shape[1], nodes.size[:, None]
    last = np.take_along_axis(losses, np.clip(size - 1, 0, d), axis=1)
    following = np.take_along_axis(losses, np.minimum(size, d), axis=1)
    # If a word must be removed, it takes the place of the last word of the minimizer. If it must be
    # kept, the next word takes its place.
    chosen = np.where(bounds.removed, gains, 0.0)
    is_kept = ~bounds.removed & (low - last + gains > 0)
    is_removed = bounds.removed & (low - chosen + following > 0)
    is_kept |= size == 0
    free = nodes.free & ~is_kept & ~is_removed
    is_removed &= nodes.free
    return _Nodes(free, nodes.removed | is_removed, nodes.size - is_removed.sum(axis=1))


def _bound_nodes(terms: _Terms, nodes: _Nodes) -> _NodeBounds:
    """Return a linear lower bound of each node."""
    return (_bound_roots if terms.power == 0.5 else _bound_quotients)(terms, nodes)


def _bound_quotients(terms: _Terms, nodes: _Nodes) -> _NodeBounds:
    """Bound the mean of the quotients N/D by the sum of linear functions of the removed words.

    For any θ, let g = N − θD ≥ −e for every set of the node, with e ≥ 0. With D ≤ U and D ≥ L,
    N/D − θ = (g + e)/D − e/D ≥ (g + e)/U − e/L.
    """
    dN, dD = terms.N_removed - terms.N_kept, terms.D_removed - terms.D_kept
    N, D = terms.sums(nodes.removed)
    free = nodes.free[:, None, :]
    U = D + nodes.free.astype(np.float64) @ np.maximum(dD, 0.0).T
    theta = N / D
    for _ in range(_STEPS):
        chosen = _mark_least(np.where(free, dN - theta[..., None] * dD, 0.0), nodes.size)
        least_D = np.maximum(D + np.where(chosen, dD, 0.0).sum(axis=-1), terms.base)
        improved = np.minimum((N + np.where(chosen, dN, 0.0).sum(axis=-1)) / least_D, theta)
        has_converged = np.all(theta - improved <= 1e-9 * np.abs(theta))
        theta = improved
        if has_converged:
            break
    gains = np.where(free, dN - theta[..., None] * dD, 0.0)
    chosen = _mark_least(gains, nodes.size)
    slack = terms.slack * U
    start = N - theta * D - slack
    below = np.maximum(-(start + np.where(chosen, gains, 0.0).sum(axis=-1)), 0.0)
    low = terms.c - terms.tolerance + (theta + (start + below) / U - below / terms.base).mean(1)
    joint_gains = np.where(nodes.free, (gains / U[..., None]).mean(axis=1), np.inf)
    removed = _select_least(joint_gains, nodes.size)
    low = low + np.where(removed, joint_gains, 0.0).sum(axis=1)
    # The bound loses most where a head with a value far above θ has lost much of D. There a word
    # matters on which this head and all heads together disagree.
    all_N, all_D = terms.sums(nodes.removed | removed)
    gap = np.maximum((all_N / all_D - theta) * (1 - all_D / U), 0.0) / U + 1e-300
    differs = np.where(chosen != removed[:, None], np.abs(gains), 0.0)
    weights = (gap[:, None] @ differs)[:, 0] + 1e-200 * np.abs(dD).max(axis=0)
    return _NodeBounds(low, joint_gains, removed, weights)


def _bound_roots(terms: _Terms, nodes: _Nodes) -> _NodeBounds:
    """Bound N + c√D, which has the sign of the margin, for c < 0 and one head.

    √D is at most its tangent (D/s + s)/2 for every s > 0. The best s is √D of the minimizer.
    """
    dN, dD = (terms.N_removed - terms.N_kept)[0], (terms.D_removed - terms.D_kept)[0]
    c, (N, D) = terms.c - terms.tolerance, (x[:, 0] for x in terms.sums(nodes.removed))
    U = D + nodes.free.astype(np.float64) @ np.maximum(dD, 0.0)
    s = np.sqrt(np.maximum(D, 1.0))
    steps: list[_NodeBounds] = []
    for _ in range(_STEPS):
        gains = np.where(nodes.free, dN + c / (2 * s[:, None]) * dD, np.inf)
        removed = _select_least(gains, nodes.size)
        error = terms.slack[0] * np.sqrt(U) + 8 * ROUNDING * (terms.d + 8) * -c * (U / s + s)
        low = N + c * (D / s + s) / 2 + np.where(removed, gains, 0.0).sum(axis=1) - error
        steps.append(_NodeBounds(low, gains, removed, np.broadcast_to(np.abs(dD), gains.shape)))
        s = np.sqrt(np.maximum(D + np.where(removed, dD, 0.0).sum(axis=1), 1.0))
    best, rows = np.argmax([bounds.low for bounds in steps], axis=0), np.arange(len(s))
    return _NodeBounds(*(np.stack(x)[best, rows] for x in zip(*steps, strict=True)))


def _select_least(
    gains: Float[np.ndarray, "n d"], size: Int[np.ndarray, " n"]
) -> Bool[np.ndarray, "n d"]:
    """Mark at most ``size`` negative numbers of each row, the smallest ones."""
    order = np.argsort(gains, axis=1, kind="stable")
    marked = np.zeros(gains.shape, bool)
    np.put_along_axis(marked, order, np.arange(gains.shape[1]) < size[:, None], axis=1)
    return marked & (gains < 0)


def _mark_least(
    gains: Float[np.ndarray, "n K d"], size: Int[np.ndarray, " n"]
) -> Bool[np.ndarray, "n K d"]:
    """Mark the ``size`` smallest numbers of each row if they are negative, and all equal ones."""
    # Equal numbers may exceed the size. The bound is then lower, and a partition is fast.
    d = gains.shape[-1]
    if np.all(size >= d):
        return gains < 0
    largest = min(max(int(size.max()), 1), d)
    least = np.sort(np.partition(gains, largest - 1, axis=-1)[..., :largest], axis=-1)
    index = np.clip(size - 1, 0, largest - 1)[:, None, None]
    index = np.broadcast_to(index, (*gains.shape[:-1], 1))
    limit = np.take_along_axis(least, index, axis=-1)
    return (gains < 0) & (gains <= limit) & (size > 0)[:, None, None]


class _SufficientSearch:
    """Search for a sufficient set, with the removals that have changed the prediction so far."""

    def __init__(self, margins: "list[_Margin]", limits: _SearchLimits) -> None:
        self.margins, self.limits, self.d = margins, limits, margins[0].d
        self.changes: list[Words] = []  # each shares a word with every sufficient set

    def is_sufficient(self, words: Words) -> bool | None:
        """Return whether the words keep the prediction, None if it is not known."""
        if any(not np.any(change & words) for change in self.changes):
            return False
        answers: list[_Answer] = []
        for margin in self.margins:
            answer = margin.search(words, self.d, self.limits)
            if answer.removed is not None:
                self.changes.append(_shrink_removal(margin.terms, answer.removed))
                return False
            answers.append(answer)
        return True if all(answer.is_impossible for answer in answers) else None

    def release_words(self) -> tuple[Words, bool]:
        """Return a sufficient set, and whether it is proven that no word can be left out."""
        words, order = np.ones(self.d, bool), np.argsort(self._supports(), kind="stable")
        # The first words are released together: the largest number that can be.
        low, high = 0, self.d + 1
        while high - low > 1:
            middle = (low + high) // 2
            trial = words.copy()
            trial[order[:middle]] = False
            low, high = (middle, high) if self.is_sufficient(trial) else (low, middle)
        words[order[:low]] = False
        is_minimal = True
        for j in order[low:]:
            trial = words.copy()
            trial[j] = False
            answer = self.is_sufficient(trial)
            if answer:
                words = trial
            is_minimal = is_minimal and answer is not None
        return words, is_minimal

    def find_smallest(self, words: Words) -> Words | None:
        """Return a smallest sufficient set, None if the search ends before its size is proven."""
        largest, size = int(words.sum()), 0
        for margin in self.margins:
            size, candidate = self._bound_restored(margin, size, largest)
            if candidate is not None and self.is_sufficient(candidate):
                return candidate
        while size < largest:
            sets = [sum(1 << int(j) for j in np.flatnonzero(change)) for change in self.changes]
            smallest = _smallest_hitting_set(sets, size, self.limits)
            if smallest is None:
                return None
            candidate = np.array([smallest >> j & 1 for j in range(self.d)], bool)
            size = int(candidate.sum())
            if size >= largest:
                break
            answer = self.is_sufficient(candidate)
            if answer is None:
                return None
            if answer:
                return candidate
        return words

    def _bound_restored(
        self, margin: "_Margin", size: int, largest: int
    ) -> tuple[int, Words | None]:
        """Return a lower bound on the size of a sufficient set, and a set that may attain it.

        Remove a set T that makes the margin negative. A sufficient set keeps the margin positive
        if only the words of T outside it are removed. So it has at least as many words as must be
        restored to make the margin positive again. This is the search for a removal, with the
        states of the words exchanged and the sign of the margin changed.
        """
        worst = _find_worst_removal(margin)
        if not margin.terms.is_negative(worst):
            return size, None
        terms = margin.terms.restrict(worst, np.zeros(self.d, bool)).exchange_states()
        exchanged = _choose_form(terms)
        if exchanged is None or size > exchanged.d:
            return size, None
        kept_words = np.zeros(exchanged.d, bool)
        size = max(size, 1 + exchanged.bound_size(min(largest, exchanged.d) - 1))
        while size < largest:
            answer = exchanged.search(kept_words, size, self.limits)
            if answer.removed is not None:
                candidate = np.zeros(self.d, bool)
                candidate[np.flatnonzero(worst)[answer.removed]] = True
                return size, candidate
            if not answer.is_impossible:
                break
            size += 1
        return size, None

    def _supports(self) -> Float[np.ndarray, " d"]:
        """Return how much each word supports the prediction."""
        supports = np.zeros(self.d)
        for margin in self.margins:
            start, gains = margin.linear_form()
            harm = np.maximum(-gains, 0.0)
            # Margins that no removal changes do not count, and narrow ones count most.
            if (excess := harm.sum() - start) > 0:
                supports += harm / excess
        return supports


def _find_worst_removal(margin: "_Margin") -> Words:
    """Return a set of words whose removal makes the margin as small as possible, nearly."""
    terms, removed = margin.terms, margin.linear_form()[1] < 0
    while True:
        trial = removed.copy()
        trial[np.argmin(terms.toggled_values(removed))] ^= True
        before, after = terms.values(np.stack([removed, trial]))
        if not after < before:
            return removed
        removed = trial


def _shrink_removal(terms: _Terms, removed: Words) -> Words:
    """Return a subset of the removed words that still makes the margin negative."""
    while True:
        trial = removed.copy()
        trial[np.argmin(np.where(removed, terms.toggled_values(removed), np.inf))] = False
        if not terms.is_negative(trial):
            return removed
        removed = trial


def _smallest_hitting_set(sets: list[int], size: int, limits: _SearchLimits) -> int | None:
    """Return a smallest set of words with a word of every set, None if a limit ends the search.

    Sets of words are the bits of integers. The smallest set is known to have ``size`` words or
    more.
    """

    def extend(remaining: list[int], chosen: int, banned: int, count: int) -> int | None:
        """Return ``chosen`` and at most ``count`` more words that hit the remaining sets."""
        if not remaining:
            return chosen
        if not limits.spend(1):
            raise TimeoutError
        union, disjoint = 0, 0
        for words in remaining:
            if not words & union:
                union, disjoint = union | words, disjoint + 1
        if disjoint > count:
            return None
        shortest = min(remaining, key=lambda words: (words & ~banned).bit_count()) & ~banned
        while shortest:
            word = shortest & -shortest
            shortest ^= word
            unhit = [words for words in remaining if not words & word]
            result = extend(unhit, chosen | word, banned, count - 1)
            if result is not None:
                return result
            banned |= word
        return None

    ordered = sorted(sets, key=int.bit_count)
    try:
        while (result := extend(ordered, 0, 0, size)) is None:
            size += 1
    except TimeoutError:
        return None
    return result


_Margin = _SingleHead | _BranchAndBound | _BoundedOnly
