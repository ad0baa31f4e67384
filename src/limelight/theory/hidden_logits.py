r"""Logits that hidden units make: additive attention (Bahdanau et al., 2015).

A head has units with weights :math:`w_a`, each given a number h that is affine in the embedded
token; its logit is :math:`\sum_a w_a \tanh h_a`, besides what a dot product gives.
"""

__all__ = ["HiddenUnits", "moving_logits", "unit_logits", "unit_slopes"]

from typing import NamedTuple

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace


def unit_logits(h: Float[Array, "*n d_h"], weight: Float[Array, "*#n d_h"]) -> Float[Array, "*n"]:
    r"""Return :math:`\sum_a w_a \tanh h_a`."""
    xp = array_namespace(h)
    return xp.sum(weight * xp.tanh(h), axis=-1)


def unit_slopes(
    h: Float[Array, "*n d_h"], weight: Float[Array, "*#n d_h"]
) -> Float[Array, "*n d_h"]:
    r"""Return :math:`w_a (1 - \tanh^2 h_a)`, the derivative of the logit by what a unit is given.

    As 1 − tanh², whose error is a rounding of 1, never of cosh, which overflows.
    """
    t = array_namespace(h).tanh(h)
    return weight * (1 - t * t)


def moving_logits(
    h: Float[Array, "*n d_h"], weight: Float[Array, "*#n d_h"], y: Float[Array, "*#n d_h"]
) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    r"""Return the logits of units and :math:`\sum_a w_a y_a (1 - \tanh^2 h_a)`, of one tanh.

    The latter are the logits' slopes where what the units are given moves by y.
    """
    xp = array_namespace(h)
    t = xp.tanh(h)
    return xp.sum(weight * t, axis=-1), xp.sum((1 - t * t) * (weight * y), axis=-1)


class HiddenUnits(NamedTuple):
    """The units of every head at a text: what they are given, and how they read an embedding."""

    h: Float[Array, "*n K T d_h"]
    weight: Float[Array, "K d_h"]
    key: Float[Array, "K d_h d_e"]
    query: Float[Array, "K d_h d_e"]

    def passed(self, surplus: Float[Array, "*n K T"]) -> Float[Array, "*n K T d_h"]:
        """Return what a head's output gains by each unit, given what it gains by each logit."""
        return surplus[..., None] * unit_slopes(self.h, self.weight[:, None])
