"""A deadline at which a method stops drawing masks and uses those that it has.

The clock does not depend on the outputs of the model, so stopping by it does not bias an estimate.
"""

import contextlib
import copy
import hashlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import final

import numpy as np

_BATCH_SHARE = 0.05  # largest share of the time that a batch may take
_MAX_BATCH_MASKS = 1024
UNINTERRUPTED_MARGIN = 2  # allows for a machine that becomes half as fast


def read_clock() -> float:
    """Return the seconds of a clock that never jumps."""
    return time.monotonic()


@dataclass
class _History:
    """Time of a mask, and the decisions that were made by the clock so far."""

    seconds_per_mask: float
    evaluated_rows: dict[bytes, int] = field(default_factory=dict)
    decisions: dict[int, bool] = field(default_factory=dict)


@final
class Deadline:
    """Time at which a method stops drawing masks, and the time that the model takes for a mask.

    A method explains one text for several classes with the same masks. Masks that were evaluated
    for the first class are therefore evaluated for all classes, although the time is over by then.

    Parameters
    ----------
    end
        Time at which to stop, by :func:`read_clock`.
    seconds
        Total time, of which a batch may take a small share.
    seconds_per_mask
        Time that the model has taken for a mask so far.
    smallest_batch
        Number of masks that are evaluated together even if they take more than that share.
    """

    def __init__(
        self, end: float, *, seconds: float, seconds_per_mask: float, smallest_batch: int = 1
    ) -> None:
        self.end, self._seconds, self._smallest_batch = end, seconds, smallest_batch
        self._history = _History(seconds_per_mask)

    def take_share(self, share: float) -> "Deadline":
        """Return a deadline after a share of the remaining time, with the same measured times."""
        now = read_clock()
        earlier_deadline = copy.copy(self)
        earlier_deadline.end = now + share * max(self.end - now, 0.0)
        return earlier_deadline

    @property
    def remaining_masks(self) -> int:
        """Return the number of masks that can be evaluated before the deadline."""
        return max(int((self.end - read_clock()) / self._history.seconds_per_mask), 0)

    def has_time(self, masks: int, margin: int) -> bool:
        """Return whether ``margin * masks`` masks can be evaluated before the deadline."""
        decisions = self._history.decisions
        if masks not in decisions:
            decisions[masks] = margin * masks <= self.remaining_masks
        return decisions[masks]

    def evaluate(
        self,
        evaluate_rows: Callable[[np.ndarray], np.ndarray],
        rows: np.ndarray,
        *,
        masks_per_row: int,
        minimum_rows: int,
    ) -> np.ndarray:
        """Return the outputs for as many of the first rows as there is time for.

        Parameters
        ----------
        evaluate_rows, rows, masks_per_row, minimum_rows
            As in :func:`evaluate_before_deadline`.

        Returns
        -------
        The outputs, one row per evaluated row.
        """
        history = self._history
        key = hashlib.sha256(repr(rows.shape).encode() + rows.tobytes()).digest()
        if (earlier_count := history.evaluated_rows.get(key)) is not None:
            return evaluate_rows(rows[:earlier_count])
        outputs, row_count = list[np.ndarray](), 0
        while row_count < len(rows):
            batch = min(self._rows_per_batch(masks_per_row), len(rows) - row_count)
            if row_count < minimum_rows:
                batch = min(batch, minimum_rows - row_count)
            elif (batch := min(batch, self.remaining_masks // masks_per_row)) == 0:
                break
            start_time = read_clock()
            outputs.append(evaluate_rows(rows[row_count : row_count + batch]))
            row_count += batch
            seconds = (read_clock() - start_time) / (batch * masks_per_row)
            # Cached outputs take no time, which says nothing about the time of later outputs.
            history.seconds_per_mask = max(seconds, history.seconds_per_mask / 2)
        history.evaluated_rows[key] = row_count
        return np.concatenate(outputs) if outputs else evaluate_rows(rows[:0])

    def _rows_per_batch(self, masks_per_row: int) -> int:
        """Return how many rows are evaluated at once, by the speed measured so far."""
        masks = int(_BATCH_SHARE * self._seconds / self._history.seconds_per_mask)
        return max(min(max(masks, self._smallest_batch), _MAX_BATCH_MASKS) // masks_per_row, 1)


_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def set_deadline(deadline: Deadline | None) -> Iterator[None]:
    """Let methods in a block draw until a deadline, or as their settings say if it is None."""
    # A context variable, for the same reason as in progress.py: methods, regressions and games
    # between the budget and the masks have nothing to do with the deadline.
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


@contextlib.contextmanager
def limit_time_share(share: float) -> Iterator[None]:
    """Let a block use a share of the time before the deadline, if there is one."""
    deadline = _DEADLINE.get()
    with set_deadline(None if deadline is None else deadline.take_share(share)):
        yield


def has_deadline() -> bool:
    """Return whether there is a deadline."""
    return _DEADLINE.get() is not None


def count_masks_before_deadline() -> int | None:
    """Return the number of masks that there is time for, or None without a deadline."""
    deadline = _DEADLINE.get()
    return None if deadline is None else deadline.remaining_masks


def has_time(masks: int, *, margin: int = UNINTERRUPTED_MARGIN) -> bool:
    """Return whether there is time to evaluate masks without interruption.

    Without a deadline there is. The model may become slower, so there must be time for ``margin``
    times as many masks.
    """
    deadline = _DEADLINE.get()
    return deadline is None or deadline.has_time(masks, margin)


def evaluate_before_deadline(
    evaluate_rows: Callable[[np.ndarray], np.ndarray],
    rows: np.ndarray,
    *,
    masks_per_row: int = 1,
    minimum_rows: int = 0,
) -> np.ndarray:
    """Evaluate rows of masks or orders until they are done or the deadline has passed.

    Parameters
    ----------
    evaluate_rows
        Returns one output for each row.
    rows
        Masks or orders that were drawn independently of their position in the array.
    masks_per_row
        Number of masks that the model evaluates for each row.
    minimum_rows
        Number of rows that are evaluated even if the deadline has passed.

    Returns
    -------
    The outputs of all rows, or of as many of the first rows as there was time for.
    """
    deadline = _DEADLINE.get()
    if deadline is None:
        return evaluate_rows(rows)
    return deadline.evaluate(
        evaluate_rows, rows, masks_per_row=masks_per_row, minimum_rows=minimum_rows
    )
