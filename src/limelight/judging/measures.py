"""Other measures of faithfulness than the share, and the similarity of explanations."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError, unknown_name_message
from limelight.explainers.target_game import TargetGame
from limelight.judging.candidates import Candidate, ScoredText, Scores
from limelight.judging.removals import Removals, order_by_strength
from limelight.judging.statistics import (
    CORRELATION_RANGE,
    PART_RANGE,
    bootstrap_means,
    named_estimates,
)
from limelight.results.comparison import mean_ranks, rank_correlation
from limelight.results.judgment import MethodAgreement, PairAgreement, TextColumn
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import enumerate_masks


class RemovalSets(NamedTuple):
    """Sets of words to remove, and their weights.

    ``exact`` is True if these are all sets of words, and False if they are a random sample.
    """

    removed: Bool[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    exact: bool


def draw_removal_sets(
    d: int, rng: np.random.Generator, *, max_sets: int, halves: bool = False
) -> RemovalSets:
    """Return sets of words to remove: all sets if there are few, otherwise a random sample.

    By default the size of a set is uniform on 0..d, and all sets of one size are equally likely.
    A random order removes words by the same law.

    Parameters
    ----------
    d
        Number of words.
    rng
        Source of random numbers.
    max_sets
        Number of sets. If there are no more than this, all of them are returned. Otherwise half
        of this number is drawn, and each set comes with its complement. The complements make the
        mean of linear terms exact.
    halves
        Draw independent sets in which every word is present with probability ½.

    Returns
    -------
    The sets with weights that add up to 1.
    """
    # E[x f] and E[f]² follow from E_p f on ratio games, but E[f²] needs the double sums of LIME's
    # R², which take seconds per text. A few thousand masks take milliseconds there, and their error
    # can be estimated.
    if 2**d <= max_sets:
        removed = ~enumerate_masks(d)
        size = removed.sum(axis=1)
        per_size = np.array([math.comb(d, k) for k in range(d + 1)], dtype=float)
        weights = np.full(2**d, 0.5**d) if halves else 1 / ((d + 1) * per_size[size])
        return RemovalSets(removed, weights, exact=True)
    if halves:
        # Without complements: the ranks of a set and its complement move together, so that a pair
        # would count as one set.
        weights = np.full(max_sets, 1 / max_sets)
        return RemovalSets(rng.random((max_sets, d)) < 0.5, weights, exact=False)
    # The size is uniform, unlike with a coin for every word. So sets of few words and of nearly all
    # words occur too, as they do along the curves whose areas are judged.
    size = rng.integers(0, d + 1, size=max_sets // 2)
    rank = np.argsort(rng.random((max_sets // 2, d)), axis=1)
    removed = rank < size[:, None]
    with_complements = np.concatenate([removed, ~removed])
    count = len(with_complements)
    return RemovalSets(with_complements, np.full(count, 1 / count), exact=False)


def additivity(
    scores: Scores, sets: RemovalSets, drops: Float[np.ndarray, " n"], *, ranks: bool = False
) -> tuple[float, float | None] | None:
    """Return the correlation of Σ_{j∈S} scores_j with f(N) − f(N ∖ S), and its standard error.

    The standard error is that of the linear part, (z z' − ρ (z² + z'²)/2) for standardized z and
    z'.

    Parameters
    ----------
    scores
        Scores of the words.
    sets
        Sets S of removed words.
    drops
        f(N) − f(N ∖ S) for every set.
    ranks
        Compute Spearman's correlation, for sets of equal weight. With sets of ``halves`` this is
        the linear datamodeling score.

    Returns
    -------
    The correlation and its standard error, which is None if the sets are all sets. None instead of
    both if the sums of scores or the drops are constant.
    """
    w, sums = sets.weights, sets.removed @ scores
    if ranks:
        # Sums of the same scores in another order differ in their last digits. They are ties.
        sums, drops = (mean_ranks(merge_near_ties(x)) for x in (sums, drops))
    x, y = sums - w @ sums, drops - w @ drops
    norm = math.sqrt(float(w @ x**2) * float(w @ y**2))
    # Rounding leaves about 1e-16 of a constant, and that has no correlation.
    smallest = 1e-12 * (float(np.abs(sums).max()) * float(np.abs(drops).max()) or 1.0)
    if not smallest < norm < math.inf:  # a constant, or numbers whose squares overflow
        return None
    rho = float(np.clip((w @ (x * y)) / norm, -1.0, 1.0))
    if sets.exact:
        return rho, None
    zx, zy = x / math.sqrt(float(w @ x**2)), y / math.sqrt(float(w @ y**2))
    linear = zx * zy - rho * (zx**2 + zy**2) / 2
    if ranks:
        # Another draw also moves the ranks of all other sets. The influence of (x, y) on
        # ρ = 12 E[(F(X) − ½)(G(Y) − ½)] is
        # 12 ((F(x) − ½)(G(y) − ½) + E[1(x ≤ X) G(Y)] + E[1(y ≤ Y) F(X)]).
        linear = zx * zy + math.sqrt(12) * (_upper_means(sums, zy) + _upper_means(drops, zx))
    else:
        # A set and its complement are not independent. They are half of all sets apart.
        linear = linear.reshape(2, -1).mean(axis=0)
    return rho, float(linear.std()) / math.sqrt(len(linear))


def _upper_means(x: Float[np.ndarray, " n"], z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return E[1(x_i ≤ X) Z] for every i."""
    order, means = np.argsort(-x, kind="stable"), np.empty_like(z)
    means[order] = np.cumsum(z[order]) / len(z)
    return means


_ERASER_BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
_FERRET_SHARES = np.arange(0.1, 1.1, 0.1)


def eraser_sets(order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "bins d"]:
    """Return the top 1, 5, 10, 20 and 50 % of the words, rounded up: every bin holds a word."""
    rank = np.argsort(order)
    counts = np.ceil(np.array(_ERASER_BINS) * len(order))
    return rank[None, :] < counts[:, None]


def ferret_sets(scores: Scores, order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "steps d"]:
    """Return the words of positive score among the top 10, 20, … 100 %, rounded down.

    A step that adds no word is left out. In a short text, a step without any words is left out too.
    So the number of steps depends on the number of words with a positive score.
    """
    rank = np.argsort(order)
    counts = (_FERRET_SHARES * len(order)).astype(int)
    sets = (rank[None, :] < counts[counts > 0, None]) & (scores > 0)
    is_new = np.ones(len(sets), bool)
    is_new[1:] = (sets[1:] != sets[:-1]).any(axis=1)
    return sets[is_new]


def kendall_tau(x: Scores, y: Scores) -> float | None:
    """Return Kendall's τ-b of two lists of scores, None if one of them is constant.

    τ_b = Σ_{i<j} sign(x_i − x_j) sign(y_i − y_j) / √(pairs untied in x · pairs untied in y). A pair
    that is tied in one list counts for neither side.
    """
    # All pairs at once: 10,000 signs for 100 words, and no rule for ties is hidden in a sort.
    a, b = (np.sign(z[:, None] - z[None, :]) for z in (x, y))
    norm = np.sqrt(np.count_nonzero(a) * float(np.count_nonzero(b)))
    return float(np.sum(a * b) / norm) if norm else None


DEFAULT_COLUMNS = ("additivity", "loo_tau", "stability", "eraser", "ferret")
# Scores and log-probabilities have no probability to lose. ContextCite reports these two instead.
DEFAULT_SCORE_COLUMNS = ("additivity", "loo_tau", "stability", "top_drop", "lds")
OPTIONAL_COLUMNS = ("top_drop", "lds", "sanity")  # the last explains every text once more
_SETS, _SAMPLED_SETS = 2048, 256  # of words, for additivity; fewer if they cost model calls
_TOP_COUNTS = (1, 3, 5)  # numbers of strongest words that are removed together


def select_columns(columns: str | Collection[str] | None, link: str = "") -> frozenset[str]:
    """Check the argument ``columns`` of :func:`limelight.judge` and return the names of columns.

    Parameters
    ----------
    columns
        Names of columns, "all", or None for the defaults.
    link
        The link function of the model. The defaults depend on it: a model whose link is "none" has
        no probability to lose.

    Returns
    -------
    Names of columns.

    Raises
    ------
    InputError
        If a name is unknown, or if a column needs probabilities that the model does not have.
    """
    if columns is None:
        return frozenset(DEFAULT_SCORE_COLUMNS if link == "none" else DEFAULT_COLUMNS)
    all_columns = (*DEFAULT_COLUMNS, *OPTIONAL_COLUMNS)
    if columns == "all":
        return frozenset(all_columns)
    if not isinstance(columns, Collection):
        raise InputError(f"columns must be names of columns or 'all', not {columns!r}.")
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in all_columns:
            raise InputError(unknown_name_message("column", name, ["all", *all_columns]))
        if link == "none" and name in ("eraser", "ferret"):
            available = ", ".join((*DEFAULT_SCORE_COLUMNS, "sanity"))
            raise InputError(
                f"column {name!r} needs probabilities of classes, which this model does not have. "
                f"Choose from: {available}."
            )
    return frozenset(names)


def compute_text_columns(
    columns: Collection[str],
    text: ScoredText,
    removals: Removals,
    *,
    replacement: str,
    rng: np.random.Generator,
) -> dict[str, TextColumn]:
    """Compute the selected columns of one text.

    Parameters
    ----------
    columns
        Names of columns.
    text
        The text with the scores of all candidates.
    removals
        The output of the model as words of the text are removed.
    replacement
        Replacement of removed words, for the columns "eraser" and "ferret".
    rng
        Source of random numbers.

    Returns
    -------
    The columns by name.
    """
    rows = text.rows
    by_name: dict[str, TextColumn] = {}
    max_sets = _SAMPLED_SETS if text.batch.caches_outputs else _SETS
    for name in ("additivity", "lds"):
        if name not in columns:
            continue
        by_rank = name == "lds"
        sets = draw_removal_sets(removals.d, rng, max_sets=max_sets, halves=by_rank)
        drops = removals.full - removals.values(~sets.removed)
        # Sizes without signs cannot add up to a fall and a rise.
        results = [
            additivity(scores, sets, drops, ranks=by_rank) if signed else None
            for _, scores, signed in rows
        ]
        values, errors = (
            text.values_by_name(result and result[part] for result in results) for part in (0, 1)
        )
        by_name[name] = TextColumn(values=values, errors=errors)
    if "top_drop" in columns:
        by_name |= _top_drops(text, removals)
    if "loo_tau" in columns:
        # With the judged replacement: another replacement would be another reference.
        loo_drops = removals.full - removals.values(~np.eye(removals.d, dtype=bool))
        taus = (
            _compare_scores(kendall_tau, scores, loo_drops, signed=signed)
            for _, scores, signed in rows
        )
        by_name["loo_tau"] = TextColumn(values=text.values_by_name(taus))
    if {"eraser", "ferret"} & set(columns) and text.batch.model.link != "none":
        by_name |= _eraser_and_ferret_columns(columns, text, replacement)
    for name, other_scores, by_size in (
        ("stability", text.repeated_scores, False),
        ("sanity", text.shuffled_scores, True),  # the class of a word's score means nothing there
    ):
        if name in columns:
            correlations = (
                _compare_scores(
                    rank_correlation, scores, other_scores[i], signed=signed and not by_size
                )
                for i, scores, signed in rows
            )
            by_name[name] = TextColumn(values=text.values_by_name(correlations))
    return by_name


def _top_drops(text: ScoredText, removals: Removals) -> Iterator[tuple[str, TextColumn]]:
    """Yield the drop of the explained number without the 1, 3 and 5 strongest words."""
    orders = [order_by_strength(scores, signed=signed) for _, scores, signed in text.rows]
    # One batch for all methods. A text with fewer words has no such column instead of a smaller k.
    for k in _TOP_COUNTS:
        if orders and k <= removals.d:
            keep = np.ones((len(orders), removals.d), bool)
            np.put_along_axis(keep, np.stack(orders)[:, :k], values=False, axis=1)
            drops = (removals.full - removals.values(keep)).tolist()
            yield f"top_{k}_drop", TextColumn(values=text.values_by_name(drops))


def _compare_scores(
    measure: Callable[[Scores, Scores], float | None],
    scores: Scores,
    other_scores: Scores | str | None,
    *,
    signed: bool,
) -> float | None:
    """Return a measure of two lists of scores, or of their sizes if the scores have no signs."""
    if not isinstance(other_scores, np.ndarray):
        return None
    if signed:
        return measure(scores, other_scores)
    return measure(np.abs(scores), np.abs(other_scores))


def _eraser_and_ferret_columns(
    columns: Collection[str], text: ScoredText, replacement: str
) -> Iterator[tuple[str, TextColumn]]:
    """Yield comprehensiveness and sufficiency as ERASER and ferret compute them, if selected."""
    batch = text.batch
    class_targets = replace(batch.targets, scale="probability", against=None)
    class_batch = replace(batch, targets=class_targets)
    # Both packages delete words. With a mask instead, the numbers would not be the published ones.
    deletion = "delete" if "delete" in batch.model.replacements else replacement
    game = TargetGame(class_batch, deletion)
    full = float(class_targets.value(batch.outputs)[0])
    # If no method has scores there is nothing else to concatenate.
    no_sets = np.empty((0, len(batch.features[0])), bool)
    for package, sets_of_scores in (
        ("eraser", lambda _, order: eraser_sets(order)),
        ("ferret", ferret_sets),
    ):
        if package not in columns:
            continue
        sets = [
            sets_of_scores(scores, order_by_strength(scores, signed=signed))
            for _, scores, signed in text.rows
        ]
        removed = np.concatenate([no_sets, *sets])  # all methods in one batch
        losses = (
            full - game(np.concatenate([~removed, removed]))[:, 0] if len(removed) else np.empty(0)
        )
        ends = np.cumsum([len(method_sets) for method_sets in sets])
        for name, half in zip(
            ("comprehensiveness", "sufficiency"), np.split(losses, 2), strict=True
        ):
            parts = np.split(half, ends)[:-1]  # the part after the last end is empty
            values = text.values_by_name(
                float(part.mean()) if len(part) else None for part in parts
            )
            yield f"{package}_{name}", TextColumn(values=values)


TOP_COUNT = 5  # number of strongest words that are compared between two explanations
_EQUAL = 1e-7  # of the largest score: float32 models differ by this much from run to run


AGREEMENT_MEASURES = ("rank", "sign", "top")  # the measures that compare two explanations


def pairwise_similarity(
    scores: Float[np.ndarray, "m d"], signed: Sequence[bool], *, noise: float = 0.0
) -> Float[np.ndarray, "3 m m"]:
    """Return the similarity of every two rows of ``scores``, by the measures rank, sign and top.

    ``rank`` is Spearman's correlation of the orders. ``sign`` is the share of words with the same
    sign, among those with a sign in both rows. ``top`` is the share of the ``TOP_COUNT`` strongest
    words that are in both rows. A measure that is not defined is NaN.

    If one of two rows is not ``signed``, both are ranked by size, and ``sign`` is NaN. Scores are
    tied if their difference is at most ``noise``, or 1e-7 of the largest score, since rounding has
    no order. Tied words share their mean rank. Chance decides which of them are among the
    strongest, independently for both rows. So explanations without any information share the
    number of words that guesses share, ``TOP_COUNT``/d. ``rank`` is NaN if all words of one row
    are tied. ``top`` is NaN if there are no more than ``TOP_COUNT`` words.
    """
    # Sizes can only be compared with sizes. A method without signs puts those strong words first
    # that another method puts last, because they speak against the class.
    both_signed = np.logical_and.outer(signed, signed)
    undefined = np.full((len(signed),) * 2, np.nan)
    similarities = []
    for by_sign in (True, False):
        values = [ranking_scores(row, signed=by_sign, noise=noise) for row in scores]
        ranks = np.array([mean_ranks(row) for row in values]) - (scores.shape[1] + 1) / 2
        product = ranks @ ranks.T
        norm = np.sqrt(np.outer(np.diag(product), np.diag(product)))
        rank = np.clip(np.divide(product, norm, out=undefined.copy(), where=norm > 0), -1, 1)
        top = undefined
        if scores.shape[1] > TOP_COUNT:
            probabilities = np.array([top_probabilities(row, TOP_COUNT) for row in values])
            top = probabilities @ probabilities.T / TOP_COUNT
        sign = _sign_agreement(scores, noise) if by_sign else undefined
        similarities.append((rank, sign, top))
    return np.where(both_signed, *map(np.array, similarities))


def _sign_agreement(scores: Float[np.ndarray, "m d"], noise: float) -> Float[np.ndarray, "m m"]:
    """Return the share of words with the same sign for every two rows of scores."""
    # A word that cannot matter, such as a word that the model does not know, may have the score
    # 1e-17. It has no sign.
    threshold = np.array([_tie_distance(row, noise) for row in scores])[:, None]
    sign = np.where(np.abs(scores) <= threshold, 0.0, np.sign(scores))
    counts = np.abs(sign) @ np.abs(sign).T
    equal = (sign @ sign.T + counts) / 2
    return np.divide(equal, counts, out=np.full_like(equal, np.nan), where=counts > 0)


def ranking_scores(scores: Scores, *, signed: bool, noise: float = 0.0) -> Scores:
    """Return the numbers that rank the words: scores, or sizes without signs, with near ties equal.

    Scores are near ties if their difference is at most ``noise``, or 1e-7 of the largest score.
    """
    return merge_near_ties(scores if signed else np.abs(scores), noise=noise)


def merge_near_ties(scores: Scores, *, noise: float = 0.0) -> Scores:
    """Return ``scores`` with each run of near neighbors replaced by the smallest of them."""
    # Neighbors, not classes of a grid: two scores that differ by rounding may be on different sides
    # of any edge. A long chain of small steps is one tie, since no position to split it is better
    # than another.
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts: Bool[np.ndarray, " d"] = np.diff(ranked, prepend=-np.inf) > _tie_distance(scores, noise)
    merged = np.empty_like(scores)
    merged[order] = ranked[starts][np.cumsum(starts) - 1]
    return merged


def _tie_distance(scores: Scores, noise: float) -> float:
    """Return the largest difference between two scores that counts as a tie."""
    return max(noise, _EQUAL * float(np.abs(scores).max(initial=0.0)))


def top_probabilities(scores: Scores, k: int) -> Scores:
    """Return the probability of each word to be among the ``k`` strongest, with ties at random.

    The sum is ``k``. Words above the k-th are among them. Words that are tied with the k-th share
    the remaining positions.
    """
    # In expectation, not by the order of the text: all methods would share tied words at its
    # beginning, and would seem to agree.
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    above, equal = scores > threshold, scores == threshold
    return above + equal * ((k - np.count_nonzero(above)) / np.count_nonzero(equal))


class TextAgreement(NamedTuple):
    """The measures of :func:`pairwise_similarity` on one text, for every pair of methods.

    ``chance`` is the share of the strongest words that guesses share. It is None if the text has
    no more words than that.
    """

    measures: Float[np.ndarray, "3 pairs"]
    chance: float | None


def _row_pairs(candidates: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Return pairs of rows: methods with each other, then each sampled one with its other seed.

    The first rows are the scores of all methods. The next rows are those with the other seed.
    """
    m = len(candidates)
    seed_pairs = (
        (i, m + i) for i, candidate in enumerate(candidates) if candidate.score_again is not None
    )
    return [*combinations(range(m), 2), *seed_pairs]


def text_agreement(text: ScoredText) -> TextAgreement | None:
    """Compare the scores of all methods on one text, and the two seeds of methods that sample.

    Returns None if there is no pair to compare.
    """
    if not (pairs := _row_pairs(text.candidates)):
        return None
    d, rows = len(text.batch.features[0]), [*text.scores, *text.repeated_scores]
    signed = [candidate.signed for candidate in text.candidates] * 2
    available = [i for i, scores in enumerate(rows) if not isinstance(scores, str | None)]
    # Methods without scores keep their position among the pairs, because texts are stacked later.
    similarities = np.full((3, len(rows), len(rows)), np.nan)
    if available:
        table = np.array([rows[i] for i in available], dtype=float).reshape(-1, d)
        similarities[:, np.array(available)[:, None], available] = pairwise_similarity(
            table, [signed[i] for i in available], noise=text.noise
        )
    first, second = np.array(pairs).T
    return TextAgreement(similarities[:, first, second], TOP_COUNT / d if d > TOP_COUNT else None)


def method_agreement(
    candidates: Sequence[Candidate], texts: Sequence[TextAgreement], *, seed: int
) -> MethodAgreement | None:
    """Return the mean agreement of the methods over texts, None if there is nothing to compare."""
    if not texts:
        return None
    table = np.array([text.measures for text in texts])
    limits = {"rank": CORRELATION_RANGE, "sign": PART_RANGE, "top": PART_RANGE}
    means = {
        name: bootstrap_means(table[:, i], seed=seed, limits=limits[name])
        for i, name in enumerate(AGREEMENT_MEASURES)
    }
    counts = np.isfinite(table).any(axis=1).sum(axis=0).tolist()
    names = [candidate.name for candidate in candidates]
    rows = []
    for column, (first, second) in enumerate(_row_pairs(candidates)):
        # A pair of one method with itself compares two seeds.
        pair_names = names[first], names[second % len(names)]
        numbers = named_estimates(means, column)
        rows.append(PairAgreement(methods=pair_names, texts=counts[column], **numbers))
    pair_count = len(names) * (len(names) - 1) // 2
    chances = [text.chance for text in texts if text.chance is not None]
    return MethodAgreement(
        pairs=tuple(rows[:pair_count]),
        reseeded_pairs=tuple(row for row in rows[pair_count:] if row.texts),
        top_count=TOP_COUNT,
        chance=float(np.mean(chances)) if chances else None,
    )
