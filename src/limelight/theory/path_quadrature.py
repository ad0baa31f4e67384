"""How many panels integrated gradients need, and a proven bound on every score, known in advance.

On the path from UNK to the text values are linear in x and logits analytic around it, linear or by
hidden units (`logit_path`), and so is attention: where |Im x| ≤ H and the imaginary parts of a
head's logits lie within a range of 2φ < π,

    Σ_t |α_t(x)| ≤ 1/cos φ .

This bounds the integrand on an ellipse around every panel, and with it the error of Gauss–Legendre
nodes. Statement and proof: ``docs/theorems/integrated-gradients.md``.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.shapes import Array, Float
from limelight.theory.logit_path import LogitPath, Reach
from limelight.theory.namespace import array_namespace, host_array
from limelight.theory.table_rounding import ROUNDING

NODES = 32  # of Gauss–Legendre on each panel
MAX_PANELS = 4096
_HEIGHTS = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97])


class Outer(NamedTuple):
    """What is known of the explained number F as a function of the outputs f.

    ``weights`` bounds |∂F/∂f_c| where no output has an imaginary part beyond ψ; ``curvature``
    bounds Σ_k |∂²F/∂f_c ∂f_k|, 0 for a logit.
    """

    weights: Callable[[Float[np.ndarray, "*n"]], Float[np.ndarray, "*n C"]]
    curvature: float


class PathSize(NamedTuple):
    """What logits and values do along the path, per document, class and head."""

    logits: LogitPath
    heights: Float[np.ndarray, "h n"]  # H of several ellipses
    reach: Reach  # of the logits at each height
    steepest: Float[np.ndarray, "n K"]  # largest |ℓ′| on the path itself
    moved: Float[np.ndarray, "n C K"]  # largest |Δu|
    spread: Float[np.ndarray, "n C K"]  # the ranges of u at both ends, added
    value: Float[np.ndarray, "n C K"]  # largest |u|
    positions: int


def path_size(
    logits: LogitPath, u: Float[Array, "n C K T"], base_u: Float[Array, "n C K T"], outer: Outer
) -> PathSize:
    """The sizes of a path from its logits, and its values at both ends."""
    xp = array_namespace(u)

    def largest(x: Array) -> Array:
        return xp.max(xp.abs(x), axis=-1)

    def extent(x: Array) -> Array:
        return xp.max(x, axis=-1) - xp.min(x, axis=-1)

    moved, spread = host_array(largest(u - base_u)), host_array(extent(u) + extent(base_u))
    level = logits.reach(np.zeros(len(moved)))
    heights = _HEIGHTS[:, None] / _flatness(logits, level, moved, spread, outer)
    return PathSize(
        logits=logits,
        heights=heights,
        reach=logits.reach(heights),
        steepest=level.steepest,
        moved=moved,
        spread=spread,
        value=host_array(xp.maximum(largest(u), largest(base_u))),
        positions=int(u.shape[-1]),
    )


def panels_needed(size: PathSize, outer: Outer, *, tolerance: Float[np.ndarray, " n"]) -> int:
    """The fewest panels whose error is proven to be within ``tolerance``, or the most allowed."""
    # A panel serves up to a swing of 16 or so: this starts below, and grows by a quarter.
    panels = max(1, min(MAX_PANELS, int(size.logits.swing.max() / 32)))
    while panels < MAX_PANELS and (quadrature_error(size, panels, outer) > tolerance).any():
        panels = min(MAX_PANELS, panels + 1 + panels // 4)
    return panels


def quadrature_error(size: PathSize, panels: int, outer: Outer) -> Float[np.ndarray, " n"]:
    """A bound on the error of Σ over any positions of IG_t, NODES nodes on each of the panels.

    4 M ρ^{−2m}/(1 − 1/ρ), M the bound of the integrand on ellipses of radius ρ around the panels:
    the least over several ρ.
    """
    H = size.heights  # half of an ellipse's height
    b = 2 * H * panels
    rho = b + np.sqrt(1 + b * b)
    beyond = 1 + (rho - 1) / (2 * panels)  # at least |x| and |1 − x| on the ellipse
    phase, halves, steepest = (x[..., None, :] for x in size.reach)
    with np.errstate(invalid="ignore", over="ignore"):  # past a pole nothing is known: ∞ · 0
        secant = np.where(phase < math.pi / 2, 1 / np.cos(phase), np.inf)
        apart = secant * beyond[..., None, None] * size.spread  # at least |u_t − f_i|
        slope = secant * (size.moved + halves * apart)  # at least |f_i′|
        bracket = secant * (size.moved + steepest * apart)
        # f is real on the path, so at height H its imaginary part is at most H max|f′|.
        imaginary = H * slope.mean(axis=-1).max(axis=-1)
        M = (outer.weights(imaginary) * bracket.mean(axis=-1)).sum(axis=-1)
        error = np.fmin.reduce(4 * M * np.exp(-2 * NODES * np.log(rho)) / (1 - 1 / rho), axis=0)
    return np.where(error < np.inf, error, np.inf)


def _flatness(
    logits: LogitPath,
    level: Reach,
    moved: Float[np.ndarray, "n C K"],
    spread: Float[np.ndarray, "n C K"],
    outer: Outer,
) -> Float[np.ndarray, " n"]:
    """1/H of the height at which attention, a unit, or the weights of outputs may have a pole."""
    attention = ((logits.swing + 2 * logits.turn) / math.pi).max(axis=-1)
    slope = moved + level.apart[:, None] * spread
    outputs = slope.mean(axis=-1).max(axis=-1) * (2 / math.pi if outer.curvature else 0.0)
    return np.maximum(attention + outputs, 1e-3)


def rounding_error(
    size: PathSize,
    panels: int,
    outer: Outer,
    *,
    logit_error: Float[np.ndarray, "n K"],
    value_error: Float[np.ndarray, "n C K"],
) -> Float[np.ndarray, " n"]:
    """A bound on what errors of logits and values, and rounding, do to Σ over positions of IG_t."""
    T, n = size.positions, panels * NODES
    # ε and η of what stands at a node: its ends, their roundings, and the rounding of the node.
    logits = size.logits
    of_units, of_slopes = logits.node_error
    off = logit_error + ROUNDING * (16 * logits.size + T + 16) + of_units
    # A slope errs by both ends; and where a unit's own slope is read elsewhere, by Y times ε.
    slope_off = ((2 + logits.turn) * off + of_slopes)[:, None]
    epsilon = off[:, None]
    eta = value_error + ROUNDING * (T + 16) * size.value
    apart = size.spread + 2 * eta
    f_off = eta + epsilon * apart
    steepest = size.steepest[:, None] + slope_off
    bracket = size.moved + 2 * eta + steepest * apart
    bracket_off = 2 * eta + slope_off * apart + steepest * (f_off + eta)
    # 64 units for the weights of the nodes, which NumPy has to 50 in all (a test checks it).
    each = bracket_off + (np.expm1(2 * epsilon) + ROUNDING * (n + T + 128)) * bracket
    weights = outer.weights(np.zeros(len(each)))
    weights_off = outer.curvature * f_off.mean(axis=-1).max(axis=-1, keepdims=True) + ROUNDING * 32
    total = (weights * each.mean(axis=-1) + weights_off * bracket.mean(axis=-1)).sum(axis=-1)
    return np.where(total < np.inf, total, np.inf)


@lru_cache(maxsize=64)
def nested_rules(n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "3 n"]]:
    """Gauss–Legendre nodes on [0, 1], with the weights of three rules on them.

    The first rule takes all nodes and is exact for polynomials of degree 2n − 1, the others take
    every other node (0, 2, … and 1, 3, …) and are exact for degree ⌊n/2⌋ − 1 at least. Where they
    differ little the first is right to far less than that; all are wrong where the nodes miss what
    there is. Domain: n ≥ 1; of one node the third rule has none.
    """
    # A rule of its own at n/2 nodes would cost half as much again: each node is a backward pass.
    # Two halves rather than one: by chance one of them may agree with the whole.
    at, weights = np.polynomial.legendre.leggauss(n)
    rules = np.stack([weights, np.zeros(n), np.zeros(n)])
    for rule, first in zip(rules[1:], (0, 1), strict=True):
        some = at[first::2]
        basis = np.polynomial.legendre.legvander(some, max(len(some) - 1, 0))
        whole = 2.0 * (np.arange(len(some)) == 0)  # ∫P_k is 2 for k = 0, else 0
        rule[first::2] = np.linalg.solve(basis.T[: len(some)], whole)
    return (at + 1) / 2, rules / 2
