"""What a check of a method is, and what all checks stand on."""

__all__ = ["ROUNDING", "Check", "explained", "output_values"]

from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.explainers.api import explain
from limelight.explainers.reading import Reading
from limelight.explanation import Explanation
from limelight.shapes import Bool, Float
from limelight.text import UNK

ROUNDING = 1e-9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison: the error found, and what is allowed."""

    method: str
    against: str
    error: float
    allowed: float
    unit: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is within what is allowed (a NaN is not)."""
        return self.error <= self.allowed


def explained(reading: Reading, method: str, **options: object) -> Explanation:
    """Return the explanation of the one text of ``reading``."""
    return explain(reading.model, reading.documents[0].text, method, **options)


def output_values(reading: Reading, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the explained logit with UNK in place of removed words, from the model itself."""
    ids, of_token = reading.documents[0].ids, reading.features[0].of_token
    rows = [np.where(kept[of_token], ids, UNK) for kept in keep]
    return reading.targets.value(reading.model.logits_of_ids(rows)[:, None])[:, 0]
