"""One way to call any model: each item once, equal lengths together, as memory allows."""

__all__ = ["Engine", "out_of_memory"]

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import numpy as np

from limelight.sampling import answered
from limelight.shapes import Float


@final
class Engine:
    """Calls ``answer`` on batches of items, and gives the rows back in order.

    ``size`` is what an item costs; a batch costs its largest item times its length and at most
    ``budget``, which is halved, for good, when memory runs out, and has ``most`` items at most.
    With ``alike``, only items of one size stand in a batch: for models whose answers would change
    with what fills the shorter ones up.
    """

    def __init__(
        self,
        answer: Callable[[list[Any]], Float[np.ndarray, "n C"]],
        *,
        size: Callable[[Any], int],
        key: Callable[[Any], Hashable],
        budget: int,
        most: int = 4096,
        alike: bool = False,
    ) -> None:
        self._answer, self._size, self._key = answer, size, key
        self.budget, self._most, self._alike = budget, most, alike
        self.calls = self.items = 0  # batches and items answered so far

    def __call__(self, items: Sequence[Any]) -> Float[np.ndarray, "n C"]:
        """Return one row per item; equal items are asked once."""
        first: dict[Hashable, int] = {}
        row = np.array([first.setdefault(self._key(item), len(first)) for item in items])
        distinct: list[Any] = [None] * len(first)
        for item, i in zip(items, row, strict=True):
            distinct[i] = item
        # The largest first: if memory does not suffice, it shows at once.
        order = sorted(range(len(distinct)), key=lambda i: -self._size(distinct[i]))
        copies = np.bincount(row, minlength=len(order))
        answers, done = np.empty((len(order), 0)), 0
        while done < len(order):
            batch = self._batch([distinct[i] for i in order[done : done + self._most]])
            found = self._within_memory(batch)
            if not done:  # one array for all: small ones between large would fragment the memory
                answers = np.empty((len(order), found.shape[1]))
            places = order[done : done + len(found)]
            answers[places] = found
            done += len(found)
            answered(int(copies[places].sum()))
        return answers[row]

    def _batch(self, items: list[Any]) -> list[Any]:
        largest = max(self._size(items[0]), 1)
        some = items[: max(1, self.budget // largest)]
        if not self._alike:
            return some
        return [item for item in some if self._size(item) == self._size(some[0])]  # they are sorted

    def _within_memory(self, batch: list[Any]) -> Float[np.ndarray, "n C"]:
        """Answer as many of the batch, from its start, as memory allows."""
        while True:
            try:
                found = self._answer(batch)
            except (MemoryError, RuntimeError) as error:
                if len(batch) == 1 or not out_of_memory(error):
                    raise
                batch = batch[: len(batch) // 2]
                self.budget = max(1, self._size(batch[0])) * len(batch)
            else:
                self.calls, self.items = self.calls + 1, self.items + len(batch)
                return found


def out_of_memory(error: Exception) -> bool:
    """Whether ``error`` is Python's or torch's way of saying so (torch's is a RuntimeError)."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in said or "allocate memory" in said
