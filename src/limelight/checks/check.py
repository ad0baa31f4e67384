"""What a check of a method is, and what all checks stand on."""

__all__ = [
    "ROUNDING",
    "Check",
    "arrays_of",
    "base_value",
    "classifier",
    "explained",
    "masked_rows",
    "output_values",
]

import math
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from limelight.explainers import Reading
from limelight.models.attention import AttentionClassifier, encoded
from limelight.models.attention.collapsed import CollapsedDocuments
from limelight.results import Explanation
from limelight.shapes import Bool, Float
from limelight.text import UNK
from limelight.verbs import explain

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
        """Whether the error is within what is allowed (a NaN is not, and ∞ allows nothing)."""
        return self.error <= self.allowed < math.inf


def explained(reading: Reading, method: str, **options: Any) -> Explanation:
    """Return the explanation of the one text of ``reading``."""
    return explain(reading.model, reading.documents[0].text, method, **options)


def classifier(reading: Reading) -> AttentionClassifier:
    """Return the model with its weights, which the oracles go back to."""
    return cast(AttentionClassifier, reading.model)


def arrays_of(reading: Reading) -> CollapsedDocuments:
    """Return the arrays of the classifier with its weights, for the oracles that need them."""
    return cast(CollapsedDocuments, reading.collapsed)


def base_value(reading: Reading) -> float:
    """Return the explained output of the one text with every word removed."""
    return cast(float, reading.base_values[0])


def masked_rows(reading: Reading, keep: Bool[np.ndarray, "n d"]) -> list[np.ndarray]:
    """Return the ids of the one text with UNK in place of removed words."""
    ids, of_token = encoded(reading.documents[0]).ids, reading.features[0].of_token
    return [np.where(kept[of_token], ids, UNK) for kept in keep]


def output_values(reading: Reading, keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the explained logit with UNK in place of removed words, from the model itself."""
    rows = masked_rows(reading, keep)
    return reading.targets.value(classifier(reading).logits_of_ids(rows)[:, None])[:, 0]
