r"""Hidden units of additive attention (Bahdanau et al., 2015), collapsed into tables of their own.

A head's logit is :math:`w_a \cdot \tanh(W_q e_0 + b_q + W_k e_t + b_k)`. The query of [cls] is the
same for every document, so what a unit is given splits into a part of the word and a part of the
position; its tanh does not, and is taken where a word meets a place.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from limelight.shapes import Float, Int
from limelight.text import UNK
from limelight.theory.attention import unit_logits
from limelight.theory.table_rounding import ROUNDING, product_error, unit_logit_error

_TOGETHER = 2048  # words at places whose units are held at a time: they stay inside the cache
_ROWS = 4096  # words whose errors are computed at a time


@dataclass(frozen=True, slots=True, eq=False)
class UnitDirections:
    """What the hidden units of every head read, and how a logit reads them.

    A unit is given ``key`` · e_t + ``offset``, and ``offset`` is ``query`` · e_[cls] + ``bias``;
    ``offset_error`` bounds what rounding made of it.
    """

    weight: Float[np.ndarray, "K d_h"]
    key: Float[np.ndarray, "K d_h d_e"]
    query: Float[np.ndarray, "K d_h d_e"]
    bias: Float[np.ndarray, "K d_h"]
    offset: Float[np.ndarray, "K d_h"]
    offset_error: Float[np.ndarray, "K d_h"]

    def with_idle_head(self) -> "UnitDirections":
        """Return the same with one more head, all of whose logits are 0."""

        def longer(x: np.ndarray) -> np.ndarray:
            return np.concatenate([x, np.zeros_like(x[:1])])

        return UnitDirections(*(longer(getattr(self, one.name)) for one in fields(self)))


@dataclass(frozen=True, eq=False)
class UnitTables:
    """What every word and every position gives to every unit; ``offset`` is in the positions'."""

    word: Float[np.ndarray, "V K d_h"]
    position: Float[np.ndarray, "T_max K d_h"]
    weight: Float[np.ndarray, "K d_h"]
    offset: Float[np.ndarray, "K d_h"]

    def given(
        self, words: Int[np.ndarray, "*n"], places: Int[np.ndarray, "*#n"]
    ) -> Float[np.ndarray, "*n K d_h"]:
        """Return what the units are given where words stand at places."""
        return self.word[words] + self.position[places]

    def logits(
        self, words: Int[np.ndarray, "*#n"], places: Int[np.ndarray, "*#n"]
    ) -> Float[np.ndarray, "*n K"]:
        """Return the logits that the units make where words stand at places."""
        words, places = np.broadcast_arrays(words, places)
        found = self._of_unk[places.ravel()]
        # Most of a window is padding, and every removed word is UNK: their logits are at hand.
        (others,) = np.nonzero(words.ravel() != UNK)
        for start in range(0, len(others), _TOGETHER):
            some = others[start : start + _TOGETHER]
            h = self.given(words.ravel()[some], places.ravel()[some])
            found[some] = unit_logits(h, self.weight)
        return found.reshape(*words.shape, -1)

    @cached_property
    def _of_unk(self) -> Float[np.ndarray, "T_max K"]:
        return unit_logits(self.word[UNK] + self.position, self.weight)


def unit_directions(
    W_q: Float[np.ndarray, "K d_att d_e"],
    W_k: Float[np.ndarray, "K d_att d_e"],
    w_a: Float[np.ndarray, "K d_att"],
    *,
    cls: Float[np.ndarray, " d_e"],
    cls_error: Float[np.ndarray, " d_e"],
    bias: Float[np.ndarray, "K d_att"],
) -> UnitDirections:
    """Return what the units of heads with these weights read, asked by [cls] as it is embedded."""
    offset = W_q @ cls + bias
    error = product_error(W_q, cls[:, None], y_error=cls_error[:, None])[..., 0]
    return UnitDirections(
        weight=w_a,
        key=W_k,
        query=W_q,
        bias=bias,
        offset=offset,
        offset_error=error + ROUNDING * (np.abs(bias) + np.abs(offset)),
    )


def unit_tables(
    embedding: Float[np.ndarray, "V d_e"],
    positions: Float[np.ndarray, "T_max d_e"],
    units: UnitDirections,
) -> UnitTables:
    """Return what ``units`` are given by every word and by every position."""
    K, d_h, d_e = units.key.shape
    read = units.key.reshape(K * d_h, d_e).T
    word, position = ((x @ read).reshape(-1, K, d_h) for x in (embedding, positions))
    return UnitTables(word, position + units.offset, units.weight, units.offset)


def unit_errors(
    embedding: Float[np.ndarray, "V d_e"],
    positions: Float[np.ndarray, "T_max d_e"],
    position_error: Float[np.ndarray, "T_max d_e"],
    units: UnitDirections,
    tables: UnitTables,
    embedding_error: Float[np.ndarray, "V d_e"] | None = None,
) -> tuple[Float[np.ndarray, "V K"], Float[np.ndarray, " K"]]:
    """Return the errors of logits that are due to each word, and to any position."""
    K, d_h, d_e = units.key.shape
    read, size = units.key.reshape(K * d_h, d_e).T, np.abs(units.weight)
    word = np.empty((len(embedding), K))
    for start in range(0, len(word), _ROWS):
        rows = slice(start, start + _ROWS)
        moved = None if embedding_error is None else embedding_error[rows]
        off = product_error(embedding[rows], read, x_error=moved).reshape(-1, K, d_h)
        off += 2 * ROUNDING * np.abs(tables.word[rows])
        word[rows] = (size * off).sum(axis=-1)
    off = product_error(positions, read, x_error=position_error).reshape(-1, K, d_h)
    # The offset is added to what a position reads: its own error, and one more rounding.
    off += units.offset_error + 4 * ROUNDING * (np.abs(tables.position) + np.abs(units.offset))
    position = (size * off).sum(axis=-1).max(axis=0)
    return word, position + unit_logit_error(units.weight)
