r"""Predictions without an exponential.

Since :math:`e^{x_w + y_t} = e^{x_w} e^{y_t}`, the exponentials of a model's tables are taken once,
and a prediction is a few sums of products over the words of a document:

.. math:: f_i = \frac{\sum_t g_t (g_w u_w) + g_w (g_t u_t)}{\sum_t g_w g_t} .
"""

__all__ = ["Factored", "factored"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.models.attention.tables import Tables
from limelight.shapes import Float, Int

# Largest spread of logits whose exponentials keep all their digits; beyond, the caller takes the
# maximum of each document off first (`tables.predicted_logits`).
SPREAD = 600.0
_CHUNK = 128  # documents at a time: the gathered rows stay inside the cache


@final
@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """What every word and every position adds to numerator and denominator."""

    word: Float[np.ndarray, "V terms"]  # g_w, then g_w u_w for each class: one row to gather
    position: Float[np.ndarray, "T_max K"]  # g_t
    position_value: Float[np.ndarray, "T_max C K"]  # g_t u_t

    def __call__(self, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
        """Return f for every document."""
        f = np.empty((len(ids), self.position_value.shape[1]))
        for start in range(0, len(ids), _CHUNK):
            f[start : start + _CHUNK] = self._chunk(ids[start : start + _CHUNK])
        return f

    def _chunk(self, ids: Int[np.ndarray, "n T_max"]) -> Float[np.ndarray, "n C"]:
        _, C, K = self.position_value.shape
        rows = self.word[ids]
        g, gu = rows[..., :K], rows[..., K:].reshape(*ids.shape, C, K)
        D = np.einsum("ntk,tk->nk", g, self.position)
        N = np.einsum("ntck,tk->nck", gu, self.position)
        N += np.einsum("ntk,tck->nck", g, self.position_value)
        return (N / D[:, None]).mean(axis=-1)


def factored(tables: Tables) -> Factored | None:
    """Return the model in factored form, or None where its logits spread too far for that.

    None too where hidden units make the logits: those are no sums over word and position.
    """
    if tables.units is not None:
        return None
    word, position = tables.word_logit, tables.position_logit
    if np.ptp(word, axis=0).max() + np.ptp(position, axis=0).max() > SPREAD:
        return None
    g_w, g_t = np.exp(word - word.max(axis=0)), np.exp(position - position.max(axis=0))
    gu = g_w[:, None, :] * tables.word_value
    return Factored(
        word=np.concatenate([g_w, gu.reshape(len(gu), -1)], axis=1),
        position=g_t,
        position_value=g_t[:, None, :] * tables.position_value,
    )
