"""Plausibility: whether methods give large scores to the words that people marked."""

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
from limelight.judging.measures import ranking_scores
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
    bootstrap_means,
    compare_pairs,
    named_estimates,
    small_sample_warnings,
    verdict,
)
from limelight.results.judgment import (
    PLAUSIBILITY_CAVEAT,
    PLAUSIBILITY_MEASURES,
    MeasureValues,
    MethodPlausibility,
    Plausibility,
    TextPlausibility,
)
from limelight.sampling.masks import text_rng
from limelight.shapes import Bool, Float, Int
from limelight.text import Features, Span, truncate_line

_LARGEST = 2**53  # characters that a text may have

# Characters that one person marked: spans in their order that do not overlap.
Rationale = tuple[Span, ...]


class Rationales(NamedTuple):
    """The rationales of all texts.

    ``per_text`` has the rationale of each annotator of a text, or a sentence that says why there is
    none. ``marked_share`` is the part of a text that people mark, as a mean over annotators and
    texts.
    """

    per_text: list[tuple[Rationale, ...] | str]
    marked_share: float

    @staticmethod
    def parse(rationales: Any, texts: Sequence[Any]) -> "Rationales":
        """Parse the argument ``rationales`` of :func:`limelight.judge`: words that people marked.

        A value of a wrong type raises `InputError`. If the spans of a text lie outside the text,
        its entry is an error message, and all other texts remain usable.
        """
        # An iterator would be empty when it is read for the texts.
        if isinstance(rationales, str) or not hasattr(rationales, "__len__"):
            raise InputError("rationales must be a list with one entry per text.")
        if len(rationales) != len(texts):
            raise InputError(
                f"rationales must have one entry per text, not {len(rationales)} for {len(texts)} "
                "texts."
            )
        per_text = [
            _parse_text_rationales(rationale, text, i)
            for i, (rationale, text) in enumerate(zip(rationales, texts, strict=True))
        ]
        # The share is a property of the data, so it counts stretches without white space, not the
        # tokens of a model.
        shares = [
            float(np.mean(_marked_positions([m.span() for m in re.finditer(r"\S+", text)], spans)))
            for text, annotators in zip(texts, per_text, strict=True)
            if not isinstance(annotators, str) and text.strip()
            for spans in annotators
            if spans  # an annotator without marks shows nothing about how much people mark
        ]
        return Rationales(per_text, float(np.mean(shares)) if shares else 0.0)


class Marks(NamedTuple):
    """The positions of a text's words in their order, and the marks of one annotator.

    ``words`` is the number of the word at each position. ``occurrences`` is the number of positions
    of each word. ``is_marked`` says which positions the rationale touches. ``runs`` has each span
    of the rationale as first and last + 1 position.
    """

    words: Int[np.ndarray, " n"]
    occurrences: Int[np.ndarray, " d"]
    is_marked: Bool[np.ndarray, " n"]
    runs: tuple[Span, ...]

    @property
    def marked_counts(self) -> Int[np.ndarray, " d"]:
        """Number of marked positions of each word."""
        return np.bincount(self.words[self.is_marked], minlength=len(self.occurrences))

    @property
    def marked_shares(self) -> Scores:
        """The rationale as scores: the part of each word's positions that is marked."""
        return self.marked_counts / self.occurrences


def _parse_text_rationales(rationale: Any, text: Any, number: int) -> tuple[Rationale, ...] | str:
    """Return the rationale of each annotator of one text, or why there is none."""
    # A table has NaN in an empty cell.
    if rationale is None or (isinstance(rationale, float) and math.isnan(rationale)):
        return "this text has no rationale."
    annotators = _parse_annotators(rationale, number)
    if not isinstance(text, str):
        return "rationales need a text that is a string, and this text is not a string."
    for start, end in chain.from_iterable(annotators):
        if not 0 <= start <= end <= len(text):
            return (
                f"the span [{start}, {end}] must satisfy 0 ≤ start ≤ end ≤ {len(text)}, the length "
                "of the text."
            )
    return tuple(
        _merge_overlaps(sorted((start, end) for start, end in spans if start < end))
        for spans in annotators
    )


def _parse_annotators(rationale: Any, number: int) -> list[list[Span]]:
    """Return the spans of each annotator of text ``number``."""
    for annotators in ([rationale], rationale):  # the spans of one annotator, or of each
        with suppress(TypeError, ValueError, OverflowError):
            return [_parse_spans(spans) for spans in annotators]
    raise InputError(
        f"the rationale of text {number} must be a list of [start, end] in characters, or one such "
        f"list per annotator, not {truncate_line(repr(rationale), 60)}."
    )


def _parse_spans(spans: Any) -> list[Span]:
    """Return spans as pairs of integers, or raise TypeError or ValueError."""
    # An iterator would be empty when it is read for the next annotator.
    if isinstance(spans, str | dict) or not hasattr(spans, "__len__"):
        raise TypeError
    table = np.array(list(spans), dtype=float)  # a table may hold 3 as 3.0
    is_integer = (table == np.trunc(table)) & (np.abs(table) < _LARGEST)
    if len(table) and (table.shape != (len(table), 2) or not is_integer.all()):
        raise ValueError
    return [(int(start), int(end)) for start, end in table]


def _merge_overlaps(spans: list[Span]) -> Rationale:
    """Merge spans that overlap."""
    merged: list[Span] = []
    for start, end in spans:
        # Spans that only touch stay two: IOU counts spans, and people marked them separately.
        if merged and start < merged[-1][1]:
            start, end = merged[-1][0], max(end, merged.pop()[1])
        merged.append((start, end))
    return tuple(merged)


def locate_marks(features: Features, rationales: tuple[Rationale, ...]) -> list[Marks]:
    """Return the positions of all words in the order of the text, with the marks of each annotator.

    A position is marked if a span touches at least one of its characters. Text beyond the model's
    window has no positions.
    """
    # People mark positions and methods score words. A word that occurs twice has two positions.
    pairs = sorted((span, j) for j, spans in enumerate(features.spans) for span in spans)
    positions, words = [span for span, _ in pairs], np.array([j for _, j in pairs])
    occurrences = np.bincount(words, minlength=len(features))
    return [
        Marks(
            words,
            occurrences,
            _marked_positions(positions, rationale),
            _position_runs(positions, rationale),
        )
        for rationale in rationales
    ]


def _marked_positions(positions: list[Span], rationale: Rationale) -> Bool[np.ndarray, " n"]:
    """Return which positions the rationale touches."""
    is_marked = np.zeros(len(positions), bool)
    for first, last in _position_runs(positions, rationale):
        is_marked[first:last] = True
    return is_marked


def _position_runs(positions: list[Span], rationale: Rationale) -> tuple[Span, ...]:
    """Return the positions that each span touches, as first and last + 1."""
    # Positions are in the order of the text and do not overlap, so starts and ends are sorted.
    starts, ends = np.array(positions).reshape(-1, 2).T
    firsts = np.searchsorted(ends, [start for start, _ in rationale], side="right")
    lasts = np.searchsorted(starts, [end for _, end in rationale], side="left")
    return tuple((int(a), int(b)) for a, b in zip(firsts, lasts, strict=True) if a < b)


_OVERLAP = 0.5


def strongest_positions(
    scores: Scores, words: Int[np.ndarray, " n"], k: int
) -> Bool[np.ndarray, " n"]:
    """Return which ``k`` positions have the strongest words; the first ones if words are equal.

    ``words`` is the number of the word at each position.
    """
    is_strongest = np.zeros(len(words), bool)
    is_strongest[np.argsort(-scores[words], kind="stable")[:k]] = True
    return is_strongest


def find_runs(selected: Bool[np.ndarray, " n"]) -> list[Span]:
    """Return neighboring selected positions as spans, first and last + 1."""
    edges = np.flatnonzero(np.diff(selected, prepend=False, append=False))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def span_precision_recall(predicted: Sequence[Span], marked: Sequence[Span]) -> tuple[float, float]:
    """Return precision and recall of spans that match: they share at least half of their union.

    As in ERASER's code, a predicted span counts once, whichever marked span it matches. The count
    is divided by the number of predicted and of marked spans.
    """
    # This is not a matching. Published numbers come from ERASER's code, which counts in this way.
    count = sum(any(_iou(span, other) >= _OVERLAP for other in marked) for span in predicted)
    return count / max(len(predicted), 1), count / max(len(marked), 1)


def _iou(a: Span, b: Span) -> float:
    """Return the length of the intersection of two spans over that of their union."""
    intersection = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return intersection / (a[1] - a[0] + b[1] - b[0] - intersection)


def token_f1(hits: Any, *, predicted: int, marked: int) -> Any:
    """Return the F1 of positions, 2 hits/(predicted + marked), for a number or an array."""
    return 2 * hits / (predicted + marked)


def f1_contributions(
    precision: Float[np.ndarray, "n c"], recall: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "n c"]:
    """Return the contribution of each text to the F1 of the mean precision and the mean recall.

    The mean of a column is that F1, which ERASER computes after averaging. The contribution of a
    text is its influence on the F1, to first order.
    """
    count = np.isfinite(precision).sum(axis=0)
    mean_precision, mean_recall = (
        np.nansum(values, axis=0) / np.maximum(count, 1) for values in (precision, recall)
    )
    total = mean_precision + mean_recall
    # If nothing matches, both are 0, and so is F1.
    total = np.where(total > 0, total, 1.0)
    f1 = 2 * mean_precision * mean_recall / total
    slopes = 2 * (mean_recall / total) ** 2, 2 * (mean_precision / total) ** 2
    influence = slopes[0] * (precision - mean_precision) + slopes[1] * (recall - mean_recall)
    return f1 + influence


_REFERENCES = ("chance", "rationale", "annotators")
_MeasureDraws = Float[np.ndarray, "draws measures"]  # a row for each random order of tied words


def compare_with_rationale(
    text: ScoredText, rationales: Rationales, *, seed: int = 0
) -> TextPlausibility:
    """Compare the scores of all candidates on one text with the words that people marked.

    With several annotators, the scores are compared with each, and the mean is taken. An annotator
    who marked nothing, or everything, is left out, because all orders are equally good for them.

    Parameters
    ----------
    text
        The text with the scores of all candidates.
    rationales
        The rationales of all texts.
    seed
        Seed for the orders of tied words. All methods and chance share these orders. So a number
        does not depend on the other methods, and equal scores for all words give chance.

    Returns
    -------
    The measures of all candidates, or the reason why there are none.
    """
    number = text.number
    if isinstance(text_rationales := rationales.per_text[number], str):
        return TextPlausibility(id=number, reason=text_rationales)
    marks = locate_marks(text.batch.features[0], text_rationales)
    n, d = len(marks[0].words), len(marks[0].occurrences)
    # Only text that the model reads: marks past its window count neither for nor against a method.
    annotators = [
        annotator
        for annotator in marks
        if annotator.is_marked.any() and not annotator.is_marked.all()
    ]
    if not annotators:
        reason = (
            "every word of this text is marked, so all orders are equally good."
            if any(annotator.is_marked.any() for annotator in marks)
            else "no word that the model reads is marked in this text."
        )
        return TextPlausibility(id=number, words=n, reason=reason)
    # As many positions as people mark, which is ERASER's rule.
    k = max(1, round(rationales.marked_share * n))
    tie_orders = draw_tie_orders(d, text_rng(seed, text.batch.inputs[0].text))
    # Chance ties all words: it is the mean over the orders of the words.
    chance = _mean_over_annotators(annotators, [np.zeros(d)] * len(annotators), k, tie_orders)
    chance[:, 3:] = np.nan  # the spans of a guess are not defined
    rationale = _mean_over_annotators(
        annotators, [annotator.marked_shares for annotator in annotators], k, tie_orders
    )
    rows = [chance, rationale, _compare_annotators(annotators, k, tie_orders)]
    for _, scores, signed in text.rows:
        ranking = ranking_scores(scores, signed=signed, noise=text.noise)
        rows.append(_mean_over_annotators(annotators, [ranking] * len(annotators), k, tie_orders))
    averages, errors = np.array([mean_and_error(draws) for draws in rows]).transpose(1, 2, 0)
    measures: dict[str, Any] = {}
    for name, values, stderr in zip(PLAUSIBILITY_MEASURES, averages, errors, strict=True):
        positive_errors = None
        if np.nanmax(stderr) > 0:
            positive_errors = _make_measure_values(text, np.where(stderr > 0, stderr, np.nan))
        measures[name] = replace(_make_measure_values(text, values), stderr=positive_errors)
    return TextPlausibility(
        id=number,
        words=n,
        marked=float(np.mean([annotator.is_marked.mean() for annotator in annotators])),
        annotators=len(annotators),
        **measures,
    )


def _make_measure_values(text: ScoredText, column: Float[np.ndarray, " rows"]) -> MeasureValues:
    """Convert a column of one measure to named values, with None for NaN.

    The column has the value of chance, of the rationale and of the annotators, then one value
    for each judged method with scores for this text.
    """
    chance, rationale, annotators, *methods = (None if np.isnan(x) else float(x) for x in column)
    by_name = text.values_by_name(methods)
    return MeasureValues(
        chance=chance,
        rationale=rationale,
        annotators=annotators,
        methods=tuple(by_name.get(candidate.name) for candidate in text.candidates),
    )


def _mean_over_annotators(
    annotators: Sequence[Marks], rankings: Sequence[Scores], k: int, tie_orders: TieOrders
) -> _MeasureDraws:
    """Return the mean of the measures over annotators; each is compared with its own ranking."""
    return _mean_draws(
        [
            _measure_ranking(annotator, ranking, k, tie_orders)
            for annotator, ranking in zip(annotators, rankings, strict=True)
        ]
    )


def _mean_draws(draws: Sequence[_MeasureDraws]) -> _MeasureDraws:
    """Return the mean of several draws; a single row stands for every random order."""
    return np.mean(np.broadcast_arrays(*draws), axis=0)


def _measure_ranking(marks: Marks, ranking: Scores, k: int, tie_orders: TieOrders) -> _MeasureDraws:
    """Return the five measures of a ranking of the words against one annotator."""
    marked_counts = marks.marked_counts
    m = int(marked_counts.sum())
    # The ranking contains sizes if there are no signs, so the larger number always comes first.
    groups = tied_groups(ranking, signed=True)
    average, hits = precision_draws(
        groups, marks.occurrences, marked_counts, np.array([m, k]), tie_orders
    )
    predicted_runs = find_runs(strongest_positions(ranking, marks.words, k))
    spans = span_precision_recall(predicted_runs, marks.runs)
    return np.stack(
        [
            average,
            hits[:, 0] / m,
            token_f1(hits[:, 1], predicted=k, marked=m),
            *np.broadcast_to(np.array(spans)[:, None], (2, len(average))),
        ],
        axis=1,
    )


def _compare_annotators(
    annotators: Sequence[Marks], k: int, tie_orders: TieOrders
) -> _MeasureDraws:
    """Return the measures of annotators against each other, NaN if there is only one.

    As an order of words, a rationale ranks each word by the part of its positions that is marked.
    As a predicted rationale, it is taken as it is, with its own length.
    """
    draws = []
    for a, b in permutations(annotators, 2):
        hits = int((a.is_marked & b.is_marked).sum())
        predicted, marked = int(b.is_marked.sum()), int(a.is_marked.sum())
        overlap = token_f1(hits, predicted=predicted, marked=marked)
        pair_draws = _measure_ranking(a, b.marked_shares, k, tie_orders)
        pair_draws[:, 2:] = overlap, *span_precision_recall(b.runs, a.runs)
        draws.append(pair_draws)
    return _mean_draws(draws) if draws else np.full((1, len(PLAUSIBILITY_MEASURES)), np.nan)


def _make_table(
    values: Sequence[MeasureValues], columns: int
) -> Float[np.ndarray, "texts columns"]:
    """Return a row for each text: the methods, then the references; NaN replaces None."""
    cells = [
        (*text_values.methods, *(getattr(text_values, name) for name in _REFERENCES))
        for text_values in values
    ]
    return np.array(cells, dtype=float).reshape(-1, columns)


def _tie_errors(
    texts: Sequence[TextPlausibility], measure: str, columns: int
) -> Float[np.ndarray, "texts columns"]:
    """Return the standard errors from the random orders of tied words, 0 if nothing was drawn."""
    no_errors = MeasureValues(methods=(None,) * (columns - len(_REFERENCES)))
    errors = [getattr(text, measure).stderr or no_errors for text in texts]
    return np.nan_to_num(_make_table(errors, columns))


def summarize_plausibility(
    names: Sequence[str],
    texts: Sequence[TextPlausibility],
    *,
    marked_share: float,
    truncated: int,
    seed: int,
) -> Plausibility:
    """Summarize the plausibility of all methods over the texts.

    Parameters
    ----------
    names
        Names of the methods.
    texts
        The measures of every text.
    marked_share
        The part of a text that people mark.
    truncated
        Number of texts that the model does not read to the end.
    seed
        Seed for the bootstrap over texts.

    Returns
    -------
    Means, differences between methods, a verdict and warnings.
    """
    measured = [text for text in texts if text.precision is not None]
    row_names, tables = (*names, *_REFERENCES), {}
    for measure in PLAUSIBILITY_MEASURES:
        values = [getattr(text, measure) for text in measured]
        tables[measure] = _make_table(values, len(row_names))
    precision = tables["precision"]
    tables["iou_f1"] = f1_contributions(tables.pop("iou_precision"), tables.pop("iou_recall"))
    means = {
        name: bootstrap_means(table, seed=seed, limits=PART_RANGE) for name, table in tables.items()
    }
    # Minus the chance of the same text. Then no interval contains the spread of chance over texts.
    above_chance = precision - precision[:, [len(names)]]
    means["above_chance"] = bootstrap_means(above_chance, seed=seed, limits=CORRELATION_RANGE)
    # The error of a difference is at most the sum of the errors.
    errors = {
        name: _tie_errors(measured, name, len(row_names))
        for name in ("precision", "r_precision", "token_f1")
    }
    errors["above_chance"] = errors["precision"] + errors["precision"][:, [len(names)]]
    errors["above_chance"][:, len(names)] = 0.0  # chance minus itself
    rows = []
    for i, name in enumerate(row_names):
        count = int(np.isfinite(precision[:, i]).sum())
        numbers = named_estimates(means, i)
        for measure, text_errors in errors.items():
            stderr = float(np.sqrt((text_errors[:, i] ** 2).sum())) / max(count, 1)
            numbers[f"{measure}_stderr"] = stderr or None
        rows.append(MethodPlausibility(method=name, texts=count, **numbers))
    methods, references = rows[: len(names)], rows[len(names) :]
    pairs = compare_pairs(names, precision[:, : len(names)], np.ones(len(measured)), seed=seed)
    chance, rationale = (f"{row.precision or 0.0:.3f}" for row in references[:2])
    sentence = verdict(
        [(m.method, m.precision, m.above_chance_interval) for m in methods],
        pairs,
        texts=len(measured),
        adjective="plausible",
        measure="average precision",
        note=f"A random order has an average precision of {chance}, the rationale of {rationale}",
    )
    truncation = (
        f"The model truncates {truncated} of these texts, "
        "and rationales after the cut do not count."
    )
    return Plausibility(
        methods=tuple(methods),
        references=tuple(row for row in references if row.precision is not None),
        pairs=pairs,
        texts=tuple(texts),
        share=marked_share,
        verdict=f"{PLAUSIBILITY_CAVEAT} {sentence}",
        warnings=(
            *small_sample_warnings(len(measured), len(texts), len(texts) - len(measured)),
            *[truncation][: bool(truncated)],
        ),
    )
