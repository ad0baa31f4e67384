"""Every head's attention of every token to every token, as the model's definition has it."""

__all__ = ["attention_between"]

import numpy as np

from limelight.models.attention.hidden_units import UnitDirections
from limelight.models.attention.tables import Directions
from limelight.shapes import Float
from limelight.theory.attention import attention, unit_logits


def attention_between(
    asking: Float[np.ndarray, "S d_e"],
    e: Float[np.ndarray, "T_max d_e"],
    directions: Directions,
    *,
    heads: int,
) -> Float[np.ndarray, "K S T_max"]:
    """Return the softmax over the window ``e`` of the logits that each token of ``asking`` gives.

    ``heads`` are counted from the first: a skip connection, the last, attends to nothing.
    """
    logit = np.einsum("se,kef,tf->kst", asking, directions.query[:heads], e, optimize=True)
    # The key's bias adds the same to a whole row of products, which a softmax does not notice.
    logit += (directions.asked[:heads] @ e.T)[:, None]
    if directions.units is not None:
        logit += _of_units(asking, e, directions.units)[:heads]
    return attention(logit)


def _of_units(
    asking: Float[np.ndarray, "S d_e"], e: Float[np.ndarray, "T_max d_e"], units: UnitDirections
) -> Float[np.ndarray, "K S T_max"]:
    """Logits of hidden units, row by row: all at once would be S · T_max · K · d_h numbers."""
    keys = np.einsum("te,kae->kta", e, units.key, optimize=True)
    queries = np.einsum("se,kae->ska", asking, units.query, optimize=True) + units.bias
    rows = [unit_logits(keys + query[:, None], units.weight[:, None]) for query in queries]
    return np.stack(rows, axis=1)
