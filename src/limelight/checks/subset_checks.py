"""Exact methods against all subsets of a few words."""

__all__ = ["subset_checks"]

from collections.abc import Iterator
from itertools import combinations
from math import comb, prod

import numpy as np

from limelight.checks.check import (
    ROUNDING,
    Check,
    classifier,
    explained,
    masked_rows,
    output_values,
)
from limelight.explainers import Reading, read
from limelight.models import Model, class_probabilities
from limelight.shapes import Bool, Float

# Formulas that bound their own distance to another method.
_NEAR = {
    "lime-theorem": "lime",
    "lime-first-order": "lime",
    "lime-mean-field": "lime",
    "shapley-mean-field": "shapley",
}


def subset_checks(model: Model, short: str) -> Iterator[Check]:
    """Yield what all subsets of the words of ``short`` say about the exact methods."""
    reading = read(model, [short])
    d = len(reading.features[0])
    keep = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 > 0
    v = output_values(reading, keep)
    oracles = {
        "lime": _least_squares(keep, v),
        "shapley": _mean_changes(keep, v, [1 / (d * comb(d - 1, s)) for s in range(d)]),
        "banzhaf": _mean_changes(keep, v, [0.5 ** (d - 1)] * d),
    }
    for method, expected in oracles.items():
        for tolerance, rounding, what in ((1e-9, ROUNDING, ""), (1e-4, 0.0, ", its bound")):
            e = explained(reading, method, tolerance=tolerance)
            yield Check(
                method=method,
                against=f"all {len(keep)} subsets of {d} words{what}",
                error=float(np.abs(e.scores - expected).max()),
                allowed=(e.bound or 0) + rounding,
            )
    for method, value in _NEAR.items():
        e = explained(reading, method)
        yield Check(
            method=method,
            against=f"{value} by all {len(keep)} subsets of {d} words, its bound",
            error=float(np.abs(e.scores - oracles[value]).max()),
            allowed=(e.bound or 0) + ROUNDING,
        )
    yield _enumerated_pairs(reading, keep, v)
    yield _enumerated_anchor(reading, keep)
    yield _enumerated_owen(model, short)


def _least_squares(
    keep: Bool[np.ndarray, "n d"], v: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " d"]:
    d = keep.shape[1]
    s = d - keep.sum(axis=1)
    weight = np.exp(-((1 - np.sqrt(1 - s / d)) ** 2) / (2 * 0.25**2))
    root = np.sqrt(np.where(s > 0, weight / [comb(d, k) for k in s], 0))
    X = np.column_stack([np.ones(len(keep)), keep])
    return np.linalg.lstsq(root[:, None] * X, root * v, rcond=None)[0][1:]


def _mean_changes(
    keep: Bool[np.ndarray, "n d"], v: Float[np.ndarray, " n"], weight: list[float]
) -> Float[np.ndarray, " d"]:
    """Σ_S w(|S|) (v(S ∪ j) − v(S)) over the sets S without j."""
    sizes = keep.sum(axis=1)
    changes = []
    for j in range(keep.shape[1]):
        without = np.flatnonzero(~keep[:, j])
        by_size = np.array(weight)[sizes[without]]
        changes.append(by_size @ (v[without | 1 << j] - v[without]))
    return np.array(changes)


def _enumerated_pairs(
    reading: Reading, keep: Bool[np.ndarray, "n d"], v: Float[np.ndarray, " n"]
) -> Check:
    e = explained(reading, "interactions", tolerance=1e-9, top=None)
    d, worst = keep.shape[1], 0.0
    found = (
        {}
        if e.pairs is None
        else dict(zip(map(tuple, e.pairs.features.tolist()), e.pairs.scores.tolist(), strict=True))
    )
    for i, j in combinations(range(d), 2):
        S = np.flatnonzero(~keep[:, i] & ~keep[:, j])
        weight = [1 / ((d - 1) * comb(d - 2, s)) for s in keep[S].sum(axis=1)]
        mixed = v[S | 1 << i | 1 << j] - v[S | 1 << i] - v[S | 1 << j] + v[S]
        worst = max(worst, abs(found[i, j] - float(weight @ mixed)))
    return Check(
        method="interactions",
        against=f"all {len(keep)} subsets of {d} words",
        error=worst,
        allowed=(e.bound or 0) + ROUNDING,
    )


def _enumerated_anchor(reading: Reading, keep: Bool[np.ndarray, "n d"]) -> Check:
    """How far the share of masks that keep the class lies outside the interval of the precision."""
    anchor = explained(reading, "anchors").anchor
    if anchor is None:
        return Check(method="anchors", against="an anchor", error=float("nan"), allowed=0.0)
    held = keep[keep[:, list(anchor.features)].all(axis=1)]
    whole = np.ones((1, keep.shape[1]), bool)
    rows = masked_rows(reading, np.concatenate([whole, held]))
    first, *others = class_probabilities(classifier(reading).logits_of_ids(rows)).argmax(axis=1)
    share = float(np.mean([other == first for other in others]))
    low, high = anchor.precision_interval
    return Check(
        method="anchors",
        against=f"all {len(held)} masks that hold it",
        error=max(low - share, share - high, 0.0),
        allowed=ROUNDING,
    )


def _enumerated_owen(model: Model, short: str) -> Check:
    """Owen values of the tokens by their definition: whole sentences, then words of one's own."""
    reading = read(model, [short], features="positions")
    d = len(reading.features[0])
    keep = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 > 0
    v = output_values(reading, keep)
    expected = _by_sentence(v, _sentence_masks(reading.documents[0].tokens.strings))
    e = explained(reading, "owen", features="positions", tolerance=1e-9)
    return Check(
        method="owen",
        against=f"whole sentences and all {len(keep)} subsets of {d} tokens",
        error=float(np.abs(e.scores - expected).max()),
        allowed=(e.bound or 0) + ROUNDING,
    )


def _sentence_masks(tokens: tuple[str, ...]) -> list[int]:
    """The tokens of every sentence as bits."""
    masks: list[int] = []
    open_ = False
    for t, token in enumerate(tokens):
        stops = token in (".", "!", "?")
        if not open_ and not (stops and masks):
            masks.append(0)
        masks[-1] |= 1 << t
        open_ = not stops
    return masks


def _by_sentence(v: Float[np.ndarray, " n"], sentences: list[int]) -> Float[np.ndarray, " d"]:
    d = len(v).bit_length() - 1
    sets = np.arange(len(v))
    values = []
    for j in range(d):
        own = next(mask for mask in sentences if mask >> j & 1)
        others = [mask for mask in sentences if mask != own]
        # Sets without j in which every other sentence is there as a whole or not at all.
        fits = ~(sets >> j) & 1 > 0
        for mask in others:
            fits &= ((sets & mask) == 0) | ((sets & mask) == mask)
        total = 0.0
        for S in sets[fits].tolist():
            whole = sum((S & mask) == mask for mask in others)
            inside, words = (S & own).bit_count(), own.bit_count()
            weight = prod(
                (len(sentences), comb(len(others), whole), words, comb(words - 1, inside))
            )
            total += float(v[S | 1 << j] - v[S]) / weight
        values.append(total)
    return np.array(values)
