"""LIME and Shapley values to second order about the mean text of each size, with a bound.

A value that treats all words alike sees a game φ through the sets of n kept words, n = 0..d:

    v_j(φ) = Σ_n E[(common_n + single_n (Z_j − n/d)) φ(Z) | n kept].

Given n let D̄ and f̄ = N̄/D̄ be taken at the mean text, h̃_j = (Γ̃_j − f̄ Δ̃_j)/D̄, where a tilde
subtracts the mean over the words from Γ = A − B and Δ = a − b, L = Σ_j Z_j h̃_j and η = Σ_j Z_j
Δ̃_j. Then

    f = f̄ + L − Lη/D̄ + Lη²/(D̄ D)

exactly. The value v of the first three terms follows from moments of Z. The last term is bounded.
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
    """The weights common_n and single_n of v_j(φ), for n = 0..d words kept. Σ_n common_n = 0."""

    common: Float[np.ndarray, " sizes"]
    single: Float[np.ndarray, " sizes"]


def lime_value(design: LimeDesign) -> SymmetricValue:
    """Return LIME as a value: single_n = ψ/(V + ρ), common_n the slope of a regression on n."""
    w, d = design.weight[::-1], design.d
    common = w * design.excess[::-1] / (d * (design.spread + design.penalty))
    return SymmetricValue(common, w / (design.V + design.penalty))


def shapley_value(d: int) -> SymmetricValue:
    """Return Shapley values as a value: single_n = 1/(d x(1−x)) at x = n/d.

    common_n is that of f(all) − f(none)."""
    n = np.arange(d + 1)
    common = (1.0 * (n == d) - (n == 0)) / d
    return SymmetricValue(common, np.where(common == 0, d / np.maximum(n * (d - n), 1), 0.0))


def lime_second_order(game: RatioGame, **settings: Unpack[RegressionSettings]) -> BoundedScores:
    """Return LIME to second order, and a bound on its distance to the limit of LIME.

    On the shipped model the bound is 0.005 in the median. Domain: d ≥ 2, ν > 0, ρ ≥ 0, n ≥ 1.
    """
    return second_order(game, [lime_value(lime_design(d, **settings)) for d in word_counts(game)])


def shapley_second_order(game: RatioGame) -> BoundedScores:
    """Return Shapley values to second order, and a bound on the distance to the exact values."""
    return second_order(game, [shapley_value(d) for d in word_counts(game)])


class _Sizes(NamedTuple):
    """For every n: x = n/d and moments of Z given n kept words, for y, z of mean 0 over words."""

    x: Float[Array, "*batch 1 1 sizes"]
    second: Float[Array, "*batch 1 1 sizes"]  # E[Σ Z_k y_k Σ Z_k z_k] = second · Σ y z
    third: Float[Array, "*batch 1 1 sizes"]  # E[(Z_j − x) Σ Zy Σ Zz] = third · (y_j z_j − Σ yz/d)
    fourth: Float[Array, "*batch 1 1 sizes"]  # E[(Σ Zy)⁴] = fourth · Σ y⁴ + squared · (Σ y²)²
    squared: Float[Array, "*batch 1 1 sizes"]


class _MeanText(NamedTuple):
    """For each head: D̄, the least D and f̄ − f(all) by size, and Γ̃ and Δ̃ by word."""

    D: Float[Array, "*batch 1 K sizes"]
    least: Float[Array, "*batch 1 K sizes"]
    f: Float[Array, "*batch C K sizes"]
    gain: Float[Array, "*batch C K d"]
    move: Float[Array, "*batch 1 K d"]
    reach: Float[Array, "*batch C K sizes"]  # max|f − f̄|
    size: Float[Array, "*batch C K sizes"]  # of the summed terms, for their rounding error


def second_order(game: RatioGame, values: Sequence[SymmetricValue]) -> BoundedScores:
    """Return v_j(f̄ + L − Lη/D̄) of each document's value v, and a bound on its distance to v_j(f).

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
    # The largest effect of a unit of |f| at size n on v_j, with word j kept and with it removed.
    kept_effect, removed_effect = (
        xp.abs(common + single * (1 - sizes.x)),
        xp.abs(common - single * sizes.x),
    )
    remainder, is_second_order = _remainder(
        mean, sizes, kept_effect=kept_effect, removed_effect=removed_effect
    )
    curvature = is_second_order / mean.D
    by_word = _weigh_effects(mean, single * sizes.second) - mean.move * _weigh_effects(
        mean, single * sizes.third * curvature
    )
    mean_curvature = mean.move * _weigh_effects(mean, common * sizes.second * curvature)
    at_mean = xp.sum(common * mean.f, axis=-1) - xp.sum(mean_curvature, axis=-1)
    is_word = _word_indicator(game)
    scores = _center_words(by_word, is_word) + at_mean[..., None] * is_word
    bound = xp.sum(remainder, axis=-1)
    if game.error is not None:
        total_effect = xp.sum(sizes.x * kept_effect + (1 - sizes.x) * removed_effect, axis=-1)
        bound = bound + total_effect * game.error
    result = BoundedScores(xp.mean(scores, axis=-2), xp.mean(bound, axis=-1))
    if not bool(xp.all(xp.isfinite(result.scores))) or bool(xp.any(xp.isnan(result.bound))):
        raise DomainError(
            "the second order of a ratio game needs values that are finite after division by the "
            "smallest D."
        )
    return result


def distance_bound(
    scores: Float[Array, "*batch C d"], near: BoundedScores
) -> Float[Array, "*batch C"]:
    """Return a bound on the distance of ``scores`` to the values that ``near`` approximates."""
    xp = array_namespace(scores)
    return xp.max(xp.abs(scores - near.scores), axis=-1) + near.bound


def lime_distance_bound(
    scores: Float[Array, "*batch C d"], game: RatioGame, **settings: Unpack[RegressionSettings]
) -> Float[Array, "*batch C"]:
    """Return a bound on |score_j − β_j| for every word, with β the limit of LIME.

    The scores may come from any method. The bound is their distance to the second order, plus the
    bound of the latter. Domain: d ≥ 2, ν > 0, ρ ≥ 0.
    """
    return distance_bound(scores, lime_second_order(game, **settings))


def _remainder(
    mean: _MeanText, sizes: _Sizes, *, kept_effect: Array, removed_effect: Array
) -> tuple[Float[Array, "*batch C K sizes"], Float[Array, "*batch C K sizes"]]:
    """Return bounds on E|κ (f − expansion)| by size, and 1 for second order, 0 for first.

    |κ| is ``kept_effect`` or ``removed_effect``. To second order max|κ| √(E[L²] E[η⁴])/(D̄ min D),
    to first max|κ| √(E[L²] E[η²])/min D, or, where one word holds nearly all weight, the largest
    error of any text, E|κ| max|f − f̄| + √(E[κ²] E[L²]).
    """
    xp = array_namespace(mean.D)
    # Sums of squares use the largest entry as unit. Beside a word that weighs e^400 times the
    # others their squares underflow, and a remainder of 0 would be no bound.
    unit, step = (xp.max(xp.abs(y), axis=-1, keepdims=True) for y in (mean.gain, mean.move))
    gain, move = (
        y / xp.where(scale > 0, scale, 1.0) for y, scale in ((mean.gain, unit), (mean.move, step))
    )
    products, gains = xp.sum(gain * move, axis=-1)[..., None], xp.sum(gain**2, axis=-1)[..., None]
    squares, fourths = (xp.sum(move**power, axis=-1)[..., None] for power in (2, 4))
    slack = _slack(mean.move.shape[-1])
    # Σ h̃² comes from three sums that serve all sizes. They may cancel; their rounding is added.
    move_unit = mean.f * step
    largest = xp.maximum(unit + 0 * move_unit, xp.abs(move_unit))
    gain_unit, move_unit = (y / xp.where(largest > 0, largest, 1.0) for y in (unit, move_unit))
    squared_terms = gain_unit**2 * gains + move_unit**2 * squares
    steps = (
        xp.maximum(squared_terms - 2 * gain_unit * move_unit * products, 0 * squared_terms)
        + slack * squared_terms
    )
    L = largest / mean.D * xp.sqrt(sizes.second * steps)
    eta = step * xp.sqrt(sizes.second * squares)
    eta2 = step * (step / mean.D * xp.sqrt(sizes.fourth * fourths + sizes.squared * squares**2))
    largest_effect, x = xp.maximum(kept_effect, removed_effect), sizes.x
    near_bound = largest_effect * L * (xp.minimum(eta, eta2) / mean.least)
    far_bound = (x * kept_effect + (1 - x) * removed_effect) * mean.reach + L * xp.sqrt(
        x * kept_effect**2 + (1 - x) * removed_effect**2
    )
    is_second_order = (eta2 < eta) & (near_bound < far_bound)
    noise = largest_effect * mean.size * (1 + is_second_order * step / mean.D * xp.sqrt(squares))
    bound = (1 + slack) * xp.minimum(near_bound, far_bound) + slack * noise
    return bound, xp.astype(is_second_order, bound.dtype)


def _weigh_effects(mean: _MeanText, weight: Float[Array, "..."]) -> Float[Array, "*batch C K d"]:
    """Return Σ_n weight_n h̃_j of every word j."""
    xp = array_namespace(mean.D)
    share = weight / mean.D
    denominator_effect = xp.sum(share * mean.f, axis=-1)[..., None]
    return mean.gain * xp.sum(share, axis=-1)[..., None] - mean.move * denominator_effect


def _mean_text(game: RatioGame, x: Float[Array, "*batch 1 1 sizes"]) -> _MeanText:
    """Return the mean texts of all sizes, with the effects of the words on them."""
    xp = array_namespace(game.a)
    # f(all) is subtracted from all values. This moves no score, and large values would cancel.
    top = game.N0 + xp.sum(game.A, axis=-1)
    top = top / (game.D0 + xp.sum(game.a, axis=-1))[..., None, :]
    game = subtract_constants(game, top)
    D0, a, b = (y[..., None, :, :] for y in (game.D0[..., None], game.a, game.b))
    N0 = game.N0[..., None]

    def mean(fixed: Array, kept_terms: Array, removed_terms: Array) -> Array:
        """Return the sum at every mean text."""
        full, empty = (
            fixed + xp.sum(y, axis=-1, keepdims=True) for y in (kept_terms, removed_terms)
        )
        return x * full + (1 - x) * empty

    D = mean(D0, a, b)
    f = mean(N0, game.A, game.B) / D
    weight = D0 + xp.sum(a + b, axis=-1, keepdims=True)
    low, high = (y[..., None] for y in value_range(game))
    is_word = _word_indicator(game)
    # The least D keeps the n words with the smallest a − b. If that sum cancels, Σ min(a, b) does
    # not.
    moves = xp.sort(xp.where(is_word > 0, a - b, xp.inf), axis=-1)
    sums = xp.cumulative_sum(moves, axis=-1, include_initial=True)[..., : x.shape[-1]]
    least = D0 + xp.sum(b, axis=-1, keepdims=True) + sums - _slack(game.d) * weight
    return _MeanText(
        D=D,
        least=xp.maximum(least, denominator_range(game)[0][..., None, :, None]),
        f=f,
        gain=_center_words(game.A - game.B, is_word),
        move=_center_words(a - b, is_word),
        # A value without weight is infinite. A size of weight 0 must not give 0 · ∞.
        reach=xp.clip(xp.maximum(high - f, f - low), max=1e300),
        size=mean(xp.abs(N0), xp.abs(game.A), xp.abs(game.B)) / D
        + xp.abs(f)
        + xp.abs(top[..., None]),
    )


@lru_cache(maxsize=4096)
def _moments(d: int) -> _Sizes:
    """Return the moments of Z for every number of kept words."""
    n = np.arange(d + 1)
    second = n * (d - n) / (d * max(d - 1, 1))
    # Probabilities that 1 to 4 words are all kept, or all removed if fewer are removed. The fourth
    # moment is the same, and the sums below do not cancel.
    smaller = np.minimum(n, d - n)
    p = np.cumprod([(smaller - i) / max(d - i, 1) for i in range(4)], axis=0)
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
    """Return columns of tables by size, one row per document, in the array type of the game."""
    columns = zip(zip(*rows, strict=True), fill, strict=True)
    padded = (pad_rows(column, fill=fill_value) for column, fill_value in columns)
    return [
        array_like(table.reshape(*game.batch, 1, 1, table.shape[-1]), game.a) for table in padded
    ]


def _word_indicator(game: RatioGame) -> Float[Array, "*batch 1 1 d"]:
    """Return 1 at words and 0 at padding."""
    xp = array_namespace(game.a)
    return xp.astype(word_mask(game), game.a.dtype)[..., None, None, :]


def _center_words(
    y: Float[Array, "... d"], is_word: Float[Array, "... d"]
) -> Float[Array, "... d"]:
    """Subtract the mean over the words, and set padding to 0."""
    xp = array_namespace(y)
    mean = xp.sum(y * is_word, axis=-1, keepdims=True) / xp.sum(is_word, axis=-1, keepdims=True)
    return (y - mean) * is_word


def _slack(d: int) -> float:
    """Return the relative rounding error of sums over d words."""
    return 16 * ROUNDING * (d + 8)
