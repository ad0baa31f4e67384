"""What an explanation must be, whether a method found it or a file tells of it."""

__all__ = ["check_explanation", "check_indices"]

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from limelight.errors import InputError
from limelight.results.finding import Anchor, Pairs
from limelight.results.plain_values import whole_text
from limelight.text import Span


def check_explanation(e: Any) -> None:
    """Refuse what cannot be: NaN, negative errors, spans outside the text, unknown features."""
    d, end = len(e.features), len(e.text)
    # Joined first: a call for every word would cost a tenth of a comparison of eight methods.
    for texts in ((e.text, e.method, e.aim, e.label), e.features, e.classes, e.notices):
        whole_text("".join(texts), "an explanation")
    _check_spans(e.spans, end)
    if e.cut is not None and not 0 <= e.cut <= end:
        raise InputError(f"cut must lie inside the text of {end} characters; got {e.cut}.")
    _check_parts(e.parts, e.text)
    if e.against == e.target:
        raise InputError(f"a class is explained against another one; got {e.target!r} twice.")
    _check_numbers(e)
    if e.pairs is not None:
        _check_pairs(e.pairs, d)
    if e.anchor is not None:
        _check_anchor(e.anchor, d)


@lru_cache(maxsize=16)  # several methods explain the same words of the same text
def _check_spans(spans: tuple[tuple[Span, ...], ...], end: int) -> None:
    for start, stop in chain.from_iterable(spans):
        if not 0 <= start <= stop <= end:
            raise InputError(
                f"spans must be (start, end) inside the text of {end} characters; "
                f"got {(start, stop)}."
            )


def _check_parts(parts: tuple[Span, ...], text: str) -> None:
    """A pair is two stretches of the text that a newline joins, and nothing else."""
    if not parts:
        return
    match parts:
        case ((0, end), (start, last)) if start == end + 1 and last == len(text) >= start:
            if text[end] == "\n":
                return
    raise InputError(
        "parts must be the (start, end) of two texts which a newline joins to the whole of "
        f"{len(text)} characters; got {parts}."
    )


def _check_numbers(e: Any) -> None:
    if e.bound is not None and not e.bound >= 0:  # NaN is not either
        raise InputError(f"bound must not be negative or NaN; got {e.bound}.")
    if e.stderr is not None and (e.stderr < 0).any():
        raise InputError(f"stderr must not be negative; got {e.stderr.min()}.")
    outputs = {f"prediction of {name!r}": value for name, value in e.prediction.items()}
    for name, value in (outputs | {"base_value": e.base_value, "intercept": e.intercept}).items():
        if value is not None and not math.isfinite(value):
            raise InputError(f"{name} must be finite; got {value}.")


def _check_pairs(pairs: Pairs, d: int) -> None:
    n = len(pairs.features)
    check_indices(pairs.features.ravel().tolist(), d, "pairs")
    if np.shape(pairs.scores) != (n,) or not np.isfinite(pairs.scores).all():
        raise InputError(f"pairs must have a finite score each; got {pairs.scores} for {n} pairs.")
    if pairs.stderr is None:
        return
    fits = np.shape(pairs.stderr) == (n,)
    if not (fits and np.isfinite(pairs.stderr).all() and (pairs.stderr >= 0).all()):
        raise InputError(
            f"pairs must have a finite stderr each, not negative; got {pairs.stderr} for {n} pairs."
        )


def _check_anchor(anchor: Anchor, d: int) -> None:
    check_indices(anchor.features, d, "an anchor")
    low, high = anchor.precision_interval
    shares = (low, anchor.precision, high, anchor.coverage)
    if not all(0 <= share <= 1 for share in shares) or low > high:
        raise InputError(
            "precision, its interval and coverage of an anchor are shares from 0 to 1, the "
            f"interval in order; got {anchor.precision}, {low} to {high}, {anchor.coverage}."
        )


def check_indices(indices: Iterable[int], d: int, what: str) -> None:
    """Refuse numbers of features that are not there."""
    for index in indices:
        if not 0 <= index < d:
            raise InputError(f"{what} must name features from 0 to {d - 1}; got {index}.")
