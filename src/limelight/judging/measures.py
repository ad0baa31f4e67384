"""What stands beside the share: other measures of the same scores, and how alike methods are."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError, nearest
from limelight.explainers.target_game import TargetGame
from limelight.judging.candidates import Candidate, ScoredText, Scores
from limelight.judging.removals import Removals, strongest_first
from limelight.judging.statistics import (
    CORRELATION_RANGE,
    PART_RANGE,
    means,
    with_intervals,
)
from limelight.results.comparison import mean_ranks, rank_correlation
from limelight.results.judgment import AgreeingPair, MethodAgreement, TextColumn
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import all_keeps


class Sets(NamedTuple):
    """Sets of words to remove, and what each weighs; ``exact`` where they are all there are."""

    removed: Bool[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    exact: bool


def drawn_sets(d: int, rng: np.random.Generator, *, most: int, halves: bool = False) -> Sets:
    """Return sets S whose size is uniform on 0..d, and uniform among the sets of that size.

    It is the law by which a random order removes words. All sets where ``most`` allow it, else
    ``most`` drawn ones, each with its complement, which makes the mean of linear terms exact.
    With ``halves`` every word is in S with probability ½, and all sets that are drawn are
    independent.
    """
    # E[x f] and E[f]² follow from E_p f on ratio games, but E[f²] needs the double sums of LIME's
    # R², seconds a text; a few thousand masks cost milliseconds there, and their error is known.
    if 2**d <= most:
        removed = ~all_keeps(d)
        size = removed.sum(axis=1)
        per_size = np.array([math.comb(d, k) for k in range(d + 1)], dtype=float)
        weights = np.full(2**d, 0.5**d) if halves else 1 / ((d + 1) * per_size[size])
        return Sets(removed, weights, exact=True)
    if halves:
        # Without complements: ranks of both move alike, so that pairs would count for one.
        return Sets(rng.random((most, d)) < 0.5, np.full(most, 1 / most), exact=False)
    # Where the size is uniform and not every word a coin, few words and nearly all of them go too,
    # as they do along the curves whose areas are judged.
    half = rng.integers(0, d + 1, size=most // 2)
    place = np.argsort(rng.random((most // 2, d)), axis=1)
    removed = place < half[:, None]
    both = np.concatenate([removed, ~removed])
    return Sets(both, np.full(len(both), 1 / len(both)), exact=False)


def additivity(
    scores: Scores, sets: Sets, drops: Float[np.ndarray, " n"], *, ranks: bool = False
) -> tuple[float, float | None] | None:
    """Return the correlation of Σ_{j∈S} scores_j with f(N) − f(N ∖ S), and its standard error.

    The error is that of its linear part, (z z' − ρ (z² + z'²)/2) for standardised z and z', and
    None where all sets were seen. None where either side is constant. With ``ranks`` it is
    Spearman's, of sets that weigh the same: of halves, the linear datamodelling score.
    """
    w, sums = sets.weights, sets.removed @ scores
    if ranks:
        # Sums of the same scores in another order differ in their last digits, and are tied.
        sums, drops = (mean_ranks(levelled(x)) for x in (sums, drops))
    x, y = sums - w @ sums, drops - w @ drops
    norm = math.sqrt(float(w @ x**2) * float(w @ y**2))
    # What rounding leaves of a constant is about 1e-16 of its size, and has no correlation.
    least = 1e-12 * (float(np.abs(sums).max()) * float(np.abs(drops).max()) or 1.0)
    if not least < norm < math.inf:  # a constant, or numbers whose squares overflow
        return None
    rho = float(np.clip((w @ (x * y)) / norm, -1.0, 1.0))
    if sets.exact:
        return rho, None
    zx, zy = x / math.sqrt(float(w @ x**2)), y / math.sqrt(float(w @ y**2))
    linear = zx * zy - rho * (zx**2 + zy**2) / 2
    if ranks:
        # Another draw also moves the ranks of all others: of ρ = 12 E[(F(X) − ½)(G(Y) − ½)] the
        # influence of (x, y) is 12 ((F(x) − ½)(G(y) − ½) + E[1(x ≤ X) G(Y)] + E[1(y ≤ Y) F(X)]).
        linear = zx * zy + math.sqrt(12) * (_above(sums, zy) + _above(drops, zx))
    else:
        # A set and its complement, which come one half of all apart, are not independent.
        linear = linear.reshape(2, -1).mean(axis=0)
    return rho, float(linear.std()) / math.sqrt(len(linear))


def _above(x: Float[np.ndarray, " n"], z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return E[1(x_i ≤ X) Z] for every i."""
    order, out = np.argsort(-x, kind="stable"), np.empty_like(z)
    out[order] = np.cumsum(z[order]) / len(z)
    return out


_ERASER_BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
_FERRET_SHARES = np.arange(0.1, 1.1, 0.1)


def eraser_sets(order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "bins d"]:
    """The top 1, 5, 10, 20 and 50 % of the words, rounded up: every bin holds a word."""
    place = np.argsort(order)
    counts = np.ceil(np.array(_ERASER_BINS) * len(order))
    return place[None, :] < counts[:, None]


def ferret_sets(scores: Scores, order: Int[np.ndarray, " d"]) -> Bool[np.ndarray, "steps d"]:
    """The words of positive score among the top 10, 20, … 100 %, rounded down.

    A step that adds no word is left out, and so is one of no words at all where the text is short:
    how many steps there are depends on how many words a method calls positive.
    """
    place = np.argsort(order)
    counts = (_FERRET_SHARES * len(order)).astype(int)
    sets = (place[None, :] < counts[counts > 0, None]) & (scores > 0)
    new = np.ones(len(sets), bool)
    new[1:] = (sets[1:] != sets[:-1]).any(axis=1)
    return sets[new]


def kendall_tau(x: Scores, y: Scores) -> float | None:
    """Return Kendall's τ-b, pairs tied in one list counted for neither side; None for a constant.

    τ_b = Σ_{i<j} sign(x_i − x_j) sign(y_i − y_j) / √(pairs untied in x · pairs untied in y).
    """
    # All pairs at once: 10,000 signs for 100 words, and no rule for ties is hidden in a sort.
    a, b = (np.sign(z[:, None] - z[None, :]) for z in (x, y))
    norm = np.sqrt(np.count_nonzero(a) * float(np.count_nonzero(b)))
    return float(np.sum(a * b) / norm) if norm else None


USUAL = ("additivity", "loo_tau", "stability", "eraser", "ferret")
# Of scores and log-probabilities, which have no probability to lose: what ContextCite reports.
USUAL_OF_SCORES = ("additivity", "loo_tau", "stability", "top_drop", "lds")
ON_REQUEST = ("top_drop", "lds", "sanity")  # the last explains everything once more
_SETS, _SETS_ASKED = 2048, 256  # of words, to add up; fewer where the model has to be asked
_TOPS = (1, 3, 5)  # strongest words that go together


def wanted_columns(columns: str | Collection[str] | None, link: str = "") -> frozenset[str]:
    """Return the names of the columns that ``columns`` asks for: None the usual ones, or "all".

    Which are usual depends on the ``link`` of the model: where it is "none", no probability is
    there to lose.
    """
    if columns is None:
        return frozenset(USUAL_OF_SCORES if link == "none" else USUAL)
    every = (*USUAL, *ON_REQUEST)
    if columns == "all":
        return frozenset(every)
    if not isinstance(columns, Collection):
        raise InputError(f"columns takes names of columns, or 'all'; got {columns!r}.")
    given = [columns] if isinstance(columns, str) else list(columns)
    for name in given:
        if name not in every:
            raise InputError(nearest("column", name, ["all", *every]))
        if link == "none" and name in ("eraser", "ferret"):
            there = ", ".join((*USUAL_OF_SCORES, "sanity"))
            raise InputError(
                f"column {name!r} is about probabilities of classes, which this model does not "
                f"give; there are: {there}."
            )
    return frozenset(given)


def text_columns(
    wanted: Collection[str],
    text: ScoredText,
    removals: Removals,
    *,
    replacement: str,
    rng: np.random.Generator,
) -> dict[str, TextColumn]:
    """Return the wanted columns of one text, by name."""
    rows = text.rows
    found: dict[str, TextColumn] = {}
    most = _SETS_ASKED if text.one.remembers else _SETS
    for name in ("additivity", "lds"):
        if name not in wanted:
            continue
        by_rank = name == "lds"
        sets = drawn_sets(removals.d, rng, most=most, halves=by_rank)
        drops = removals.full - removals.values(~sets.removed)
        # Sizes without signs cannot add up to a fall and a rise.
        sums = [
            additivity(own, sets, drops, ranks=by_rank) if sign else None for _, own, sign in rows
        ]
        values, errors = (text.by_name(own and own[part] for own in sums) for part in (0, 1))
        found[name] = TextColumn(values=values, errors=errors)
    if "top_drop" in wanted:
        found |= _top_drops(text, removals)
    if "loo_tau" in wanted:
        # With the replacement that is judged: leave-one-out by another one is another reference.
        alone = removals.full - removals.values(~np.eye(removals.d, dtype=bool))
        taus = (_alike(kendall_tau, own, alone, signed=sign) for _, own, sign in rows)
        found["loo_tau"] = TextColumn(values=text.by_name(taus))
    if {"eraser", "ferret"} & set(wanted) and text.one.model.link != "none":
        found |= _from_the_literature(wanted, text, replacement)
    for name, others, sizes in (
        ("stability", text.again, False),
        ("sanity", text.shuffled, True),  # which class a word speaks for means nothing there
    ):
        if name in wanted:
            ranks = (
                _alike(rank_correlation, own, others[i], signed=sign and not sizes)
                for i, own, sign in rows
            )
            found[name] = TextColumn(values=text.by_name(ranks))
    return found


def _top_drops(text: ScoredText, removals: Removals) -> Iterator[tuple[str, TextColumn]]:
    """Yield by how much the explained number falls without the 1, 3 and 5 strongest words."""
    orders = [strongest_first(own, signed=sign) for _, own, sign in text.rows]
    # One question for all methods; a text of fewer words has no such column, not a smaller k.
    for k in _TOPS:
        if orders and k <= removals.d:
            keep = np.ones((len(orders), removals.d), bool)
            np.put_along_axis(keep, np.stack(orders)[:, :k], values=False, axis=1)
            drops = (removals.full - removals.values(keep)).tolist()
            yield f"top_{k}_drop", TextColumn(values=text.by_name(drops))


def _alike(
    measure: Callable[[Scores, Scores], float | None],
    own: Scores,
    other: Scores | str | None,
    *,
    signed: bool,
) -> float | None:
    """Return a measure of two lists of scores, of their sizes where they have no signs."""
    if not isinstance(other, np.ndarray):
        return None
    return measure(own, other) if signed else measure(np.abs(own), np.abs(other))


def _from_the_literature(
    wanted: Collection[str], text: ScoredText, replacement: str
) -> Iterator[tuple[str, TextColumn]]:
    """Yield two columns for each of the packages asked for: what is lost, and what is kept."""
    one = text.one
    targets = replace(one.targets, scale="probability", against=None)  # of the class alone
    aimed = replace(one, targets=targets)
    # Both packages delete: with a mask in their place, numbers would not be those they publish.
    deleting = "delete" if "delete" in one.model.replacements else replacement
    game = TargetGame(aimed, deleting)
    full = float(aimed.targets.value(one.outputs)[0])
    # Where no method has scores there is nothing else to concatenate.
    none = np.empty((0, len(one.features[0])), bool)
    for package, sets_of in (
        ("eraser", lambda _, order: eraser_sets(order)),
        ("ferret", ferret_sets),
    ):
        if package not in wanted:
            continue
        sets = [sets_of(own, strongest_first(own, signed=sign)) for _, own, sign in text.rows]
        removed = np.concatenate([none, *sets])  # all methods in one question
        losses = (
            full - game(np.concatenate([~removed, removed]))[:, 0] if len(removed) else np.empty(0)
        )
        ends = np.cumsum([len(own) for own in sets])
        for name, half in zip(
            ("comprehensiveness", "sufficiency"), np.split(losses, 2), strict=True
        ):
            parts = np.split(half, ends)[:-1]  # after the last end there is nothing
            values = text.by_name(float(part.mean()) if len(part) else None for part in parts)
            yield f"{package}_{name}", TextColumn(values=values)


TOP = 5  # strongest words that two explanations are asked to share
_SAME = 1e-7  # of the largest score: float32 models differ by this much from run to run


LIKE = ("rank", "sign", "top")  # what two explanations are compared by


def likeness(
    scores: Float[np.ndarray, "m d"], signed: Sequence[bool], *, noise: float = 0.0
) -> Float[np.ndarray, "3 m m"]:
    """Return how alike every two rows of ``scores`` are, all of the same words; NaN: no meaning.

    ``rank`` is Spearman's correlation of the orders, ``sign`` the share of words with the same sign
    among those to which both give one, ``top`` the share of the strongest words that both name.
    Where one of two rows is not ``signed``, both are ranked by size, and ``sign`` is NaN. Scores no
    further apart than ``noise``, or 1e-7 of the largest, are tied: rounding has no order. Tied
    words share their mean rank; which of them are among the strongest is left to chance,
    independently for both, so that explanations which say nothing share what guesses share,
    ``TOP``/d. ``rank`` is NaN where all words of one are tied, ``top`` where there are no more than
    ``TOP`` words.
    """
    # Sizes can be compared with sizes only: a method without signs puts strong words first that
    # another one puts last because they speak against the class.
    both, nothing = np.logical_and.outer(signed, signed), np.full((len(signed),) * 2, np.nan)
    found = []
    for by_sign in (True, False):
        strength = [strengths(row, signed=by_sign, noise=noise) for row in scores]
        ranks = np.array([mean_ranks(row) for row in strength]) - (scores.shape[1] + 1) / 2
        product = ranks @ ranks.T
        norm = np.sqrt(np.outer(np.diag(product), np.diag(product)))
        rank = np.clip(np.divide(product, norm, out=nothing.copy(), where=norm > 0), -1, 1)
        top = nothing
        if scores.shape[1] > TOP:
            chosen = np.array([top_chances(row, TOP) for row in strength])
            top = chosen @ chosen.T / TOP
        found.append((rank, _sign(scores, noise) if by_sign else nothing, top))
    return np.where(both, *map(np.array, found))


def _sign(scores: Float[np.ndarray, "m d"], noise: float) -> Float[np.ndarray, "m m"]:
    # A word that cannot matter, such as one that the model does not know, may have the score 1e-17:
    # it has no sign.
    least = np.array([_resolution(row, noise) for row in scores])[:, None]
    sign = np.where(np.abs(scores) <= least, 0.0, np.sign(scores))
    counted = np.abs(sign) @ np.abs(sign).T
    same = (sign @ sign.T + counted) / 2
    return np.divide(same, counted, out=np.full_like(same, np.nan), where=counted > 0)


def strengths(scores: Scores, *, signed: bool, noise: float = 0.0) -> Scores:
    """Return what words are ranked by, their scores or sizes, equal where rounding is all."""
    return levelled(scores if signed else np.abs(scores), noise=noise)


def levelled(scores: Scores, *, noise: float = 0.0) -> Scores:
    """Return ``scores`` with each run of near neighbors replaced by the smallest of them."""
    # Neighbors, not classes of a grid: two scores that differ by rounding may fall on either side
    # of any edge. A long chain of small steps is one tie, since nothing says where to cut it.
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts: Bool[np.ndarray, " d"] = np.diff(ranked, prepend=-np.inf) > _resolution(scores, noise)
    out = np.empty_like(scores)
    out[order] = ranked[starts][np.cumsum(starts) - 1]
    return out


def _resolution(scores: Scores, noise: float) -> float:
    return max(noise, _SAME * float(np.abs(scores).max(initial=0.0)))


def top_chances(strength: Scores, k: int) -> Scores:
    """Return how probable it is that each word is among the ``k`` strongest, ties left to chance.

    The sum is ``k``: words above the k-th are in, those tied with it share the places left.
    """
    # In expectation and not by the order of the text: tied words at its beginning would be shared
    # by all methods, which then seem to agree.
    cut = np.partition(strength, len(strength) - k)[len(strength) - k]
    above, at = strength > cut, strength == cut
    return above + at * ((k - np.count_nonzero(above)) / np.count_nonzero(at))


class TextAgreement(NamedTuple):
    """The measures of :func:`likeness` on one text for every pair, and what guesses share."""

    measures: Float[np.ndarray, "3 pairs"]
    chance: float | None  # of the strongest words; None where there are no more than those


def _pairs(candidates: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Return pairs of rows: methods with each other, then each sampled one with its other seed.

    The scores of all methods are rows, and then those of all under the other seed.
    """
    m = len(candidates)
    again = ((i, m + i) for i, one in enumerate(candidates) if one.again is not None)
    return [*combinations(range(m), 2), *again]


def text_agreement(text: ScoredText) -> TextAgreement | None:
    """Hold the scores of a text against each other, and of sampled methods those of both seeds.

    None where there is nothing to compare.
    """
    if not (pairs := _pairs(text.candidates)):
        return None
    d, rows = len(text.one.features[0]), [*text.scores, *text.again]
    signed = [candidate.signed for candidate in text.candidates] * 2
    there = [i for i, own in enumerate(rows) if not isinstance(own, str | None)]
    # Methods without scores here keep their place among the pairs: texts are stacked later on.
    whole = np.full((3, len(rows), len(rows)), np.nan)
    if there:
        table = np.array([rows[i] for i in there], dtype=float).reshape(-1, d)
        found = likeness(table, [signed[i] for i in there], noise=text.noise)
        whole[:, np.array(there)[:, None], there] = found
    first, second = np.array(pairs).T
    return TextAgreement(whole[:, first, second], TOP / d if d > TOP else None)


def method_agreement(
    candidates: Sequence[Candidate], texts: Sequence[TextAgreement], *, seed: int
) -> MethodAgreement | None:
    """Return the means over texts, None where there is nothing to compare."""
    if not texts:
        return None
    table = np.array([text.measures for text in texts])
    limits = {"rank": CORRELATION_RANGE, "sign": PART_RANGE, "top": PART_RANGE}
    found = {
        name: means(table[:, i], seed=seed, limits=limits[name]) for i, name in enumerate(LIKE)
    }
    counts = np.isfinite(table).any(axis=1).sum(axis=0).tolist()
    names = [one.name for one in candidates]
    rows = []
    for c, (first, second) in enumerate(_pairs(candidates)):  # of a method with itself, two seeds
        own = with_intervals(found, c)
        both = names[first], names[second % len(names)]
        rows.append(AgreeingPair(methods=both, texts=counts[c], **own))
    between = len(names) * (len(names) - 1) // 2
    chances = [text.chance for text in texts if text.chance is not None]
    return MethodAgreement(
        pairs=tuple(rows[:between]),
        again=tuple(one for one in rows[between:] if one.texts),
        strongest=TOP,
        chance=float(np.mean(chances)) if chances else None,
    )
