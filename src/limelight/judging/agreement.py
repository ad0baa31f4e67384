"""How alike explanations of one text are, and what is kept of every text while it is judged."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple, final

import numpy as np

from limelight.explainers.reading import Reading
from limelight.judging.candidates import Candidate, Scored
from limelight.judging.plausibility import checked_rationales, marked_text, marks_of, usual_share
from limelight.judging.rows import plausibility
from limelight.judging.statistics import Resampled, resampled
from limelight.results.comparison import mean_ranks
from limelight.results.judgement import (
    AgreeingPair,
    JudgedText,
    MarkedText,
    MethodAgreement,
    Plausibility,
)
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


def _noise(one: Reading) -> float:
    return _ROUNDING * float(np.abs(one.outputs).max())


@final
class PlausibilityTally:
    """Holds the scores of each text against what people marked in it."""

    def __init__(self, candidates: Sequence[Candidate], texts: list[Any], rationales: Any) -> None:
        self._candidates = candidates
        self._rationales = checked_rationales(rationales, texts)
        self._share = usual_share(texts, self._rationales)
        self._found: dict[int, MarkedText] = {}
        self._cut = 0

    def see(self, number: int, one: Reading, scored: Sequence[Scored]) -> None:
        """Hear the scores of one text."""
        rationale = self._rationales[number]
        if isinstance(rationale, str):
            self._found[number] = MarkedText(id=number, reason=rationale)
            return
        noise = _noise(one)
        ranked = [
            None if isinstance(own, str) else strengths(own, signed=c.signed, noise=noise)
            for c, own in zip(self._candidates, scored, strict=True)
        ]
        marks = marks_of(one.features[0], rationale)
        found = marked_text(number, marks, ranked, share=self._share)
        self._found[number] = found
        self._cut += found.reason is None and one.documents[0].cut is not None

    def result(self, texts: Sequence[JudgedText], *, seed: int) -> Plausibility:
        """Return what follows over the texts; those never heard of have the judge's reason."""
        every = [
            self._found.get(text.id) or MarkedText(id=text.id, reason=text.reason) for text in texts
        ]
        names = [one.name for one in self._candidates]
        return plausibility(names, every, share=self._share, cut=self._cut, seed=seed)


@final
class AgreementTally:
    """Holds the methods of each text against each other, and sampled ones against themselves."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._names = [one.name for one in candidates]
        self._signed = [one.signed for one in candidates]
        self._sampled = [i for i, one in enumerate(candidates) if one.again is not None]
        self._rows: list[Float[np.ndarray, "3 pairs"]] = []
        self._chance: list[float] = []

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Pairs of rows: methods with each other, then each sampled one with its other seed."""
        m = len(self._names)
        again = [(i, m + place) for place, i in enumerate(self._sampled)]
        return [*combinations(range(m), 2), *again]

    def see(self, one: Reading, scored: Sequence[Scored], again: Sequence[Scored | None]) -> None:
        """Hear the scores of one text, and with another seed; None where nothing was drawn."""
        if not self._pairs:
            return
        rows = [*scored, *(again[i] for i in self._sampled)]
        signed = [*self._signed, *(self._signed[i] for i in self._sampled)]
        there = [i for i, own in enumerate(rows) if not isinstance(own, str | None)]
        d = len(one.features[0])
        self._chance += [TOP / d] if d > TOP else []
        table = np.array([rows[i] for i in there], dtype=float).reshape(-1, d)
        found = likeness(table, [signed[i] for i in there], noise=_noise(one)) if there else None
        self._rows.append(self._of_pairs(found, there))

    def _of_pairs(self, found: Likeness | None, there: list[int]) -> Float[np.ndarray, "3 pairs"]:
        whole = np.full((3, *2 * [len(self._names) + len(self._sampled)]), np.nan)
        if found is not None:
            whole[:, np.array(there)[:, None], there] = np.array(found)
        first, second = np.array(self._pairs).T
        return whole[:, first, second]

    def result(self, *, seed: int) -> MethodAgreement | None:
        """Return the means over texts, None where there is nothing to compare."""
        if not self._rows or not self._pairs:
            return None
        table = np.array(self._rows)
        every = np.ones(len(table))
        means = [resampled(table[:, i], every, seed=seed) for i in range(3)]
        texts = np.isfinite(table).any(axis=1).sum(axis=0)
        rows = [self._row(c, means, int(texts[c])) for c in range(len(self._pairs))]
        between = len(rows) - len(self._sampled)
        return MethodAgreement(
            pairs=tuple(rows[:between]),
            again=tuple(one for one in rows[between:] if one.texts),
            strongest=TOP,
            chance=float(np.mean(self._chance)) if self._chance else None,
        )

    def _row(self, column: int, means: list[Resampled], texts: int) -> AgreeingPair:
        first, second = self._pairs[column]
        m = len(self._names)
        names = (self._names[first], self._names[second if second < m else first])
        own: dict[str, Any] = {}
        for name, mean in zip(("rank", "sign", "top"), means, strict=True):
            known = bool(np.isfinite(mean.share[column]))
            own[name] = float(mean.share[column]) if known else None
            own[f"{name}_interval"] = mean.interval(column) if known and texts > 1 else None
        return AgreeingPair(methods=names, texts=texts, **own)


@final
class Tallies:
    """All that is kept beside the areas: agreement always, plausibility where people marked."""

    def __init__(self, candidates: Sequence[Candidate], texts: list[Any], rationales: Any) -> None:
        self._agreement = AgreementTally(candidates)
        self._plausibility = (
            None if rationales is None else PlausibilityTally(candidates, texts, rationales)
        )

    def see(
        self, number: int, one: Reading, scored: Sequence[Scored], again: Sequence[Scored | None]
    ) -> None:
        """Hear the scores of one text by every candidate, and those with another seed."""
        self._agreement.see(one, scored, again)
        if self._plausibility is not None:
            self._plausibility.see(number, one, scored)

    def results(self, texts: Sequence[JudgedText], *, seed: int) -> dict[str, Any]:
        """Return the fields of a judgement that follow over the texts."""
        plausible = self._plausibility
        return {
            "agreement": self._agreement.result(seed=seed),
            "plausibility": None if plausible is None else plausible.result(texts, seed=seed),
        }
