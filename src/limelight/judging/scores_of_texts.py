"""The scores of some texts: by every candidate, under another seed, and with shuffled weights."""

__all__ = ["OfText", "ScoresOfTexts", "scores_of_texts"]

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.explainers.reading import Reading, reading_of
from limelight.judging.candidates import Candidate, Scored
from limelight.models import Model
from limelight.shapes import Float

Known = list[Float[np.ndarray, " _"] | None]


class OfText(NamedTuple):
    """The scores of one text by method, None where there are none."""

    scores: Known
    again: Known
    shuffled: Known


class ScoresOfTexts(NamedTuple):
    """One list of texts for each candidate; None where a candidate has no such scores."""

    scores: list[list[Scored]]
    again: list[list[Scored] | None]
    shuffled: list[list[Scored] | None]

    def given(self, i: int) -> tuple[list[Scored], list[Scored | None]]:
        """Return the scores of text ``i`` or the reasons for none, and under another seed."""
        again = [None if own is None else own[i] for own in self.again]
        return [own[i] for own in self.scores], again

    def of_text(self, i: int) -> OfText:
        """Return the scores of text ``i``."""
        return OfText(*(_known(several, i) for several in self))


def _known(several: Sequence[list[Scored] | None], i: int) -> Known:
    found = [None if own is None else own[i] for own in several]
    return [None if isinstance(own, str) else own for own in found]


def scores_of_texts(
    candidates: Sequence[Candidate], reading: Reading, *, again: bool, twin: Model | None
) -> ScoresOfTexts:
    """Return what every candidate says about the texts of ``reading``.

    With ``again`` also under another seed; ``twin`` is the model with shuffled weights.
    """
    nothing: list[list[Scored] | None] = [None] * len(candidates)
    return ScoresOfTexts(
        [one.scores(reading) for one in candidates],
        [one.again(reading) if again and one.again else None for one in candidates],
        nothing if twin is None else _shuffled(candidates, reading, twin),
    )


def _shuffled(
    candidates: Sequence[Candidate], reading: Reading, twin: Model
) -> list[list[Scored] | None]:
    """Return the scores of the same texts and classes under another model."""
    texts = [document.given for document in reading.documents]
    other = reading_of(twin, texts, reading.question)
    if [f.strings for f in other.features] != [f.strings for f in reading.features]:
        raise InputError("a model with shuffled weights must read the same words; it does not.")
    other = replace(other, targets=reading.targets)
    return [one.scores(other) if one.portable else None for one in candidates]
