r"""The attention that is farthest from a head's own and leaves its output as it is, exactly.

A head answers :math:`f_i = \sum_t \alpha_t u_t`, linear in its attention. Jain and Wallace (2019)
search for other weights with the same answer by gradient descent; here nothing is searched. A
divergence :math:`D(\tilde\alpha, \alpha)` that is convex in :math:`\tilde\alpha` is largest over

.. math:: \{\tilde\alpha \ge 0,\ \sum_t \tilde\alpha_t = 1,\ \sum_t \tilde\alpha_t u_t = f_i\}

at a vertex, and a vertex of a polytope with two equations has at most two non-zero weights: on a
position with :math:`u_s \le f_i` and one with :math:`u_t \ge f_i`. All such pairs are tried.
"""

__all__ = ["DIVERGENCES", "farthest", "farthest_of_all", "jensen_shannon", "total_variation"]

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


def farthest(
    alpha: Float[np.ndarray, " T"], u: Float[np.ndarray, " T"], divergence: str = "jensen-shannon"
) -> Float[np.ndarray, " T"]:
    """Return the weights farthest from ``alpha`` under which the head answers the same.

    Exact: the best of all O(T²) vertices.
    """
    excess = _excess(divergence)
    f = np.clip(alpha @ u, u.min(), u.max())  # rounding may carry f past the only value there is
    low, high = np.flatnonzero(u <= f), np.flatnonzero(u >= f)
    gap = u[high] - u[low][:, None]
    upper = np.divide(f - u[low][:, None], gap, out=np.zeros_like(gap), where=gap > 0)
    gain = excess(1 - upper, alpha[low][:, None]) + excess(upper, alpha[high])
    s, t = np.unravel_index(np.argmax(gain), gain.shape)
    found = np.zeros_like(alpha)
    found[high[t]] = upper[s, t]
    found[low[s]] += 1 - upper[s, t]
    return found


def farthest_of_all(
    alpha: Float[np.ndarray, " T"], divergence: str = "jensen-shannon"
) -> Float[np.ndarray, " T"]:
    """Return the weights farthest from ``alpha`` whatever the head answers: one position."""
    found = np.zeros_like(alpha)
    found[np.argmax(_excess(divergence)(np.ones_like(alpha), alpha))] = 1.0
    return found


Excess = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _excess(divergence: str) -> Excess:
    if divergence not in DIVERGENCES:
        raise InputError(unknown_name_message("divergence", divergence, DIVERGENCES))
    return _EXCESS[divergence]


def _towards_mean(
    a: Float[np.ndarray, "*#n"], b: Float[np.ndarray, "*#n"]
) -> Float[np.ndarray, "..."]:
    """Return a ln(2a / (a + b)), which is 0 at a = 0."""
    a, b = np.broadcast_arrays(a, b)
    ratio = np.divide(2 * a, a + b, out=np.ones(a.shape), where=a > 0)
    return a * np.log(ratio)


def _jensen_shannon_excess(weight: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return what a position with ``weight`` adds to 2 JSD over one with weight 0."""
    return _towards_mean(weight, alpha) + _towards_mean(alpha, weight) - alpha * np.log(2)


def _total_variation_excess(weight: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return np.abs(weight - alpha) - alpha


DIVERGENCES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "jensen-shannon": jensen_shannon,
    "total-variation": total_variation,
}
_EXCESS: dict[str, Excess] = {
    "jensen-shannon": _jensen_shannon_excess,
    "total-variation": _total_variation_excess,
}
