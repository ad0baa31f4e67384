"""Attention and its two summaries over heads (Eq. 8, 10 and 11)."""

__all__ = ["attention", "head_outputs", "max_attention", "mean_attention"]

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
