"""The number of panels for integrated gradients, and a proven bound on the scores in advance.

On the path from UNK to the text, values are linear in x. Logits are analytic around the path,
linear or by hidden units (`logit_path`), and so is attention. Where |Im x| ≤ H and the imaginary
parts of a head's logits lie within a range of 2φ < π,

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
from limelight.theory.logit_path import LogitBounds, LogitPath
from limelight.theory.namespace import array_namespace, host_array
from limelight.theory.table_rounding import ROUNDING

NODES = 32  # of Gauss–Legendre on each panel
MAX_PANELS = 4096
_HEIGHTS = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97])


class DerivativeBounds(NamedTuple):
    """Bounds on the derivatives of the explained number F by the outputs f.

    ``weights`` maps ψ to a bound on |∂F/∂f_c| where no output has an imaginary part beyond ψ.
    ``curvature`` bounds Σ_k |∂²F/∂f_c ∂f_k|. It is 0 for a logit.
    """

    weights: Callable[[Float[np.ndarray, "*n"]], Float[np.ndarray, "*n C"]]
    curvature: float


class PathBounds(NamedTuple):
    """Bounds on logits and values along the path, per document, class and head."""

    logits: LogitPath
    heights: Float[np.ndarray, "h n"]  # H of several ellipses
    logit_bounds: LogitBounds  # at each height
    max_slope: Float[np.ndarray, "n K"]  # largest |ℓ′| on the path itself
    max_change: Float[np.ndarray, "n C K"]  # largest |Δu|
    spread: Float[np.ndarray, "n C K"]  # the ranges of u at both ends, added
    max_value: Float[np.ndarray, "n C K"]  # largest |u|
    positions: int


def path_bounds(
    logits: LogitPath,
    u: Float[Array, "n C K T"],
    base_u: Float[Array, "n C K T"],
    derivative_bounds: DerivativeBounds,
) -> PathBounds:
    """Return bounds along a path from its logits, and its values at both ends.

    Parameters
    ----------
    logits
        The attention logits along the path.
    u, base_u
        The values at the end and at the beginning of the path.
    derivative_bounds
        Bounds on the derivatives of the explained number.

    Returns
    -------
    The bounds, which `quadrature_error` and `rounding_error` use.
    """
    xp = array_namespace(u)

    def max_size(x: Array) -> Array:
        """Return the largest absolute value over the positions."""
        return xp.max(xp.abs(x), axis=-1)

    def value_range(x: Array) -> Array:
        """Return the largest minus the smallest value over the positions."""
        return xp.max(x, axis=-1) - xp.min(x, axis=-1)

    max_change = host_array(max_size(u - base_u))
    spread = host_array(value_range(u) + value_range(base_u))
    real_bounds = logits.bounds(np.zeros(len(max_change)))
    pole = _inverse_pole_height(logits, real_bounds, max_change, spread, derivative_bounds)
    heights = _HEIGHTS[:, None] / pole
    return PathBounds(
        logits=logits,
        heights=heights,
        logit_bounds=logits.bounds(heights),
        max_slope=real_bounds.max_slope,
        max_change=max_change,
        spread=spread,
        max_value=host_array(xp.maximum(max_size(u), max_size(base_u))),
        positions=int(u.shape[-1]),
    )


def panels_needed(
    bounds: PathBounds, derivative_bounds: DerivativeBounds, *, tolerance: Float[np.ndarray, " n"]
) -> int:
    """Return the fewest panels with a proven error of at most ``tolerance``, or the maximum."""
    # A panel is enough for a slope range of about 16. The search starts below that and adds a
    # quarter of the panels in each step.
    panels = max(1, min(MAX_PANELS, int(bounds.logits.slope_range.max() / 32)))
    while (
        panels < MAX_PANELS
        and (quadrature_error(bounds, panels, derivative_bounds) > tolerance).any()
    ):
        panels = min(MAX_PANELS, panels + 1 + panels // 4)
    return panels


def quadrature_error(
    bounds: PathBounds, panels: int, derivative_bounds: DerivativeBounds
) -> Float[np.ndarray, " n"]:
    """Return a bound on the quadrature error of Σ IG_t over any positions.

    Each panel has ``NODES`` nodes. The bound is 4 M ρ^{−2m}/(1 − 1/ρ), with M a bound on the
    integrand on ellipses of radius ρ around the panels. It is the least over several ρ.
    """
    H = bounds.heights  # half of an ellipse's height
    b = 2 * H * panels
    rho = b + np.sqrt(1 + b * b)
    beyond = 1 + (rho - 1) / (2 * panels)  # at least |x| and |1 − x| on the ellipse
    phase, deviation, max_slope = (x[..., None, :] for x in bounds.logit_bounds)
    with np.errstate(invalid="ignore", over="ignore"):  # no bound beyond a pole: ∞ · 0
        secant = np.where(phase < math.pi / 2, 1 / np.cos(phase), np.inf)
        difference = secant * beyond[..., None, None] * bounds.spread  # at least |u_t − f_i|
        slope = secant * (bounds.max_change + deviation * difference)  # at least |f_i′|
        bracket = secant * (bounds.max_change + max_slope * difference)
        # f is real on the path, so at height H its imaginary part is at most H max|f′|.
        imaginary = H * slope.mean(axis=-1).max(axis=-1)
        M = (derivative_bounds.weights(imaginary) * bracket.mean(axis=-1)).sum(axis=-1)
        error = np.fmin.reduce(4 * M * np.exp(-2 * NODES * np.log(rho)) / (1 - 1 / rho), axis=0)
    return np.where(error < np.inf, error, np.inf)


def _inverse_pole_height(
    logits: LogitPath,
    real_bounds: LogitBounds,
    max_change: Float[np.ndarray, "n C K"],
    spread: Float[np.ndarray, "n C K"],
    derivative_bounds: DerivativeBounds,
) -> Float[np.ndarray, " n"]:
    """Return 1/H for the lowest height H of a possible pole.

    Attention, hidden units and the weights of outputs may have poles.
    """
    attention = ((logits.slope_range + 2 * logits.max_unit_change) / math.pi).max(axis=-1)
    slope = max_change + real_bounds.slope_deviation[:, None] * spread
    outputs = slope.mean(axis=-1).max(axis=-1) * (
        2 / math.pi if derivative_bounds.curvature else 0.0
    )
    return np.maximum(attention + outputs, 1e-3)


def rounding_error(
    bounds: PathBounds,
    panels: int,
    derivative_bounds: DerivativeBounds,
    *,
    logit_error: Float[np.ndarray, "n K"],
    value_error: Float[np.ndarray, "n C K"],
) -> Float[np.ndarray, " n"]:
    """Return a bound on the error of Σ IG_t over any positions from rounding and inexact inputs.

    Parameters
    ----------
    bounds
        Bounds on logits and values along the path.
    panels
        The number of panels.
    derivative_bounds
        Bounds on the derivatives of the explained number.
    logit_error, value_error
        Bounds on the errors of the logits and of the values.

    Returns
    -------
    One bound per document.
    """
    T, n = bounds.positions, panels * NODES
    # ε and η of the numbers at a node: errors of both ends, their rounding, that of the node.
    logits = bounds.logits
    unit_error, unit_slope_error = logits.node_error
    epsilon = logit_error + ROUNDING * (16 * logits.max_logit + T + 16) + unit_error
    # The error of a slope comes from both ends. For units, an error of the input adds Y times ε.
    slope_error = ((2 + logits.max_unit_change) * epsilon + unit_slope_error)[:, None]
    epsilon = epsilon[:, None]
    eta = value_error + ROUNDING * (T + 16) * bounds.max_value
    difference = bounds.spread + 2 * eta
    f_error = eta + epsilon * difference
    max_slope = bounds.max_slope[:, None] + slope_error
    bracket = bounds.max_change + 2 * eta + max_slope * difference
    bracket_error = 2 * eta + slope_error * difference + max_slope * (f_error + eta)
    # 64 units for the weights of the nodes, which NumPy has to 50 in all (a test checks it).
    head_error = bracket_error + (np.expm1(2 * epsilon) + ROUNDING * (n + T + 128)) * bracket
    weights = derivative_bounds.weights(np.zeros(len(head_error)))
    max_f_error = f_error.mean(axis=-1).max(axis=-1, keepdims=True)
    weight_error = derivative_bounds.curvature * max_f_error + ROUNDING * 32
    total = (weights * head_error.mean(axis=-1) + weight_error * bracket.mean(axis=-1)).sum(axis=-1)
    return np.where(total < np.inf, total, np.inf)


@lru_cache(maxsize=64)
def nested_rules(n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "3 n"]]:
    """Return Gauss–Legendre nodes on [0, 1], with the weights of three rules on these nodes.

    The first rule uses all nodes and is exact for polynomials of degree 2n − 1. The other two use
    every second node (0, 2, … and 1, 3, …) and are exact for degree ⌊n/2⌋ − 1 at least. If the
    rules differ little, the error of the first is much smaller than the difference. All three err
    if the nodes miss a narrow peak. Domain: n ≥ 1. For n = 1 the third rule has no node.
    """
    # A separate rule with n/2 nodes would cost 50 % more: each node is a backward pass. There are
    # two half rules, since a single one may agree with the full rule by chance.
    nodes, weights = np.polynomial.legendre.leggauss(n)
    rules = np.stack([weights, np.zeros(n), np.zeros(n)])
    for rule, first in zip(rules[1:], (0, 1), strict=True):
        half = nodes[first::2]
        basis = np.polynomial.legendre.legvander(half, max(len(half) - 1, 0))
        integrals = 2.0 * (np.arange(len(half)) == 0)  # ∫P_k is 2 for k = 0, else 0
        rule[first::2] = np.linalg.solve(basis.T[: len(half)], integrals)
    return (nodes + 1) / 2, rules / 2
