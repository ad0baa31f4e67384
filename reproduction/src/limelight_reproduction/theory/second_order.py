"""LIME and Shapley values to second order about the mean text of each size, with a bound.

A value that treats all words alike sees a game φ through the sets of n kept words, n = 0..d:

    v_j(φ) = Σ_n E[(common_n + single_n (Z_j − n/d)) φ(Z) | n kept].

Given n let D̄ and f̄ = N̄/D̄ be taken at the mean text, h̃_j = (Γ̃_j − f̄ Δ̃_j)/D̄, where a tilde takes
the mean over the words off Γ = A − B and Δ = a − b, L = Σ_j Z_j h̃_j and η = Σ_j Z_j Δ̃_j. Then

    f = f̄ + L − Lη/D̄ + Lη²/(D̄ D)

exactly. What v makes of the first three terms follows from moments of Z; the last one is bounded.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Unpack

import numpy as np

from limelight import DomainError
from limelight.shapes import Array, Float
from limelight.theory.lime_weights import LimeDesign, RegressionSettings, lime_design
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import (
    BoundedScores,
    RatioGame,
    check_values,
    denominator_range,
    pad_rows,
    rescale_extreme_heads,
    subtract_constants,
    value_range,
    word_counts,
    word_mask,
)
from limelight.theory.table_rounding import ROUNDING


class SymmetricValue(NamedTuple):
    """common_n and single_n of v_j(φ), for n = 0..d words kept. Σ_n common_n = 0."""

    common: Float[np.ndarray, " sizes"]
    single: Float[np.ndarray, " sizes"]


def lime_value(design: LimeDesign) -> SymmetricValue:
    """LIME: single_n = ψ/(V + ρ), and common_n the slope of a regression on n alone."""
    w, d = design.weight[::-1], design.d
    common = w * design.excess[::-1] / (d * (design.spread + design.penalty))
    return SymmetricValue(common, w / (design.V + design.penalty))


def shapley_value(d: int) -> SymmetricValue:
    """Shapley: each size alike, 1/(d x(1−x)) at x = n/d; in common only f(all) − f(none)."""
    n = np.arange(d + 1)
    common = (1.0 * (n == d) - (n == 0)) / d
    return SymmetricValue(common, np.where(common == 0, d / np.maximum(n * (d - n), 1), 0.0))


def lime_second_order(game: RatioGame, **told: Unpack[RegressionSettings]) -> BoundedScores:
    """The limit of LIME to second order, and a bound on its distance to the limit.

    On the shipped model the bound is 0.005 in the median. Domain: d ≥ 2, ν > 0, ρ ≥ 0, n ≥ 1.
    """
    return second_order(game, [lime_value(lime_design(d, **told)) for d in word_counts(game)])


def shapley_second_order(game: RatioGame) -> BoundedScores:
    """Shapley values to second order, and a bound on their distance to the Shapley values."""
    return second_order(game, [shapley_value(d) for d in word_counts(game)])


class _Sizes(NamedTuple):
    """By n: x = n/d, moments of Z given n kept words, for y and z of mean 0 over the words."""

    x: Float[Array, "*batch 1 1 sizes"]
    second: Float[Array, "*batch 1 1 sizes"]  # E[Σ Z_k y_k Σ Z_k z_k] = second · Σ y z
    third: Float[Array, "*batch 1 1 sizes"]  # E[(Z_j − x) Σ Zy Σ Zz] = third · (y_j z_j − Σ yz/d)
    fourth: Float[Array, "*batch 1 1 sizes"]  # E[(Σ Zy)⁴] = fourth · Σ y⁴ + squared · (Σ y²)²
    squared: Float[Array, "*batch 1 1 sizes"]


class _MeanText(NamedTuple):
    """Of each head: D̄, the least D and f̄ − f(all) by size; Γ̃ and Δ̃ by word."""

    D: Float[Array, "*batch 1 K sizes"]
    least: Float[Array, "*batch 1 K sizes"]
    f: Float[Array, "*batch C K sizes"]
    gain: Float[Array, "*batch C K d"]
    move: Float[Array, "*batch 1 K d"]
    reach: Float[Array, "*batch C K sizes"]  # max|f − f̄|
    size: Float[Array, "*batch C K sizes"]  # of the terms that are added up, for their rounding


def second_order(game: RatioGame, values: Sequence[SymmetricValue]) -> BoundedScores:
    """v_j(f̄ + L − Lη/D̄) of each document's value v, and a bound on its distance to v_j(f).

    At sizes where the last term has no smaller bound than −Lη/D, the expansion stops before Lη/D̄.
    The bound counts `game.error`. Any multiplicities of words. Cost O(d log d).
    """
    xp = array_namespace(game.a)
    game = rescale_extreme_heads(game)
    moments = [_moments(d) for d in word_counts(game)]
    sizes = _Sizes(*_tables(game, moments, fill=(1.0, 0.0, 0.0, 0.0, 0.0)))
    common, single = _tables(game, values, fill=(0.0, 0.0))
    mean = _mean_text(game, sizes.x)
    check_values(xp.max(mean.size, axis=-1))
    # What a unit of |f| at size n can do to v_j, where word j is kept and where it is removed.
    kept, removed = xp.abs(common + single * (1 - sizes.x)), xp.abs(common - single * sizes.x)
    rest, further = _remainder(mean, sizes, kept=kept, removed=removed)
    bend = further / mean.D
    by_word = _weighed(mean, single * sizes.second) - mean.move * _weighed(
        mean, single * sizes.third * bend
    )
    bent = mean.move * _weighed(mean, common * sizes.second * bend)
    at_mean = xp.sum(common * mean.f, axis=-1) - xp.sum(bent, axis=-1)
    real = _real(game)
    scores = _centred(by_word, real) + at_mean[..., None] * real
    bound = xp.sum(rest, axis=-1)
    if game.error is not None:
        reach = xp.sum(sizes.x * kept + (1 - sizes.x) * removed, axis=-1)
        bound = bound + reach * game.error
    found = BoundedScores(xp.mean(scores, axis=-2), xp.mean(bound, axis=-1))
    if not bool(xp.all(xp.isfinite(found.scores))) or bool(xp.any(xp.isnan(found.bound))):
        raise DomainError(
            "the second order of a ratio game, and bounds by it, need values that are finite in "
            "units of the smallest D too."
        )
    return found


def distance_bound(
    scores: Float[Array, "*batch C d"], near: BoundedScores
) -> Float[Array, "*batch C"]:
    """A bound on the distance of ``scores`` to the values that ``near`` is within its bound of."""
    xp = array_namespace(scores)
    return xp.max(xp.abs(scores - near.scores), axis=-1) + near.bound


def lime_distance_bound(
    scores: Float[Array, "*batch C d"], game: RatioGame, **told: Unpack[RegressionSettings]
) -> Float[Array, "*batch C"]:
    """A bound on |score_j − β_j| for every word, wherever the scores come from; β LIME's limit.

    Their distance to the second order, plus the bound of the latter. Domain: d ≥ 2, ν > 0, ρ ≥ 0.
    """
    return distance_bound(scores, lime_second_order(game, **told))


def _remainder(
    mean: _MeanText, sizes: _Sizes, *, kept: Array, removed: Array
) -> tuple[Float[Array, "*batch C K sizes"], Float[Array, "*batch C K sizes"]]:
    """Bounds on E|κ (f − expansion)| by size, and 1 where it goes to second order, else 0.

    |κ| is ``kept`` or ``removed``. To second order max|κ| √(E[L²] E[η⁴])/(D̄ min D), to first
    max|κ| √(E[L²] E[η²])/min D, or, where one word holds nearly all weight, what any text can be
    off by, E|κ| max|f − f̄| + √(E[κ²] E[L²]).
    """
    xp = array_namespace(mean.D)
    # Sums of squares are taken in units of the largest entry: beside a word that weighs e^400
    # times the others their squares underflow, and a remainder of 0 would be no bound.
    unit, step = (xp.max(xp.abs(y), axis=-1, keepdims=True) for y in (mean.gain, mean.move))
    gain, move = (y / xp.where(of > 0, of, 1.0) for y, of in ((mean.gain, unit), (mean.move, step)))
    both, gains = xp.sum(gain * move, axis=-1)[..., None], xp.sum(gain**2, axis=-1)[..., None]
    squares, fourths = (xp.sum(move**power, axis=-1)[..., None] for power in (2, 4))
    slack = _slack(mean.move.shape[-1])
    # Σ h̃² from three sums that serve all sizes; they may cancel, and their rounding is added.
    pulled = mean.f * step
    largest = xp.maximum(unit + 0 * pulled, xp.abs(pulled))
    own, pulled = (y / xp.where(largest > 0, largest, 1.0) for y in (unit, pulled))
    terms = own**2 * gains + pulled**2 * squares
    steps = xp.maximum(terms - 2 * own * pulled * both, 0 * terms) + slack * terms
    L = largest / mean.D * xp.sqrt(sizes.second * steps)
    eta = step * xp.sqrt(sizes.second * squares)
    eta2 = step * (step / mean.D * xp.sqrt(sizes.fourth * fourths + sizes.squared * squares**2))
    most, x = xp.maximum(kept, removed), sizes.x
    near = most * L * (xp.minimum(eta, eta2) / mean.least)
    far = (x * kept + (1 - x) * removed) * mean.reach + L * xp.sqrt(
        x * kept**2 + (1 - x) * removed**2
    )
    further = (eta2 < eta) & (near < far)
    noise = most * mean.size * (1 + further * step / mean.D * xp.sqrt(squares))
    rest = (1 + slack) * xp.minimum(near, far) + slack * noise
    return rest, xp.astype(further, rest.dtype)


def _weighed(mean: _MeanText, weight: Float[Array, "..."]) -> Float[Array, "*batch C K d"]:
    """Σ_n weight_n h̃_j of every word j."""
    xp = array_namespace(mean.D)
    share = weight / mean.D
    pull = xp.sum(share * mean.f, axis=-1)[..., None]
    return mean.gain * xp.sum(share, axis=-1)[..., None] - mean.move * pull


def _mean_text(game: RatioGame, x: Float[Array, "*batch 1 1 sizes"]) -> _MeanText:
    xp = array_namespace(game.a)
    # f(all) is taken off all values: that moves no score, and large values would cancel.
    top = game.N0 + xp.sum(game.A, axis=-1)
    top = top / (game.D0 + xp.sum(game.a, axis=-1))[..., None, :]
    game = subtract_constants(game, top)
    D0, a, b = (y[..., None, :, :] for y in (game.D0[..., None], game.a, game.b))
    N0 = game.N0[..., None]

    def mean(fixed: Array, kept: Array, removed: Array) -> Array:
        full, empty = (fixed + xp.sum(y, axis=-1, keepdims=True) for y in (kept, removed))
        return x * full + (1 - x) * empty

    D = mean(D0, a, b)
    f = mean(N0, game.A, game.B) / D
    weight = D0 + xp.sum(a + b, axis=-1, keepdims=True)
    low, high = (y[..., None] for y in value_range(game))
    real = _real(game)
    # The least D keeps the n words of least a − b. Where that cancels, Σ min(a, b) does not.
    moves = xp.sort(xp.where(real > 0, a - b, xp.inf), axis=-1)
    sums = xp.cumulative_sum(moves, axis=-1, include_initial=True)[..., : x.shape[-1]]
    least = D0 + xp.sum(b, axis=-1, keepdims=True) + sums - _slack(game.d) * weight
    return _MeanText(
        D=D,
        least=xp.maximum(least, denominator_range(game)[0][..., None, :, None]),
        f=f,
        gain=_centred(game.A - game.B, real),
        move=_centred(a - b, real),
        # Infinite for a value without weight; a size of weight 0 shall not make that 0 · ∞.
        reach=xp.clip(xp.maximum(high - f, f - low), max=1e300),
        size=mean(xp.abs(N0), xp.abs(game.A), xp.abs(game.B)) / D
        + xp.abs(f)
        + xp.abs(top[..., None]),
    )


@lru_cache(maxsize=4096)
def _moments(d: int) -> _Sizes:
    n = np.arange(d + 1)
    second = n * (d - n) / (d * max(d - 1, 1))
    # Chances that 1 to 4 given words are all kept, or all removed if those are fewer: the fourth
    # moment is the same, and the sums below do not cancel.
    few = np.minimum(n, d - n)
    p = np.cumprod([(few - i) / max(d - i, 1) for i in range(4)], axis=0)
    return _Sizes(
        x=n / d,
        second=second,
        third=second * (d - 2 * n) / max(d - 2, 1),
        fourth=p[0] - 7 * p[1] + 12 * p[2] - 6 * p[3],
        squared=3 * (p[1] - 2 * p[2] + p[3]),
    )


def _tables(
    game: RatioGame, rows: Sequence[Sequence[np.ndarray]], *, fill: Sequence[float]
) -> list[Float[Array, "*batch 1 1 sizes"]]:
    """Columns of tables by size, one row per document, as arrays beside the game's."""
    columns = zip(zip(*rows, strict=True), fill, strict=True)
    made = (pad_rows(column, fill=last) for column, last in columns)
    return [array_like(y.reshape(*game.batch, 1, 1, y.shape[-1]), game.a) for y in made]


def _real(game: RatioGame) -> Float[Array, "*batch 1 1 d"]:
    """1 at real words, 0 at padding."""
    xp = array_namespace(game.a)
    return xp.astype(word_mask(game), game.a.dtype)[..., None, None, :]


def _centred(y: Float[Array, "... d"], real: Float[Array, "... d"]) -> Float[Array, "... d"]:
    xp = array_namespace(y)
    mean = xp.sum(y * real, axis=-1, keepdims=True) / xp.sum(real, axis=-1, keepdims=True)
    return (y - mean) * real


def _slack(d: int) -> float:
    """What rounding does to sums over d words, relatively."""
    return 16 * ROUNDING * (d + 8)
