"""How far a long explanation has come: texts done, in parts where a model is asked many times."""

__all__ = ["Progress", "metered"]

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from limelight.explainers.method import Chosen
from limelight.explainers.reading import Reading
from limelight.sampling import watched

Progress = Callable[[int | float, int], None]


def metered(
    progress: Progress | None, chosen: Sequence[Chosen], reading: Reading, *, aims: int, total: int
) -> AbstractContextManager[None]:
    """Let ``progress`` hear of parts of the texts of ``reading`` while a block explains them.

    Each is explained ``aims`` times by all methods, of which those that ask the model say how
    often; ``total`` is the number of texts in all.
    """
    sizes = [len(features) for features in reading.features]
    expected = aims * sum(one.expected_calls(d) for one in chosen for d in sizes)
    if progress is None or not expected:
        return contextlib.nullcontext()
    return watched(
        _Meter(progress, expected, first=reading.first or 0, texts=len(sizes), total=total)
    )


class _Meter:
    """Turns masks answered into the number of texts done."""

    def __init__(
        self, progress: Progress, expected: int, *, first: int, texts: int, total: int
    ) -> None:
        self._progress, self._expected, self._done = progress, float(expected), 0.0
        self._first, self._texts, self._total = first, texts, total

    def expect(self, masks: int | float) -> None:
        self._expected += masks

    def answered(self, masks: int | float) -> None:
        self._done += masks
        share = min(self._done / self._expected, 1.0)
        self._progress(self._first + self._texts * share, self._total)
