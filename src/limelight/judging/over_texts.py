"""From judged texts to a row per method and per pair of methods."""

__all__ = ["greedy_row", "method_rows", "pair_rows"]

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from limelight.judging.candidates import Candidate
from limelight.judging.resampling import Resampled, holm, resampled, two_sided
from limelight.results.judgement import (
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Measure,
    MethodColumn,
    TextColumn,
)
from limelight.shapes import Float

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
