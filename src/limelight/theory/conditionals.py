"""Expectations of a ratio game under independent removals, for all words at once.

Let every word be in its heavier state independently, word j with probability v_j (1 − p or p), and

    φ_j = 1 − v_j + v_j e^{−λδ_j},    z_j = v_j e^{−λδ_j}/φ_j,
    P = e^{−λ} Π_k φ_k,               R = n_0 + Σ_k z_k Δ_k.

Since 1/D = ∫ e^{−λD} dλ, similarly D^{−p} with other weights, and words are independent,

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

# Cells (p, λ, word) at a time: the size of a core's second-level cache, or a few GB of a GPU.
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
    """Return the sums Σ_m ω_m of E_p[f − c] and E_p[X_j (f − c)] over removal probabilities p_m.

    Parameters
    ----------
    form
        One-head games in canonical form.
    p, omega
        Removal probabilities and weights of each head.
    tolerance
        The largest relative error of 1/D, one for all heads or one for each.

    Returns
    -------
    The sums of each head, and the errors of 1/D and of rounding.
    """
    xp, device = array_namespace(form.delta), form.delta.device
    ordered, back = _kept_side_first(form, xp)
    sums = xp.zeros_like(form.n0), xp.zeros_like(form.n0), xp.zeros_like(form.step)
    error, rounding = xp.zeros_like(form.base), xp.zeros_like(form.base)
    workspace = _Workspace.like(form.delta)
    # Reciprocal sums are cached, so equal ones are one object. Heads that share one are computed
    # together.
    groups: dict[int, tuple[ReciprocalSum, list[int]]] = {}
    for row, rule in enumerate(reciprocal_sums(form, tolerance)):
        groups.setdefault(id(rule), (rule, []))[1].append(row)
    for rule, rows in groups.values():
        index = xp.asarray(rows, dtype=xp.int64, device=device)
        group = HeavyForm(*(xp.take(x, index, axis=0) for x in ordered))
        q, w = xp.take(p, index, axis=0), xp.take(omega, index, axis=0)
        blocks = zip(*_blocks(group, q, w, rule, workspace), strict=True)
        for total, parts in zip(sums, blocks, strict=True):
            total[index] = xp.concat(parts, axis=0)
        # About 4 roundings for each factor of Π φ, one for each node of a sum, and 64 for other
        # steps. Measured: the error was at most 0.90 of the bound in 16,734 random games.
        steps = 4 * form.delta.shape[-1] + p.shape[-1] * len(rule.nodes) + 64
        error[index], rounding[index] = rule.error, ROUNDING * steps * rule.condition
    total, total_p, heavy = sums
    heavy = xp.take_along_axis(heavy, xp.broadcast_to(back[:, None, :], heavy.shape), axis=-1)
    return Expectations(total, total_p, heavy, error, rounding)


def _kept_side_first(form: HeavyForm, xp: Any) -> tuple[HeavyForm, Int[Array, "G d"]]:
    """Move the words that are heavier when kept to the front, so that v is one number per side.

    Also return the index that restores the order of the words.
    """
    order = xp.argsort(xp.astype(~form.kept_is_heavy, xp.int8), axis=-1, stable=True)
    back = xp.argsort(order, axis=-1)
    step_order = xp.broadcast_to(order[:, None, :], form.step.shape)
    ordered = form._replace(
        delta=xp.take_along_axis(form.delta, order, axis=-1),
        step=xp.take_along_axis(form.step, step_order, axis=-1),
        kept_is_heavy=xp.take_along_axis(form.kept_is_heavy, order, axis=-1),
    )
    return ordered, back


def reciprocal_sums(form: HeavyForm, tolerance: float | Sequence[float]) -> list[ReciprocalSum]:
    """Return a sum of exponentials for 1/D of every head, with as few nodes as that head needs."""
    # Trained attention is peaked: D_max/D_min has the median 1.4e3 and reaches 1e7. There a sum has
    # nearly twice the nodes.
    ratios, powers = form.ratio.tolist(), form.power.tolist()
    shares = [tolerance] * len(ratios) if isinstance(tolerance, float) else tolerance
    heads = zip(ratios, shares, powers, strict=True)
    return [reciprocal_sum(max(1.0, ratio), share, power) for ratio, share, power in heads]


def solve_heads(
    form: HeavyForm,
    tolerance: float,
    solve: Callable[[int, HeavyForm, ReciprocalSum], Array],
    *,
    nodes: int,
) -> tuple[Float[Array, "G ..."], Float[Array, "G 1"], Float[Array, "G 1"]]:
    """Call ``solve`` for every head separately and stack the results.

    Parameters
    ----------
    form
        One-head games in canonical form.
    tolerance
        The largest relative error of 1/D.
    solve
        Function of the index of a head, its game and its sum of exponentials.
    nodes
        The number of removal probabilities p that ``solve`` sums over.

    Returns
    -------
    The results, the relative error of 1/D and the rounding error as in `Expectations`.
    """
    xp, delta, rules = array_namespace(form.delta), form.delta, reciprocal_sums(form, tolerance)
    scores = [solve(i, form.head(i), rule) for i, rule in enumerate(rules)]
    steps = (8 * delta.shape[-1] + nodes * len(rule.nodes) + 64 for rule in rules)
    errors = [
        (rule.error, ROUNDING * n * rule.condition) for rule, n in zip(rules, steps, strict=True)
    ]
    error = xp.asarray(errors, dtype=delta.dtype, device=delta.device)
    return xp.stack(scores, axis=0), error[:, :1], error[:, 1:]


def _blocks(
    form: HeavyForm,
    p: Float[Array, "g M"],
    omega: Float[Array, "g M"],
    rule: ReciprocalSum,
    workspace: "_Workspace",
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the sums of blocks of heads, as many at a time as fit in memory."""
    g, d = form.delta.shape
    M, Q = p.shape[-1], len(rule.nodes)
    cells = block_size(form.delta)
    columns_per_block = max(1, min(M, cells // (Q * d)))
    heads = max(1, cells // (columns_per_block * Q * d))
    for i in range(0, g, heads):
        block = HeavyForm(*(x[i : i + heads] for x in form))
        sides = _sides(block, rule, workspace.xp)
        sums = []
        for m in range(0, M, columns_per_block):
            columns = slice(m, m + columns_per_block)
            q, w = p[i : i + heads, columns], omega[i : i + heads, columns]
            sums.append(_block_sums(block, sides, q, w, rule, workspace))
        total, total_p, kept_sums, removed_sums = (reduce(add, x) for x in zip(*sums, strict=True))
        yield total, total_p, _join_sides(block, kept_sums, removed_sums, workspace.xp)


def block_size(x: Array) -> int:
    """Return the number of cells (p, λ, word) to compute at a time on the device of an array."""
    return _CELLS.get(str(getattr(x.device, "type", "cpu")), _CELLS["cpu"])


class _Workspace:
    """Memory for the large arrays, reused by every block and, in NumPy, by every call of a thread.

    New arrays of this size cost NumPy as much time in page faults as the arithmetic. Torch caches
    memory itself.
    """

    _thread_local = threading.local()

    @classmethod
    def like(cls, x: Array) -> "_Workspace":
        """Return the workspace for arrays like ``x``."""
        if not isinstance(x, np.ndarray):
            return cls(x)
        if not hasattr(cls._thread_local, "workspace"):
            # A new array, since a slice would keep all of x alive.
            cls._thread_local.workspace = cls(np.empty(0, dtype=x.dtype))
        workspace: _Workspace = cls._thread_local.workspace
        return workspace

    def __init__(self, like: Array) -> None:
        self._like, self.xp = like, array_namespace(like)
        self._flat: dict[int, Array] = {}

    def array_pair(self, index: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Return two arrays of this shape: one for this index, and one that all indices share."""
        size, like = math.prod(shape), self._like
        for key in (index, -1):
            if key not in self._flat or self._flat[key].shape[0] < size:
                self._flat[key] = self.xp.empty(size, dtype=like.dtype, device=like.device)
        indexed, shared = (self.xp.reshape(self._flat[key][:size], shape) for key in (index, -1))
        return indexed, shared


class _Side(NamedTuple):
    """The words that are heavier when kept, or those that are heavier when removed.

    Padding words have δ = Δ = 0.
    """

    E: Float[Array, "g side Q"]  # e^{−λδ}
    step: Float[Array, "g C side"]


def _sides(form: HeavyForm, rule: ReciprocalSum, xp: Any) -> tuple[_Side, _Side]:
    """Return both sides of a block of heads, each padded to its longest head."""
    d = form.delta.shape[-1]
    counts = [int(n) for n in xp.sum(xp.astype(form.kept_is_heavy, xp.int64), axis=-1).tolist()]
    nodes = xp.asarray(rule.nodes, dtype=form.delta.dtype, device=form.delta.device)

    sides = []
    for words, member in (
        (slice(0, max(counts)), form.kept_is_heavy),
        (slice(min(counts), d), ~form.kept_is_heavy),
    ):
        delta, step = form.delta[:, words], form.step[..., words]
        # With δ = Δ = 0 a word has φ = 1 and does not change P and R, so heads with fewer words on
        # this side can share an array with the longest.
        if min(counts) < max(counts):
            present = xp.astype(member[:, words], delta.dtype)
            delta, step = delta * present, step * present[:, None, :]
        E = xp.exp(delta[..., None] * -nodes)
        E += math.exp(-100) / rule.R  # moves z Δ by 1e-43 of f, and keeps z² from being denormal
        sides.append(_Side(E=E, step=step))
    return sides[0], sides[1]


def _join_sides(
    form: HeavyForm, kept_side: Float[Array, "g C _"], removed_side: Float[Array, "g C _"], xp: Any
) -> Float[Array, "g C d"]:
    """Join the results of the two sides to one row per head."""
    d = form.delta.shape[-1]
    after, before = d - kept_side.shape[-1], d - removed_side.shape[-1]
    if after + before == d:
        return xp.concat([kept_side, removed_side], axis=-1)
    kept_side = xp.concat([kept_side, xp.zeros_like(form.step[..., :after])], axis=-1)
    removed_side = xp.concat([xp.zeros_like(form.step[..., :before]), removed_side], axis=-1)
    return xp.where(form.kept_is_heavy[:, None, :], kept_side, removed_side)


def _block_sums(
    form: HeavyForm,
    sides: tuple[_Side, _Side],
    p: Float[Array, "g M"],
    omega: Float[Array, "g M"],
    rule: ReciprocalSum,
    workspace: "_Workspace",
) -> tuple[Array, Array, Array, Array]:
    """Sum the equations of this module's docstring over the nodes (p, λ) of one block."""
    xp, (g, M), Q = workspace.xp, p.shape, len(rule.nodes)
    # Each e^{−λδ} and φ is at most 1, so Π φ cannot overflow.
    # As `light_terms`, without another lookup of the array functions: this code takes most of the
    # time.
    nodes, weights = (xp.asarray(x, device=p.device) for x in (rule.nodes, rule.weights))
    light = weights * xp.exp(-nodes * form.base[:, None, None])
    P = xp.reshape(omega[:, :, None] * light, (g, 1, M * Q))
    R = form.n0[..., None]
    tilted: list[Array] = []
    for side, v in zip(sides, (1 - p, p), strict=True):
        row = xp.repeat(v, Q, axis=-1)[:, None, :]
        shape = (g, side.E.shape[1], M, Q)
        # NumPy is fastest on long rows, so a copy that repeats E for every p saves time.
        z, phi = workspace.array_pair(len(tilted), shape)
        z[...] = side.E[:, :, None, :]
        z, phi = (xp.reshape(x, (g, -1, M * Q)) for x in (z, phi))
        z *= row
        # 1 − (1 − p) has an absolute error of 2⁻⁵³ even where p is small. E_p[f] is linear in each
        # of these probabilities, so the error of every word is at most that times max|f − c|.
        xp.add(z, 1 - row, out=phi)
        z /= phi
        P = P * xp.prod(phi, axis=1, keepdims=True)
        R = R + side.step @ z
        tilted.append(z)
    # Terms below 1e-27 of f are dropped, and with them denormal numbers, on which processors are
    # slow. The rounding bound covers that loss.
    P = P * xp.astype(xp.abs(P) > 1e-30 / rule.R, P.dtype)
    R = R * P
    sums_per_p = xp.sum(xp.reshape(R, (g, -1, M, Q)), axis=-1)
    columns = xp.matrix_transpose(xp.concat([R, P], axis=1))
    # z (1 − z) Δ as z Δ − z² Δ cancels where z is near 1. But Σ P z Δ is one term of f, so the
    # error is a rounding of f. In return both sums are matrix products and no third large array is
    # needed.
    side_sums = []
    for side, z in zip(sides, tilted, strict=True):
        first = xp.matrix_transpose(z @ columns)
        z *= z
        second = xp.matrix_transpose(z @ columns[..., -1:])
        side_sums.append(first[:, :-1] + side.step * (first[:, -1:] - second))
    return (
        xp.sum(sums_per_p, axis=-1),
        xp.sum(sums_per_p * p[:, None, :], axis=-1),
        side_sums[0],
        side_sums[1],
    )


def light_terms(base: Float[Array, "..."], rule: ReciprocalSum) -> Float[Array, "... Q"]:
    """Return w e^{−λ base} of every node: the factor of D_min, where every word is light."""
    nodes, weights = (array_like(x, base) for x in (rule.nodes, rule.weights))
    return weights * array_namespace(base).exp(-nodes * base)


def product(phi: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
    """Return the product over the last axis.

    It is computed by halves: NumPy multiplies rows faster than it reduces them.
    """
    xp = array_namespace(phi)
    while (d := phi.shape[-1]) > 8:
        half = d // 2
        halved = phi[..., :half] * phi[..., half : 2 * half]
        if d % 2:
            halved[..., 0] *= phi[..., -1]
        phi = halved
    return xp.prod(phi, axis=-1)
