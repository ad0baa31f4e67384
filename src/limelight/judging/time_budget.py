"""Seconds that are dealt out over texts."""

__all__ = ["TimeBudget"]

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class TimeBudget:
    """Deals a budget out: each text gets its share of what is left; None is without end."""

    def __init__(self, budget: int | float | None, texts: int) -> None:
        self._left, self._texts = budget, texts

    def seconds(self, texts: int = 1) -> float | None:
        """Return the time for the next ``texts`` texts."""
        return None if self._left is None else self._left * texts / max(self._texts, texts)

    @contextmanager
    def spent(self, texts: int = 0) -> Iterator[None]:
        """Count the time of a block, after which ``texts`` texts are done."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._texts -= texts
            if self._left is not None:
                self._left = max(0.0, self._left - (time.monotonic() - start))
