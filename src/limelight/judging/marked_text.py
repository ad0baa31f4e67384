"""One text: how well methods, guesses and annotators find what people marked in it."""

__all__ = ["marked_text"]

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from limelight.judging.eraser_scores import chosen_places, matches, runs_of, token_f1
from limelight.judging.precision import expected_precision
from limelight.judging.rationales import Marks
from limelight.judging.tied_words import tied_groups
from limelight.results.judgement import MarkedText, Values
from limelight.shapes import Float

# Average precision, R-precision, token F1, and precision and recall of spans.
_Five = Float[np.ndarray, " 5"]
_UNKNOWN = np.full(5, np.nan)


def marked_text(
    number: int, marks: Marks, ranked: Sequence[Float[np.ndarray, " d"] | None], *, share: float
) -> MarkedText:
    """Return the measures of every method, from what its words are ranked by (None: no scores).

    With several annotators a method is held against each, and the mean is taken. An annotator who
    marked nothing, or everything, is left out: against them every order is as good.
    """
    n = len(marks.word)
    sizes = marks.inside.sum(axis=1)
    against = [a for a, size in enumerate(sizes) if 0 < size < n]
    if not against:
        return MarkedText(id=number, words=n, reason=_why_not(int(sizes.max(initial=0))))
    k = max(1, round(share * n))
    rows = [_over(marks, against, k, [own] * len(against)) for own in ranked]
    guess = np.zeros(len(marks.times))
    chance = _over(marks, against, k, [guess] * len(against))
    chance[3:] = np.nan  # the spans of a guess are not known in closed form
    own = [marks.marked(a) / marks.times for a in against]
    references = (chance, _over(marks, against, k, own), _annotators(marks, against, k))
    values = [_values(i, rows, references) for i in range(len(_UNKNOWN))]
    return MarkedText(
        id=number,
        words=n,
        marked=float(sizes[against].mean() / n),
        annotators=len(against),
        precision=values[0],
        r_precision=values[1],
        token_f1=values[2],
        iou_precision=values[3],
        iou_recall=values[4],
    )


def _why_not(most: int) -> str:
    if not most:
        return "nobody marked a word of it that the model reads."
    return "every word of it is marked, so that every order is as good."


def _values(i: int, rows: Sequence[_Five], references: Sequence[_Five]) -> Values:
    of = [None if np.isnan(row[i]) else float(row[i]) for row in (*references, *rows)]
    return Values(chance=of[0], rationale=of[1], annotators=of[2], methods=tuple(of[3:]))


def _over(
    marks: Marks, against: list[int], k: int, ranked: Sequence[Float[np.ndarray, " d"] | None]
) -> _Five:
    """Return the mean over annotators, each with what words are ranked by against them."""
    pairs = zip(against, ranked, strict=True)
    return np.mean([_UNKNOWN if own is None else _against(marks, a, k, own) for a, own in pairs], 0)


def _against(marks: Marks, annotator: int, k: int, strength: Float[np.ndarray, " d"]) -> _Five:
    marked = marks.marked(annotator)
    m = int(marked.sum())
    groups = tied_groups(strength, signed=True)
    precision = expected_precision(groups, marks.times, marked, np.array([m, k]))
    predicted = runs_of(chosen_places(strength, marks.word, k))
    return np.array(
        [
            precision.average,
            precision.found[0] / m,
            token_f1(precision.found[1], predicted=k, marked=m),
            *matches(predicted, marks.runs[annotator]),
        ]
    )


def _annotators(marks: Marks, against: list[int], k: int) -> _Five:
    """Return what annotators reach against each other, NaN where there is only one.

    As an order of words a rationale ranks each by the part of its places that is marked; as a
    rationale that somebody predicted it is what it is, however long.
    """
    found = []
    for a, b in permutations(against, 2):
        ranked = _against(marks, a, k, marks.marked(b) / marks.times)
        both = int(np.count_nonzero(marks.inside[a] & marks.inside[b]))
        sizes = (int(marks.inside[b].sum()), int(marks.inside[a].sum()))
        overlap = token_f1(both, predicted=sizes[0], marked=sizes[1])
        found.append(np.array([*ranked[:2], overlap, *matches(marks.runs[b], marks.runs[a])]))
    return np.mean(found, axis=0) if found else _UNKNOWN
