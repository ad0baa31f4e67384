"""Attention, its two summaries over heads (Eq. 8, 10 and 11), and logits from hidden units."""

from typing import NamedTuple

from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace


def attention(logit: Float[Array, "*n K T"]) -> Float[Array, "*n K T"]:
    r"""Return the attention :math:`\alpha_t = e^{\ell_t} / \sum_s e^{\ell_s}`, without overflow."""
    xp = array_namespace(logit)
    g = xp.exp(logit - xp.max(logit, axis=-1, keepdims=True))
    return g / xp.sum(g, axis=-1, keepdims=True)


def head_outputs(alpha: Float[Array, "*n K T"], u: Float[Array, "*n K T"]) -> Float[Array, "*n K"]:
    r"""Return each head's output :math:`f_i = \sum_t \alpha_t u_t`.

    The model's output is the mean of these over heads.
    """
    return array_namespace(alpha).sum(alpha * u, axis=-1)


def mean_attention(alpha: Float[Array, "*n K T"]) -> Float[Array, "*n T"]:
    """Return α-avg, the mean attention over heads (Eq. 10).

    It is never negative, and it ignores the values that the heads average.
    """
    return array_namespace(alpha).mean(alpha, axis=-2)


def max_attention(alpha: Float[Array, "*n K T"]) -> Float[Array, "*n T"]:
    """Return α-max, the largest attention over heads (Eq. 11).

    It is never negative, and it ignores the values that the heads average.
    """
    return array_namespace(alpha).max(alpha, axis=-2)


def unit_logits(h: Float[Array, "*n d_h"], weight: Float[Array, "*#n d_h"]) -> Float[Array, "*n"]:
    r"""Return the logits :math:`\sum_a w_a \tanh h_a` of hidden units with inputs ``h``."""
    xp = array_namespace(h)
    return xp.sum(weight * xp.tanh(h), axis=-1)


def unit_slopes(
    h: Float[Array, "*n d_h"], weight: Float[Array, "*#n d_h"]
) -> Float[Array, "*n d_h"]:
    r"""Return :math:`w_a (1 - \tanh^2 h_a)`, the derivative of the logit by each unit's input.

    It is computed as 1 − tanh², which errs by a rounding of 1. With cosh it would overflow.
    """
    t = array_namespace(h).tanh(h)
    return weight * (1 - t * t)


def logits_and_slopes(
    h: Float[Array, "*n d_h"], weight: Float[Array, "*#n d_h"], y: Float[Array, "*#n d_h"]
) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    r"""Return the logits of hidden units and their slopes :math:`\sum_a w_a y_a (1 - \tanh^2 h_a)`.

    A slope is the derivative of the logit when the inputs of the units move by ``y``. Both results
    share one evaluation of tanh.
    """
    xp = array_namespace(h)
    t = xp.tanh(h)
    return xp.sum(weight * t, axis=-1), xp.sum((1 - t * t) * (weight * y), axis=-1)


class HiddenUnits(NamedTuple):
    """The hidden units of every head: their inputs ``h`` on a text, and their weights."""

    h: Float[Array, "*n K T d_h"]
    weight: Float[Array, "K d_h"]
    key: Float[Array, "K d_h d_e"]
    query: Float[Array, "K d_h d_e"]

    def output_gains(self, surplus: Float[Array, "*n K T"]) -> Float[Array, "*n K T d_h"]:
        """Return the derivative of each head's output by each unit's input.

        ``surplus`` is the derivative of the output by each logit.
        """
        return surplus[..., None] * unit_slopes(self.h, self.weight[:, None])
