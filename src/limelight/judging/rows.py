"""From judged and marked texts to a row per method and per pair of methods."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from limelight.judging.candidates import Candidate
from limelight.judging.plausibility import f1
from limelight.judging.statistics import Resampled, holm, resampled, two_sided
from limelight.judging.verdict import plausible_notices, plausible_verdict
from limelight.results.judgement import (
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    MarkedText,
    Measure,
    MethodColumn,
    Plausibility,
    PlausibleMethod,
    PlausiblePair,
    TextColumn,
    Values,
)
from limelight.shapes import Bool, Float

_MEASURES = ("deletion", "insertion", "change")
_NO_TEXT = "there is no text that could tell it from guessing."
_SAME = 1e-9  # of the room: areas that differ by less are a tie


def method_rows(
    candidates: Sequence[Candidate], texts: Sequence[JudgedText], *, seed: int
) -> list[JudgedMethod]:
    """Return one row per method, over the texts that have room."""
    found = {name: _resampled(texts, name, seed) for name in _MEASURES}
    areas = _areas(texts, "deletion", len(candidates))
    columns = method_columns(texts, len(candidates), seed=seed)
    return [
        replace(_row(one, i, texts, found, won=_won(areas, i, texts)), columns=columns[i])
        for i, one in enumerate(candidates)
    ]


def method_columns(
    texts: Sequence[JudgedText], count: int, *, seed: int
) -> list[tuple[MethodColumn, ...]]:
    """Return, for each of ``count`` methods, the mean of every column over the texts."""
    names = list(dict.fromkeys(column.name for text in texts for column in text.columns))
    found: list[list[MethodColumn]] = [[] for _ in range(count)]
    for name in names:
        own = [next((c for c in text.columns if c.name == name), None) for text in texts]
        values, errors = (_cells(own, part, count) for part in ("values", "errors"))
        # Every text counts the same: a mean is a share of rooms that are all 1.
        result = resampled(values, np.ones(len(texts)), seed=seed)
        for i, columns in enumerate(found):
            texts_with = int(np.count_nonzero(np.isfinite(values[:, i])))
            if not texts_with:
                continue
            known = errors[np.isfinite(errors[:, i]), i]
            columns.append(
                MethodColumn(
                    name=name,
                    value=float(result.share[i]),
                    interval=result.interval(i) if texts_with > 1 else None,
                    texts=texts_with,
                    sampling=float(np.sqrt(known @ known)) / texts_with if len(known) else None,
                )
            )
    return [tuple(columns) for columns in found]


def _cells(columns: Sequence[TextColumn | None], part: str, count: int) -> Float[np.ndarray, "n c"]:
    table = np.full((len(columns), count), np.nan)
    for row, column in zip(table, columns, strict=True):
        given = () if column is None else getattr(column, part)
        if given:
            row[:] = [np.nan if value is None else value for value in given]
    return table


def greedy_row(texts: Sequence[JudgedText], *, seed: int) -> tuple[float | None, Interval | None]:
    """Return the share of the greedy order, over the texts where it came to its end."""
    gains = [[np.nan if t.greedy is None else t.greedy - _of(t).chance] for t in texts]
    if not np.isfinite(gains).any():
        return None, None
    result = resampled(np.array(gains), _room(texts, "deletion"), seed=seed)
    return float(result.share[0]), result.interval(0) if len(texts) > 1 else None


def pair_rows(
    candidates: Sequence[Candidate], texts: Sequence[JudgedText], *, seed: int
) -> list[JudgedPair]:
    """Return one row per pair of methods that share two texts or more, the better one first."""
    areas = _areas(texts, "deletion", len(candidates))
    both = [
        (i, j)
        for i, j in combinations(range(len(candidates)), 2)
        if np.count_nonzero(np.isfinite(areas[:, i] - areas[:, j])) > 1
    ]
    if not both:
        return []
    gaps = np.stack([areas[:, i] - areas[:, j] for i, j in both], axis=1)
    room = _room(texts, "deletion")
    result = resampled(gaps, room, seed=seed)
    texts_with = np.count_nonzero(np.isfinite(gaps), axis=0)
    p = [
        two_sided(draws, texts=int(n)) for draws, n in zip(result.draws.T, texts_with, strict=True)
    ]
    corrected = holm(p)
    return [
        _pair(candidates, pair, result, c, (p[c], corrected[c]), _wins(gaps[:, c], room))
        for c, pair in enumerate(both)
    ]


def _pair(
    candidates: Sequence[Candidate],
    pair: tuple[int, int],
    result: Resampled,
    column: int,
    p: tuple[float, float],
    won: float,
) -> JudgedPair:
    names = candidates[pair[0]].name, candidates[pair[1]].name
    low, high = result.interval(column)
    gap = float(result.share[column])
    if gap < 0:
        names, gap, low, high, won = names[::-1], -gap, -high, -low, 1 - won
    return JudgedPair(
        methods=names, difference=gap, interval=(low, high), p=p[0], p_holm=p[1], won=won
    )


def _wins(gap: Float[np.ndarray, " n"], room: Float[np.ndarray, " n"]) -> float:
    known = np.isfinite(gap)
    gap, slack = gap[known], _SAME * room[known]
    return float(np.mean((gap > slack) + 0.5 * (np.abs(gap) <= slack)))


def _of(text: JudgedText) -> Measure:
    measure = text.deletion
    assert measure is not None  # noqa: S101  (only judged texts come here)
    return measure


def _room(texts: Sequence[JudgedText], name: str) -> Float[np.ndarray, " n"]:
    measures = [getattr(text, name) for text in texts]
    return np.array([0.0 if m is None else max(m.ceiling - m.chance, 0.0) for m in measures])


def _areas(texts: Sequence[JudgedText], name: str, count: int) -> Float[np.ndarray, "n c"]:
    table = np.full((len(texts), count), np.nan)
    for row, text in zip(table, texts, strict=True):
        if (measure := getattr(text, name)) is not None:
            row[:] = [np.nan if area is None else area for area in measure.areas]
    return table


def _resampled(texts: Sequence[JudgedText], name: str, seed: int) -> Resampled | None:
    if not texts or all(getattr(text, name) is None for text in texts):
        return None
    count = len(_of(texts[0]).areas)
    chance = [getattr(m, "chance", np.nan) for m in (getattr(text, name) for text in texts)]
    gain = _areas(texts, name, count) - np.array(chance)[:, None]
    return resampled(gain, _room(texts, name), seed=seed)


def _won(areas: Float[np.ndarray, "n c"], i: int, texts: Sequence[JudgedText]) -> float | None:
    known = np.isfinite(areas[:, i])
    if not known.any():
        return None
    slack = _SAME * _room(texts, "deletion")[known]
    return float(np.mean(areas[known, i] >= np.nanmax(areas[known], axis=1) - slack))


def _row(
    one: Candidate,
    i: int,
    texts: Sequence[JudgedText],
    found: dict[str, Resampled | None],
    *,
    won: float | None,
) -> JudgedMethod:
    count = sum(_of(text).areas[i] is not None for text in texts)
    shares = {name: _share(found[name], i, count) for name in _MEASURES}
    reason = one.reason
    if reason is None and not count:
        reason = next((t.reasons[i] for t in texts if t.reasons[i]), _NO_TEXT)
    (share, interval), (insertion, inserted), (change, changed) = shares.values()
    return JudgedMethod(
        method=one.name,
        label=one.label,
        signed=one.signed,
        share=share,
        interval=interval,
        insertion=insertion,
        insertion_interval=inserted,
        change=None if one.signed else change,
        change_interval=None if one.signed else changed,
        won=won,
        texts=count,
        tied=sum(text.ties[i] > 0 for text in texts),
        sampling=None if share is None else _sampling(texts, i, share),
        reason=reason if share is None else None,
    )


def _share(result: Resampled | None, i: int, count: int) -> tuple[float | None, Interval | None]:
    if result is None or not count or not np.isfinite(result.share[i]):
        return None, None
    return float(result.share[i]), result.interval(i) if count > 1 else None


def _sampling(texts: Sequence[JudgedText], i: int, share: float) -> float | None:
    """Return what sampled chances within texts add to the error of a share; None where exact.

    Chance stands above and below the line, so a share s moves by (s − 1)/Σ(ceiling − chance) with
    each: an order that reaches the best found does so whatever chance is.
    """
    own = [_of(text) for text in texts if _of(text).areas[i] is not None]
    errors = [m.stderr for m in own if m.stderr is not None]
    if not errors:
        return None
    slope = abs(1 - share) / sum(m.ceiling - m.chance for m in own)
    return float(slope * np.sqrt(np.sum(np.square(errors))))


_REFERENCES = ("chance", "rationale", "annotators")
_SAME_PRECISION = 1e-9  # average precisions that differ by less are a tie
_F1 = np.vectorize(f1, otypes=[float])

# The mean of a column with its interval.
_Number = tuple[float | None, tuple[float, float] | None]


def plausibility(
    names: Sequence[str], texts: Sequence[MarkedText], *, share: float, cut: int, seed: int
) -> Plausibility:
    """Return what follows over the texts; ``cut`` of them the model does not read to the end."""
    known = [text for text in texts if text.precision is not None]
    rows = _rows(names, known, seed) if known else [_nothing(name) for name in names]
    methods, references = rows[: len(names)], rows[len(names) :]
    pairs = _pairs(names, _table(known, "precision")[:, : len(names)], seed) if known else []
    return Plausibility(
        methods=tuple(methods),
        references=tuple(one for one in references if one.precision is not None),
        pairs=tuple(pairs),
        texts=tuple(texts),
        share=share,
        verdict=plausible_verdict(methods, references, pairs, texts=len(known)),
        notices=plausible_notices(texts, cut=cut),
    )


def _nothing(name: str) -> PlausibleMethod:
    return PlausibleMethod(method=name)


def _table(texts: Sequence[MarkedText], name: str) -> Float[np.ndarray, "n c"]:
    """Return one column per method, then those of the references; NaN where there is nothing."""
    return np.array([_marked_row(getattr(text, name)) for text in texts], dtype=float)


def _marked_row(values: Values) -> list[float | None]:
    return [*values.methods, *(getattr(values, name) for name in _REFERENCES)]


def _rows(names: Sequence[str], texts: Sequence[MarkedText], seed: int) -> list[PlausibleMethod]:
    every = np.ones(len(texts))

    def means(table: Float[np.ndarray, "n c"]) -> Resampled:
        return resampled(table, every, seed=seed)

    precision = _table(texts, "precision")
    above = precision - precision[:, [len(names)]]
    columns = {
        "precision": _numbers(means(precision), len(texts)),
        "above": _numbers(means(above), len(texts)),
        "r_precision": _numbers(means(_table(texts, "r_precision")), len(texts)),
        "token_f1": _numbers(means(_table(texts, "token_f1")), len(texts)),
        "iou_f1": _numbers(_iou(means, texts), len(texts)),
    }
    return [
        _method(name, {key: of(i) for key, of in columns.items()}, np.isfinite(precision[:, i]))
        for i, name in enumerate((*names, *_REFERENCES))
    ]


def _iou(
    means: Callable[[Float[np.ndarray, "n c"]], Resampled], texts: Sequence[MarkedText]
) -> Resampled:
    """Return F1 of the mean precision and the mean recall, in that order, as ERASER has it."""
    both = [means(_table(texts, name)) for name in ("iou_precision", "iou_recall")]
    return Resampled(_F1(both[0].share, both[1].share), _F1(both[0].draws, both[1].draws))


def _numbers(result: Resampled, texts: int) -> Callable[[int], _Number]:
    def number(i: int) -> _Number:
        if not np.isfinite(result.share[i]):
            return None, None
        return float(result.share[i]), result.interval(i) if texts > 1 else None

    return number


def _method(
    name: str, numbers: dict[str, _Number], known: Bool[np.ndarray, " n"]
) -> PlausibleMethod:
    own: dict[str, Any] = {key: value for key, (value, _) in numbers.items()}
    own |= {f"{key}_interval": interval for key, (_, interval) in numbers.items()}
    return PlausibleMethod(method=name, texts=int(known.sum()), **own)


def _pairs(
    names: Sequence[str], precision: Float[np.ndarray, "n c"], seed: int
) -> list[PlausiblePair]:
    both = [
        (i, j)
        for i, j in combinations(range(len(names)), 2)
        if np.count_nonzero(np.isfinite(precision[:, i] - precision[:, j])) > 1
    ]
    if not both:
        return []
    gaps = np.stack([precision[:, i] - precision[:, j] for i, j in both], axis=1)
    result = resampled(gaps, np.ones(len(gaps)), seed=seed)
    texts_with = np.count_nonzero(np.isfinite(gaps), axis=0)
    p = [
        two_sided(draws, texts=int(n)) for draws, n in zip(result.draws.T, texts_with, strict=True)
    ]
    corrected = holm(p)
    return [
        _marked_pair((names[i], names[j]), gaps[:, c], result, c, (p[c], corrected[c]))
        for c, (i, j) in enumerate(both)
    ]


def _marked_pair(
    names: tuple[str, str],
    gap: Float[np.ndarray, " n"],
    result: Resampled,
    column: int,
    p: tuple[float, float],
) -> PlausiblePair:
    known = gap[np.isfinite(gap)]
    won = float(np.mean((known > _SAME_PRECISION) + 0.5 * (np.abs(known) <= _SAME_PRECISION)))
    difference, (low, high) = float(result.share[column]), result.interval(column)
    if difference < 0:
        names, difference, low, high, won = names[::-1], -difference, -high, -low, 1 - won
    return PlausiblePair(
        methods=names, difference=difference, interval=(low, high), p=p[0], p_holm=p[1], won=won
    )
