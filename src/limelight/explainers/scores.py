"""What a method finds."""

__all__ = ["Scores"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from limelight.explanation import Anchor, Pairs
from limelight.shapes import Float


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """What a method finds for one document; the rest of an explanation is the same for all."""

    scores: Float[np.ndarray, " d"]
    stderr: Float[np.ndarray, " d"] | None = None
    bound: float | None = None
    base_value: float | None = None  # where removing is not replacing by UNK
    intercept: float | None = None
    heads: Float[np.ndarray, "K d"] | None = None
    pairs: Pairs | None = None
    anchor: Anchor | None = None
    notices: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
