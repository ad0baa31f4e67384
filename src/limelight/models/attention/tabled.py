"""What the exact arrays of documents need of a model."""

__all__ = ["Tabled"]

from typing import Protocol, runtime_checkable

import numpy as np

from limelight.models.attention.on_device import DeviceTables
from limelight.models.attention.table_errors import TableErrors
from limelight.models.attention.tables import Directions, Tables
from limelight.shapes import Float
from limelight.text import Document


@runtime_checkable
class Tabled(Protocol):
    """What is needed of a model: its tables, and its embedding for the directions of gradients."""

    @property
    def T_max(self) -> int:
        """Tokens that the model reads, [cls] included."""

    @property
    def tables(self) -> Tables:
        """Logits and values of words and positions."""

    @property
    def table_errors(self) -> TableErrors:
        """How far the tables may be from what the weights say."""

    @property
    def device_tables(self) -> DeviceTables | None:
        """The same on a device, if there is one."""

    @property
    def embedding(self) -> np.ndarray:
        """Embedding of every word."""

    @property
    def positions(self) -> Float[np.ndarray, "T_max d_e"]:
        """The positional part of every embedding."""

    @property
    def directions(self) -> Directions:
        """What each head reads of an embedding."""

    def attention_matrices(self, document: Document) -> Float[np.ndarray, "K T T"]:
        """Return every head's attention of every token to every token."""
