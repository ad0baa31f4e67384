"""Expectations of a ratio game under independent removals, for all words at once.

Let every word be in its heavier state independently, word j with probability v_j (1 − p or p), and

    φ_j = 1 − v_j + v_j e^{−λδ_j},    z_j = v_j e^{−λδ_j}/φ_j,
    P = e^{−λ} Π_k φ_k,               R = n_0 + Σ_k z_k Δ_k.

Since 1/D = ∫ e^{−λD} dλ, D^{−p} alike with weights of its own, and words are independent,

    E_p[f]       = ∫ P R dλ
    E_p[X_j f]   = ∫ P [z_j R + z_j (1 − z_j) Δ_j] dλ,

with the integral replaced by a certified sum of exponentials (`reciprocal_sum`). Cost: O(d) per
node (p, λ) for all d words.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from limelight.shapes import Array, Float, Int
from limelight.theory.heavy_form import HeavyForm
from limelight.theory.namespace import array_like, array_namespace
from limelight.theory.reciprocal_sum import ReciprocalSum, reciprocal_sum
from limelight.theory.table_rounding import ROUNDING

# Cells (p, λ, word) at a time: what the second-level cache of a core holds; a few GB of a card.
_CELLS = {"cpu": 2**17, "cuda": 2**26}


class Expectations(NamedTuple):
    """Mixtures over p of expectations of f − c, one row per head."""

    total: Float[Array, "G C"]  # Σ_m ω_m E_p[f − c]
    total_p: Float[Array, "G C"]  # Σ_m ω_m p_m E_p[f − c]
    heavy: Float[Array, "G C d"]  # Σ_m ω_m E_p[X_j (f − c)]
    error: Float[Array, " G"]  # relative error of 1/D, certified
    rounding: Float[Array, " G"]  # rounding error of a sum with Σ|ω| = 1, in units of the magnitude


def expectations(
    form: HeavyForm,
    p: Float[Array, "G M"],
    omega: Float[Array, "G M"],
    *,
    tolerance: float | Sequence[float],
) -> Expectations:
    """Sums over the nodes p with weights ω of E_p[f − c] and E_p[X_j (f − c)].

    The relative error of 1/D is at most ``tolerance``, which may be one for each head.
    """
    xp, here = array_namespace(form.delta), form.delta.device
    ordered, back = _kept_side_first(form, xp)
    sums = xp.zeros_like(form.n0), xp.zeros_like(form.n0), xp.zeros_like(form.step)
    error, rounding = xp.zeros_like(form.base), xp.zeros_like(form.base)
    room = _Room.like(form.delta)
    # Sums are cached, so equal ones are one object: heads that share one go together.
    groups: dict[int, tuple[ReciprocalSum, list[int]]] = {}
    for row, rule in enumerate(rules_of(form, tolerance)):
        groups.setdefault(id(rule), (rule, []))[1].append(row)
    for rule, rows in groups.values():
        index = xp.asarray(rows, dtype=xp.int64, device=here)
        group = HeavyForm(*(xp.take(x, index, axis=0) for x in ordered))
        q, w = xp.take(p, index, axis=0), xp.take(omega, index, axis=0)
        blocks = zip(*_blocks(group, q, w, rule, room), strict=True)
        for whole, parts in zip(sums, blocks, strict=True):
            whole[index] = xp.concat(parts, axis=0)
        # Some 4 roundings for each factor of Π φ, one for each node that is summed, and the rest.
        # Measured: the error was at most 0.90 of the whole bound in 16,734 random games.
        steps = 4 * form.delta.shape[-1] + p.shape[-1] * len(rule.nodes) + 64
        error[index], rounding[index] = rule.error, ROUNDING * steps * rule.condition
    total, total_p, heavy = sums
    heavy = xp.take_along_axis(heavy, xp.broadcast_to(back[:, None, :], heavy.shape), axis=-1)
    return Expectations(total, total_p, heavy, error, rounding)


def _kept_side_first(form: HeavyForm, xp: Any) -> tuple[HeavyForm, Int[Array, "G d"]]:
    """The words that are heavier when kept before the others, so that v is one number per side.

    Also the index that puts the words back.
    """
    order = xp.argsort(xp.astype(~form.kept_is_heavy, xp.int8), axis=-1, stable=True)
    back = xp.argsort(order, axis=-1)
    wide = xp.broadcast_to(order[:, None, :], form.step.shape)
    ordered = form._replace(
        delta=xp.take_along_axis(form.delta, order, axis=-1),
        step=xp.take_along_axis(form.step, wide, axis=-1),
        kept_is_heavy=xp.take_along_axis(form.kept_is_heavy, order, axis=-1),
    )
    return ordered, back


def rules_of(form: HeavyForm, tolerance: float | Sequence[float]) -> list[ReciprocalSum]:
    """The sum of exponentials of every head: none has more nodes than it needs."""
    # Trained attention is peaked: D_max/D_min has the median 1.4e3 and reaches 1e7, where a sum has
    # nearly twice the nodes.
    ratios, powers = form.ratio.tolist(), form.power.tolist()
    shares = [tolerance] * len(ratios) if isinstance(tolerance, float) else tolerance
    heads = zip(ratios, shares, powers, strict=True)
    return [reciprocal_sum(max(1.0, ratio), share, power) for ratio, share, power in heads]


def of_single_heads(
    form: HeavyForm,
    tolerance: float,
    solve: Callable[[int, HeavyForm, ReciprocalSum], Array],
    *,
    nodes: int,
) -> tuple[Float[Array, "G ..."], Float[Array, "G 1"], Float[Array, "G 1"]]:
    """What ``solve`` makes of every head by itself, the relative error of 1/D, and the rounding.

    The latter is that of sums over so many ``nodes`` p, as in `Expectations`.
    """
    xp, like, rules = array_namespace(form.delta), form.delta, rules_of(form, tolerance)
    scores = [solve(i, form.head(i), rule) for i, rule in enumerate(rules)]
    steps = (8 * like.shape[-1] + nodes * len(rule.nodes) + 64 for rule in rules)
    errors = [
        (one.error, ROUNDING * n * one.condition) for one, n in zip(rules, steps, strict=True)
    ]
    error = xp.asarray(errors, dtype=like.dtype, device=like.device)
    return xp.stack(scores, axis=0), error[:, :1], error[:, 1:]


def _blocks(
    form: HeavyForm,
    p: Float[Array, "g M"],
    omega: Float[Array, "g M"],
    rule: ReciprocalSum,
    room: "_Room",
) -> Iterator[tuple[Array, Array, Array]]:
    """Results of as many heads as fit in memory, each summed over as many p as fit."""
    g, d = form.delta.shape
    M, Q = p.shape[-1], len(rule.nodes)
    kind = str(getattr(form.delta.device, "type", "cpu"))
    cells = _CELLS.get(kind, _CELLS["cpu"])
    at_once = max(1, min(M, cells // (Q * d)))
    heads = max(1, cells // (at_once * Q * d))
    for i in range(0, g, heads):
        some = HeavyForm(*(x[i : i + heads] for x in form))
        sides = _sides(some, rule, room.xp)
        sums = []
        for m in range(0, M, at_once):
            columns = slice(m, m + at_once)
            q, w = p[i : i + heads, columns], omega[i : i + heads, columns]
            sums.append(_sums(some, sides, q, w, rule, room))
        total, total_p, kept, removed = (reduce(add, x) for x in zip(*sums, strict=True))
        yield total, total_p, _joined(some, kept, removed, room.xp)


class _Room:
    """Memory for the large arrays: every block uses it again and, in NumPy, every call of a thread.

    Fresh arrays of this size cost NumPy as much in page faults as the arithmetic does; torch has a
    cache of its own.
    """

    _kept = threading.local()

    @classmethod
    def like(cls, x: Array) -> "_Room":
        if not isinstance(x, np.ndarray):
            return cls(x)
        if not hasattr(cls._kept, "room"):
            cls._kept.room = cls(np.empty(0, dtype=x.dtype))  # a slice would keep all of x alive
        room: _Room = cls._kept.room
        return room

    def __init__(self, like: Array) -> None:
        self._like, self.xp = like, array_namespace(like)
        self._flat: dict[int, Array] = {}

    def pair(self, which: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Two arrays of this shape: one of its own for each ``which``, and one that all share."""
        size, like = math.prod(shape), self._like
        for key in (which, -1):
            if key not in self._flat or self._flat[key].shape[0] < size:
                self._flat[key] = self.xp.empty(size, dtype=like.dtype, device=like.device)
        own, shared = (self.xp.reshape(self._flat[key][:size], shape) for key in (which, -1))
        return own, shared


class _Side(NamedTuple):
    """Words that are heavier when kept, or when removed; absent ones have δ = Δ = 0."""

    E: Float[Array, "g side Q"]  # e^{−λδ}
    step: Float[Array, "g C side"]


def _sides(form: HeavyForm, rule: ReciprocalSum, xp: Any) -> tuple[_Side, _Side]:
    """The two sides, each as long as the longest of the block."""
    d = form.delta.shape[-1]
    counts = [int(n) for n in xp.sum(xp.astype(form.kept_is_heavy, xp.int64), axis=-1).tolist()]
    nodes = xp.asarray(rule.nodes, dtype=form.delta.dtype, device=form.delta.device)

    sides = []
    for words, member in (
        (slice(0, max(counts)), form.kept_is_heavy),
        (slice(min(counts), d), ~form.kept_is_heavy),
    ):
        delta, step = form.delta[:, words], form.step[..., words]
        # With δ = Δ = 0 a word has φ = 1 and leaves P and R alone, so heads with fewer words on
        # this side can share an array with the longest.
        if min(counts) < max(counts):
            present = xp.astype(member[:, words], delta.dtype)
            delta, step = delta * present, step * present[:, None, :]
        E = xp.exp(delta[..., None] * -nodes)
        E += math.exp(-100) / rule.R  # moves z Δ by 1e-43 of f, and keeps z² from being denormal
        sides.append(_Side(E=E, step=step))
    return sides[0], sides[1]


def _joined(
    form: HeavyForm, kept: Float[Array, "g C _"], removed: Float[Array, "g C _"], xp: Any
) -> Float[Array, "g C d"]:
    """Results of the two sides as one row per head."""
    d = form.delta.shape[-1]
    more, fewer = d - kept.shape[-1], d - removed.shape[-1]
    if more + fewer == d:
        return xp.concat([kept, removed], axis=-1)
    kept = xp.concat([kept, xp.zeros_like(form.step[..., :more])], axis=-1)
    removed = xp.concat([xp.zeros_like(form.step[..., :fewer]), removed], axis=-1)
    return xp.where(form.kept_is_heavy[:, None, :], kept, removed)


def _sums(
    form: HeavyForm,
    sides: tuple[_Side, _Side],
    p: Float[Array, "g M"],
    omega: Float[Array, "g M"],
    rule: ReciprocalSum,
    room: "_Room",
) -> tuple[Array, Array, Array, Array]:
    """The equations of this module's docstring, summed over the nodes (p, λ) of one block."""
    xp, (g, M), Q = room.xp, p.shape, len(rule.nodes)
    # Each e^{−λδ} and φ is at most 1, so Π φ cannot overflow.
    # As `light_terms`, with the functions at hand: this is where most of the time goes.
    nodes, weights = (xp.asarray(x, device=p.device) for x in (rule.nodes, rule.weights))
    light = weights * xp.exp(-nodes * form.base[:, None, None])
    P = xp.reshape(omega[:, :, None] * light, (g, 1, M * Q))
    R = form.n0[..., None]
    tilted: list[Array] = []
    for side, v in zip(sides, (1 - p, p), strict=True):
        row = xp.repeat(v, Q, axis=-1)[:, None, :]
        wide = (g, side.E.shape[1], M, Q)
        # NumPy is fastest on long rows: the copy that repeats E for every p pays for itself.
        z, phi = room.pair(len(tilted), wide)
        z[...] = side.E[:, :, None, :]
        z, phi = (xp.reshape(x, (g, -1, M * Q)) for x in (z, phi))
        z *= row
        # 1 − (1 − p) has an absolute error of 2⁻⁵³ even where p is small. E_p[f] is linear in each
        # of these probabilities, so every word costs that much of max|f − c| and no more.
        xp.add(z, 1 - row, out=phi)
        z /= phi
        P = P * xp.prod(phi, axis=1, keepdims=True)
        R = R + side.step @ z
        tilted.append(z)
    # Terms below 1e-27 of f go, and with them denormal numbers, on which processors are slow; the
    # rounding bound has room for what is lost.
    P = P * xp.astype(xp.abs(P) > 1e-30 / rule.R, P.dtype)
    R = R * P
    by_p = xp.sum(xp.reshape(R, (g, -1, M, Q)), axis=-1)
    columns = xp.matrix_transpose(xp.concat([R, P], axis=1))
    # z (1 − z) Δ as z Δ − z² Δ cancels where z is near 1, but Σ P z Δ is one term of f: it costs a
    # rounding of f. In return both sums are matrix products and no third large array is needed.
    out = []
    for side, z in zip(sides, tilted, strict=True):
        first = xp.matrix_transpose(z @ columns)
        z *= z
        second = xp.matrix_transpose(z @ columns[..., -1:])
        out.append(first[:, :-1] + side.step * (first[:, -1:] - second))
    return xp.sum(by_p, axis=-1), xp.sum(by_p * p[:, None, :], axis=-1), out[0], out[1]


def light_terms(base: Float[Array, "..."], rule: ReciprocalSum) -> Float[Array, "... Q"]:
    """w e^{−λ base} of every node: the share of D_min, with which every word is light."""
    nodes, weights = (array_like(x, base) for x in (rule.nodes, rule.weights))
    return weights * array_namespace(base).exp(-nodes * base)


def product(phi: Float[Array, "*some d"]) -> Float[Array, "*some"]:
    """Π over the last axis, by halves: NumPy multiplies whole rows faster than it reduces them."""
    xp = array_namespace(phi)
    while (d := phi.shape[-1]) > 8:
        half = d // 2
        head = phi[..., :half] * phi[..., half : 2 * half]
        if d % 2:
            head[..., 0] *= phi[..., -1]
        phi = head
    return xp.prod(phi, axis=-1)
