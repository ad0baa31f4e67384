"""A time at which a method stops drawing masks, with the draws that it has by then.

The clock does not depend on what the model answers, so stopping by it does not bias an estimate.
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

_BATCH_SHARE = 0.05  # of the time: a batch takes at most so much of it
_MOST_MASKS = 1024  # in a batch
UNINTERRUPTED_MARGIN = 2  # as on a machine that becomes half as fast


def read_clock() -> float:
    """Return the seconds of a clock that nobody sets."""
    return time.monotonic()


@dataclass
class _Experience:
    """What a deadline has seen so far: the time of a mask, and what was decided by the clock."""

    seconds_per_mask: float
    rows_answered: dict[bytes, int] = field(default_factory=dict)
    decisions: dict[int, bool] = field(default_factory=dict)


@final
class Deadline:
    """When to stop drawing, and how long the model takes for a mask.

    A method explains one text for several classes with the same masks, so what was answered for
    the first class is answered for all of them, although the time is over by then.

    Parameters
    ----------
    end
        When to stop, by :func:`read_clock`.
    seconds
        The whole time that there was, of which a batch may take a small part.
    seconds_per_mask
        What the model has taken for a mask so far.
    smallest_batch
        Masks that are asked together even if they take more than the share of a batch.
    """

    def __init__(
        self, end: float, *, seconds: float, seconds_per_mask: float, smallest_batch: int = 1
    ) -> None:
        self.end, self._seconds, self._smallest_batch = end, seconds, smallest_batch
        self._experience = _Experience(seconds_per_mask)

    def part(self, share: float) -> "Deadline":
        """Return a deadline after ``share`` of the time that remains; both share what they see."""
        now = read_clock()
        part = copy.copy(self)
        part.end = now + share * max(self.end - now, 0.0)
        return part

    @property
    def masks_left(self) -> int:
        """How many masks there is time for."""
        return max(int((self.end - read_clock()) / self._experience.seconds_per_mask), 0)

    def has_time_for(self, masks: int, margin: int) -> bool:
        """Return whether there is time for ``margin`` times so many masks."""
        decisions = self._experience.decisions
        if masks not in decisions:
            decisions[masks] = margin * masks <= self.masks_left
        return decisions[masks]

    def answer(
        self,
        ask: Callable[[np.ndarray], np.ndarray],
        rows: np.ndarray,
        *,
        masks_per_row: int,
        least: int,
    ) -> np.ndarray:
        """Return the answers to as many of the first rows as there is time for."""
        experience = self._experience
        key = hashlib.sha256(repr(rows.shape).encode() + rows.tobytes()).digest()
        if (earlier_count := experience.rows_answered.get(key)) is not None:
            return ask(rows[:earlier_count])
        answers, done = list[np.ndarray](), 0
        while done < len(rows):
            batch = min(self._rows_in_batch(masks_per_row), len(rows) - done)
            if done < least:
                batch = min(batch, least - done)
            elif (batch := min(batch, self.masks_left // masks_per_row)) == 0:
                break
            begun = read_clock()
            answers.append(ask(rows[done : done + batch]))
            done += batch
            took = (read_clock() - begun) / (batch * masks_per_row)
            # Answers that are remembered take no time, which says nothing of those to come.
            experience.seconds_per_mask = max(took, experience.seconds_per_mask / 2)
        experience.rows_answered[key] = done
        return np.concatenate(answers) if answers else ask(rows[:0])

    def _rows_in_batch(self, masks_per_row: int) -> int:
        masks = int(_BATCH_SHARE * self._seconds / self._experience.seconds_per_mask)
        return max(min(max(masks, self._smallest_batch), _MOST_MASKS) // masks_per_row, 1)


_DEADLINE: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def drawing_until(deadline: Deadline | None) -> Iterator[None]:
    """Let methods in a block draw until ``deadline``; None: as much as their settings say."""
    # A context variable for the reason that holds for the watch of sample.py: methods, regressions
    # and games between the budget and the masks have nothing to do with it.
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


@contextlib.contextmanager
def in_part_of_the_time(share: float) -> Iterator[None]:
    """Let a block draw in ``share`` of the time that remains, if there is a deadline."""
    deadline = _DEADLINE.get()
    with drawing_until(None if deadline is None else deadline.part(share)):
        yield


def is_active() -> bool:
    """Return whether there is a deadline."""
    return _DEADLINE.get() is not None


def masks_in_time() -> int | None:
    """Return how many masks there is time for; None without a deadline."""
    deadline = _DEADLINE.get()
    return None if deadline is None else deadline.masks_left


def has_time_for(masks: int, *, margin: int = UNINTERRUPTED_MARGIN) -> bool:
    """Return whether there is time for so many masks, which nothing interrupts.

    Without a deadline there is. The model may become slower, so that time for ``margin`` times as
    many is wanted.
    """
    deadline = _DEADLINE.get()
    return deadline is None or deadline.has_time_for(masks, margin)


def answers_in_time(
    ask: Callable[[np.ndarray], np.ndarray],
    rows: np.ndarray,
    *,
    masks_per_row: int = 1,
    least: int = 0,
) -> np.ndarray:
    """Return the answers to the rows; under a deadline, to as many as there is time for.

    Parameters
    ----------
    ask
        Returns an answer for each of some rows.
    rows
        What is drawn: masks, or orders, each independent of its place.
    masks_per_row
        How many masks the model is asked for a row.
    least
        Rows that are answered even if the time is over.
    """
    deadline = _DEADLINE.get()
    if deadline is None:
        return ask(rows)
    return deadline.answer(ask, rows, masks_per_row=masks_per_row, least=least)
