"""From marked texts to a row per method and per pair of methods."""

__all__ = ["plausibility"]

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from limelight.judging.eraser_scores import f1
from limelight.judging.plausible_verdict import plausible_notices, plausible_verdict
from limelight.judging.resampling import Resampled, holm, resampled, two_sided
from limelight.results.judgement import (
    MarkedText,
    Plausibility,
    PlausibleMethod,
    PlausiblePair,
    Values,
)
from limelight.shapes import Bool, Float

_REFERENCES = ("chance", "rationale", "annotators")
_SAME = 1e-9  # average precisions that differ by less are a tie
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
    return np.array([_row(getattr(text, name)) for text in texts], dtype=float)


def _row(values: Values) -> list[float | None]:
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
        _pair((names[i], names[j]), gaps[:, c], result, c, (p[c], corrected[c]))
        for c, (i, j) in enumerate(both)
    ]


def _pair(
    names: tuple[str, str],
    gap: Float[np.ndarray, " n"],
    result: Resampled,
    column: int,
    p: tuple[float, float],
) -> PlausiblePair:
    known = gap[np.isfinite(gap)]
    won = float(np.mean((known > _SAME) + 0.5 * (np.abs(known) <= _SAME)))
    difference, (low, high) = float(result.share[column]), result.interval(column)
    if difference < 0:
        names, difference, low, high, won = names[::-1], -difference, -high, -low, 1 - won
    return PlausiblePair(
        methods=names, difference=difference, interval=(low, high), p=p[0], p_holm=p[1], won=won
    )
