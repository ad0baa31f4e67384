"""How much is asked about a text: draws of a method, and the budget that they keep within."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from limelight.errors import InputError, told
from limelight.explainers.method import (
    MEANS,
    Allowance,
    Chosen,
    NotBelow,
    Positive,
    Way,
    at_least,
    each,
    setting_defaults,
    settings_class,
)
from limelight.explainers.reading import Reading
from limelight.models.text_game import TextGame
from limelight.results import Finding
from limelight.sampling import deadline
from limelight.sampling.all_masks import affordable
from limelight.sampling.deadline import Deadline, has_time_for
from limelight.text import one_line

# Calls of a sampled method that nobody gave a count or a budget. Of reviews of 100 words they are
# 5 pairs of orders, whose Shapley values have a share of 0.88 on MiniLM, against 0.85 for 2 pairs
# (400 calls) and 0.89 for 25 (5,000), and two cores answer them in 30 seconds
# (benchmarks/results/judging_cuda_every.json, benchmarks/faithfulness_per_second.py).
DEFAULT_CALLS = 1_000
MOST_DRAWS = 500_000  # unless a method is told
STEP = 3  # calls: a backward pass costs about two forward passes, and a step is one of each
_TRIED = 0.01  # of a time: once that many calls take it, what one takes is known well enough
_GRAIN = 1e-6  # seconds that a clock may not see
_FIRST, _LAST = 2, 512  # calls of that search, each time four times as many
_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0}
_UNITS |= {"minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0}
_WRITTEN = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([A-Za-z]*)\s*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """How many samples a method draws of a text of d features, and how many calls they take.

    A draw asks ``each(d)`` masks; ``beside`` are the calls that are no draws, for the text itself
    and for the text without its words. All 2^d masks are asked instead if the method ``enumerates``
    and they are few, or no more.
    """

    count: int | None  # as it was set; None leaves it to the text
    most: int = MOST_DRAWS  # that are drawn to meet the tolerance
    tolerance: float | None = None
    usual: Callable[[int], int] = lambda _: DEFAULT_CALLS  # if no count is set and they determine
    # Draws that surely determine the scores of d features, and tell how far off they are.
    determining: Callable[[int], int] = lambda _: 4
    each: Callable[[int], int] = lambda _: 1
    beside: int = 2
    enumerates: bool = True

    def first(self, d: int) -> int:
        """Return how many are drawn for ``d`` features before a tolerance is looked at."""
        if self.count is not None:
            return self.count
        return min(max(self.usual(d), self.determining(d)), self.most)

    def last(self, d: int) -> int:
        """Return how many are drawn at most."""
        return self.first(d) if self.tolerance is None else self.most

    def asks_all(self, d: int) -> bool:
        """Whether all masks are asked."""
        few = affordable(d, self.first(d) * self.each(d)) and 2**d <= self.most * self.each(d)
        return self.enumerates and few

    def asks_all_in_time(self, d: int) -> bool:
        """Whether all masks are asked, for which a deadline must leave time enough."""
        return self.asks_all(d) and has_time_for(2**d)

    def calls(self, d: int) -> int:
        """Return how often the model is asked about ``d`` features, at least."""
        return 1 + 2**d if self.asks_all(d) else self.first(d) * self.each(d) + self.beside

    def fewest_calls(self, d: int) -> int:
        """Return the calls below which the scores of ``d`` features are not surely determined."""
        sampled = self.determining(d) * self.each(d) + self.beside
        return min(1 + 2**d, sampled) if self.enumerates else sampled

    def within(self, calls: int, d: int) -> int:
        """Return how many draws ``calls`` allow; all masks are asked if they are no more."""
        each = self.each(d)
        draws = max((calls - self.beside) // each, self.determining(d))
        # All masks count as the draws that take as many calls.
        return max(draws, -(-(2**d) // each)) if self.enumerates and 1 + 2**d <= calls else draws

    def unmet(self, drawn: int, worst: float) -> tuple[str, ...]:
        """Say that a tolerance was not met: ``worst`` is the largest standard error."""
        if self.tolerance is None or worst <= self.tolerance:
            return ()
        return (
            f"After {drawn:,} draws the largest standard error is {worst:.2g}, above the tolerance "
            f"{self.tolerance:.2g}; raise max_samples, or max_pairs where orders are drawn.",
        )


@settings_class
class Drawing:
    """Settings of every method that draws masks."""

    samples: Annotated[int | None, at_least(2)] = None
    max_samples: Annotated[int, at_least(2), NotBelow("samples")] = MOST_DRAWS
    tolerance: Annotated[float | None, Positive] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    def drawing(self, **how: Any) -> Draws:
        """Return how many masks are drawn, ``how`` being what the settings do not say."""
        most, tolerance = self.max_samples, self.tolerance
        return Draws(count=self.samples, most=most, tolerance=tolerance, **how)


def by_draws(
    explain: Callable[[Any, Reading], Finding],
    settings: Mapping[str, str],
    *,
    count: str = "samples",
    most: int | None = None,
    spare: str = "",
    unsaid: tuple[str, ...] = (),
    cost: str = "",
    own: float = 0.0,
    choose: Callable[[Any, int, int], Any] = lambda settings, *_: settings,
    feasible: Callable[[Any, int], None] | None = None,
) -> Way:
    """Return a way that asks any model about draws: ``count`` of them, as its ``draws`` say.

    It goes on to a tolerance, unless it can use so many and no more: ``most``. ``spare`` is the
    setting that takes the calls of a budget which are too few for another draw. ``choose`` turns
    settings into those for so many features and calls. Settings that are ``unsaid`` stand in a
    result only where they are set.
    """
    limit, counts = f"max_{count}", [count]
    meant = {**settings, **{name: MEANS[name] for name in ("replacement", "seed")}}
    if most is None:
        counts += [limit, "tolerance"]
        until = f"keep drawing until no standard error exceeds it; None: stop at `{count}`"
        kind = "masks" if count == "samples" else count
        meant |= {"tolerance": until, limit: f"the most {kind} to draw"}
    if spare:
        counts.append(spare)

    def fitted(settings: Any, d: int, calls: int) -> Any:
        settings = choose(settings, d, calls)
        draws = settings.draws.within(calls, d)
        if most is not None:
            return replace(settings, **{count: min(draws, most)})
        found = replace(settings, **{count: draws, limit: draws})
        if not spare or found.draws.asks_all(d):
            return found
        return replace(found, **{spare: max(calls - found.draws.calls(d), 0)})

    return Way(
        needs=None,
        exactness="sampled",
        explain=each(explain),
        settings=meant,
        calls=lambda settings, d: settings.draws.calls(d),
        fewest=lambda settings, d: settings.draws.fewest_calls(d),
        counts=tuple(counts),
        fitted=fitted,
        own=own,
        cost=cost,
        feasible=feasible,
        unsaid=(spare, *unsaid) if spare else unsaid,
    )


@dataclass(frozen=True, slots=True)
class Budget:
    """A time in seconds, or a number of calls of the model; the other of the two is None.

    ``since`` is when the time began, by ``deadline.read_clock``; None where nothing is timed yet.
    """

    seconds: float | None
    calls: int | None
    since: float | None = None

    @staticmethod
    def of(given: object) -> "Budget":
        """Return a budget from a number of seconds, or from "30s", "2 min" or "400 calls"."""
        if isinstance(given, Budget):
            return given
        if isinstance(given, Real) and not isinstance(given, bool):
            if 0 <= cast(float, given) < 1e18:  # a whole number may be too large for a float
                return Budget(float(given), None)
        elif isinstance(given, str) and (found := _WRITTEN.fullmatch(given)) is not None:
            count, unit = float(found[1]), found[2].lower()
            if unit in ("call", "calls") and count == int(count):
                return Budget(None, int(count))
            if unit in _UNITS:
                return Budget(count * _UNITS[unit], None)
        raise InputError(
            'budget must be a time, 30 or "30s" or "2min", or a number of calls of the model, '
            f'"400 calls", and at least 0; got {one_line(told(given), 60)}.'
        )

    def begun(self) -> "Budget":
        """Return the same, its time beginning now."""
        return replace(self, since=deadline.read_clock())

    def __str__(self) -> str:
        return f"{self.calls} calls" if self.seconds is None else f"{self.seconds:g}s"


BudgetGiven = int | float | str | Budget


class _Pace(NamedTuple):
    """How long a model takes for a mask, and how many were asked together to find out."""

    seconds_per_mask: float
    smallest_batch: int


def agreed_budget(
    given: BudgetGiven, several: Sequence[Chosen], settings: Mapping[str, Any]
) -> Budget:
    """Return a budget for ``several`` methods, of which none has counts from elsewhere.

    A method that no budget bounds is refused.
    """
    budget = Budget.of(given).begun()
    for one in several:
        if one.way.fewest is None and one.way.calls is not None:
            raise InputError(
                f"method {one.method.id!r} asks as often as its search needs, which no budget "
                "bounds; leave budget out and set its own counts."
            )
        defaults = {**setting_defaults(one.method), **one.way.defaults}
        for name in one.way.counts:
            # An object does not tell what was set in it: what is not the default was.
            if name in settings or getattr(one.settings, name) != defaults[name]:
                raise InputError(
                    f"give budget or {name!r}, not both: {name!r} of method {one.method.id!r} "
                    "follows from the budget."
                )
    return budget


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
    several = [chosen.asking(one.model) for chosen in several]
    if budget is None or not any(chosen.way.fewest for chosen in several):
        return several
    d = len(one.features[0])
    if budget.seconds is None:
        return _dealt(several, d, Allowance(str(budget), budget.calls or 0))
    start = deadline.read_clock() if budget.since is None else budget.since
    pace = _pace(budget.seconds, one.game())
    end = start + budget.seconds
    calls = max(int((end - deadline.read_clock()) / pace.seconds_per_mask), 0)
    dealt = _dealt(several, d, Allowance(str(budget), calls, pace.seconds_per_mask))
    return _with_deadlines(dealt, d, budget.seconds, end, pace)


def _with_deadlines(
    several: Sequence[Chosen], d: int, seconds: float, end: float, pace: _Pace
) -> list[Chosen]:
    """Return the methods, which are computed one after the other, each with its deadline."""
    result, now, each = list[Chosen](), deadline.read_clock(), pace.seconds_per_mask
    for chosen in several:
        if chosen.allowance is None:
            result.append(chosen)
            continue
        counts, way = bool(chosen.way.counts), chosen.way
        fewest = 0 if way.fewest is None else way.fewest(chosen.settings, d)
        taken = each * (chosen.allowance.calls if counts else fewest)
        # What a way computes of the answers comes after it has drawn.
        until = min(now + taken * each / (each + d * way.own), end)
        limit = Deadline(
            until, seconds=seconds, seconds_per_mask=each, smallest_batch=pace.smallest_batch
        )
        result.append(chosen._replace(allowance=chosen.allowance._replace(deadline=limit)))
        now += taken
    return result


def _dealt(several: Sequence[Chosen], d: int, whole: Allowance) -> list[Chosen]:
    calls = max(whole.calls - 1, 0)  # the text itself has been predicted
    fixed, counting, reserved = 0, 0, 0
    for one in several:
        counting += bool(one.way.counts)
        if one.way.fewest is not None and not one.way.counts:
            cost = one.way.fewest(one.settings, d)
            # One that costs more than there is will be refused, and leaves its part to the others.
            fixed += cost if cost <= calls else 0
            reserved += cost
    left = max(calls - fixed, 0) // max(counting, 1)
    return [
        one._replace(
            allowance=whole._replace(
                calls=left if one.way.counts else calls,
                shared=len(several) > 1,
                sharers=max(counting, 1),
                reserved=reserved,
            )
        )
        if one.way.fewest is not None
        else one
        for one in several
    ]


def checked_counts(budget: Budget | None, several: Sequence[Chosen], d: int) -> None:
    """Refuse settings, or a number of calls, that cannot work for ``d`` features."""
    if budget is not None and budget.calls is not None:
        several = _dealt(several, d, Allowance(str(budget), budget.calls))
    for one in several:
        fitted = one.fitted(d)
        if one.way.feasible is not None:
            one.way.feasible(fitted.settings, d)


def _pace(seconds: float, game: TextGame) -> _Pace:
    """Measure how long the model takes for a mask of the text; that is a part of the time.

    More and more are asked together, since a graphics card answers many in the time of one.
    """
    rng, d = np.random.default_rng(0), len(game)
    game(np.ones((1, d), bool))  # the first question of all pays for what is set up
    count = _FIRST
    while True:
        begun = deadline.read_clock()
        masks = np.unique(rng.random((count, d)) < 0.5, axis=0)  # what was asked costs nothing
        game(masks)
        took = deadline.read_clock() - begun
        # Of few features, more would mostly be known from the rounds before, and look like no time.
        if count >= min(_LAST, 2**d / 8) or took > _TRIED * seconds:
            break
        count *= 4
    # Fewer together take longer for each, so a batch that the clock cuts is no smaller.
    return _Pace(max(took, _GRAIN) / len(masks), len(masks))
