"""How faithful an order of words is to a ratio game: its area, chance, and what no order exceeds.

Remove the words one by one in the order π. The deletion area of π is

    A(π) = f(N) − (1/d) Σ_{k=1..d} f(N ∖ {π_1, …, π_k}),

large where the words that carry f go first. Its mean over all orders (chance) is an integral of
E_p f, and Dinkelbach's method bounds it for all orders together (ceiling).
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Bool, Float, Int
from limelight.theory.conditionals import expectations
from limelight.theory.heavy_form import HeavyForm, ends, heavy_form
from limelight.theory.leave_one_out import without_each
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.ratio_game import RatioGame, full_value, heads_mean, of_each_head, quotient
from limelight.theory.reciprocal_sum import need_tolerance
from limelight.theory.removal_mixture import even_mixture
from limelight.theory.table_rounding import ROUNDING

_CELLS = 2_000_000  # of row and word, held at a time
_GRID = 0.05  # in log t
_ROUNDS = 6  # in which s is found; any would do, a poor one loosens the bound
_STEPS = 12  # of Dinkelbach's method; 2 to 4 are enough, and fewer would only loosen the bound


class Certified(NamedTuple):
    """A number and a proven bound on its error."""

    value: Float[Array, ""]
    bound: Float[Array, ""]


class SizeExtremes(NamedTuple):
    """Proven bounds on f when k words are removed, whichever they are, for k = 1..d."""

    low: Float[Array, " d"]
    high: Float[Array, " d"]


def deletion_curves(game: RatioGame, orders: Int[Array, "n d"]) -> Float[Array, "n d+1"]:
    """f without the first k words of each order, k = 0..d. Exact, O(d) per order and head."""
    _need_one(game)
    D = game.D0[:, None, None] + _along(game.a, game.b, orders)
    N = game.N0[0][:, None, None] + _along(game.A[0], game.B[0], orders)
    curves = array_namespace(D).mean(quotient(N, D, game.power), axis=0)
    return curves if game.offset is None else curves + game.offset[0]


def _along(
    kept: Float[Array, "K d"], removed: Float[Array, "K d"], orders: Int[Array, "n d"]
) -> Float[Array, "K n d+1"]:
    """Σ of ``removed`` over the first k words and of ``kept`` over the others."""
    # Two sums that only grow: taking a_j from D(all) would lose every digit where j holds nearly
    # everything, and that is where the curve falls.
    xp = array_namespace(kept)
    shape = (kept.shape[0], *orders.shape)
    gone, left = (
        xp.reshape(xp.take(x, xp.reshape(orders, (-1,)), axis=-1), shape) for x in (removed, kept)
    )
    zero = xp.zeros_like(gone[..., :1])
    before = xp.cumulative_sum(xp.concat([zero, gone], axis=-1), axis=-1)
    after = xp.cumulative_sum(xp.concat([zero, xp.flip(left, axis=-1)], axis=-1), axis=-1)
    return before + xp.flip(after, axis=-1)


def deletion_area(curve: Float[Array, "*n steps"]) -> Float[Array, "*n"]:
    """A(π) = f(N) − mean of the curve after its first point."""
    xp = array_namespace(curve)
    return curve[..., 0] - xp.mean(curve[..., 1:], axis=-1)


def insertion_area(reverse_curve: Float[Array, "*n steps"]) -> Float[Array, "*n"]:
    """f(N) − A(reverse of π), from the curve of the reverse: the mean of f while π comes in."""
    return array_namespace(reverse_curve).mean(reverse_curve[..., 1:], axis=-1)


def change_area(curve: Float[Array, "*n steps"]) -> Float[Array, "*n"]:
    """The mean of |f(N) − f| along the curve: for orders that do not say in which direction."""
    xp = array_namespace(curve)
    return xp.mean(xp.abs(curve[..., 1:] - curve[..., :1]), axis=-1)


def certified_value(game: RatioGame) -> Certified:
    """f(N), with a bound on its rounding and on the error of the game."""
    _need_one(game)
    form = heavy_form(game)
    error = form.error + form.magnitude * ROUNDING * (8 + 2 * game.d)
    ((bound,),) = heads_mean(game, error)
    if not bool(bound < array_namespace(game.a).inf):
        raise DomainError(
            "double precision cannot bound the outputs of this model, so that no order of features "
            "can be judged on them."
        )
    return Certified(value=full_value(game)[0], bound=bound)


def mean_removed_value(game: RatioGame, *, tolerance: float = 1e-9) -> Certified:
    """(1/d) Σ_{k=1..d} E f(N ∖ S), S uniform among the sets of k words.

    Chance is f(N) minus this. With k uniform on 0..d each word goes independently with p ~ U(0, 1),
    so that the sum over k = 0..d is (d+1) ∫₀¹ E_p f dp, of which f(N) is the term k = 0.
    ``tolerance`` is relative to the range of f, in the mean over heads.
    """
    _need_one(game)
    need_tolerance(tolerance)
    form, d = heavy_form(game), game.d
    mixture = even_mixture(d + 1, weight=1 / d, tolerance=0.4 * tolerance)
    nodes, weights = of_each_head(game, mixture.p[None], mixture.omega[None])
    sums = expectations(form, nodes, weights, tolerance=0.5 * tolerance)
    mass = mixture.mass
    error = form.half_range * (mixture.missed + sums.error[:, None] * mass)
    error = error + form.magnitude * ROUNDING * (8 + 2 * d)  # of c, f(N) and their sum
    error = error + form.magnitude * sums.rounding[:, None] * mass + form.error
    (mean,), (bound,) = heads_mean(game, sums.total + form.c * ((d + 1) / d), error)
    return Certified(value=mean - full_value(game)[0] / d, bound=bound)


def size_extremes(game: RatioGame) -> SizeExtremes:
    """Proven min and max of f over the sets of k removed words, k = 1..d, each head by itself.

    Dinkelbach: θ ← N/D at the set of k words that maximises N − θD, which are those k whose removal
    raises it most. For every θ, max f ≤ θ + max(N − θD)⁺/D_min: the bound needs no convergence.
    The mean over heads of maxima is at least the maximum of the mean. Of p = ½, see `_root_tops`;
    other powers have the range of f, whatever k is.
    """
    _need_one(game)
    xp = array_namespace(game.a)
    form = heavy_form(game)
    tops = _quotient_tops if game.power == 1 else _root_tops if game.power == 0.5 else _any_tops
    # Where denominators differ by more than double precision holds, N − θD is a rounding, which
    # D_min magnifies without end; the range of f still holds.
    top = xp.minimum(tops(form), _any_tops(form))
    # f − c is 0 where nothing is left that has a weight, and no quotient.
    weightless = (form.base == 0)[:, None] & (
        xp.arange(1, game.d + 1, device=top.device)
        >= xp.sum(xp.astype(form.delta > 0, xp.int64), axis=-1)[:, None]
    )
    top = xp.where(weightless & (top < 0), xp.zeros_like(top), top)
    shift = xp.stack([form.c[:, 0], -form.c[:, 0]])[..., None]
    top = xp.mean(top + form.error[:, 0, None] + shift, axis=1)
    return SizeExtremes(low=-top[1], high=top[0])


def _any_tops(form: HeavyForm) -> Float[Array, "2 heads d"]:
    xp = array_namespace(form.delta)
    return xp.broadcast_to(form.half_range[:, :1], (2, *form.delta.shape))


def _root_tops(form: HeavyForm) -> Float[Array, "2 heads d"]:
    """At least the largest N/√D, and −N/√D, with k words removed, for each head.

    Where N can be positive: N²/D = max_t (2tN − t²D), attained at t = N/D. For a fixed t the best k
    words are those whose removal raises the bracket most; between two values t < t' of a grid it is
    concave, hence at most its tangent at t, which is largest at an end: 2t'N − (2tt' − t²)D. With
    steps of 5 % this exceeds the maximum of N/√D by 0.13 %.

    Where N is negative whatever goes: √D ≤ (D/s + s)/2 for every s > 0, hence N/√D is at most the
    quotient of N and the latter, which Dinkelbach's method bounds; s is √D of the best words.
    """
    xp = array_namespace(form.delta)
    rows = _rows(form)
    every = xp.reshape(xp.arange(rows.n0.shape[0], device=rows.n0.device), (-1,))
    N, D = _best_sets(rows, xp.zeros_like(rows.n0), every)
    most = xp.reshape(N, (2, *form.delta.shape))
    for _ in range(_ROUNDS):
        s = xp.sqrt(D)
        halved = rows._replace(scale=rows.scale / (2 * s), base=rows.base / (2 * s) + s / 2)
        N, mean = _best_sets(halved, N / s, every)
        D = xp.maximum(2 * s * mean - s * s, xp.ones_like(s))
    below = xp.reshape(_dinkelbach(halved, N / mean), most.shape)
    above = xp.stack(
        [
            xp.stack([_root_top(form, i, sign) for i in range(form.delta.shape[0])])
            for sign in (1, -1)
        ]
    )
    room = xp.reshape(rows.margin, most.shape)
    return xp.where(most > -room, above, below) + room


def _root_top(form: HeavyForm, head: int, sign: int) -> Float[Array, " d"]:
    """At least the largest N/√D of one head with k words removed, where N is positive."""
    delta, step = form.delta[head], sign * form.step[head, 0]
    xp, d = array_namespace(delta), delta.shape[-1]
    kept = xp.astype(form.kept_is_heavy[head], delta.dtype)
    n0, toggle = sign * form.n0[head, 0], 1 - 2 * kept
    N, D = n0 + xp.sum(step * kept), form.base[head] + xp.sum(delta * kept)
    size, whole = xp.abs(n0) + xp.sum(xp.abs(step)), form.ratio[head]
    margin = 4 * ROUNDING * (d + 8)
    # t = N/D lies between nothing and all of N over the smallest D, which is 1. Below the first
    # node N²/D = tN is next to nothing.
    lowest = -8 * math.log(10) - math.log(max(1.0, float(whole)))
    t = size * xp.exp(array_like(np.linspace(lowest, 0, math.ceil(-lowest / _GRID)), delta))
    first, last = t[:-1], t[1:]
    best = t[0] * size + 0 * delta
    for by_N, by_D in ((2 * t, t * t), (2 * last, 2 * first * last - first * first)):
        for i in range(0, by_N.shape[0], block := max(1, _CELLS // d)):
            weigh_N, weigh_D = (x[i : i + block, None] for x in (by_N, by_D))
            gains = (weigh_N * step - weigh_D * delta) * toggle
            found = weigh_N * N - weigh_D * D - xp.cumulative_sum(xp.sort(-gains, axis=-1), axis=-1)
            found = found + margin * (weigh_N * size + weigh_D * whole)
            best = xp.maximum(best, xp.max(found, axis=0))
    return xp.sqrt(best)


def _quotient_tops(form: HeavyForm) -> Float[Array, "2 heads d"]:
    """At least the largest N/D, and −N/D, with k words removed, for each head."""
    xp, rows = array_namespace(form.delta), _rows(form)
    full = ends(form)[0][:, 0]
    start = xp.repeat(xp.concat([full, -full], axis=0), form.delta.shape[-1])
    return xp.reshape(_dinkelbach(rows, start), (2, *form.delta.shape))


def _dinkelbach(rows: "_Rows", theta: Float[Array, " R"]) -> Float[Array, " R"]:
    """At least the largest N/D of every row; ``theta`` is where the search begins."""
    xp = array_namespace(theta)
    every = xp.reshape(xp.arange(theta.shape[0], device=theta.device), (-1,))
    # θ may start above the maximum; from a value that is attained it only rises.
    N, D = _best_sets(rows, theta, every)
    theta, active = N / D, every
    for _ in range(_STEPS):
        N, D = _best_sets(rows, theta[active], active)
        found, before = N / D, theta[active]
        theta[active] = xp.maximum(found, before)
        active = active[found > before + rows.margin[active]]
        if not active.shape[0]:
            break
    # The last θ may have rounded below the maximum; lifted by a margin it cannot have, and what is
    # still in excess is added rather than trusted to be none.
    theta = theta + rows.margin
    N, D = _best_sets(rows, theta, every)
    excess = N - theta * D
    return theta + xp.where(excess > 0, excess, xp.zeros_like(excess))


class _Rows(NamedTuple):
    """One problem per (direction, head, k): maximise f, or −f, with k words removed."""

    n0: Float[Array, " R"]
    step: Float[Array, "heads d"]
    delta: Float[Array, "heads d"]
    kept_is_heavy: Bool[Array, "heads d"]
    margin: Float[Array, " R"]
    base: Float[Array, " R"]  # of D, beside ``scale`` times what the words add
    scale: Float[Array, " R"]


def _rows(form: HeavyForm) -> _Rows:
    xp = array_namespace(form.delta)
    d = form.delta.shape[-1]

    # Four times the roundings of one sum of d terms: also for the sort that picks the words.
    margin = 4 * ROUNDING * (d + 8) * form.magnitude[:, 0]
    wide = [(form.n0[:, 0], -1), (margin, 1), (form.base, 1)]
    n0, margin, base = (xp.repeat(xp.concat([x, sign * x], axis=0), d) for x, sign in wide)
    heavy = xp.concat([form.kept_is_heavy, form.kept_is_heavy], axis=0)
    step = xp.concat([form.step[:, 0], -form.step[:, 0]], axis=0)
    delta = xp.concat([form.delta, form.delta], axis=0)
    return _Rows(n0, step, delta, heavy, margin, base, xp.ones_like(base))


def _best_sets(
    rows: _Rows, theta: Float[Array, " r"], which: Int[Array, " r"]
) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
    """N and D at the set of k words that maximises N − θD, for some of the rows."""
    xp = array_namespace(theta)
    d = rows.step.shape[-1]
    # There are 2Kd rows of d words: of a text of thousands of words they would fill the memory.
    if which.shape[0] > (block := max(1, _CELLS // d)):
        starts = range(0, which.shape[0], block)
        parts = [_best_sets(rows, theta[i : i + block], which[i : i + block]) for i in starts]
        N, D = (xp.concat(part, axis=0) for part in zip(*parts, strict=True))
        return N, D
    head, k = which // d, which % d + 1
    step, delta = (xp.take(x, head, axis=0) for x in (rows.step, rows.delta))
    heavy = xp.take(rows.kept_is_heavy, head, axis=0)
    gain = step - (theta * xp.take(rows.scale, which))[:, None] * delta
    order = xp.argsort(xp.where(heavy, gain, -gain), axis=-1)
    removed = xp.arange(d, device=theta.device)[None, :] < k[:, None]
    # Summed afresh over the words in their heavier state; nothing is taken away from anything.
    up = xp.astype(xp.take_along_axis(heavy, order, axis=-1) != removed, theta.dtype)
    N = xp.take(rows.n0, which) + xp.sum(xp.take_along_axis(step, order, axis=-1) * up, axis=-1)
    more = xp.sum(xp.take_along_axis(delta, order, axis=-1) * up, axis=-1)
    D = xp.take(rows.base, which) + xp.take(rows.scale, which) * more
    return N, xp.maximum(D, xp.ones_like(D))


def greedy_order(game: RatioGame) -> Int[Array, " d"]:
    """The order that removes, at every step, the word without which f is smallest. O(d² K)."""
    _need_one(game)
    xp = array_namespace(game.a)
    D, N = game.D0[:, None], game.N0[0][:, None]  # of what stays anyway, and of words removed
    open_ = xp.zeros_like(game.a[0])  # infinite at words that are gone
    stays = xp.ones_like(game.a[0])
    order = []
    for _ in range(game.d):
        # Summed afresh over the words that are left: D + b_j − a_j would lose every digit where j
        # holds nearly everything, and a wrong word would go next.
        without_D = D + without_each(game.a * stays) + game.b
        without_N = N + without_each(game.A[0] * stays) + game.B[0]
        j = int(xp.argmin(xp.mean(quotient(without_N, without_D, game.power), axis=0) + open_))
        open_[j], stays[j] = xp.inf, 0.0
        D, N = D + game.b[:, j : j + 1], N + game.B[0][:, j : j + 1]
        order.append(j)
    return xp.asarray(order, device=game.a.device)


def without_first(game: RatioGame, removed: list[int], free: list[int]) -> RatioGame:
    """The game of the words ``free`` alone, ``removed`` being gone and all others kept."""
    xp = array_namespace(game.a)
    rest = sorted(set(range(game.d)) - set(removed) - set(free))

    own = {name: _of_words(getattr(game, name), free) for name in ("a", "b", "A", "B")}
    D0, N0 = (
        always
        + (xp.sum(_of_words(kept, rest), axis=-1) + xp.sum(_of_words(gone, removed), axis=-1))
        for always, kept, gone in ((game.D0, game.a, game.b), (game.N0, game.A, game.B))
    )
    return replace(game, D0=D0, N0=N0, sizes=None, **own)


def _of_words(x: Float[Array, "..."], words: list[int]) -> Float[Array, "..."]:
    xp = array_namespace(x)
    return xp.take(x, xp.asarray(words, dtype=xp.int64, device=x.device), axis=-1)


def _need_one(game: RatioGame) -> None:
    if game.batch or game.C != 1:
        raise InputError(
            "faithfulness is judged on the game of one document and one number; got batch "
            f"{game.batch} and {game.C} classes."
        )
