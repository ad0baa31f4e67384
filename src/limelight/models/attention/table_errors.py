"""How far the tables of a model may be from its weights: a forward error per head and word."""

__all__ = ["Doubts", "TableErrors", "table_errors"]

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from limelight.models.attention.hidden_units import unit_errors
from limelight.models.attention.tables import Directions, Tables
from limelight.shapes import Float, Int
from limelight.text import UNK
from limelight.theory.table_rounding import ROUNDING, average_error, product_error

_READ = 3 * ROUNDING  # a logit is a sum, from which the largest is taken off


class Doubts(NamedTuple):
    """What is known of the logits and values of a text, or of UNK in the place of any word."""

    logit_error: Float[Any, "*n K"]
    value_error: Float[Any, "*n C K"]
    low: Float[Any, "*n C K"]  # the values themselves lie between
    high: Float[Any, "*n C K"]
    positions: int

    def only(self, i: int) -> "Doubts":
        """Return what is known of text ``i``."""
        one = slice(i, i + 1)
        return Doubts(
            self.logit_error[one],
            self.value_error[one],
            self.low[one],
            self.high[one],
            self.positions,
        )

    def of_outputs(self, smallest: Float[Any, "*n K"]) -> Float[Any, "*n C K"]:
        """Return how far a head's output may be from what the weights say, whatever is removed.

        ``smallest`` is the least Σg. Positions are added up, then perhaps classes.
        """
        *known, positions = self
        names = ("logit_error", "value_error", "low", "high")
        terms = positions + self.low.shape[-2]
        return average_error(**dict(zip(names, known, strict=True)), terms=terms, smallest=smallest)


@final
@dataclass(frozen=True, eq=False)
class TableErrors:
    """Bounds on the errors of what is read from the tables, the roundings of reading included.

    Of positions the largest error: every text has the same ones.
    """

    word_logit: Float[np.ndarray, "V K"]
    word_value: Float[np.ndarray, "V C K"]
    position_logit: Float[np.ndarray, " K"]
    position_value: Float[np.ndarray, "C K"]
    tables: Tables

    @cached_property
    def by_word(self) -> Float[np.ndarray, "V parts K"]:
        """What :meth:`of_text` takes the largest of: errors, then u and −u of all classes.

        One row to gather for each word, the extremes of the positions added in.
        """
        u, at = self.tables.word_value, self.tables.position_value
        parts = [
            (self.word_logit + self.position_logit)[:, None],
            self.word_value + self.position_value,
            u + at.max(axis=0),
            -(u + at.min(axis=0)),
        ]
        return np.concatenate(parts, axis=1)

    def of_text(self, ids: Int[np.ndarray, "n T"]) -> Doubts:
        """Return what is known of texts of these words."""
        return doubts(np.maximum(self.by_word[ids].max(axis=1), self.by_word[UNK]), ids.shape[1])


def doubts(largest: Float[Any, "*n parts K"], positions: int) -> Doubts:
    """Return the largest rows of ``TableErrors.by_word`` by what they mean."""
    C = (largest.shape[-2] - 1) // 3
    error, high, low = (largest[..., 1 + i * C : 1 + (i + 1) * C, :] for i in range(3))
    return Doubts(largest[..., 0, :], error, -low, high, positions)


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
        of_words, of_positions = np.zeros(()), np.zeros(())
        if directions.units is not None and tables.units is not None:
            of_words, of_positions = unit_errors(
                embedding, positions, position_error, directions.units, tables.units
            )
    of_places = (position_logit + _READ * np.abs(tables.position_logit)).max(axis=0)
    return TableErrors(
        word_logit=word_logit + _READ * np.abs(tables.word_logit) + of_words,
        word_value=word_value.reshape(-1, C, K) + _READ * np.abs(tables.word_value),
        position_logit=of_places + of_positions,
        # The offset is added to what a position reads: its own error, and one more rounding.
        position_value=(
            position_value.reshape(-1, C, K)
            + directions.offset_error
            + (_READ + ROUNDING) * (np.abs(tables.position_value) + np.abs(directions.offset))
        ).max(axis=0),
        tables=tables,
    )
