"""Bounds on the rounding errors of tables, and on their effect on numbers from the tables.

Logits and values of a model are sums of products of its weights, each with a rounding error that
is below a proven bound (``product_error``). An attention head averages values with weights
that are exponentials of logits, so errors ε of logits and η of values change its output by

    |f̂ − f| ≤ η + tanh(ε/2) · (max u − min u),

for every set of removed words (``average_error``). If hidden units make the logits, tanh does not
increase the errors of its arguments, and adds its own rounding (``unit_logit_error``).
Statement and proof: ``docs/theorems/table-rounding.md``.
"""

import sys

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace

# Twice the unit roundoff: n operations have a relative error of n 2⁻⁵³/(1 − n 2⁻⁵³). So n times
# this constant leaves half of it for the rounding of the bounds themselves.
ROUNDING = 2.0**-52
_EXPONENTIAL = 8 * ROUNDING  # NumPy and torch promise 4 units in the last place
_SMALLEST_NORMAL = sys.float_info.min
_SMALLEST_DENORMAL = 2.0**-1074  # the largest error by underflow


def product_error(
    x: Float[Array, "*n rows inner"],
    y: Float[Array, "*#n inner columns"],
    *,
    x_error: Float[Array, "*n rows inner"] | None = None,
    y_error: Float[Array, "*#n inner columns"] | None = None,
) -> Float[Array, "*n rows columns"]:
    """Return a bound on the error of a computed matrix product, |fl(x y) − X Y|.

    The bound is |x| (γ|y| + δ_y) + δ_x (|y| + δ_y), γ = (inner + 2) 2⁻⁵², for sums in any order.

    Parameters
    ----------
    x, y
        The factors, as they are stored.
    x_error, y_error
        Bounds δ_x ≥ |x − X| and δ_y ≥ |y − Y| on the errors of the factors. None means 0.

    Returns
    -------
    One bound per number of the product.
    """
    xp = array_namespace(x)
    inner = x.shape[-1]
    size = xp.abs(y)
    rounding = ROUNDING * (inner + 2) * size
    error = xp.abs(x) @ (rounding if y_error is None else rounding + y_error)
    if x_error is not None:
        error = error + x_error @ (size if y_error is None else size + y_error)
    return error * (1 + 4 * ROUNDING * (inner + 2)) + inner * _SMALLEST_NORMAL


def unit_logit_error(weight: Float[Array, "*n d_h"]) -> Float[Array, "*n"]:
    """Return a bound on the rounding error of Σ_a w_a tanh h_a for exact h.

    It is (d_h + 16) 2⁻⁵² Σ|w_a|: 8 for tanh, d_h + 2 for products and sum, 6 for reading a logit.
    """
    xp = array_namespace(weight)
    d_h = weight.shape[-1]
    return ROUNDING * (d_h + 16) * xp.sum(xp.abs(weight), axis=-1) + d_h * _SMALLEST_NORMAL


def average_error(
    *,
    logit_error: Float[Array, "*n K"],
    value_error: Float[Array, "*n C K"],
    low: Float[Array, "*n C K"],
    high: Float[Array, "*n C K"],
    terms: int,
    smallest: Float[Array, "*n K"],
) -> Float[Array, "*n C K"]:
    """Return a bound on the error |f̂ − f| of every head for every set of removed words.

    A head is f = Σ g u/Σ g with g = exp(ℓ − top).

    Parameters
    ----------
    logit_error, value_error
        Bounds ε and η on the errors of the logits and of the values.
    low, high
        The range of the computed values.
    terms
        The number of values in a sum.
    smallest
        The least Σ g over all sets of removed words.

    Returns
    -------
    One bound per class and head. It is infinite if an error is infinite, and never NaN.
    """
    xp = array_namespace(low)
    size = xp.maximum(xp.abs(low), xp.abs(high))
    logit = (logit_error + _EXPONENTIAL)[..., None, :]
    moved_value = xp.tanh(logit / 2) * (high - low + 2 * value_error)
    sum_error = 2 * ROUNDING * (terms + 4) * size
    is_normal = smallest >= _SMALLEST_NORMAL
    least = xp.where(is_normal, smallest, xp.ones_like(smallest))
    underflow = xp.where(is_normal, _SMALLEST_DENORMAL / least, xp.full_like(least, xp.inf))[
        ..., None, :
    ]
    underflow = underflow * terms * (2 * size + 1)
    error = (value_error + moved_value + sum_error + underflow) * (1 + 16 * ROUNDING)
    return xp.where(error < xp.inf, error, xp.full_like(error, xp.inf))
