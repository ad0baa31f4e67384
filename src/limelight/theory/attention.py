"""Attention, its two summaries over heads (Eq. 8, 10 and 11), and logits that hidden units make."""

from typing import NamedTuple

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace


def attention(logit: Float[Array, "*n K T"]) -> Float[Array, "*n K T"]:
    r"""Return :math:`\alpha_t = e^{\ell_t} / \sum_s e^{\ell_s}`, for logits of any size."""
    xp = array_namespace(logit)
    g = xp.exp(logit - xp.max(logit, axis=-1, keepdims=True))
    return g / xp.sum(g, axis=-1, keepdims=True)


def head_outputs(alpha: Float[Array, "*n K T"], u: Float[Array, "*n K T"]) -> Float[Array, "*n K"]:
    r"""Return :math:`f_i = \sum_t \alpha_t u_t`; the model's output is their mean over heads."""
    return array_namespace(alpha).sum(alpha * u, axis=-1)


def mean_attention(alpha: Float[Array, "*n K T"]) -> Float[Array, "*n T"]:
    """Return α-avg (Eq. 10). Non-negative, and blind to what the heads do with the values."""
    return array_namespace(alpha).mean(alpha, axis=-2)


def max_attention(alpha: Float[Array, "*n K T"]) -> Float[Array, "*n T"]:
    """Return α-max (Eq. 11). Non-negative, and blind to what the heads do with the values."""
    return array_namespace(alpha).max(alpha, axis=-2)


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
