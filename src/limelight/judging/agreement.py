"""How alike explanations are: of one text, and over texts."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from limelight.explainers.reading import Reading
from limelight.judging.candidates import Candidate, Scored
from limelight.judging.statistics import means
from limelight.results.comparison import mean_ranks
from limelight.results.judgement import AgreeingPair, MethodAgreement
from limelight.shapes import Bool, Float

TOP = 5  # strongest words that two explanations are asked to share
_SAME = 1e-7  # of the largest score: float32 models differ by this much from run to run


class Likeness(NamedTuple):
    """Three answers to one question for every pair, NaN where they have no meaning.

    ``rank`` is Spearman's correlation of the orders, ``sign`` the share of words with the same sign
    among those to which both give one, ``top`` the share of the strongest words that both name.
    """

    rank: Float[np.ndarray, "m m"]
    sign: Float[np.ndarray, "m m"]
    top: Float[np.ndarray, "m m"]


def likeness(
    scores: Float[np.ndarray, "m d"], signed: Sequence[bool], *, noise: float = 0.0
) -> Likeness:
    """Return how alike every two rows of ``scores`` are, all of the same words.

    Where one of two rows is not ``signed``, both are ranked by size, and ``sign`` is NaN. Scores no
    further apart than ``noise``, or 1e-7 of the largest, are tied: rounding has no order. Tied
    words share their mean rank; which of them are among the strongest is left to chance,
    independently for both, so that explanations which say nothing share what guesses share,
    ``TOP``/d. ``rank`` is NaN where all words of one are tied, ``top`` where there are no more than
    ``TOP`` words.
    """
    both = np.logical_and.outer(signed, signed)
    rank, top = _order_and_top(scores, noise, signed=True)
    by_size, top_by_size = _order_and_top(scores, noise, signed=False)
    return Likeness(
        rank=np.where(both, rank, by_size),
        sign=np.where(both, _sign(scores, noise), np.nan),
        top=np.where(both, top, top_by_size),
    )


def _order_and_top(
    scores: Float[np.ndarray, "m d"], noise: float, *, signed: bool
) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
    m, d = scores.shape
    strength = [strengths(row, signed=signed, noise=noise) for row in scores]
    ranks = np.array([mean_ranks(row) for row in strength]) - (d + 1) / 2
    product = ranks @ ranks.T
    norm = np.sqrt(np.outer(np.diag(product), np.diag(product)))
    rank = np.divide(product, norm, out=np.full((m, m), np.nan), where=norm > 0)
    if d <= TOP:
        return np.clip(rank, -1, 1), np.full((m, m), np.nan)
    chosen = np.array([top_chances(row, TOP) for row in strength])
    return np.clip(rank, -1, 1), chosen @ chosen.T / TOP


def _sign(scores: Float[np.ndarray, "m d"], noise: float) -> Float[np.ndarray, "m m"]:
    # A word that cannot matter, such as one that the model does not know, may have the score 1e-17:
    # it has no sign.
    least = np.array([_resolution(row, noise) for row in scores])[:, None]
    sign = np.where(np.abs(scores) <= least, 0.0, np.sign(scores))
    counted = np.abs(sign) @ np.abs(sign).T
    same = (sign @ sign.T + counted) / 2
    return np.divide(same, counted, out=np.full_like(same, np.nan), where=counted > 0)


def strengths(
    scores: Float[np.ndarray, " d"], *, signed: bool, noise: float = 0.0
) -> Float[np.ndarray, " d"]:
    """Return what words are ranked by, their scores or sizes, equal where rounding is all."""
    return levelled(scores if signed else np.abs(scores), noise=noise)


def levelled(scores: Float[np.ndarray, " d"], *, noise: float = 0.0) -> Float[np.ndarray, " d"]:
    """Return ``scores`` with each run of near neighbours replaced by the smallest of them."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts: Bool[np.ndarray, " d"] = np.diff(ranked, prepend=-np.inf) > _resolution(scores, noise)
    out = np.empty_like(scores)
    out[order] = ranked[starts][np.cumsum(starts) - 1]
    return out


def _resolution(scores: Float[np.ndarray, " d"], noise: float) -> float:
    return max(noise, _SAME * float(np.abs(scores).max(initial=0.0)))


def top_chances(strength: Float[np.ndarray, " d"], k: int) -> Float[np.ndarray, " d"]:
    """Return how probable it is that each word is among the ``k`` strongest, ties left to chance.

    The sum is ``k``: words above the k-th are in, those tied with it share the places left.
    """
    cut = np.partition(strength, len(strength) - k)[len(strength) - k]
    above, at = strength > cut, strength == cut
    return above + at * ((k - np.count_nonzero(above)) / np.count_nonzero(at))


_ROUNDING = 1e-9  # of the model's outputs: scores as small as this are nothing but rounding


def rounding(one: Reading) -> float:
    """Return how far apart scores of a text must be to have an order."""
    return _ROUNDING * float(np.abs(one.outputs).max())


class TextAgreement(NamedTuple):
    """The measures of :class:`Likeness` on one text for every pair, and what guesses share."""

    measures: Float[np.ndarray, "3 pairs"]
    chance: float | None  # of the strongest words; None where there are no more than those


def _pairs(candidates: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Return pairs of rows: methods with each other, then each sampled one with its other seed."""
    m = len(candidates)
    sampled = [i for i, one in enumerate(candidates) if one.again is not None]
    return [*combinations(range(m), 2), *((i, m + place) for place, i in enumerate(sampled))]


def text_agreement(
    candidates: Sequence[Candidate],
    one: Reading,
    scored: Sequence[Scored],
    again: Sequence[Scored | None],
) -> TextAgreement | None:
    """Hold the scores of one text against each other, and those of sampled methods to ``again``.

    Those are the scores with another seed, None where nothing was drawn. None where there is
    nothing to compare.
    """
    pairs, d = _pairs(candidates), len(one.features[0])
    if not pairs:
        return None
    sampled = [i for i, candidate in enumerate(candidates) if candidate.again is not None]
    rows = [*scored, *(again[i] for i in sampled)]
    signed = [candidates[i].signed for i in (*range(len(candidates)), *sampled)]
    there = [i for i, own in enumerate(rows) if not isinstance(own, str | None)]
    whole = np.full((3, len(rows), len(rows)), np.nan)
    if there:
        table = np.array([rows[i] for i in there], dtype=float).reshape(-1, d)
        found = likeness(table, [signed[i] for i in there], noise=rounding(one))
        whole[:, np.array(there)[:, None], there] = np.array(found)
    first, second = np.array(pairs).T
    return TextAgreement(whole[:, first, second], TOP / d if d > TOP else None)


def method_agreement(
    candidates: Sequence[Candidate], texts: Sequence[TextAgreement], *, seed: int
) -> MethodAgreement | None:
    """Return the means over texts, None where there is nothing to compare."""
    if not texts:
        return None
    table = np.array([text.measures for text in texts])
    found = {name: means(table[:, i], seed=seed) for i, name in enumerate(Likeness._fields)}
    counts = np.isfinite(table).any(axis=1).sum(axis=0).tolist()
    names = [one.name for one in candidates]
    rows = []
    for c, (first, second) in enumerate(_pairs(candidates)):  # of a method with itself, two seeds
        own: dict[str, Any] = {}
        for name, mean in found.items():
            own[name], own[f"{name}_interval"] = mean.number(c, texts=counts[c])
        other = names[second if second < len(names) else first]
        rows.append(AgreeingPair(methods=(names[first], other), texts=counts[c], **own))
    between = len(names) * (len(names) - 1) // 2
    chances = [text.chance for text in texts if text.chance is not None]
    return MethodAgreement(
        pairs=tuple(rows[:between]),
        again=tuple(one for one in rows[between:] if one.texts),
        strongest=TOP,
        chance=float(np.mean(chances)) if chances else None,
    )
