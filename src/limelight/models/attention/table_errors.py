"""How far the tables of a model may be from its weights: a forward error per head and word."""

__all__ = ["TableErrors", "summed_terms", "table_errors"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.models.attention.tables import Directions, Tables
from limelight.shapes import Float, Int
from limelight.text import UNK
from limelight.theory.table_rounding import ROUNDING, product_error

_READ = 3 * ROUNDING  # a logit is a sum, from which the largest is taken off


@final
@dataclass(frozen=True, slots=True, eq=False)
class TableErrors:
    """Bounds on the errors of what is read from the tables, the roundings of reading included.

    Of positions the largest error: every text has the same ones.
    """

    word_logit: Float[np.ndarray, "V K"]
    word_value: Float[np.ndarray, "V C K"]
    position_logit: Float[np.ndarray, " K"]
    position_value: Float[np.ndarray, "C K"]

    def of_logits(self, ids: Int[np.ndarray, "*n T"]) -> Float[np.ndarray, "*n K"]:
        """Return the largest error of a logit of these words, or of UNK in their place."""
        words = np.maximum(self.word_logit[ids].max(axis=-2), self.word_logit[UNK])
        return words + self.position_logit

    def of_values(self, ids: Int[np.ndarray, "*n T"]) -> Float[np.ndarray, "*n C K"]:
        """Return the largest error of a value of these words, or of UNK in their place."""
        words = np.maximum(self.word_value[ids].max(axis=-3), self.word_value[UNK])
        return words + self.position_value


def summed_terms(T: int, C: int) -> int:
    """Return how many numbers are added up: over the positions, then over the classes."""
    return T + C


def table_errors(
    embedding: Float[np.ndarray, "V d_e"],
    positions: Float[np.ndarray, "T_max d_e"],
    position_error: Float[np.ndarray, "T_max d_e"],
    directions: Directions,
    tables: Tables,
) -> TableErrors:
    """Return the errors of ``collapse(embedding, positions, directions)`` against the weights."""
    C, K, _ = directions.value.shape
    key, key_error = directions.key.T, directions.key_error.T
    value, value_error = (
        x.reshape(C * K, -1).T for x in (directions.value, directions.value_error)
    )

    def read(x: Float[np.ndarray, "rows d_e"], x_error: np.ndarray | None) -> list[np.ndarray]:
        sides = ((key, key_error), (value, value_error))
        return [product_error(x, y, x_error=x_error, y_error=off) for y, off in sides]

    with np.errstate(over="ignore", invalid="ignore"):  # no finite error is known then
        word_logit, word_value = read(embedding, None)
        position_logit, position_value = read(positions, position_error)
    return TableErrors(
        word_logit=word_logit + _READ * np.abs(tables.word_logit),
        word_value=word_value.reshape(-1, C, K) + _READ * np.abs(tables.word_value),
        position_logit=(position_logit + _READ * np.abs(tables.position_logit)).max(axis=0),
        position_value=(
            position_value.reshape(-1, C, K) + _READ * np.abs(tables.position_value)
        ).max(axis=0),
    )
