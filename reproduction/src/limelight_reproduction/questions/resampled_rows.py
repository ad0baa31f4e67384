"""Statistics of measured rows: means over rows with 95 % intervals."""

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
    """Rows with the weights of a bootstrap over pairs, the same for every statistic."""

    def __init__(self, rows: Sequence[Row], *, seed: int) -> None:
        self.rows = rows
        self._seed = seed

    def select(self, predicate: Callable[[Row], bool]) -> "Rows":
        """Return the rows for which ``predicate`` is true."""
        return Rows([row for row in self.rows if predicate(row)], seed=self._seed)

    @cached_property
    def _weights(self) -> Float[np.ndarray, "draws n"]:
        n = len(self.rows)
        rng = np.random.default_rng([self._seed, 29])
        return rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS).astype(np.float64)

    def mean(self, value: Callable[[Row], float | None]) -> list[float] | None:
        """Return the mean of ``value`` over pairs with its interval.

        Pairs without a value (None) do not count. The result is None if no pair has a value.
        """
        return self.ratio(value, lambda _row: 1.0)

    def ratio(
        self, gain: Callable[[Row], float | None], room: Callable[[Row], float]
    ) -> list[float] | None:
        """Return Σ gain/Σ room over pairs, and the 95 % interval of a bootstrap."""
        gains = [gain(row) for row in self.rows]
        has_gain = np.array([row_gain is not None for row_gain in gains])
        if not has_gain.any():
            return None
        top = np.array([0.0 if row_gain is None else row_gain for row_gain in gains])
        bottom = np.array([room(row) for row in self.rows]) * has_gain
        drawn_bottom = self._weights @ bottom
        ratios = (self._weights @ top)[drawn_bottom > 0] / drawn_bottom[drawn_bottom > 0]
        low, high = np.quantile(ratios, [0.025, 0.975])
        return [float(top.sum() / bottom.sum()), float(low), float(high)]
