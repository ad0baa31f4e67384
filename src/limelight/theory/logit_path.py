r"""Attention logits on the path from one text to another, and bounds on them in the complex plane.

Embeddings change linearly, so a logit is :math:`\ell(x) = \ell_0 + x \Delta\ell`. If hidden units
make it, it is

.. math:: \ell(x) = \ell_0 + x \Delta\ell + \sum_a w_a \tanh(h_a + x y_a) .

Statement and proof of the bounds: ``docs/theorems/integrated-gradients.md``.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limelight.shapes import Array, Float, Int
from limelight.theory.attention import logits_and_slopes
from limelight.theory.namespace import array_namespace, host_array
from limelight.theory.table_rounding import ROUNDING, unit_logit_error
from limelight.threads import cached_property


class UnitPath(NamedTuple):
    """The inputs of hidden units at both ends of the path, and their weights in a logit.

    They are stored for ``positions`` only. At other positions the units do not change.
    """

    positions: Int[Array, " S"]
    start: Float[Array, "n K S d_h"]
    end: Float[Array, "n K S d_h"]
    weight: Float[Array, "K d_h"]


class LogitBounds(NamedTuple):
    """Bounds on the logits of each head at heights |Im x| ≤ H."""

    # φ: half the range of the imaginary parts of a head's logits
    phase: Float[np.ndarray, "*h n K"]
    # |ℓ′_t − c|, with the same c for all positions t
    slope_deviation: Float[np.ndarray, "*#h n K"]
    max_slope: Float[np.ndarray, "*#h n K"]  # |ℓ′_t|


@dataclass(frozen=True, eq=False)
class LogitPath:
    """Logits of n documents on the path from ``start`` to ``end``, with optional hidden units."""

    start: Float[Array, "n K T"]
    end: Float[Array, "n K T"]
    units: UnitPath | None = None

    def evaluate(
        self, x: Float[Array, "*m 1 1 1"]
    ) -> tuple[Float[Array, "*m n K T"], Float[Array, "*#m n K T"]]:
        """Return the logits at ``x`` and their slopes, which are constant without hidden units."""
        change = self.end - self.start
        logit, slope = self.start + x * change, change
        if (units := self.units) is None:
            return logit, slope
        slope, y = array_namespace(logit).zeros_like(logit) + slope, units.end - units.start
        # One x at a time: units need d_h times the memory of logits, and so they fit in the cache.
        for node, position in enumerate(x[..., None]):
            unit_logit, unit_slope = logits_and_slopes(
                units.start + position * y, units.weight[:, None], y
            )
            logit[node][..., units.positions] += unit_logit
            slope[node][..., units.positions] += unit_slope
        return logit, slope

    def bounds(self, H: Float[np.ndarray, "*h n"]) -> LogitBounds:
        r"""Return the bounds for heights up to H of each document, infinite beyond a unit's pole.

        With :math:`P_t` and :math:`N_t` the sums of :math:`|w_a| \tan(H |y_a|)` over the units with
        :math:`w_a y_a > 0` and < 0,

        .. math:: 2 \varphi = \max_t (H \Delta\ell_t + P_t) + \max_t (N_t - H \Delta\ell_t),
            \quad |\ell'_t| \le |\Delta\ell_t| + \sum_a |w_a y_a| \sec^2(H |y_a|) .

        Domain: H ≥ 0.
        """
        change = host_array(self.end - self.start)
        up, down, slope = self._unit_bounds(H)
        risen = H[..., None, None] * change
        spread = change.max(axis=-1) - change.min(axis=-1)
        return LogitBounds(
            phase=((risen + up).max(axis=-1) + (down - risen).max(axis=-1)) / 2,
            slope_deviation=spread / 2 + slope.max(axis=-1),
            max_slope=(np.abs(change) + slope).max(axis=-1),
        )

    def _unit_bounds(self, H: Float[np.ndarray, " *h n"]) -> Float[np.ndarray, " 3 *h_n_K_T"]:
        """Return P_t, N_t and the bound of the units' slopes at height H."""
        weight, y = self._weights_and_changes
        slope = np.tan(H[..., None, None, None] * y)
        signed = weight * slope  # tan is odd: the sign is that of w y
        bounds = np.stack(
            [
                np.maximum(signed, 0).sum(axis=-1),
                np.maximum(-signed, 0).sum(axis=-1),
                (np.abs(weight * y) * (1 + slope * slope)).sum(axis=-1),
            ]
        )
        is_below_poles = (H[..., None] * self.max_unit_change < math.pi / 2)[..., None]
        return np.where(is_below_poles, self._scatter_positions(bounds), np.inf)

    def _scatter_positions(self, x: Float[np.ndarray, "*n S"]) -> Float[np.ndarray, "*n T"]:
        """Return numbers of the units' positions as numbers of all positions, 0 elsewhere."""
        scattered = np.zeros((*x.shape[:-1], self.start.shape[-1]))
        if self.units is not None:
            scattered[..., host_array(self.units.positions)] = x
        return scattered

    @cached_property
    def max_unit_change(self) -> Float[np.ndarray, "n K"]:
        """Return Y, the largest change |y_a| of the input of a unit."""
        weight, y = self._weights_and_changes
        return (np.abs(y) * (weight != 0)).max(axis=(-2, -1), initial=0)

    @cached_property
    def slope_range(self) -> Float[np.ndarray, "n K"]:
        """Return S, the length of a range with all slopes of a head's logits: 2φ/H for small H."""
        change, (weight, y) = host_array(self.end - self.start), self._weights_and_changes
        up, down = (
            self._scatter_positions(np.maximum(x * y, 0).sum(axis=-1)) for x in (weight, -weight)
        )
        return (change + up).max(axis=-1) + (down - change).max(axis=-1)

    @cached_property
    def _weights_and_changes(self) -> tuple[Float[np.ndarray, "K 1 d_h"], np.ndarray]:
        """Return w_a and y_a, which are empty arrays without hidden units."""
        if self.units is None:
            return np.zeros((self.start.shape[1], 1, 0)), np.zeros((*self.start.shape[:2], 0, 0))
        units = self.units
        return host_array(units.weight)[:, None], host_array(units.end - units.start)

    @cached_property
    def max_logit(self) -> Float[np.ndarray, "n K"]:
        """Return a bound on |ℓ| on the path, to which a unit adds at most its absolute weight."""
        ends = (np.abs(host_array(x)).max(axis=-1) for x in (self.start, self.end))
        return np.maximum(*ends) + np.abs(self._weights_and_changes[0]).sum(axis=(-2, -1))

    @cached_property
    def node_error(self) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n K"]]:
        """Return the rounding errors of logits and slopes at a node that hidden units cause."""
        weight, y = self._weights_and_changes
        inputs = () if self.units is None else (self.units.start, self.units.end)
        sizes = sum((np.abs(host_array(h)) for h in inputs), np.zeros_like(y))
        logit_size = (np.abs(weight) * sizes).sum(axis=-1).max(axis=-1, initial=0)
        slope_size = np.abs(weight * y).sum(axis=-1).max(axis=-1, initial=0)
        sum_error = unit_logit_error(weight[:, 0])
        return 3 * ROUNDING * logit_size + sum_error, ROUNDING * (
            weight.shape[-1] + 24
        ) * slope_size
