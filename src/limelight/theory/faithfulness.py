"""The faithfulness of an order of words to a ratio game: deletion area, chance and ceiling.

Remove the words one by one in the order π. The deletion area of π is

    A(π) = f(N) − (1/d) Σ_{k=1..d} f(N ∖ {π_1, …, π_k}),

large if the words that f depends on are removed first. Its mean over all orders (chance) is an
integral of E_p f. Dinkelbach's method gives an upper bound for all orders (ceiling).
Statement and proof: ``docs/theorems/faithfulness-ceiling.md``.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Bool, Float, Int
from limelight.theory.conditionals import expectations
from limelight.theory.heavy_form import HeavyForm, full_and_empty_values, heavy_form
from limelight.theory.leave_one_out import leave_one_out_sums
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import (
    RatioGame,
    full_value,
    mean_over_heads,
    quotient,
    repeat_per_head,
)
from limelight.theory.reciprocal_sum import check_tolerance
from limelight.theory.removal_mixture import uniform_mixture
from limelight.theory.table_rounding import ROUNDING

_CELLS = 2_000_000  # (row, word) in memory at a time
_GRID = 0.05  # in log t
_ROUNDS = 6  # steps of the search for s; with a poor s the bound is only wider
_STEPS = 12  # of Dinkelbach's method; 2 to 4 are enough, and fewer would only widen the bound


class CertifiedValue(NamedTuple):
    """A number and a proven bound on its error."""

    value: Float[Array, ""]
    bound: Float[Array, ""]


class SizeExtremes(NamedTuple):
    """Proven bounds on f over all sets of k removed words, for k = 1..d."""

    low: Float[Array, " d"]
    high: Float[Array, " d"]


def deletion_curves(game: RatioGame, orders: Int[Array, "n d"]) -> Float[Array, "n d+1"]:
    """Return f without the first k words of each order, for k = 0..d.

    It is exact and costs O(d) per order and head.
    """
    _check_single(game)
    D = game.D0[:, None, None] + _sums_along_orders(game.a, game.b, orders)
    N = game.N0[0][:, None, None] + _sums_along_orders(game.A[0], game.B[0], orders)
    curves = array_namespace(D).mean(quotient(N, D, game.power), axis=0)
    return curves if game.offset is None else curves + game.offset[0]


def _sums_along_orders(
    kept_terms: Float[Array, "K d"], removed_terms: Float[Array, "K d"], orders: Int[Array, "n d"]
) -> Float[Array, "K n d+1"]:
    """Return the sums over the removed first k words and the other, kept words of each order."""
    # Two sums that only increase: a difference D(all) − a_j would lose every digit where j has
    # nearly all the weight, and there the curve falls.
    xp = array_namespace(kept_terms)
    shape = (kept_terms.shape[0], *orders.shape)
    removed_sorted, kept_sorted = (
        xp.reshape(xp.take(x, xp.reshape(orders, (-1,)), axis=-1), shape)
        for x in (removed_terms, kept_terms)
    )
    zero = xp.zeros_like(removed_sorted[..., :1])
    before = xp.cumulative_sum(xp.concat([zero, removed_sorted], axis=-1), axis=-1)
    after = xp.cumulative_sum(xp.concat([zero, xp.flip(kept_sorted, axis=-1)], axis=-1), axis=-1)
    return before + xp.flip(after, axis=-1)


def deletion_area(curve: Float[Array, "*n steps"]) -> Float[Array, "*n"]:
    """Return A(π) = f(N) − mean of the deletion curve after its first point."""
    xp = array_namespace(curve)
    return curve[..., 0] - xp.mean(curve[..., 1:], axis=-1)


def insertion_area(reverse_curve: Float[Array, "*n steps"]) -> Float[Array, "*n"]:
    """Return the mean of f while words are added in the order π.

    It is f(N) − A(reverse of π), computed from the deletion curve of the reverse order.
    """
    return array_namespace(reverse_curve).mean(reverse_curve[..., 1:], axis=-1)


def change_area(curve: Float[Array, "*n steps"]) -> Float[Array, "*n"]:
    """Return the mean of |f(N) − f| along the deletion curve, for orders of unsigned scores."""
    xp = array_namespace(curve)
    return xp.mean(xp.abs(curve[..., 1:] - curve[..., :1]), axis=-1)


def certified_full_value(game: RatioGame) -> CertifiedValue:
    """Return f(N), with a bound on its rounding and on the error of the game."""
    _check_single(game)
    form = heavy_form(game)
    error = form.error + form.magnitude * ROUNDING * (8 + 2 * game.d)
    ((bound,),) = mean_over_heads(game, error)
    if not bool(bound < array_namespace(game.a).inf):
        raise DomainError(
            "the outputs of this model have no finite error bound in double precision, so orders "
            "of features cannot be judged."
        )
    return CertifiedValue(value=full_value(game)[0], bound=bound)


def random_removal_mean(game: RatioGame, *, tolerance: float = 1e-9) -> CertifiedValue:
    """Return (1/d) Σ_{k=1..d} E f(N ∖ S), with S uniform among the sets of k words.

    Chance is f(N) minus this mean. If k is uniform on 0..d, each word is removed independently with
    p ~ U(0, 1). So the sum over k = 0..d is (d+1) ∫₀¹ E_p f dp, and f(N) is its term k = 0.
    ``tolerance`` is relative to the range of f, in the mean over heads.
    """
    _check_single(game)
    check_tolerance(tolerance)
    form, d = heavy_form(game), game.d
    mixture = uniform_mixture(d + 1, weight=1 / d, tolerance=0.4 * tolerance)
    nodes, weights = repeat_per_head(game, mixture.p[None], mixture.omega[None])
    sums = expectations(form, nodes, weights, tolerance=0.5 * tolerance)
    mass = mixture.mass
    error = form.half_range * (mixture.total_residual + sums.error[:, None] * mass)
    error = error + form.magnitude * ROUNDING * (8 + 2 * d)  # of c, f(N) and their sum
    error = error + form.magnitude * sums.rounding[:, None] * mass + form.error
    (mean,), (bound,) = mean_over_heads(game, sums.total + form.c * ((d + 1) / d), error)
    return CertifiedValue(value=mean - full_value(game)[0] / d, bound=bound)


def size_extremes(game: RatioGame) -> SizeExtremes:
    """Return proven bounds on min f and max f over the sets of k removed words, for k = 1..d.

    Dinkelbach's method is θ ← N/D at the set of k words that maximizes N − θD: the k words whose
    removal raises it most. For every θ, max f ≤ θ + max(N − θD)⁺/D_min, so the bound needs no
    convergence. Each head is bounded separately: the mean over heads of maxima is at least the
    maximum of the mean. For p = ½, see `_root_tops`. For other powers the bounds are the range of
    f for every k.
    """
    _check_single(game)
    xp = array_namespace(game.a)
    form = heavy_form(game)
    tops = _quotient_tops if game.power == 1 else _root_tops if game.power == 0.5 else _any_tops
    # If denominators differ by more than double precision can represent, N − θD is a rounding error
    # that D_min magnifies without limit. The range of f still holds.
    top = xp.minimum(tops(form), _any_tops(form))
    # Where no kept word has a weight, f − c is 0 and not a quotient.
    weightless = (form.base == 0)[:, None] & (
        xp.arange(1, game.d + 1, device=top.device)
        >= xp.sum(xp.astype(form.delta > 0, xp.int64), axis=-1)[:, None]
    )
    top = xp.where(weightless & (top < 0), xp.zeros_like(top), top)
    shift = xp.stack([form.c[:, 0], -form.c[:, 0]])[..., None]
    top = xp.mean(top + form.error[:, 0, None] + shift, axis=1)
    return SizeExtremes(low=-top[1], high=top[0])


def _any_tops(form: HeavyForm) -> Float[Array, "2 heads d"]:
    """Return the bound on f − c and c − f for every power: half the range of f."""
    xp = array_namespace(form.delta)
    return xp.broadcast_to(form.half_range[:, :1], (2, *form.delta.shape))


def _root_tops(form: HeavyForm) -> Float[Array, "2 heads d"]:
    """Return upper bounds on N/√D and −N/√D with k words removed, for each head.

    If N can be positive: N²/D = max_t (2tN − t²D), attained at t = N/D. For a fixed t the best k
    words are those whose removal raises the bracket most. Between two values t < t' of a grid it is
    concave, hence at most its tangent at t, which is largest at an end: 2t'N − (2tt' − t²)D. With
    steps of 5 % this exceeds the maximum of N/√D by 0.13 %.

    If N is negative for every set: √D ≤ (D/s + s)/2 for every s > 0, hence N/√D is at most the
    quotient of N and the latter, which Dinkelbach's method bounds. Here s is √D of the best words.
    """
    xp = array_namespace(form.delta)
    rows = _maximization_rows(form)
    all_rows = xp.reshape(xp.arange(rows.n0.shape[0], device=rows.n0.device), (-1,))
    N, D = _best_sets(rows, xp.zeros_like(rows.n0), all_rows)
    max_N = xp.reshape(N, (2, *form.delta.shape))
    for _ in range(_ROUNDS):
        s = xp.sqrt(D)
        halved = rows._replace(scale=rows.scale / (2 * s), base=rows.base / (2 * s) + s / 2)
        N, mean = _best_sets(halved, N / s, all_rows)
        D = xp.maximum(2 * s * mean - s * s, xp.ones_like(s))
    below = xp.reshape(_maximize_quotients(halved, N / mean), max_N.shape)
    above = xp.stack(
        [
            xp.stack([_root_top(form, i, sign) for i in range(form.delta.shape[0])])
            for sign in (1, -1)
        ]
    )
    margin = xp.reshape(rows.margin, max_N.shape)
    return xp.where(max_N > -margin, above, below) + margin


def _root_top(form: HeavyForm, head: int, sign: int) -> Float[Array, " d"]:
    """Return an upper bound on N/√D of one head with k words removed, if N can be positive."""
    delta, step = form.delta[head], sign * form.step[head, 0]
    xp, d = array_namespace(delta), delta.shape[-1]
    kept_mask = xp.astype(form.kept_is_heavy[head], delta.dtype)
    n0, toggle = sign * form.n0[head, 0], 1 - 2 * kept_mask
    N, D = n0 + xp.sum(step * kept_mask), form.base[head] + xp.sum(delta * kept_mask)
    max_N, max_D = xp.abs(n0) + xp.sum(xp.abs(step)), form.ratio[head]
    margin = 4 * ROUNDING * (d + 8)
    # t = N/D lies between 0 and the largest N over the smallest D, which is 1. Below the first node
    # N²/D = tN is negligible.
    lowest = -8 * math.log(10) - math.log(max(1.0, float(max_D)))
    t = max_N * xp.exp(array_like(np.linspace(lowest, 0, math.ceil(-lowest / _GRID)), delta))
    first, last = t[:-1], t[1:]
    best = t[0] * max_N + 0 * delta
    for N_factors, D_factors in ((2 * t, t * t), (2 * last, 2 * first * last - first * first)):
        for i in range(0, N_factors.shape[0], block := max(1, _CELLS // d)):
            N_factor, D_factor = (x[i : i + block, None] for x in (N_factors, D_factors))
            gains = (N_factor * step - D_factor * delta) * toggle
            lost = xp.cumulative_sum(xp.sort(-gains, axis=-1), axis=-1)
            bracket = N_factor * N - D_factor * D - lost
            bracket = bracket + margin * (N_factor * max_N + D_factor * max_D)
            best = xp.maximum(best, xp.max(bracket, axis=0))
    return xp.sqrt(best)


def _quotient_tops(form: HeavyForm) -> Float[Array, "2 heads d"]:
    """Return upper bounds on N/D and −N/D with k words removed, for each head."""
    xp, rows = array_namespace(form.delta), _maximization_rows(form)
    full = full_and_empty_values(form)[0][:, 0]
    start = xp.repeat(xp.concat([full, -full], axis=0), form.delta.shape[-1])
    return xp.reshape(_maximize_quotients(rows, start), (2, *form.delta.shape))


def _maximize_quotients(rows: "_MaximizationRows", theta: Float[Array, " R"]) -> Float[Array, " R"]:
    """Return an upper bound on N/D of every row by Dinkelbach's method, starting at ``theta``."""
    xp = array_namespace(theta)
    all_rows = xp.reshape(xp.arange(theta.shape[0], device=theta.device), (-1,))
    # θ may start above the maximum. From an attained value it only rises.
    N, D = _best_sets(rows, theta, all_rows)
    theta, active = N / D, all_rows
    for _ in range(_STEPS):
        N, D = _best_sets(rows, theta[active], active)
        improved, before = N / D, theta[active]
        theta[active] = xp.maximum(improved, before)
        active = active[improved > before + rows.margin[active]]
        if not active.shape[0]:
            break
    # The last θ may have rounded below the maximum, so a margin is added. Any remaining excess is
    # added too, and not assumed to be 0.
    theta = theta + rows.margin
    N, D = _best_sets(rows, theta, all_rows)
    excess = N - theta * D
    return theta + xp.where(excess > 0, excess, xp.zeros_like(excess))


class _MaximizationRows(NamedTuple):
    """One problem per (direction, head, k): maximize f, or −f, with k words removed."""

    n0: Float[Array, " R"]
    step: Float[Array, "heads d"]
    delta: Float[Array, "heads d"]
    kept_is_heavy: Bool[Array, "heads d"]
    margin: Float[Array, " R"]
    base: Float[Array, " R"]  # of D, to which the words add ``scale`` times their δ
    scale: Float[Array, " R"]


def _maximization_rows(form: HeavyForm) -> _MaximizationRows:
    """Return the 2Kd maximization problems of K heads and d words."""
    xp = array_namespace(form.delta)
    d = form.delta.shape[-1]

    # Four times the roundings of one sum of d terms, which also covers the sort of the words.
    margin = 4 * ROUNDING * (d + 8) * form.magnitude[:, 0]
    signed = [(form.n0[:, 0], -1), (margin, 1), (form.base, 1)]
    n0, margin, base = (xp.repeat(xp.concat([x, sign * x], axis=0), d) for x, sign in signed)
    heavy = xp.concat([form.kept_is_heavy, form.kept_is_heavy], axis=0)
    step = xp.concat([form.step[:, 0], -form.step[:, 0]], axis=0)
    delta = xp.concat([form.delta, form.delta], axis=0)
    return _MaximizationRows(n0, step, delta, heavy, margin, base, xp.ones_like(base))


def _best_sets(
    rows: _MaximizationRows, theta: Float[Array, " r"], index: Int[Array, " r"]
) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
    """Return N and D at the set of k words that maximizes N − θD, for the rows in ``index``."""
    xp = array_namespace(theta)
    d = rows.step.shape[-1]
    # There are 2Kd rows of d words. For a text of thousands of words they would fill the memory.
    if index.shape[0] > (block := max(1, _CELLS // d)):
        starts = range(0, index.shape[0], block)
        parts = [_best_sets(rows, theta[i : i + block], index[i : i + block]) for i in starts]
        N, D = (xp.concat(part, axis=0) for part in zip(*parts, strict=True))
        return N, D
    head, k = index // d, index % d + 1
    step, delta = (xp.take(x, head, axis=0) for x in (rows.step, rows.delta))
    heavy = xp.take(rows.kept_is_heavy, head, axis=0)
    gain = step - (theta * xp.take(rows.scale, index))[:, None] * delta
    order = xp.argsort(xp.where(heavy, gain, -gain), axis=-1)
    removed = xp.arange(d, device=theta.device)[None, :] < k[:, None]
    # A new sum over the words in their heavier state: no subtraction, hence no cancellation.
    up = xp.astype(xp.take_along_axis(heavy, order, axis=-1) != removed, theta.dtype)
    N = xp.take(rows.n0, index) + xp.sum(xp.take_along_axis(step, order, axis=-1) * up, axis=-1)
    word_D = xp.sum(xp.take_along_axis(delta, order, axis=-1) * up, axis=-1)
    D = xp.take(rows.base, index) + xp.take(rows.scale, index) * word_D
    return N, xp.maximum(D, xp.ones_like(D))


def greedy_order(game: RatioGame) -> Int[Array, " d"]:
    """Return the greedy order, which at every step removes the word that lowers f most. O(d² K)."""
    _check_single(game)
    xp = array_namespace(game.a)
    D, N = game.D0[:, None], game.N0[0][:, None]  # constants and removed words
    penalty = xp.zeros_like(game.a[0])  # infinite at removed words
    is_kept = xp.ones_like(game.a[0])
    order = []
    for _ in range(game.d):
        # A new sum over the kept words: D + b_j − a_j would lose every digit where j has nearly all
        # the weight, and a wrong word would be removed next.
        without_D = D + leave_one_out_sums(game.a * is_kept) + game.b
        without_N = N + leave_one_out_sums(game.A[0] * is_kept) + game.B[0]
        j = int(xp.argmin(xp.mean(quotient(without_N, without_D, game.power), axis=0) + penalty))
        penalty[j], is_kept[j] = xp.inf, 0.0
        D, N = D + game.b[:, j : j + 1], N + game.B[0][:, j : j + 1]
        order.append(j)
    return xp.asarray(order, device=game.a.device)


def restrict_game(game: RatioGame, removed: list[int], free: list[int]) -> RatioGame:
    """Return the game of the words ``free``.

    The words in ``removed`` are always removed, and all other words are always kept.
    """
    xp = array_namespace(game.a)
    kept_words = sorted(set(range(game.d)) - set(removed) - set(free))

    words = {name: _take_words(getattr(game, name), free) for name in ("a", "b", "A", "B")}
    D0, N0 = (
        constant
        + (
            xp.sum(_take_words(if_kept, kept_words), axis=-1)
            + xp.sum(_take_words(if_removed, removed), axis=-1)
        )
        for constant, if_kept, if_removed in ((game.D0, game.a, game.b), (game.N0, game.A, game.B))
    )
    return replace(game, D0=D0, N0=N0, sizes=None, **words)


def _take_words(x: Float[Array, "..."], words: list[int]) -> Float[Array, "..."]:
    """Select words along the last axis."""
    xp = array_namespace(x)
    return xp.take(x, xp.asarray(words, dtype=xp.int64, device=x.device), axis=-1)


def _check_single(game: RatioGame) -> None:
    """Raise InputError for a batch or for several classes."""
    if game.batch or game.C != 1:
        raise InputError(
            "faithfulness needs the game of one document and one class, not a batch of shape "
            f"{game.batch} and {game.C} classes."
        )
