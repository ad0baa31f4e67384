"""What is kept of every text while it is judged: how plausible its scores are, how alike."""

__all__ = ["AgreementTally", "PlausibilityTally", "Tallies"]

from collections.abc import Sequence
from itertools import combinations
from typing import Any, final

import numpy as np

from limelight.explainers.reading import Reading
from limelight.judging.candidates import Candidate, Scored
from limelight.judging.likeness import TOP, Likeness, likeness, strengths
from limelight.judging.marked_text import marked_text
from limelight.judging.over_marks import plausibility
from limelight.judging.rationales import checked_rationales, marks_of, usual_share
from limelight.judging.resampling import Resampled, resampled
from limelight.results.judgement import (
    AgreeingPair,
    JudgedText,
    MarkedText,
    MethodAgreement,
    Plausibility,
)
from limelight.shapes import Float

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
