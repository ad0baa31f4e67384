"""Rows of what was measured, taken together: means over rows with 95 % intervals."""

__all__ = ["Row", "Rows"]

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from limelight.shapes import Float

_DRAWS = 2000
Row = Mapping[str, Any]


@final
class Rows:
    """Rows with the draws of a bootstrap over pairs, the same for every number."""

    def __init__(self, rows: Sequence[Row], *, seed: int) -> None:
        self.rows = rows
        self._seed = seed

    def of(self, wanted: Callable[[Row], bool]) -> "Rows":
        """Return the rows for which ``wanted`` holds."""
        return Rows([row for row in self.rows if wanted(row)], seed=self._seed)

    @cached_property
    def _weights(self) -> Float[np.ndarray, "draws n"]:
        n = len(self.rows)
        rng = np.random.default_rng([self._seed, 29])
        return rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS).astype(np.float64)

    def mean(self, value: Callable[[Row], float | None]) -> list[float] | None:
        """Return the mean of ``value`` over pairs and its interval; pairs without one are left out.

        None where no pair has one.
        """
        return self.ratio(value, lambda _row: 1.0)

    def ratio(
        self, gain: Callable[[Row], float | None], room: Callable[[Row], float]
    ) -> list[float] | None:
        """Return Σ gain/Σ room over pairs, and the 95 % interval of a bootstrap."""
        known = [gain(row) for row in self.rows]
        there = np.array([one is not None for one in known])
        if not there.any():
            return None
        top = np.array([0.0 if one is None else one for one in known])
        bottom = np.array([room(row) for row in self.rows]) * there
        drawn = self._weights @ bottom
        found = (self._weights @ top)[drawn > 0] / drawn[drawn > 0]
        low, high = np.quantile(found, [0.025, 0.975])
        return [float(top.sum() / bottom.sum()), float(low), float(high)]
