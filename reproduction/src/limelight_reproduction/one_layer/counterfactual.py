r"""Find the attention that is farthest from a head's attention and leaves its output unchanged.

The output of a head, :math:`f_i = \sum_t \alpha_t u_t`, is linear in its attention. Jain and
Wallace (2019) search for other weights with the same output by gradient descent. No search is
needed: a divergence :math:`D(\tilde\alpha, \alpha)` that is convex in :math:`\tilde\alpha` is
largest over

.. math:: \{\tilde\alpha \ge 0,\ \sum_t \tilde\alpha_t = 1,\ \sum_t \tilde\alpha_t u_t = f_i\}

at a vertex, and a vertex of a polytope with two equations has at most two non-zero weights: on a
position with :math:`u_s \le f_i` and a position with :math:`u_t \ge f_i`. All these pairs are
tried.
"""

__all__ = [
    "DIVERGENCES",
    "farthest_weights",
    "jensen_shannon",
    "total_variation",
    "unconstrained_farthest_weights",
]

from collections.abc import Callable

import numpy as np

from limelight import InputError
from limelight.errors import unknown_name_message
from limelight.shapes import Array, Float


def total_variation(
    a: Float[np.ndarray, "*#n T"], b: Float[np.ndarray, "*#n T"]
) -> Float[Array, "..."]:
    r"""Return :math:`\frac12 \sum_t |a_t - b_t|`, between 0 and 1."""
    return np.abs(a - b).sum(axis=-1) / 2


def jensen_shannon(
    a: Float[np.ndarray, "*#n T"], b: Float[np.ndarray, "*#n T"]
) -> Float[Array, "..."]:
    r"""Return the Jensen–Shannon divergence in nats, between 0 and :math:`\ln 2`."""
    return (_towards_mean(a, b) + _towards_mean(b, a)).sum(axis=-1) / 2


def farthest_weights(
    alpha: Float[np.ndarray, " T"], u: Float[np.ndarray, " T"], divergence: str = "jensen-shannon"
) -> Float[np.ndarray, " T"]:
    """Return the weights farthest from ``alpha`` that leave the output of the head unchanged.

    Exact: the best of all O(T²) vertices.
    """
    gain_per_position = _excess(divergence)
    f = np.clip(alpha @ u, u.min(), u.max())  # rounding may move f beyond the range of u
    low, high = np.flatnonzero(u <= f), np.flatnonzero(u >= f)
    gap = u[high] - u[low][:, None]
    upper = np.divide(f - u[low][:, None], gap, out=np.zeros_like(gap), where=gap > 0)
    gain = gain_per_position(1 - upper, alpha[low][:, None]) + gain_per_position(upper, alpha[high])
    s, t = np.unravel_index(np.argmax(gain), gain.shape)
    weights = np.zeros_like(alpha)
    weights[high[t]] = upper[s, t]
    weights[low[s]] += 1 - upper[s, t]
    return weights


def unconstrained_farthest_weights(
    alpha: Float[np.ndarray, " T"], divergence: str = "jensen-shannon"
) -> Float[np.ndarray, " T"]:
    """Return the weights farthest from ``alpha`` with any output. They are on one position."""
    weights = np.zeros_like(alpha)
    weights[np.argmax(_excess(divergence)(np.ones_like(alpha), alpha))] = 1.0
    return weights


Excess = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _excess(divergence: str) -> Excess:
    """Return the function that computes the gain of a position under ``divergence``."""
    if divergence not in DIVERGENCES:
        raise InputError(unknown_name_message("divergence", divergence, DIVERGENCES))
    return _EXCESS[divergence]


def _towards_mean(
    a: Float[np.ndarray, "*#n"], b: Float[np.ndarray, "*#n"]
) -> Float[np.ndarray, "..."]:
    """Return a ln(2a / (a + b)), with the limit 0 at a = 0."""
    a, b = np.broadcast_arrays(a, b)
    ratio = np.divide(2 * a, a + b, out=np.ones(a.shape), where=a > 0)
    return a * np.log(ratio)


def _jensen_shannon_excess(weight: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the increase of 2 JSD if a position has ``weight`` instead of weight 0."""
    return _towards_mean(weight, alpha) + _towards_mean(alpha, weight) - alpha * np.log(2)


def _total_variation_excess(weight: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the increase of Σ_t |a_t − b_t| if a position has ``weight`` instead of weight 0."""
    return np.abs(weight - alpha) - alpha


DIVERGENCES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "jensen-shannon": jensen_shannon,
    "total-variation": total_variation,
}
_EXCESS: dict[str, Excess] = {
    "jensen-shannon": _jensen_shannon_excess,
    "total-variation": _total_variation_excess,
}
