"""Expectations of a ratio game under independent removals, for all words at once.

Let every word be in its heavier state with probability v_j (1 − p or p) independently, and φ_j = 1
− v_j + v_j e^{−λδ_j}, z_j = v_j e^{−λδ_j}/φ_j, P = e^{−λ} Π φ_k, R = n_0 + Σ_k z_k Δ_k. Since 1/D =
∫ e^{−λD} dλ and words are independent,

    E_p[f]       = ∫ P R dλ
    E_p[X_j f]   = ∫ P [z_j R + z_j (1 − z_j) Δ_j] dλ,

with the integral replaced by a certified sum of exponentials (`reciprocal_sum`). Cost: O(d) per (p,
λ) node for all d words.
"""

__all__ = ["Expectations", "expectations", "grouped_by_rule", "product"]

from collections.abc import Iterator
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from limelight.shapes import Array, Float, Int
from limelight.theory.heavy_form import HeavyForm
from limelight.theory.reciprocal_sum import ReciprocalSum, reciprocal_sum

_ROUNDING = 2.0**-52
_CELLS = {
    "cpu": 2**17,
    "cuda": 2**26,
}  # of (p, λ, word) at a time: the second-level cache; a few GB


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
    tolerance: float,
) -> Expectations:
    """Sums over the nodes p with weights ω of E_p[f − c] and E_p[X_j (f − c)], 1/D within
    ``tolerance``.
    """
    xp = array_namespace(form.delta)
    order: list[int] = []
    parts: list[tuple[Array, Array, Array]] = []
    errors: list[tuple[float, float]] = []
    for rule, rows in grouped_by_rule(form, tolerance):
        index = _integers(rows, form.delta)
        group = _take(form, index)
        q, w = xp.take(p, index, axis=0), xp.take(omega, index, axis=0)
        parts.extend(_blocks(group, q, w, rule))
        order.extend(rows)
        steps = 4 * form.delta.shape[-1] + p.shape[-1] * len(rule.nodes) + 64
        errors.extend([(rule.error, _ROUNDING * steps * rule.condition)] * len(rows))
    back = _integers(sorted(range(len(order)), key=order.__getitem__), form.delta)
    total, total_p, heavy = (
        xp.take(xp.concat([part[i] for part in parts], axis=0), back, axis=0) for i in range(3)
    )
    error = xp.asarray(errors, dtype=form.delta.dtype, device=device(form.delta))
    error = xp.take(error, back, axis=0)
    return Expectations(total, total_p, heavy, error[:, 0], error[:, 1])


def grouped_by_rule(form: HeavyForm, tolerance: float) -> Iterator[tuple[ReciprocalSum, list[int]]]:
    """Heads that share a sum of exponentials, so that each is computed with no more nodes than it
    needs.
    """
    groups: dict[int, tuple[ReciprocalSum, list[int]]] = {}
    for row, ratio in enumerate(form.ratio.tolist()):
        rule = reciprocal_sum(max(1.0, ratio), tolerance)
        groups.setdefault(id(rule), (rule, []))[1].append(row)
    yield from groups.values()


def _integers(rows: list[int], like: Array) -> Int[Array, " n"]:
    xp = array_namespace(like)
    return xp.asarray(rows, dtype=xp.int64, device=device(like))


def _take(form: HeavyForm, index: Int[Array, " g"]) -> HeavyForm:
    xp = array_namespace(form.delta)
    return HeavyForm(*(xp.take(x, index, axis=0) for x in form))


def _blocks(
    form: HeavyForm, p: Float[Array, "g M"], omega: Float[Array, "g M"], rule: ReciprocalSum
) -> Iterator[tuple[Array, Array, Array]]:
    """Results of as many heads as fit in memory, each summed over as many p as fit."""
    g, d = form.delta.shape
    M, Q = p.shape[-1], len(rule.nodes)
    kind = str(getattr(device(form.delta), "type", "cpu"))
    cells = _CELLS.get(kind, _CELLS["cpu"])
    at_once = max(1, min(M, cells // (Q * d)))
    heads = max(1, cells // (at_once * Q * d))
    for i in range(0, g, heads):
        some = HeavyForm(*(x[i : i + heads] for x in form))
        E, w = _exponentials(some, rule)
        sums = [
            _sums(
                some, E, w, p[i : i + heads, m : m + at_once], omega[i : i + heads, m : m + at_once]
            )
            for m in range(0, M, at_once)
        ]
        total, total_p, heavy = (_added(column) for column in zip(*sums, strict=True))
        yield total, total_p, heavy


def _added(column: tuple[Array, ...]) -> Array:
    out = column[0]
    for x in column[1:]:
        out = out + x
    return out


def _exponentials(form: HeavyForm, rule: ReciprocalSum) -> tuple[Any, Any]:
    """e^{−λ_i δ_j}, shape (g, 1, Q, d), and w_i e^{−λ_i}, shape (Q,)."""
    xp = array_namespace(form.delta)
    like = {"dtype": form.delta.dtype, "device": device(form.delta)}
    nodes, weights = xp.asarray(rule.nodes, **like), xp.asarray(rule.weights, **like)
    E = xp.exp(form.delta[:, None, None, :] * -nodes[:, None])
    return E, weights * xp.exp(-nodes)


def _sums(
    form: HeavyForm,
    E: Float[Array, "g 1 Q d"],
    w: Float[Array, " Q"],
    p: Float[Array, "g M"],
    omega: Float[Array, "g M"],
) -> tuple[Float[Array, "g C"], Float[Array, "g C"], Float[Array, "g C d"]]:
    """The equations of this module's docstring, summed over the nodes (p, λ) of one block."""
    xp = array_namespace(E)
    p1 = p[:, :, None, None]
    v = xp.where(form.kept_is_heavy[:, None, None, :], 1 - p1, p1)
    z = v * E
    phi = z + (1 - v)
    z /= phi
    # Π φ may underflow where it is below 1e-308; the terms lost are as small, for w and R are
    # bounded.
    P = product(phi) * (omega[:, :, None] * w)
    g, M, Q = P.shape
    d = z.shape[-1]
    z, P = xp.reshape(z, (g, M * Q, d)), xp.reshape(P, (g, 1, M * Q))
    R = form.step @ xp.matrix_transpose(z) + form.n0[..., None]
    R *= P
    total = xp.sum(R, axis=-1)
    by_p = xp.sum(xp.reshape(R, (g, -1, M, Q)), axis=-1)
    heavy = R @ z
    z *= 1 - z
    heavy += form.step * (P @ z)
    return total, xp.sum(by_p * p[:, None, :], axis=-1), heavy


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
