r"""The gradient of the model at every embedded token (Theorem 4.1, and the row it leaves out)."""

from typing import Any

from limelight.errors import InputError, unknown_name_message
from limelight.shapes import Array, Float
from limelight.theory.attention import HiddenUnits, head_outputs
from limelight.theory.namespace import array_namespace


def head_gradients(
    alpha: Float[Array, "*n K T"],
    u: Float[Array, "*n K T"],
    e: Float[Array, "*n T d_e"],
    *,
    key: Float[Array, "K d_e"],
    value: Float[Array, "*#n K d_e"],
    query: Float[Array, "K d_e d_e"],
    units: HiddenUnits | None = None,
) -> Float[Array, "*n K T d_e"]:
    r"""Return the gradient of every head's output at every position of the window.

    [cls] is included. With ``value`` = :math:`W_v^\top W_\ell^\top`,
    ``key`` = :math:`W_k^\top q / \sqrt{d_{att}}` and
    ``query`` = :math:`W_q^\top W_k / \sqrt{d_{att}}`,

    .. math::
        \nabla_{e_t} f_i = \alpha_t \bigl( W_v^\top W_\ell^\top
        + \tfrac{1}{\sqrt{d_{att}}} (u_t - f_i) W_k^\top q \bigr)
        + 1_{t = 0} \tfrac{1}{\sqrt{d_{att}}} W_q^\top \textstyle\sum_s \alpha_s (u_s - f_i) k_s .

    Exact. The last term is not in the paper: if [cls] moves, the query moves. Hidden ``units``
    with weights :math:`w_a` add :math:`\sum_a w_a (1 - \tanh^2 h_a)` times their own keys to the
    first term, times their own queries to the last.
    Statement, proof and figure: ``docs/theorems/gradient.md``.

    Parameters
    ----------
    alpha
        Attention of [cls] to each position t.
    u
        Value of each position, read by the output.
    e
        Embeddings with positions.
    key, value, query
        The maps above.
    units
        Hidden units of the logits. None means that logits are linear.

    Returns
    -------
    The gradient of each head at each position.
    """
    xp = array_namespace(alpha)
    surplus = alpha * (u - head_outputs(alpha, u)[..., None])
    rows = alpha[..., None] * value[..., :, None, :] + surplus[..., None] * key[:, None, :]
    # The term of [cls]: the derivative of every head's output by its query.
    pull = xp.matmul(query, xp.matmul(surplus, e)[..., None])[..., 0]
    if units is not None:
        gains = units.output_gains(surplus)
        rows = rows + xp.matmul(gains, units.key)
        # Each unit reads the query at every position.
        pull = pull + xp.matmul(xp.sum(gains, axis=-2)[..., None, :], units.query)[..., 0, :]
    return xp.concat([rows[..., :1, :] + pull[..., None, :], rows[..., 1:, :]], axis=-2)


def token_gradients(
    alpha: Float[Array, "*n K T"],
    surplus: Float[Array, "*n K T"],
    *,
    key: Float[Array, "K d_e"],
    value: Float[Array, "*#n K d_e"],
    units: HiddenUnits | None = None,
) -> Float[Array, "*n T d_e"]:
    r"""Return the gradient of the model at positions other than [cls] (Theorem 4.1).

    ``surplus`` is :math:`\alpha_t (u_t - f_i)`, the weighted excess of the value of t over the
    average value. Two products with (K, d_e) matrices are enough: the heads' gradients are never
    stored. Statement: ``docs/theorems/gradient.md``.

    Parameters
    ----------
    alpha
        Attention of [cls] to each position t.
    surplus
        The surplus of each position, as above.
    key, value
        As in `head_gradients`.
    units
        Hidden units of the logits. None means that logits are linear.

    Returns
    -------
    The gradient at each position.
    """
    xp = array_namespace(alpha)
    factors = xp.concat([alpha, surplus], axis=-2)
    directions = xp.concat([value, xp.broadcast_to(key, value.shape)], axis=-2) / alpha.shape[-2]
    rows = xp.matmul(xp.matrix_transpose(factors), directions)
    if units is None:
        return rows
    unit_rows = xp.matmul(units.output_gains(surplus), units.key)
    return rows + xp.mean(unit_rows, axis=-3)


def gradient(*arrays: Any, **directions: Any) -> Float[Array, "*n T d_e"]:
    """Return the gradient of the model at every position.

    It is the mean over heads of :func:`head_gradients`, which takes the same arguments.
    """
    rows = head_gradients(*arrays, **directions)
    return array_namespace(rows).mean(rows, axis=-3)


def gradient_times_input(
    alpha: Float[Array, "*n K T"],
    u: Float[Array, "*n K T"],
    logit: Float[Array, "*n K T"],
    *,
    linear_u: Float[Array, "*n K T"] | None = None,
) -> Float[Array, "*n K T"]:
    r"""Return G×I of every head at positions other than [cls].

    The model's G×I is the mean over heads. An embedding read along the directions of Theorem 4.1 is
    its value and its logit, :math:`u_t` and :math:`\ell_t = e_t \cdot W_k^\top q / \sqrt{d_{att}}`,
    so

    .. math:: e_t \cdot \nabla_{e_t} f_i = \alpha_t \bigl( u_t + (u_t - f_i) \, \ell_t \bigr)

    and no embedding is needed. Exact. The arrays must span the whole window: f_i sums over it.
    ``linear_u`` is the part of ``u`` that is linear in the embedding, without a bias. None means
    all of it. If hidden units make the logits, ``logit`` is :math:`e_t \cdot \nabla \ell_t`.

    Parameters
    ----------
    alpha
        Attention of [cls] to each position t.
    u
        Value of each position.
    logit
        Attention logit of each position.
    linear_u
        The part of ``u`` that is linear in the embedding. None means all of it.

    Returns
    -------
    The score of each head and position.
    """
    linear_u = u if linear_u is None else linear_u
    return alpha * (linear_u + (u - head_outputs(alpha, u)[..., None]) * logit)


def gradient_summary(G: Float[Array, "*n d_e"], summary: str) -> Float[Array, "*n"]:
    """Reduce gradients to one number per token: G-avg ("mean"), G-l1 ("l1") or G-l2 ("l2")."""
    xp = array_namespace(G)
    match summary:
        case "mean":
            return xp.mean(G, axis=-1)
        case "l1":
            return xp.sum(xp.abs(G), axis=-1)
        case "l2":
            return xp.sqrt(xp.sum(G**2, axis=-1))
        case _:
            raise InputError(
                unknown_name_message("summary of a gradient", summary, ("mean", "l1", "l2"))
            )
