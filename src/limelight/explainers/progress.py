"""How far a long explanation has come: texts done, in parts where a model is asked many times."""

__all__ = ["Progress", "metered"]

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from limelight.sampling import watched

Progress = Callable[[int | float, int], None]


def metered(
    progress: Progress | None,
    explainers: Sequence[Any],
    *,
    features: Sequence[int],
    aims: int,
    first: int,
    total: int,
) -> AbstractContextManager[None]:
    """Report parts of texts while a block asks a model about some of ``total`` texts.

    The texts begin with number ``first`` and have so many ``features``; each of them is explained
    ``aims`` times by all ``explainers``, of which those that ask the model say how often.
    """
    asks = [explainer.asks for explainer in explainers if hasattr(explainer, "asks")]
    expected = aims * sum(ask(d) for ask in asks for d in features)
    if progress is None or not expected:
        return contextlib.nullcontext()
    return watched(_Meter(progress, expected, first=first, texts=len(features), total=total))


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
