"""What rounding on the way from weights to tables does to everything computed from the tables.

Logits and values of a model are sums of products of its weights, each with a rounding error that
is known to be below a bound (``product_error``). An attention head averages values with weights
that are exponentials of logits, so errors ε of logits and η of values move its output by

    |f̂ − f| ≤ η + tanh(ε/2) · (max u − min u),

whatever is removed (``average_error``). Where hidden units make the logits, tanh carries errors on
at most as they are, and adds its own (``unit_logit_error``).
Statement and proof: ``docs/theorems/table-rounding.md``.
"""

import sys

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace

# Twice the unit roundoff: n operations err by n 2⁻⁵³/(1 − n 2⁻⁵³) relatively, so that n times this
# leaves half of it for the rounding of the bounds themselves.
ROUNDING = 2.0**-52
_EXPONENTIAL = 8 * ROUNDING  # NumPy and torch promise 4 units in the last place
_NORMAL = sys.float_info.min
_DENORMAL = 2.0**-1074  # what a number loses by underflow, at most


def product_error(
    x: Float[Array, "*n rows inner"],
    y: Float[Array, "*#n inner columns"],
    *,
    x_error: Float[Array, "*n rows inner"] | None = None,
    y_error: Float[Array, "*#n inner columns"] | None = None,
) -> Float[Array, "*n rows columns"]:
    """A bound on |fl(x y) − X Y| where |x − X| ≤ ``x_error`` and |y − Y| ≤ ``y_error`` (None: 0).

    |x| (γ|y| + δ_y) + δ_x (|y| + δ_y), γ = (inner + 2) 2⁻⁵², for sums in any order.
    """
    xp = array_namespace(x)
    inner = x.shape[-1]
    size = xp.abs(y)
    each = ROUNDING * (inner + 2) * size
    error = xp.abs(x) @ (each if y_error is None else each + y_error)
    if x_error is not None:
        error = error + x_error @ (size if y_error is None else size + y_error)
    return error * (1 + 4 * ROUNDING * (inner + 2)) + inner * _NORMAL


def unit_logit_error(weight: Float[Array, "*n d_h"]) -> Float[Array, "*n"]:
    """A bound on what rounding does to Σ_a w_a tanh h_a, the h being what they are.

    (d_h + 16) 2⁻⁵² Σ|w_a|: 8 for tanh, d_h + 2 for products and sum, the rest for reading a logit.
    """
    xp = array_namespace(weight)
    d_h = weight.shape[-1]
    return ROUNDING * (d_h + 16) * xp.sum(xp.abs(weight), axis=-1) + d_h * _NORMAL


def average_error(
    *,
    logit_error: Float[Array, "*n K"],
    value_error: Float[Array, "*n C K"],
    low: Float[Array, "*n C K"],
    high: Float[Array, "*n C K"],
    terms: int,
    smallest: Float[Array, "*n K"],
) -> Float[Array, "*n C K"]:
    """A bound on |f̂ − f| of every head, f = Σ g u/Σ g with g = exp(ℓ − top), whatever is removed.

    ``low`` ≤ û ≤ ``high`` are the values as computed, ``terms`` how many of them are added up, and
    ``smallest`` the least Σ g. Infinite where an error is, never NaN.
    """
    xp = array_namespace(low)
    size = xp.maximum(xp.abs(low), xp.abs(high))
    logit = (logit_error + _EXPONENTIAL)[..., None, :]
    moved = xp.tanh(logit / 2) * (high - low + 2 * value_error)
    added = 2 * ROUNDING * (terms + 4) * size
    sound = smallest >= _NORMAL
    least = xp.where(sound, smallest, xp.ones_like(smallest))
    lost = xp.where(sound, _DENORMAL / least, xp.full_like(least, xp.inf))[..., None, :]
    lost = lost * terms * (2 * size + 1)
    error = (value_error + moved + added + lost) * (1 + 16 * ROUNDING)
    return xp.where(error < xp.inf, error, xp.full_like(error, xp.inf))
