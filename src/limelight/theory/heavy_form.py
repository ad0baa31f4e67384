"""The canonical form of a ratio game, in which nothing under- or overflows.

Each word has two states, kept and removed. In its heavier state it adds more to the denominator, in
its lighter state less. With X_j = 1 when word j is in its heavier state and D_min = D_0 + Σ min(a,
b),

    f − c = (n_0 + Σ_j X_j Δ_j) / (1 + Σ_j X_j δ_j),    δ_j = |a_j − b_j| / D_min ≥ 0,

so that e^{−λD} needs only factors e^{−λδ} ≤ 1. Small probabilities of the heavier state keep their
relative accuracy although δ may be 1e7 times the denominator of the other words.

For a power game, and if D = 0 with every word light, c is the offset of the game,

    f − c = (n_0 + Σ_j X_j Δ_j) / (base + Σ_j X_j δ_j)^p,

and base is 0 if D_min = 0. Then the smallest positive δ is 1, and n_0 = 0.
"""

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from limelight.errors import DomainError
from limelight.shapes import Array, Bool, Float, Int
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame, check_values, denominator_range, value_range
from limelight.theory.reciprocal_sum import MAX_RATIO
from limelight.theory.table_rounding import ROUNDING

_STEPS = (
    6  # of Dinkelbach's method, which converges quadratically; fewer steps only widen the range
)


_TINY = sys.float_info.min


class HeavyForm(NamedTuple):
    """G = batch × K one-head games in canonical form, with |f − c| ≤ ``half_range``."""

    delta: Float[Array, "G d"]
    step: Float[Array, "G C d"]  # Δ
    n0: Float[Array, "G C"]
    kept_is_heavy: Bool[Array, "G d"]
    ratio: Float[Array, " G"]  # D_max/D_min
    c: Float[Array, "G C"]
    half_range: Float[Array, "G C"]
    # At least Σ|terms of N|/D and |c|: rounding errors are proportional to it.
    magnitude: Float[Array, "G C"]
    # A bound on the distance of f of the game from the exact f, for every set of removed words. It
    # adds Σ|c_S| times itself to the error of a functional Σ_S c_S f(S).
    error: Float[Array, "G C"]
    base: Float[Array, " G"]
    power: Float[Array, " G"]

    def head(self, i: int) -> "HeavyForm":
        """Return the game of one head, without the axis G."""
        return HeavyForm(*(x[i] for x in self))

    def select_words(self, words: slice | Int[Array, " n"]) -> "HeavyForm":
        """Return the game of one head with a selection of its words."""
        heavy = self.kept_is_heavy[words]
        return self._replace(delta=self.delta[words], step=self.step[:, words], kept_is_heavy=heavy)

    def value(
        self, N: Float[Array, " G C *n"], D: Float[Array, " G *n"]
    ) -> Float[Array, " G C *n"]:
        """Return N/D^p after adding n_0 to N and base to D, which are sums over words."""
        xp, axes = array_namespace(D), (1,) * (D.ndim - 1)
        D = D + xp.reshape(self.base, (-1, *axes))
        N = N + xp.reshape(self.n0, (*self.n0.shape, *axes))
        # Where D is 0, N is 0, and so is f.
        denominator = xp.where(D > 0, D, xp.ones_like(D)) ** xp.reshape(self.power, (-1, *axes))
        return N / denominator[:, None]


def heavy_form(game: RatioGame) -> HeavyForm:
    """Return the canonical form, shifted by the middle c of a proven range of each head's f.

    It raises DomainError if a weight is negative, if a number is not finite, or if a denominator is
    0 or infinite and its numerator is not 0. Statement: ``docs/theorems/certificate.md``.
    """
    xp = array_namespace(game.a)
    low, high = denominator_range(game)
    if any(bool(xp.any(x < 0)) for x in (game.D0, game.a, game.b)):
        raise DomainError("the weights D_0, a and b of a ratio game must be at least 0.")
    kept_is_heavy = game.a > game.b
    delta = xp.abs(game.a - game.b)
    unit = low
    if vanishes := bool(xp.any(low == 0)):
        least = xp.min(xp.where(delta > 0, delta, xp.inf), axis=-1)
        unit = xp.where(low > 0, low, xp.where(least < xp.inf, least, xp.ones_like(low)))
    # Below the normal numbers 1/D is infinite, and D has lost its digits.
    if not bool(xp.all((unit >= _TINY) & (unit >= high / MAX_RATIO) & (high < xp.inf))):
        raise DomainError(
            f"the denominators D of a ratio game must be finite, at least {_TINY:.1e}, and within "
            f"a factor of {MAX_RATIO:g} of each other."
        )
    # Division by D_min moves D to [1, D_max/D_min], the interval of the sums of exponentials. The
    # following steps are then independent of the scale of the weights.
    inverse = (1 / unit)[..., None]
    scale = inverse**game.power
    delta = delta * inverse
    sign = xp.where(kept_is_heavy, scale, -scale)
    step = (game.A - game.B) * sign[..., None, :, :]
    light = xp.where(kept_is_heavy[..., None, :, :], game.B, game.A)
    n0 = (game.N0 + xp.sum(light, axis=-1)) * scale[..., None, :, 0]
    if vanishes:
        _check_empty(low, delta, step, n0)
    G, (*_, C, K, d) = math.prod(low.shape), game.A.shape
    # At least Σ|terms of N|/D^p, and infinite where values are.
    terms = xp.abs(game.N0) + xp.sum(xp.maximum(xp.abs(game.A), xp.abs(game.B)), axis=-1)
    if not bool(xp.all(terms < xp.inf)):
        raise DomainError("the values N_0, A and B of a ratio game must be finite.")
    terms = terms * scale[..., None, :, 0]
    error = xp.zeros_like(terms) if game.error is None else game.error
    delta = xp.reshape(delta, (G, d))
    step, n0, terms, error = _rows_per_head(xp, step, n0, terms, error)
    if game.power == 1 and not vanishes and game.offset is None:
        c, half_range, magnitude = _center_ratio_game(xp, game, n0, step, delta, terms)
        # N − cD word by word. The cancellation is a rounding of |c|, which ``magnitude`` covers.
        step, n0 = step - c[..., None] * delta[:, None, :], n0 - c
    else:
        c, half_range, magnitude = _bound_power_game(game, terms)
    if not bool(xp.all(xp.isfinite(step))):
        raise DomainError(
            "the values N_0, A and B of a ratio game must be finite after division by the "
            "smallest D."
        )
    check_values(xp.matrix_transpose(xp.reshape(magnitude, (-1, K, C))))
    base = xp.reshape(xp.astype(low > 0, low.dtype), (G,))
    return HeavyForm(
        delta=delta,
        step=step,
        n0=n0,
        kept_is_heavy=xp.reshape(kept_is_heavy, (G, d)),
        ratio=xp.reshape(high / unit, (G,)),
        c=c,
        half_range=half_range + ROUNDING * (d + 8) * magnitude,
        magnitude=magnitude,
        error=error,
        base=base,
        power=xp.full_like(base, game.power),
    )


def _check_empty(low: Array, delta: Array, step: Array, n0: Array) -> None:
    """Raise DomainError for a game with a set of words where D = 0 and N ≠ 0."""
    xp = array_namespace(low)
    empty = (low == 0)[..., None, :]
    weightless = (delta == 0)[..., None, :, :] & (step != 0)
    if bool(xp.any(empty & ((n0 != 0) | xp.any(weightless, axis=-1)))):
        raise DomainError(
            "a ratio game needs N = 0 for every mask with D = 0, but a head has a value N ≠ 0 and "
            "D_0 + Σ min(a, b) = 0."
        )


_Range = tuple[Float[Array, "G C"], Float[Array, "G C"], Float[Array, "G C"]]


def _center_ratio_game(
    xp: Any, game: RatioGame, n0: Array, step: Array, delta: Array, terms: Array
) -> _Range:
    """Return the middle c of a proven range of f, half its length, and the magnitude."""
    _, u_low, u_high = _rows_per_head(xp, game.A, *value_range(game))
    # Both bound Σ|terms of N|/D. The second is up to D_max/D_min times smaller. It is infinite if a
    # word has a value without a weight, as in a skip connection (a = b = 0, A ≠ 0).
    magnitude = xp.minimum(terms, xp.maximum(xp.abs(u_low), xp.abs(u_high)))
    # The range of the values u would be proven too. The range of f was 2 to 4 times narrower on
    # random games, and every bound is proportional to it. Its middle, not f(all words), is c: no
    # other shift makes max|f − c| as small.
    margin = ROUNDING * (delta.shape[-1] + 8) * magnitude
    f_low, f_high = _extremes(xp, n0, step, delta, margin=margin)
    f_low, f_high = xp.maximum(f_low, u_low), xp.minimum(f_high, u_high)
    return (f_low + f_high) / 2, xp.abs(f_high - f_low) / 2, magnitude


def _bound_power_game(game: RatioGame, terms: Float[Array, "G C"]) -> _Range:
    """Return the offset as c, a bound on |f − c|, and the magnitude.

    With a power, c cannot be subtracted from N.

    By Hölder's inequality Σ N_j ≤ (Σ (N_j/g_j^p)^q)^{1/q} (Σ g_j)^p, q = 1/(1 − p): the Euclidean
    norm of N_j/√g_j for p = ½, the largest of them for p = 1.
    """
    xp = array_namespace(terms)
    sides = [(game.N0[..., None], game.D0[..., None]), (game.A, game.a), (game.B, game.b)]

    def norm(part: Callable[[Array], Array]) -> Array:
        """Return the norm of one part of all N, such as the positive part."""
        fixed, if_kept, if_removed = (_per_weight(part(N), g, game.power) for N, g in sides)
        return _conjugate_norm(
            xp.concat([fixed, xp.maximum(if_kept, if_removed)], axis=-1), game.power
        )

    offset = xp.zeros_like(game.N0) if game.offset is None else game.offset[..., None] + 0 * game.N0
    parts = (lambda N: xp.maximum(N, 0 * N), lambda N: xp.maximum(-N, 0 * N), xp.abs)
    _, c, positive, negative, absolute = _rows_per_head(
        xp, game.A, offset, *(norm(part) for part in parts)
    )
    magnitude = xp.minimum(terms, absolute)
    half_range = xp.minimum(xp.maximum(positive, negative), magnitude)
    return c, half_range, xp.maximum(magnitude, xp.abs(c))


def _per_weight(N: Array, g: Array, power: float) -> Array:
    """Return N/g^p of values N ≥ 0. It is infinite for a value without a weight."""
    xp = array_namespace(N)
    g = xp.broadcast_to(g[..., None, :, :], N.shape)
    ratio = N / xp.where(g > 0, g, xp.ones_like(g)) ** power
    return xp.where((g == 0) & (N > 0), xp.inf, ratio)


def _conjugate_norm(u: Array, power: float) -> Array:
    """Return (Σ u^q)^{1/q}, q = 1/(1 − power), of u ≥ 0 over the last axis.

    For power 1, q is infinite and the norm is the maximum.
    """
    xp = array_namespace(u)
    largest = xp.max(u, axis=-1)
    if power == 1:
        return largest
    divisor = xp.where((largest > 0) & (largest < xp.inf), largest, xp.ones_like(largest))
    share = xp.minimum(u / divisor[..., None], xp.ones_like(u))
    return largest * xp.sum(share ** (1 / (1 - power)), axis=-1) ** (1 - power)


def kept_and_removed_factors(form: HeavyForm, nodes: Float[Array, " Q"]) -> tuple[Array, Array]:
    """Return the factors e^{−λ·} of a kept and of a removed word, each of shape (Q, d).

    The lighter state has factor 1.
    """
    xp = array_namespace(nodes)
    E = xp.exp(-nodes[:, None] * form.delta)
    heavy = form.kept_is_heavy
    return xp.where(heavy, E, xp.ones_like(E)), xp.where(heavy, xp.ones_like(E), E)


def kept_and_removed_values(form: HeavyForm) -> tuple[Float[Array, "C d"], Float[Array, "C d"]]:
    """Return the contribution of a kept and of a removed word to N.

    The lighter state has contribution 0.
    """
    xp = array_namespace(form.step)
    zero = xp.zeros_like(form.step)
    heavy = form.kept_is_heavy[None, :]
    return xp.where(heavy, form.step, zero), xp.where(heavy, zero, form.step)


def full_and_empty_values(form: HeavyForm) -> tuple[Float[Array, "G C"], Float[Array, "G C"]]:
    """Return f − c with every word kept, and with every word removed."""
    xp = array_namespace(form.delta)
    zero = xp.zeros_like(form.delta)
    heavy = form.kept_is_heavy
    full_D, empty_D = xp.where(heavy, form.delta, zero), xp.where(heavy, zero, form.delta)
    full_N = xp.where(heavy[:, None, :], form.step, xp.zeros_like(form.step))
    N = [xp.sum(x, axis=-1) for x in (full_N, form.step - full_N)]
    D = [xp.sum(x, axis=-1) for x in (full_D, empty_D)]
    f = form.value(xp.stack(N, axis=-1), xp.stack(D, axis=-1))
    return f[..., 0], f[..., 1]


def _rows_per_head(
    xp: Any, step: Float[Array, "*batch C K d"], *arrays: Float[Array, "*batch C K"]
) -> list[Float[Array, "G C *d"]]:
    """Reshape arrays to one row per head of every document."""
    axis = step.ndim - 3
    head, tail = (*range(axis), axis + 1, axis), range(axis + 2, axis + 3)
    rows = [xp.permute_dims(step, (*head, *tail)), *(xp.permute_dims(x, head) for x in arrays)]
    return [xp.reshape(x, (-1, *x.shape[axis + 1 :])) for x in rows]


def _extremes(
    xp: Any,
    n0: Float[Array, "G C"],
    step: Float[Array, "G C d"],
    delta: Float[Array, "G d"],
    *,
    margin: Float[Array, "G C"],
) -> tuple[Float[Array, "G C"], Float[Array, "G C"]]:
    """Return proven bounds on min f and max f over all sets of words.

    Dinkelbach's method is θ ← N/D at the set that maximizes N − θD. For every θ,

        max f ≤ θ + max(N − θD)⁺/D_min,    D_min = 1;

    Before that θ is raised by a rounding margin, so that the second term vanishes at convergence.
    """
    C = n0.shape[-1]
    n0, step = xp.concat([n0, -n0], axis=-1), xp.concat([step, -step], axis=-2)
    delta = delta[:, None, :]
    theta = n0  # f where every word is light: below the maximum, so θ rises from here
    for _ in range(_STEPS):
        gain = step - theta[..., None] * delta
        up = xp.astype(gain > 0, gain.dtype)
        excess = n0 - theta + xp.sum(gain * up, axis=-1)
        theta = theta + excess / (1 + xp.sum(delta * up, axis=-1))
    # The last θ may have rounded below the maximum. The bound must not depend on that or on
    # convergence, so the excess is computed again and added.
    theta = theta + xp.concat([margin, margin], axis=-1)
    gain = step - theta[..., None] * delta
    gain = xp.where(gain > 0, gain, xp.zeros_like(gain))
    excess = n0 - theta + xp.sum(gain, axis=-1)
    top = theta + xp.where(excess > 0, excess, xp.zeros_like(excess))
    return -top[:, C:], top[:, :C]
