"""What a method finds in one text."""

__all__ = ["Anchor", "Finding", "Pairs"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, final

import numpy as np

from limelight.results.equality import equal_fields
from limelight.shapes import Float, Int


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Scores of pairs of features, by their indices."""

    features: Int[np.ndarray, "n 2"]
    scores: Float[np.ndarray, " n"]
    stderr: Float[np.ndarray, " n"] | None = None

    def __eq__(self, other: object) -> bool:
        return equal_fields(self, other)

    __hash__ = None  # type: ignore[assignment]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Features that hold the prediction: how often they do, and on how many texts they apply."""

    features: tuple[int, ...]
    precision: float
    precision_interval: tuple[float, float]
    coverage: float


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finding:
    """What a method finds for one document; the rest of an explanation is question and method.

    ``diagnostics`` says how it went: draws, gaps, the quality of a fit. ``base_value`` is set by
    methods that remove words in a way of their own, and None where the model refuses that text;
    ``...`` leaves it to the reading. ``signed`` says whether these scores have a sign, where a
    method has values of both kinds; None: as the method's do.
    """

    scores: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"] | None = None
    bound: float | None = None
    base_value: float | EllipsisType | None = ...
    intercept: float | None = None
    heads: Float[np.ndarray, "K d"] | None = None
    pairs: Pairs | None = None
    anchor: Anchor | None = None
    signed: bool | None = None
    notices: tuple[str, ...] = ()
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
