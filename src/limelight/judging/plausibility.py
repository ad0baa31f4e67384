"""What people marked in texts, and how well and how early scores find it."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, permutations
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.judging.candidates import ScoredText, Scores
from limelight.judging.measures import strengths
from limelight.judging.precision import (
    TieOrders,
    draw_tie_orders,
    mean_and_error,
    precision_draws,
)
from limelight.judging.removals import tied_groups
from limelight.judging.statistics import (
    CORRELATION_RANGE,
    PART_RANGE,
    few,
    means,
    pair_rows,
    verdict,
    with_intervals,
)
from limelight.results.judgment import (
    FIRST_SENTENCE,
    MARKED,
    MarkedText,
    Plausibility,
    PlausibleMethod,
    Values,
)
from limelight.sampling.masks import text_rng
from limelight.shapes import Bool, Float, Int
from limelight.text import Features, Span, one_line

_LARGEST = 2**53  # characters that a text may have

# Characters that one person marked: spans in their order, none touching another's inside.
Rationale = tuple[Span, ...]


class Rationales(NamedTuple):
    """What each annotator marked in each text, or a sentence that says why nothing is known.

    ``share`` is the part of a text that people mark, in the mean over annotators and texts.
    """

    texts: list[tuple[Rationale, ...] | str]
    share: float

    @staticmethod
    def of(given: Any, texts: Sequence[Any]) -> "Rationales":
        """Return ``given`` as it was checked.

        Something that is not a rationale at all is refused; spans that do not fit their text are a
        sentence, so that one bad row does not cost the others.
        """
        # What can be read only once would be empty when it is read for the texts.
        if isinstance(given, str) or not hasattr(given, "__len__"):
            raise InputError("rationales must be a list with one entry per text.")
        if len(given) != len(texts):
            raise InputError(
                f"rationales must have one entry per text; got {len(given)} for {len(texts)} texts."
            )
        found = [_of_text(*one, i) for i, one in enumerate(zip(given, texts, strict=True))]
        # Of stretches without white space, whatever the model reads: the share is the data's.
        shares = [
            float(np.mean(_touched([m.span() for m in re.finditer(r"\S+", text)], one)))
            for text, several in zip(texts, found, strict=True)
            if not isinstance(several, str) and text.strip()
            for one in several
            if one  # who marked nothing says nothing about how much people mark
        ]
        return Rationales(found, float(np.mean(shares)) if shares else 0.0)


class Marks(NamedTuple):
    """The places of a text's words in their order, and which of them one annotator marked.

    ``word`` is the word of each place, ``times`` how many places each word has, ``inside`` which
    places the rationale touches, ``runs`` each of its spans as first and last + 1 place.
    """

    word: Int[np.ndarray, " n"]
    times: Int[np.ndarray, " d"]
    inside: Bool[np.ndarray, " n"]
    runs: tuple[Span, ...]

    @property
    def marked(self) -> Int[np.ndarray, " d"]:
        """How many places of each word are marked."""
        return np.bincount(self.word[self.inside], minlength=len(self.times))

    @property
    def part(self) -> Scores:
        """The rationale as scores: the part of each word's places that is marked."""
        return self.marked / self.times


def _of_text(given: Any, text: Any, number: int) -> tuple[Rationale, ...] | str:
    # A table has NaN where a cell is empty.
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return "no rationale was given for this text."
    annotators = _annotators(given, number)
    if not isinstance(text, str):
        return "rationales are spans of one string, and this text is not one."
    for start, end in chain.from_iterable(annotators):
        if not 0 <= start <= end <= len(text):
            return (
                f"a span must start at 0 or later, before it ends, and end within the text, which "
                f"has {len(text)} characters; got [{start}, {end}]."
            )
    return tuple(_joined(sorted(span for span in one if span[0] < span[1])) for one in annotators)


def _annotators(given: Any, number: int) -> list[list[Span]]:
    for several in ([given], given):  # of one, or of each
        with suppress(TypeError, ValueError, OverflowError):
            return [_spans(one) for one in several]
    raise InputError(
        f"the rationale of text {number} must be a list of [start, end] in characters, or one such "
        f"list per annotator; got {one_line(repr(given), 60)}."
    )


def _spans(given: Any) -> list[Span]:
    # What can be read only once would be empty when it is read for the next annotator.
    if isinstance(given, str | dict) or not hasattr(given, "__len__"):
        raise TypeError
    found = np.array(list(given), dtype=float)  # a table may hold 3 as 3.0
    whole = (found == np.trunc(found)) & (np.abs(found) < _LARGEST)
    if len(found) and (found.shape != (len(found), 2) or not whole.all()):
        raise ValueError
    return [(int(start), int(end)) for start, end in found]


def _joined(spans: list[Span]) -> Rationale:
    """Return spans that overlap as one."""
    out: list[Span] = []
    for start, end in spans:
        # Spans that only touch stay two: IOU counts spans, and people marked them apart.
        if out and start < out[-1][1]:
            start, end = out[-1][0], max(end, out.pop()[1])
        out.append((start, end))
    return tuple(out)


def marks_of(features: Features, rationales: tuple[Rationale, ...]) -> list[Marks]:
    """Return the places of all words in the order of the text, with what each annotator marked.

    A place is marked where a span touches at least one of its characters. What the model does not
    read, past its window, is not a place.
    """
    # People mark places and methods score words: a word that occurs twice is two places.
    found = sorted((span, j) for j, spans in enumerate(features.spans) for span in spans)
    places, word = [span for span, _ in found], np.array([j for _, j in found])
    times = np.bincount(word, minlength=len(features))
    return [Marks(word, times, _touched(places, one), _runs(places, one)) for one in rationales]


def _touched(places: list[Span], rationale: Rationale) -> Bool[np.ndarray, " n"]:
    inside = np.zeros(len(places), bool)
    for first, last in _runs(places, rationale):
        inside[first:last] = True
    return inside


def _runs(places: list[Span], rationale: Rationale) -> tuple[Span, ...]:
    # Places are in the order of the text and do not overlap: both of their ends are sorted.
    starts, ends = np.array(places).reshape(-1, 2).T
    firsts = np.searchsorted(ends, [start for start, _ in rationale], side="right")
    lasts = np.searchsorted(starts, [end for _, end in rationale], side="left")
    return tuple((int(a), int(b)) for a, b in zip(firsts, lasts, strict=True) if a < b)


_OVERLAP = 0.5


def chosen_places(strength: Scores, word: Int[np.ndarray, " n"], k: int) -> Bool[np.ndarray, " n"]:
    """Return the ``k`` places of strongest words; of equal ones those that come first."""
    chosen = np.zeros(len(word), bool)
    chosen[np.argsort(-strength[word], kind="stable")[:k]] = True
    return chosen


def runs_of(chosen: Bool[np.ndarray, " n"]) -> list[Span]:
    """Return neighboring places as spans, first and last + 1."""
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def matches(predicted: Sequence[Span], marked: Sequence[Span]) -> tuple[float, float]:
    """Return precision and recall of spans that match: they share at least half of their union.

    As in ERASER's code a predicted span is counted once, whichever marked span it matches, and the
    count is divided by the number of predicted and of marked spans.
    """
    # Not a matching: published numbers are of ERASER's code, which counts so.
    count = sum(any(_iou(one, other) >= _OVERLAP for other in marked) for one in predicted)
    return count / max(len(predicted), 1), count / max(len(marked), 1)


def _iou(a: Span, b: Span) -> float:
    both = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return both / (a[1] - a[0] + b[1] - b[0] - both)


def token_f1(found: Any, *, predicted: int, marked: int) -> Any:
    """Return F1 of places: 2 found/(predicted + marked), of a number or of an array."""
    return 2 * found / (predicted + marked)


def mean_f1_parts(
    precision: Float[np.ndarray, "n c"], recall: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "n c"]:
    """Return what each text adds to the F1 of the mean precision and the mean recall.

    The mean of a column is that F1, which ERASER takes after averaging. A text adds what it moves
    the F1 by, to first order.
    """
    count = np.isfinite(precision).sum(axis=0)
    mean_precision, mean_recall = (
        np.nansum(values, axis=0) / np.maximum(count, 1) for values in (precision, recall)
    )
    total = mean_precision + mean_recall
    # Where nothing matches, both are 0, and so is F1.
    total = np.where(total > 0, total, 1.0)
    f1 = 2 * mean_precision * mean_recall / total
    slopes = 2 * (mean_recall / total) ** 2, 2 * (mean_precision / total) ** 2
    moved = slopes[0] * (precision - mean_precision) + slopes[1] * (recall - mean_recall)
    return f1 + moved


_REFERENCES = ("chance", "rationale", "annotators")
_Draws = Float[np.ndarray, "draws measures"]  # a row for each drawn order of tied words


def marked_text(text: ScoredText, rationales: Rationales, *, seed: int = 0) -> MarkedText:
    """Return the measures of every candidate's scores of one text against what people marked.

    With several annotators a method is held against each, and the mean is taken. An annotator who
    marked nothing, or everything, is left out: against them every order is as good.

    ``seed`` draws the orders of tied words. All methods and chance share these orders, so that a
    number does not depend on the other methods, and equal scores for all words give chance.
    """
    number = text.number
    if isinstance(marked := rationales.texts[number], str):
        return MarkedText(id=number, reason=marked)
    marks = marks_of(text.one.features[0], marked)
    n, d = len(marks[0].word), len(marks[0].times)
    # Of what the model reads: marks past its window count neither for nor against anybody.
    against = [one for one in marks if one.inside.any() and not one.inside.all()]
    if not against:
        why = (
            "every word of it is marked, so that every order is as good."
            if any(one.inside.any() for one in marks)
            else "nobody marked a word of it that the model reads."
        )
        return MarkedText(id=number, words=n, reason=why)
    k = max(1, round(rationales.share * n))  # as many places as people mark, which is ERASER's rule
    tie_orders = draw_tie_orders(d, text_rng(seed, text.one.inputs[0].text))
    # All words tied: the mean over the orders of the words.
    chance = _over(against, [np.zeros(d)] * len(against), k, tie_orders)
    chance[:, 3:] = np.nan  # the spans of a guess are not known
    itself = _over(against, [one.part for one in against], k, tie_orders)
    rows = [chance, itself, _annotator_values(against, k, tie_orders)]
    for _, scores, signed in text.rows:
        ranked = strengths(scores, signed=signed, noise=text.noise)
        rows.append(_over(against, [ranked] * len(against), k, tie_orders))
    means, errors = np.array([mean_and_error(draws) for draws in rows]).transpose(1, 2, 0)
    found: dict[str, Any] = {}
    for name, values, stderr in zip(MARKED, means, errors, strict=True):
        known_errors = None
        if np.nanmax(stderr) > 0:
            known_errors = _values(text, np.where(stderr > 0, stderr, np.nan))
        found[name] = replace(_values(text, values), stderr=known_errors)
    return MarkedText(
        id=number,
        words=n,
        marked=float(np.mean([one.inside.mean() for one in against])),
        annotators=len(against),
        **found,
    )


def _values(text: ScoredText, column: Float[np.ndarray, " rows"]) -> Values:
    """Return a number of each reference and each candidate, None for NaN."""
    chance, rationale, annotators, *methods = (None if np.isnan(x) else float(x) for x in column)
    known = text.by_name(methods)
    return Values(
        chance=chance,
        rationale=rationale,
        annotators=annotators,
        methods=tuple(known.get(candidate.name) for candidate in text.candidates),
    )


def _over(
    against: Sequence[Marks], ranked: Sequence[Scores], k: int, tie_orders: TieOrders
) -> _Draws:
    """Return the mean over annotators, each with what words are ranked by against them."""
    return _mean_draws([_found(*one, k, tie_orders) for one in zip(against, ranked, strict=True)])


def _mean_draws(draws: Sequence[_Draws]) -> _Draws:
    """Return the mean of several draws; a single row stands for every drawn order."""
    return np.mean(np.broadcast_arrays(*draws), axis=0)


def _found(marks: Marks, strength: Scores, k: int, tie_orders: TieOrders) -> _Draws:
    marked = marks.marked
    m = int(marked.sum())
    # Already sizes where there are no signs, so the larger one always comes first.
    groups = tied_groups(strength, signed=True)
    average, hits = precision_draws(groups, marks.times, marked, np.array([m, k]), tie_orders)
    spans = matches(runs_of(chosen_places(strength, marks.word, k)), marks.runs)
    return np.stack(
        [
            average,
            hits[:, 0] / m,
            token_f1(hits[:, 1], predicted=k, marked=m),
            *np.broadcast_to(np.array(spans)[:, None], (2, len(average))),
        ],
        axis=1,
    )


def _annotator_values(against: Sequence[Marks], k: int, tie_orders: TieOrders) -> _Draws:
    """Return what annotators reach against each other, NaN where there is only one.

    As an order of words a rationale ranks each by the part of its places that is marked; as a
    rationale that somebody predicted it is what it is, however long.
    """
    found = []
    for a, b in permutations(against, 2):
        both, sizes = int((a.inside & b.inside).sum()), (int(b.inside.sum()), int(a.inside.sum()))
        overlap = token_f1(both, predicted=sizes[0], marked=sizes[1])
        draws = _found(a, b.part, k, tie_orders)
        draws[:, 2:] = overlap, *matches(b.runs, a.runs)
        found.append(draws)
    return _mean_draws(found) if found else np.full((1, len(MARKED)), np.nan)


def _table_of(values: Sequence[Values], columns: int) -> Float[np.ndarray, "texts columns"]:
    """Return a row for each text: the methods, then the references; NaN where a number is None."""
    cells = [(*one.methods, *(getattr(one, name) for name in _REFERENCES)) for one in values]
    return np.array(cells, dtype=float).reshape(-1, columns)


def _tie_errors(
    texts: Sequence[MarkedText], measure: str, columns: int
) -> Float[np.ndarray, "texts columns"]:
    """Return the standard errors from the drawn orders of tied words, 0 where none was drawn."""
    nothing = Values(methods=(None,) * (columns - len(_REFERENCES)))
    found = [getattr(text, measure).stderr or nothing for text in texts]
    return np.nan_to_num(_table_of(found, columns))


def plausibility(
    names: Sequence[str], texts: Sequence[MarkedText], *, share: float, cut: int, seed: int
) -> Plausibility:
    """Return what follows over the texts; ``cut`` of them the model does not read to the end."""
    known = [text for text in texts if text.precision is not None]
    every, tables = (*names, *_REFERENCES), {}
    for measure in MARKED:
        values = [getattr(text, measure) for text in known]
        tables[measure] = _table_of(values, len(every))
    precision = tables["precision"]
    tables["iou_f1"] = mean_f1_parts(tables.pop("iou_precision"), tables.pop("iou_recall"))
    found = {name: means(table, seed=seed, limits=PART_RANGE) for name, table in tables.items()}
    # Less the chance of the same text: how much guessing reaches on each is then in no interval.
    above = precision - precision[:, [len(names)]]
    found["above"] = means(above, seed=seed, limits=CORRELATION_RANGE)
    # The error of a difference is at most the sum of the errors.
    errors = {
        name: _tie_errors(known, name, len(every))
        for name in ("precision", "r_precision", "token_f1")
    }
    errors["above"] = errors["precision"] + errors["precision"][:, [len(names)]]
    errors["above"][:, len(names)] = 0.0  # chance less itself
    rows = []
    for i, name in enumerate(every):
        count = int(np.isfinite(precision[:, i]).sum())
        own = with_intervals(found, i)
        for measure, of_texts in errors.items():
            stderr = float(np.sqrt((of_texts[:, i] ** 2).sum())) / max(count, 1)
            own[f"{measure}_stderr"] = stderr or None
        rows.append(PlausibleMethod(method=name, texts=count, **own))
    methods, references = rows[: len(names)], rows[len(names) :]
    pairs = pair_rows(names, precision[:, : len(names)], np.ones(len(known)), seed=seed)
    chance, itself = (f"{one.precision or 0.0:.3f}" for one in references[:2])
    said = verdict(
        [(m.method, m.precision, m.above_interval) for m in methods],
        pairs,
        texts=len(known),
        most="plausible",
        measure="average precision",
        beside=f"guessing has {chance}, the rationale itself as scores {itself}",
    )
    past = f"The model does not read {cut} of these texts to the end, nor what is marked there."
    return Plausibility(
        methods=tuple(methods),
        references=tuple(one for one in references if one.precision is not None),
        pairs=pairs,
        texts=tuple(texts),
        share=share,
        verdict=f"{FIRST_SENTENCE} {said}",
        notices=(*few(len(known), len(texts), len(texts) - len(known)), *[past][: bool(cut)]),
    )
