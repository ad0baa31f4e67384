r"""A trained classifier collapsed into two tables per head.

The query of [cls] is the same vector for every document and everything after the softmax is
linear, so logits and values split into a part of the word and a part of the position:

.. math:: \ell(w, t) = x_w + y_t, \qquad u(w, t) = x'_w + y'_t .
"""

__all__ = ["Directions", "Tables", "collapse", "predicted_logits"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.shapes import Float, Int

_CHUNK = 128  # documents at a time: the gathered rows stay inside the cache


@final
@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """The directions of embedding space that a head reads.

    ``key`` is :math:`W_k^\\top q / \\sqrt{d_{att}}`, ``value`` is :math:`W_\\ell W_v`, and
    ``query`` maps an embedding to :math:`W_q^\\top W_k e / \\sqrt{d_{att}}`, the direction in
    which [cls] itself would be pulled.
    """

    key: Float[np.ndarray, "K d_e"]
    value: Float[np.ndarray, "C K d_e"]
    query: Float[np.ndarray, "K d_e d_e"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Logit and value of every word and of every position, for every head."""

    word_logit: Float[np.ndarray, "V K"]
    word_value: Float[np.ndarray, "V C K"]
    position_logit: Float[np.ndarray, "T_max K"]
    position_value: Float[np.ndarray, "T_max C K"]

    def logit(self, ids: Int[np.ndarray, "*n T"]) -> Float[np.ndarray, "*n T K"]:
        """Return ℓ of each word in ``ids`` at its place."""
        return self.word_logit[ids] + self.position_logit[: ids.shape[-1]]

    def value(self, ids: Int[np.ndarray, "*n T"]) -> Float[np.ndarray, "*n T C K"]:
        """Return u of each word in ``ids`` at its place."""
        return self.word_value[ids] + self.position_value[: ids.shape[-1]]


def collapse(
    embedding: Float[np.ndarray, "V d_e"],
    positions: Float[np.ndarray, "T_max d_e"],
    directions: Directions,
) -> Tables:
    """Return the tables of a model: its embeddings, read along its heads' directions."""
    key, value = directions.key.T, np.moveaxis(directions.value, -1, 0)
    flat = value.reshape(len(value), -1)
    shape = value.shape[1:]
    return Tables(
        word_logit=embedding @ key,
        word_value=(embedding @ flat).reshape(-1, *shape),
        position_logit=positions @ key,
        position_value=(positions @ flat).reshape(-1, *shape),
    )


def predicted_logits(tables: Tables, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
    """Return f for every document: the mean over heads of Σ_t α_t u_t."""
    chunks = [ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK)]
    C = tables.word_value.shape[1]
    return np.concatenate([np.empty((0, C)), *(_predicted(tables, chunk) for chunk in chunks)])


def _predicted(tables: Tables, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
    logit = tables.logit(ids)
    g = np.exp(logit - logit.max(axis=1, keepdims=True))
    u = tables.value(ids)
    f = np.einsum("ntk,ntck->nck", g, u) / g.sum(axis=1)[:, None, :]
    return f.mean(axis=-1)
