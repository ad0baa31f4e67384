"""How faithful an order of words is to a ratio game: its area, chance, and what no order exceeds.

Remove the words one by one in the order π. The deletion area of π is

    A(π) = f(N) − (1/d) Σ_{k=1..d} f(N ∖ {π_1, …, π_k}),

large where the words that carry f go first. Its mean over all orders (chance) is an integral of
E_p f, and Dinkelbach's method bounds it for all orders together (ceiling).
"""

from dataclasses import replace
from typing import NamedTuple

from array_api_compat import device

from limelight.errors import DomainError, InputError
from limelight.shapes import Array, Bool, Float, Int
from limelight.theory.conditionals import expectations
from limelight.theory.heavy_form import HeavyForm, heavy_form
from limelight.theory.leave_one_out import without_each
from limelight.theory.namespace import array_namespace
from limelight.theory.per_document import heads_mean, of_each_head
from limelight.theory.ratio_game import RatioGame, full_value
from limelight.theory.reciprocal_sum import need_tolerance
from limelight.theory.removal_mixture import even_mixture

_ROUNDING = 2.0**-52
_CELLS = 2_000_000  # of row and word, held at a time
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
    return array_namespace(D).mean(N / D, axis=0)


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
    error = form.error + form.magnitude * _ROUNDING * (8 + 2 * game.d)
    ((bound,),) = heads_mean(game, error)
    if not bool(bound < array_namespace(game.a).inf):
        raise DomainError(
            "double precision cannot bound the outputs of this model, so that no order of words "
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
    error = error + form.magnitude * _ROUNDING * (8 + 2 * d)  # of c, f(N) and their sum
    error = error + form.magnitude * sums.rounding[:, None] * mass + form.error
    (mean,), (bound,) = heads_mean(game, sums.total + form.c * ((d + 1) / d), error)
    return Certified(value=mean - full_value(game)[0] / d, bound=bound)


def size_extremes(game: RatioGame) -> SizeExtremes:
    """Proven min and max of f over the sets of k removed words, k = 1..d, each head by itself.

    Dinkelbach: θ ← N/D at the set of k words that maximises N − θD, which are those k whose removal
    raises it most. For every θ, max f ≤ θ + max(N − θD)⁺/D_min: the bound needs no convergence.
    The mean over heads of maxima is at least the maximum of the mean.
    """
    _need_one(game)
    xp = array_namespace(game.a)
    rows = _rows(heavy_form(game))
    theta = _started(rows)
    every = xp.reshape(xp.arange(theta.shape[0], device=device(theta)), (-1,))
    # Where D cancelled, θ may start above the maximum; from a value that is attained it only rises.
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
    top = theta + xp.where(excess > 0, excess, xp.zeros_like(excess)) + rows.error
    top = xp.mean(xp.reshape(top + rows.shift, (2, game.K, game.d)), axis=1)
    return SizeExtremes(low=-top[1], high=top[0])


class _Rows(NamedTuple):
    """One problem per (direction, head, k): maximise f, or −f, with k words removed."""

    n0: Float[Array, " R"]
    step: Float[Array, "heads d"]
    delta: Float[Array, "heads d"]
    kept_is_heavy: Bool[Array, "heads d"]
    margin: Float[Array, " R"]
    shift: Float[Array, " R"]
    error: Float[Array, " R"]  # of the game


def _rows(form: HeavyForm) -> _Rows:
    xp = array_namespace(form.delta)
    d = form.delta.shape[-1]

    # Four times the roundings of one sum of d terms: also for the sort that picks the words.
    margin = 4 * _ROUNDING * (d + 8) * form.magnitude[:, 0]
    wide = [(form.n0[:, 0], -1), (margin, 1), (form.c[:, 0], -1), (form.error[:, 0], 1)]
    n0, margin, shift, error = (xp.repeat(xp.concat([x, sign * x], axis=0), d) for x, sign in wide)
    heavy = xp.concat([form.kept_is_heavy, form.kept_is_heavy], axis=0)
    step = xp.concat([form.step[:, 0], -form.step[:, 0]], axis=0)
    delta = xp.concat([form.delta, form.delta], axis=0)
    return _Rows(n0, step, delta, heavy, margin, shift, error)


def _started(rows: _Rows) -> Float[Array, " R"]:
    """θ at the words that are best at θ = f(N): one sort for all k, and often the answer."""
    xp = array_namespace(rows.n0)
    kept = xp.astype(rows.kept_is_heavy, rows.step.dtype)
    n0 = xp.reshape(rows.n0, (rows.step.shape[0], -1))[:, :1]
    N = n0 + xp.sum(rows.step * kept, axis=-1, keepdims=True)
    D = 1 + xp.sum(rows.delta * kept, axis=-1, keepdims=True)
    toggle = 1 - 2 * kept
    order = xp.argsort((N / D * rows.delta - rows.step) * toggle, axis=-1)
    N, D = (
        start + xp.cumulative_sum(xp.take_along_axis(x * toggle, order, axis=-1), axis=-1)
        for start, x in ((N, rows.step), (D, rows.delta))
    )
    # D may have cancelled; any θ may start, so one of the right order of size will do.
    return xp.reshape(N / xp.maximum(D, xp.ones_like(D)), (-1,))


def _best_sets(
    rows: _Rows, theta: Float[Array, " r"], which: Int[Array, " r"]
) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
    """N and D at the set of k words that maximises N − θD, for some of the rows."""
    xp = array_namespace(theta)
    d = rows.step.shape[-1]
    # There are 2Kd rows of d words: of a text of thousands of words they would fill the memory.
    block = max(1, _CELLS // d)
    parts = [
        _best_of_block(rows, theta[i : i + block], which[i : i + block])
        for i in range(0, which.shape[0], block)
    ]
    if len(parts) == 1:
        return parts[0]
    N, D = (xp.concat(part, axis=0) for part in zip(*parts, strict=True))
    return N, D


def _best_of_block(
    rows: _Rows, theta: Float[Array, " r"], which: Int[Array, " r"]
) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
    xp = array_namespace(theta)
    d = rows.step.shape[-1]
    head, k = which // d, which % d + 1
    step, delta = (xp.take(x, head, axis=0) for x in (rows.step, rows.delta))
    heavy = xp.take(rows.kept_is_heavy, head, axis=0)
    gain = step - theta[:, None] * delta
    order = xp.argsort(xp.where(heavy, gain, -gain), axis=-1)
    removed = xp.arange(d, device=device(theta))[None, :] < k[:, None]
    # Summed afresh over the words in their heavier state; nothing is taken away from anything.
    up = xp.astype(xp.take_along_axis(heavy, order, axis=-1) != removed, theta.dtype)
    N = xp.take(rows.n0, which) + xp.sum(xp.take_along_axis(step, order, axis=-1) * up, axis=-1)
    return N, 1 + xp.sum(xp.take_along_axis(delta, order, axis=-1) * up, axis=-1)


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
        j = int(xp.argmin(xp.mean(without_N / without_D, axis=0) + open_))
        open_[j], stays[j] = xp.inf, 0.0
        D, N = D + game.b[:, j : j + 1], N + game.B[0][:, j : j + 1]
        order.append(j)
    return xp.asarray(order, device=device(game.a))


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
    return xp.take(x, xp.asarray(words, dtype=xp.int64, device=device(x)), axis=-1)


def _need_one(game: RatioGame) -> None:
    if game.batch or game.C != 1:
        raise InputError(
            "faithfulness is judged on the game of one document and one number; got batch "
            f"{game.batch} and {game.C} classes."
        )
