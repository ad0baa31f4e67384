"""The canonical form of a ratio game, in which nothing under- or overflows.

Of its two states (kept, removed) each word has a lighter one, with the smaller denominator, and a
heavier one. With X_j = 1 when word j is in its heavier state and D_min = D_0 + Σ min(a, b),

    f − c = (n_0 + Σ_j X_j Δ_j) / (1 + Σ_j X_j δ_j),    δ_j = |a_j − b_j| / D_min ≥ 0,

so that e^{−λD} needs only factors e^{−λδ} ≤ 1, and small probabilities of the heavier state keep
their relative accuracy although δ may be 1e7 times the denominator of the others.
"""

import math
import sys
from typing import NamedTuple

from limelight.errors import DomainError
from limelight.shapes import Array, Bool, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame, denominator_range, value_range
from limelight.theory.reciprocal_sum import MOST_RATIO

_ROUNDING = 2.0**-52
_STEPS = 6  # of Dinkelbach's method, which converges quadratically; fewer only widen the range


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
    # At least Σ|terms of N|/D and |c|: what rounding errors scale with.
    magnitude: Float[Array, "G C"]
    # How far f of the game lies from the f that is meant, whatever is removed: a functional
    # Σ_S c_S f(S) is off by Σ|c_S| times that, beside what its computation costs.
    error: Float[Array, "G C"]


def heavy_form(game: RatioGame) -> HeavyForm:
    """The canonical form, shifted by the middle c of a proven range of each head's f.

    Raises DomainError where a weight is negative, a number is not finite, or the denominator is not
    positive and finite for every set of words.
    """
    xp = array_namespace(game.a)
    low, high = denominator_range(game)
    if not bool(xp.all((low > 0) & (high < xp.inf))):
        raise DomainError(
            "a ratio game needs 0 < D < ∞ whatever is removed; "
            "here a head has D_0 + Σ min(a, b) = 0 or a D that is not finite."
        )
    # Below the normal numbers 1/D is infinite, and what is left of D has lost its digits.
    if not bool(xp.all((low >= _TINY) & (low >= high / MOST_RATIO))):
        raise DomainError(
            f"a ratio game needs denominators D ≥ {_TINY:.1e} within a factor of {MOST_RATIO:g} of "
            "each other; here double precision cannot tell one from 0."
        )
    weights = (game.D0[..., None], game.a, game.b)
    if any(bool(xp.any(x < 0)) for x in weights):
        raise DomainError("a ratio game needs weights D_0, a, b that are not negative.")
    # Dividing by D_min first puts D on [1, D_max/D_min], where the sums of exponentials live, and
    # makes everything below independent of the scale of the weights.
    inverse = (1 / low)[..., None]
    kept_is_heavy = game.a > game.b
    delta = xp.abs(game.a - game.b) * inverse
    sign = xp.where(kept_is_heavy, inverse, -inverse)
    step = (game.A - game.B) * sign[..., None, :, :]
    light = xp.where(kept_is_heavy[..., None, :, :], game.B, game.A)
    n0 = (game.N0 + xp.sum(light, axis=-1)) * inverse[..., None, :, 0]
    G, d = math.prod(low.shape), game.d
    # Either bounds Σ|terms of N|/D. The second is up to D_max/D_min times smaller; it is infinite
    # where a word has a value without a weight, as in a skip connection (a = b = 0, A ≠ 0).
    terms = xp.abs(game.N0) + xp.sum(xp.maximum(xp.abs(game.A), xp.abs(game.B)), axis=-1)
    terms, meant = terms * inverse[..., None, :, 0], game.error
    meant = xp.zeros_like(terms) if meant is None else meant
    delta = xp.reshape(delta, (G, d))
    step, n0, u_low, u_high, terms, error = _by_head(step, n0, *value_range(game), terms, meant)
    magnitude = xp.minimum(terms, xp.maximum(xp.abs(u_low), xp.abs(u_high)))
    if not bool(xp.all(magnitude < xp.inf)):
        raise DomainError("a ratio game needs finite values N_0, A, B.")
    # The range of the values u alone would be proven too; that of f was 2 to 4 times narrower on
    # random games, and every bound is proportional to it. Its middle, not f(all words), is taken
    # for c: no other shift makes max|f − c| as small.
    f_low, f_high = _extremes(n0, step, delta, margin=_ROUNDING * (d + 8) * magnitude)
    f_low, f_high = xp.maximum(f_low, u_low), xp.minimum(f_high, u_high)
    c = (f_low + f_high) / 2
    # N − cD word by word. What this cancels is a rounding of |c|, which ``magnitude`` covers.
    return HeavyForm(
        delta=delta,
        step=step - c[..., None] * delta[:, None, :],
        n0=n0 - c,
        kept_is_heavy=xp.reshape(kept_is_heavy, (G, d)),
        ratio=xp.reshape(high / low, (G,)),
        c=c,
        half_range=xp.abs(f_high - f_low) / 2 + _ROUNDING * (d + 8) * magnitude,
        magnitude=magnitude,
        error=error,
    )


def state_factors(form: HeavyForm, nodes: Float[Array, " Q"]) -> tuple[Array, Array]:
    """e^{−λ·} of a kept and of a removed word, above the lighter state; shape (Q, d)."""
    xp = array_namespace(nodes)
    E = xp.exp(-nodes[:, None] * form.delta)
    heavy = form.kept_is_heavy
    return xp.where(heavy, E, xp.ones_like(E)), xp.where(heavy, xp.ones_like(E), E)


def state_values(form: HeavyForm) -> tuple[Float[Array, "C d"], Float[Array, "C d"]]:
    """What a kept and a removed word add to N, above the lighter state."""
    xp = array_namespace(form.step)
    zero = xp.zeros_like(form.step)
    heavy = form.kept_is_heavy[None, :]
    return xp.where(heavy, form.step, zero), xp.where(heavy, zero, form.step)


def _by_head(
    step: Float[Array, "*batch C K d"], *others: Float[Array, "*batch C K"]
) -> list[Float[Array, "G C *d"]]:
    """One row per head of every document."""
    xp, axis = array_namespace(step), step.ndim - 3
    head, tail = (*range(axis), axis + 1, axis), range(axis + 2, axis + 3)
    rows = [xp.permute_dims(step, (*head, *tail)), *(xp.permute_dims(x, head) for x in others)]
    return [xp.reshape(x, (-1, *x.shape[axis + 1 :])) for x in rows]


def _extremes(
    n0: Float[Array, "G C"],
    step: Float[Array, "G C d"],
    delta: Float[Array, "G d"],
    *,
    margin: Float[Array, "G C"],
) -> tuple[Float[Array, "G C"], Float[Array, "G C"]]:
    """Proven bounds on min f and max f over all sets of words.

    Dinkelbach: θ ← N/D at the set that maximises N − θD. For every θ,

        max f ≤ θ + max(N − θD)⁺/D_min,    D_min = 1;

    θ is raised by a rounding margin first, so that the second term vanishes at convergence.
    """
    xp = array_namespace(n0)
    C = n0.shape[-1]
    n0, step = xp.concat([n0, -n0], axis=-1), xp.concat([step, -step], axis=-2)
    delta = delta[:, None, :]
    theta = n0  # f where every word is light: below the maximum, so θ rises from here
    for _ in range(_STEPS):
        gain = step - theta[..., None] * delta
        up = xp.astype(gain > 0, gain.dtype)
        excess = n0 - theta + xp.sum(gain * up, axis=-1)
        theta = theta + excess / (1 + xp.sum(delta * up, axis=-1))
    # The last θ may have rounded below the maximum; the bound must not depend on that, nor on
    # convergence, so the excess is computed once more and added.
    theta = theta + xp.concat([margin, margin], axis=-1)
    gain = step - theta[..., None] * delta
    gain = xp.where(gain > 0, gain, xp.zeros_like(gain))
    excess = n0 - theta + xp.sum(gain, axis=-1)
    top = theta + xp.where(excess > 0, excess, xp.zeros_like(excess))
    return -top[:, C:], top[:, :C]
