r"""Attention logits on the way from one text to another, and how far they reach off the real line.

Embeddings move in a straight line, so a logit is :math:`\ell(x) = \ell_0 + x \Delta\ell`, and where
hidden units make it

.. math:: \ell(x) = \ell_0 + x \Delta\ell + \sum_a w_a \tanh(h_a + x y_a) .

Statement and proof of the bounds: ``docs/theorems/integrated-gradients.md``.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from limelight.shapes import Array, Float, Int
from limelight.theory.attention import moving_logits
from limelight.theory.namespace import array_namespace, host_array
from limelight.theory.table_rounding import ROUNDING, unit_logit_error
from limelight.threads import cached_property


class UnitPath(NamedTuple):
    """What hidden units are given at both ends of the way, and the weights of a logit for them.

    At the positions ``places`` alone: elsewhere units make the same logits all the way.
    """

    places: Int[Array, " S"]
    start: Float[Array, "n K S d_h"]
    end: Float[Array, "n K S d_h"]
    weight: Float[Array, "K d_h"]


class Reach(NamedTuple):
    """What logits do at heights |Im x| ≤ H: bounds for each head."""

    phase: Float[
        np.ndarray, "*h n K"
    ]  # φ: half the range of the imaginary parts of a head's logits
    apart: Float[np.ndarray, "*#h n K"]  # |ℓ′_t − c|, c one number for all positions t
    steepest: Float[np.ndarray, "*#h n K"]  # |ℓ′_t|


@dataclass(frozen=True, eq=False)
class LogitPath:
    """Logits of n documents on the way from ``start`` to ``end``, and of units that add to them."""

    start: Float[Array, "n K T"]
    end: Float[Array, "n K T"]
    units: UnitPath | None = None

    def at(
        self, x: Float[Array, "*m 1 1 1"]
    ) -> tuple[Float[Array, "*m n K T"], Float[Array, "*#m n K T"]]:
        """Return the logits at ``x`` and their slopes, which dot products have once for all."""
        moved = self.end - self.start
        logit, slope = self.start + x * moved, moved
        if (units := self.units) is None:
            return logit, slope
        slope, y = array_namespace(logit).zeros_like(logit) + slope, units.end - units.start
        # One x at a time: units take d_h times the room of logits, and so stay inside the cache.
        for node, at in enumerate(x[..., None]):
            gained, faster = moving_logits(units.start + at * y, units.weight[:, None], y)
            logit[node][..., units.places] += gained
            slope[node][..., units.places] += faster
        return logit, slope

    def reach(self, H: Float[np.ndarray, "*h n"]) -> Reach:
        r"""Return the bounds at heights up to H of each document; infinite where a unit has a pole.

        With :math:`P_t` and :math:`N_t` the sums of :math:`|w_a| \tan(H |y_a|)` over the units with
        :math:`w_a y_a > 0` and < 0,

        .. math:: 2 \varphi = \max_t (H \Delta\ell_t + P_t) + \max_t (N_t - H \Delta\ell_t),
            \quad |\ell'_t| \le |\Delta\ell_t| + \sum_a |w_a y_a| \sec^2(H |y_a|) .

        Domain: H ≥ 0.
        """
        moved = host_array(self.end - self.start)
        up, down, steep = self._of_units(H)
        risen = H[..., None, None] * moved
        swing = moved.max(axis=-1) - moved.min(axis=-1)
        return Reach(
            phase=((risen + up).max(axis=-1) + (down - risen).max(axis=-1)) / 2,
            apart=swing / 2 + steep.max(axis=-1),
            steepest=(np.abs(moved) + steep).max(axis=-1),
        )

    def _of_units(self, H: Float[np.ndarray, "*h n"]) -> Float[np.ndarray, "3 *h_n_K_T"]:
        """P_t, N_t and the bound of the units' slopes at height H."""
        weight, y = self._weight_and_moves
        slope = np.tan(H[..., None, None, None] * y)
        lean = weight * slope  # tan is odd: the sign is that of w y
        known = np.stack(
            [
                np.maximum(lean, 0).sum(axis=-1),
                np.maximum(-lean, 0).sum(axis=-1),
                (np.abs(weight * y) * (1 + slope * slope)).sum(axis=-1),
            ]
        )
        below = (H[..., None] * self.turn < math.pi / 2)[..., None]
        return np.where(below, self._placed(known), np.inf)

    def _placed(self, x: Float[np.ndarray, "*n S"]) -> Float[np.ndarray, "*n T"]:
        """Numbers of the units' positions among all, 0 elsewhere."""
        every = np.zeros((*x.shape[:-1], self.start.shape[-1]))
        if self.units is not None:
            every[..., host_array(self.units.places)] = x
        return every

    @cached_property
    def turn(self) -> Float[np.ndarray, "n K"]:
        """Y, the largest |y_a|: how far what a unit is given moves."""
        weight, y = self._weight_and_moves
        return (np.abs(y) * (weight != 0)).max(axis=(-2, -1), initial=0)

    @cached_property
    def swing(self) -> Float[np.ndarray, "n K"]:
        """S: the range within which the slopes of a head's logits lie, 2φ/H of small H."""
        moved, (weight, y) = host_array(self.end - self.start), self._weight_and_moves
        up, down = (self._placed(np.maximum(x * y, 0).sum(axis=-1)) for x in (weight, -weight))
        return (moved + up).max(axis=-1) + (down - moved).max(axis=-1)

    @cached_property
    def _weight_and_moves(self) -> tuple[Float[np.ndarray, "K 1 d_h"], np.ndarray]:
        """w_a and y_a; without units, of none at no position."""
        if self.units is None:
            return np.zeros((self.start.shape[1], 1, 0)), np.zeros((*self.start.shape[:2], 0, 0))
        units = self.units
        return host_array(units.weight)[:, None], host_array(units.end - units.start)

    @cached_property
    def size(self) -> Float[np.ndarray, "n K"]:
        """The largest |ℓ| that can be on the way: of a unit no more than its weight."""
        ends = (np.abs(host_array(x)).max(axis=-1) for x in (self.start, self.end))
        return np.maximum(*ends) + np.abs(self._weight_and_moves[0]).sum(axis=(-2, -1))

    @cached_property
    def node_error(self) -> tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n K"]]:
        """What rounding adds to the logits and to their slopes at a node, by hidden units."""
        weight, y = self._weight_and_moves
        both = () if self.units is None else (self.units.start, self.units.end)
        ends = sum((np.abs(host_array(h)) for h in both), np.zeros_like(y))
        given = (np.abs(weight) * ends).sum(axis=-1).max(axis=-1, initial=0)
        steep = np.abs(weight * y).sum(axis=-1).max(axis=-1, initial=0)
        own = unit_logit_error(weight[:, 0])
        return 3 * ROUNDING * given + own, ROUNDING * (weight.shape[-1] + 24) * steep
