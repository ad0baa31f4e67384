"""Budgets: calls or seconds that may be spent on an input, and the part of each method."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, cast

import numpy as np

from limelight.errors import DomainError, InputError, short_repr
from limelight.explainers.batch import Batch
from limelight.explainers.learned import LEARNED_PREFIX, LearnedMethod
from limelight.explainers.method import (
    UNTIL,
    ConfiguredMethod,
    requested_replacement,
    setting_defaults,
)
from limelight.explainers.registry import (
    configure_method,
    configure_methods,
    default_comparison,
    default_method,
)
from limelight.models import Model
from limelight.models.text_game import TextGame
from limelight.sampling import deadline
from limelight.sampling.deadline import Deadline
from limelight.text import truncate_line

_TIMING_SHARE = 0.01  # share of a time budget that is enough to measure the duration of a call
_CLOCK_STEP = 1e-6  # a clock may not measure shorter times, in seconds
_FIRST_BATCH, _LAST_BATCH = 2, 512  # batch sizes of the timed calls; each is four times the last
_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0}
_UNITS |= {"minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0}
_AMOUNT = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([A-Za-z]*)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Budget:
    """A time in seconds or a number of model calls.

    One of ``seconds`` and ``calls`` is None. ``start`` is the time of ``deadline.read_clock`` at
    which the budget began, or None before that.
    """

    seconds: float | None
    calls: int | None
    start: float | None = None

    def restart(self) -> "Budget":
        """Return the same budget, with a time that begins now."""
        return replace(self, start=deadline.read_clock())

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:g}s"
        return "1 call" if self.calls == 1 else f"{self.calls} calls"


BudgetInput = int | float | str | Budget


def parse_budget(value: object) -> Budget:
    """Return the budget for a number of seconds, or for "30s", "2 min" or "400 calls"."""
    if isinstance(value, Budget):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
        if 0 <= cast(float, value) < 1e18:  # an integer may be too large for a float
            return Budget(float(value), None)
    elif isinstance(value, str) and (match := _AMOUNT.fullmatch(value)) is not None:
        amount, unit = float(match[1]), match[2].lower()
        if unit in ("call", "calls") and amount == int(amount):
            return Budget(None, int(amount))
        if unit in _UNITS:
            return Budget(amount * _UNITS[unit], None)
    raise InputError(
        'budget must be a time (30, "30s", "2min") or a number of model calls ("400 calls"), of '
        f"at least 0, not {truncate_line(short_repr(value), 60)}."
    )


def configure_with_budget(
    model: Model,
    method: Any,
    settings: Mapping[str, Any],
    budget: BudgetInput | None,
    *,
    is_list: bool = False,
) -> tuple[list[ConfiguredMethod], Budget | None]:
    """Configure the methods of a call, and parse the budget that they share.

    Parameters
    ----------
    model
        The model that will be explained.
    method
        A method or, with ``is_list``, a list of methods; None is the default of the model.
    settings
        Settings of the methods by name.
    budget
        The budget as the user wrote it. With a budget or ``until``, a learned method is where
        Shapley values start, because there are calls to spend.
    is_list
        Whether the call compares methods.

    Returns
    -------
    The configured methods, and the budget or None.

    Raises
    ------
    InputError
        If a method or setting is unknown, or if a setting follows from the budget.
    """
    is_learned = isinstance(method, LearnedMethod) or str(method).startswith(LEARNED_PREFIX)
    if is_list:
        methods = configure_methods(model, method, settings)
    elif is_learned and (budget is not None or UNTIL in settings):
        methods = [configure_method("shapley", model, {"start": method, **settings})]
    else:
        methods = [
            configure_method(default_method(model) if method is None else method, model, settings)
        ]
    if budget is None:
        return methods, None
    parsed = parse_budget(budget).restart()
    _check_settings_unset(methods, settings)
    return methods, parsed


def _check_settings_unset(methods: Sequence[ConfiguredMethod], settings: Mapping[str, Any]) -> None:
    """Raise an error for settings that follow from the budget, and methods without a bound."""
    for configured in methods:
        method, implementation = configured.method, configured.implementation
        cost = implementation.cost
        if cost.minimum is None and cost.calls is not None:
            raise InputError(
                f"method {method.id!r} does not support a budget, because its search has no fixed "
                "length. Leave budget out, and set its numbers of samples instead."
            )
        defaults = {**setting_defaults(method), **implementation.defaults}
        for name in cost.settings:
            # In a settings object, a value that differs from its default was set by the user.
            if name in settings or getattr(configured.settings, name) != defaults[name]:
                raise InputError(
                    f"give budget or {name!r}, not both. The budget determines {name!r} of method "
                    f"{method.id!r}."
                )


def allocate_budget(
    budget: Budget | None, methods: list[ConfiguredMethod], batch: Batch
) -> list[ConfiguredMethod]:
    """Split a budget over the methods that will explain one input.

    Methods with a fixed cost get their calls first. The sampled methods share the remaining calls
    evenly. Each can also use the stored outputs of the others. Without a budget the methods are
    returned unchanged.

    Parameters
    ----------
    budget
        Calls or seconds that may be spent on this input.
    methods
        Methods in the order in which they will run.
    batch
        The input, read by the model that will be called.

    Returns
    -------
    The methods for this model, each with the settings that its part of the budget allows.
    """
    # If the model has no exact game for this text, the batch has the fallback of the model.
    if any(method.model is not batch.model for method in methods):
        methods = [method.for_model(batch.model) for method in methods]
    if budget is None or not any(method.implementation.cost.minimum for method in methods):
        return methods
    d = len(batch.features[0])
    if budget.seconds is None:
        return allocate_calls(budget, methods, d, budget.calls or 0)
    start = deadline.read_clock() if budget.start is None else budget.start
    seconds_per_call, batch_size = time_calls(budget.seconds, batch.game())
    end = start + budget.seconds
    calls = max(int((end - deadline.read_clock()) / seconds_per_call), 0)
    return _set_deadlines(
        allocate_calls(budget, methods, d, calls, seconds_per_call=seconds_per_call),
        d,
        seconds=budget.seconds,
        end=end,
        seconds_per_call=seconds_per_call,
        batch_size=batch_size,
    )


def _set_deadlines(
    methods: Sequence[ConfiguredMethod],
    d: int,
    *,
    seconds: float,
    end: float,
    seconds_per_call: float,
    batch_size: int,
) -> list[ConfiguredMethod]:
    """Return the methods with deadlines, for running them one after another."""
    timed_methods, now = list[ConfiguredMethod](), deadline.read_clock()
    for method in methods:
        if method.calls is None:
            timed_methods.append(method)
            continue
        cost = method.implementation.cost
        fixed_calls = 0 if cost.minimum is None else cost.minimum(method.settings, d)
        duration = seconds_per_call * (method.calls if cost.settings else fixed_calls)
        # The overhead of an implementation comes after its model calls.
        calls_end = now + duration * seconds_per_call / (seconds_per_call + d * cost.overhead)
        method_deadline = Deadline(
            min(calls_end, end),
            seconds=seconds,
            seconds_per_mask=seconds_per_call,
            smallest_batch=batch_size,
        )
        timed_methods.append(method._replace(deadline=method_deadline))
        now += duration
    return timed_methods


def allocate_calls(
    budget: Budget,
    methods: Sequence[ConfiguredMethod],
    d: int,
    calls: int,
    *,
    seconds_per_call: float | None = None,
) -> list[ConfiguredMethod]:
    """Split a number of model calls over the methods that will explain one input.

    A method that needs more calls than it gets has a ``budget_error``. It fails when it runs, so
    that a comparison can continue without it.

    Parameters
    ----------
    budget
        The budget, for results and error messages.
    methods
        Methods in the order in which they will run.
    d
        Number of features of the input.
    calls
        Model calls that all methods together may make.
    seconds_per_call
        Time of one call, if the budget is a time.
    """
    calls = max(calls - 1, 0)  # the outputs of the input itself took one call
    spent, reserved, sampled_count = 0, 0, 0
    for method in methods:
        cost = method.implementation.cost
        sampled_count += bool(cost.settings)
        if cost.minimum is not None and not cost.settings:
            fixed_calls = cost.minimum(method.settings, d)
            # A method that costs more than all calls will fail, and the others get its part.
            spent += fixed_calls if fixed_calls <= calls else 0
            reserved += fixed_calls
    share = max(calls - spent, 0) // max(sampled_count, 1)
    budget_text, allocated = str(budget), list[ConfiguredMethod]()
    for method in methods:
        cost = method.implementation.cost
        if cost.minimum is None:
            allocated.append(method)
            continue
        part, minimum = share if cost.settings else calls, cost.minimum(method.settings, d)
        affordable = part
        if seconds_per_call is not None:
            affordable = cost.affordable_calls(part, d, seconds_per_call)
        if affordable >= minimum:
            allocated.append(method.with_budget(budget_text, part, affordable, d))
            continue
        after = " after reading the text and timing the model" * (seconds_per_call is not None)
        # One more call is for the input itself.
        enough = 1 + (minimum * max(sampled_count, 1) + reserved if cost.settings else minimum)
        advice = _suggest_methods(method, d, affordable, minimum) if len(methods) == 1 else ""
        budget_error = (
            f"{method.method.label} needs at least {minimum:,} model calls for "
            f"{d} feature{'s' * (d != 1)}, but "
            f"the budget of {budget_text} allows {affordable:,}{after}. Use a budget of "
            f"{enough:,} calls{advice}."
        )
        allocated.append(method._replace(budget=budget_text, calls=part, budget_error=budget_error))
    return allocated


def _suggest_methods(configured: ConfiguredMethod, d: int, calls: int, minimum: int) -> str:
    """Return the names of methods that explain ``d`` features with a number of calls, as advice.

    If there is none, the advice names a method that needs fewer than ``minimum`` calls. The
    budgets in the advice include the call for the input itself.
    """
    model, minimum_calls = configured.model, dict[str, int]()
    for name in default_comparison(model):
        method = configure_method(name, model, {})
        if (count_minimum := method.implementation.cost.minimum) is not None:
            minimum_calls[name] = count_minimum(method.settings, d)
    if not minimum_calls:  # all default methods of this model are exact
        # Exact methods need the model's default replacement.
        is_default = requested_replacement(configured.settings) in ("auto", model.replacements[0])
        advice = "" if is_default else "leave replacement out and "
        return f", or {advice}use {default_method(model)!r}, which needs no calls"
    cheapest = min(minimum_calls, key=minimum_calls.__getitem__)
    if minimum_calls[cheapest] > calls:
        if minimum_calls[cheapest] >= minimum:
            return ""
        return f", or {minimum_calls[cheapest] + 1:,} calls and {cheapest!r}"
    first = next(name for name in minimum_calls if minimum_calls[name] <= calls)
    names = (
        f"{name!r} ({minimum_calls[name]:,} calls)" for name in dict.fromkeys((first, cheapest))
    )
    return f", or use {' or '.join(names)}"


def check_feasible(budget: Budget | None, methods: Sequence[ConfiguredMethod], d: int) -> None:
    """Raise an error if settings, or a number of calls, cannot work for ``d`` features."""
    if budget is not None and budget.calls is not None:
        methods = allocate_calls(budget, methods, d, budget.calls)
    for method in methods:
        if method.budget_error:
            raise DomainError(method.budget_error)
        check = method.implementation.cost.check
        if check is not None:
            check(method.settings, d)


def time_calls(seconds: float, game: TextGame) -> tuple[float, int]:
    """Measure the seconds of a model call, and return them with the batch size of the calls.

    The measurement counts as part of the budget. Batches grow, because a GPU evaluates many masks
    in the time of one.
    """
    rng, d = np.random.default_rng(0), len(game)
    game(np.ones((1, d), bool))  # the first call is slower, because it includes the setup
    count = _FIRST_BATCH
    while True:
        start = deadline.read_clock()
        # Masks that were evaluated before cost nothing.
        masks = np.unique(rng.random((count, d)) < 0.5, axis=0)
        game(masks)
        elapsed = deadline.read_clock() - start
        # For few features, most masks of a larger batch would be stored already and take no time.
        if count >= min(_LAST_BATCH, 2**d / 8) or elapsed > _TIMING_SHARE * seconds:
            break
        count *= 4
    # In smaller batches each call takes longer, so a deadline never splits a batch further.
    return max(elapsed, _CLOCK_STEP) / len(masks), len(masks)
