"""How much may be spent on a text: a time or a number of calls, and what each method gets of it."""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, final

import numpy as np

from limelight.errors import InputError
from limelight.explainers.method import Allowance, Chosen, setting_defaults
from limelight.explainers.reading import Reading
from limelight.explainers.text_game import TextGame

# Calls of a sampled method that nobody gave a count or a budget. Of reviews of 100 words they are
# 5 pairs of orders, whose Shapley values have a share of 0.88 on MiniLM, against 0.85 for 2 pairs
# (400 calls) and 0.89 for 25 (5,000), and two cores answer them in 30 seconds
# (benchmarks/results/judging_cuda_every.json, benchmarks/faithfulness_per_second.py).
DEFAULT_CALLS = 1_000
STEP = 3  # calls: a backward pass costs about two forward passes, and a step is one of each
_TRIED = 0.01  # of a time: once that many calls take it, what one takes is known well enough
_GRAIN = 1e-6  # seconds that a clock may not see
_FIRST, _LAST = 2, 512  # calls of that search, each time four times as many
_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0}
_UNITS |= {"minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0}
_WRITTEN = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([A-Za-z]*)\s*", re.ASCII)

BudgetGiven = int | float | str


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """A time in seconds, or a number of calls of the model; the other of the two is None."""

    seconds: float | None
    calls: int | None

    @staticmethod
    def of(given: object) -> "Budget":
        """Return a budget from a number of seconds, or from "30s", "2 min" or "400 calls"."""
        if isinstance(given, Real) and not isinstance(given, bool):
            if 0 <= float(given) < math.inf:
                return Budget(float(given), None)
        elif isinstance(given, str) and (found := _WRITTEN.fullmatch(given)) is not None:
            count, unit = float(found[1]), found[2].lower()
            if unit in ("call", "calls") and count == int(count):
                return Budget(None, int(count))
            if unit in _UNITS:
                return Budget(count * _UNITS[unit], None)
        raise InputError(
            'budget must be a time, 30 or "30s" or "2min", or a number of calls of the model, '
            f'"400 calls", and at least 0; got {given!r}.'
        )

    def __str__(self) -> str:
        return f"{self.calls} calls" if self.seconds is None else f"{self.seconds:g}s"


def agreed_budget(
    given: BudgetGiven | None, several: Sequence[Chosen], settings: Mapping[str, Any]
) -> Budget | None:
    """Return a budget for ``several`` methods, of which none has counts from elsewhere.

    A method that no budget bounds is refused.
    """
    if given is None:
        return None
    budget = Budget.of(given)
    for one in several:
        counted = one.way.counted
        if counted is None and one.way.calls is not None:
            raise InputError(
                f"method {one.method.id!r} asks as often as its search needs, which no budget "
                "bounds; leave budget out and set its own counts."
            )
        defaults = {**setting_defaults(one.method), **one.way.defaults}
        for name in () if counted is None else counted.counts:
            if name in settings or getattr(one.settings, name) != defaults[name]:
                raise InputError(
                    f"give budget or {name!r}, not both: {name!r} of method {one.method.id!r} "
                    "follows from the budget."
                )
    return budget


def duration(seconds: int | float) -> str:
    """Return "1 second", "83 minutes", "2 hours" or "3 days": the unit that one would say."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{max(round(seconds), 1)} second{'s' * (round(seconds) > 1)}"


def seconds_of(given: BudgetGiven | None) -> float | None:
    """Return a budget that must be a time, in seconds; None is without end."""
    if given is None:
        return None
    budget = Budget.of(given)
    if budget.seconds is None:
        raise InputError(f'this budget must be a time, such as 30 or "30s"; got "{budget}".')
    return budget.seconds


def allotted(budget: Budget | None, several: Sequence[Chosen], one: Reading) -> list[Chosen]:
    """Return the methods, each with what it may spend on the one text of ``one``.

    Methods whose cost is fixed take it first; those with counts of their own share what is left
    evenly, and may use each other's answers besides.
    """
    if budget is None or not any(chosen.way.counted for chosen in several):
        return list(several)
    whole = Allowance(str(budget), budget.calls or 0)
    if budget.seconds is not None:
        whole = whole._replace(**_pace(budget.seconds, one.game()))
    return _dealt(whole, several, len(one.features[0]))


def _dealt(whole: Allowance, several: Sequence[Chosen], d: int) -> list[Chosen]:
    calls = whole.calls - 1  # the text itself, which has been predicted
    fixed, counting = 0, 0
    for one in several:
        if (counted := one.way.counted) is not None:
            counting += bool(counted.counts)
            cost = 0 if counted.counts else counted.fewest(one.settings, d)
            fixed += cost if cost <= calls else 0
    left = max(calls - fixed, 0) // max(counting, 1)
    return [
        one._replace(allowance=whole._replace(calls=left if counted.counts else calls))
        if (counted := one.way.counted) is not None
        else one
        for one in several
    ]


def checked_counts(budget: Budget | None, several: Sequence[Chosen], d: int) -> None:
    """Refuse settings, or a number of calls, that cannot work for ``d`` features."""
    if budget is not None and budget.calls is not None:
        several = _dealt(Allowance(str(budget), budget.calls), several, d)
    for one in several:
        one.check_feasible(d)


def _pace(seconds: float, game: TextGame) -> dict[str, Any]:
    """Return how many calls there is time for, and what each takes; finding out is part of it.

    More and more are asked together, since a graphics card answers many in the time of one.
    """
    start, rng, d = time.monotonic(), np.random.default_rng(0), len(game)
    game(np.ones((1, d), bool))  # the first question of all pays for what is set up
    count = _FIRST
    while True:
        begun = time.monotonic()
        masks = np.unique(rng.random((count, d)) < 0.5, axis=0)  # what was asked costs nothing
        game(masks)
        took = time.monotonic() - begun
        if count >= min(_LAST, 2**d / 8) or took > _TRIED * seconds:
            break
        count *= 4
    each = max(took, _GRAIN) / len(masks)
    left = seconds - (time.monotonic() - start)
    return {"calls": max(int(left / each), 0), "each": each}
