"""What a method is: facts about it, its settings, and its implementations with their costs."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from limelight.errors import InputError, nearest, told
from limelight.explainers.batch import Batch
from limelight.models import (
    CAPABILITIES,
    Capability,
    Model,
    reason_missing,
    resolved_replacement,
)
from limelight.results import Attribution
from limelight.results.method_table import MethodFacts
from limelight.sampling.deadline import Deadline
from limelight.text import one_line


class Range(NamedTuple):
    """What a setting must hold, said in its annotation: ``Annotated[float, Positive]``."""

    holds: Callable[[Any], bool]
    said: str  # "{name} must {said}; got {value}."


# Each is false for NaN, which compares with nothing, so that it is refused.
Positive = Range(lambda x: x > 0, "be positive")
NotNegative = Range(lambda x: x >= 0, "not be negative")
FiniteNotNegative = Range(lambda x: 0 <= x < math.inf, "be finite and not negative")
Share = Range(lambda x: 0 < x < 1, "lie between 0 and 1")


def at_least(least: int) -> Range:
    """Return the numbers from ``least`` on."""
    return Range(lambda x: x >= least, f"be at least {least}")


def between(least: int, most: int) -> Range:
    """Return the numbers from ``least`` to ``most``."""
    return Range(lambda x: least <= x <= most, f"be between {least} and {most}")


class OneOf(NamedTuple):
    """The words that a setting may be."""

    known: Collection[str]


class NotBelow(NamedTuple):
    """The setting that this one, the most there may be of it, may not be below."""

    other: str


_MOST_BITS = 63


class Declared(NamedTuple):
    """A setting: its default, the types that it may have, and what it must hold besides."""

    name: str
    default: Any
    allowed: tuple[Any, ...]
    ranges: tuple[Any, ...]


_Class = TypeVar("_Class", bound=type[Any])


@dataclass_transform(kw_only_default=True, frozen_default=True)
def settings_class(cls: _Class) -> _Class:
    """Make a frozen dataclass of settings, whose values are checked once, when one is made.

    What each may be is said in its annotation. A ``__post_init__`` of the class is called after
    that, for what concerns several settings. Settings of another such class may be inherited.
    """
    own: Any = cls
    own.check_together, own.__post_init__ = vars(cls).get("__post_init__"), _check_values
    own = dataclass(frozen=True, kw_only=True)(own)
    hints, declared = get_type_hints(own, include_extras=True), []
    for one in fields(own):
        ranges = getattr(hints[one.name], "__metadata__", ())
        plain = hints[one.name].__origin__ if ranges else hints[one.name]
        declared.append(Declared(one.name, one.default, get_args(plain) or (plain,), ranges))
    own.declared = tuple(declared)
    return own


def _check_values(settings: Any) -> None:
    """Refuse settings of the wrong type or outside their range, then what the class refuses."""
    for name, default, allowed, ranges in settings.declared:
        value = getattr(settings, name)
        # What nobody has set is right, and most settings are not set.
        if value is not default:
            object.__setattr__(settings, name, value := _typed(name, allowed, value))
        for one in ranges:
            if isinstance(one, NotBelow):
                count = getattr(settings, one.other)
                if count is not None and value < count:
                    raise InputError(f"{name} must be at least {one.other} ({count}); got {value}.")
            elif value is default or value is None:
                continue
            elif isinstance(one, OneOf):
                if value not in one.known:
                    raise InputError(nearest(name, value, one.known))
            elif not one.holds(value):
                raise InputError(f"{name} must {one.said}; got {value}.")
    if settings.check_together is not None:
        settings.check_together()


def made(cls: type[Any], **given: Any) -> Any:
    """Return settings of the class with what was ``given``: 100.0 samples are 100."""
    # Typed before the class sees them: whoever checks types at run time, as our tests do, would
    # refuse by its signature, and not in a sentence about the setting.
    kinds = {one.name: one.allowed for one in cls.declared}
    return cls(**{name: _typed(name, kinds[name], value) for name, value in given.items()})


def _typed(name: str, allowed: tuple[Any, ...], value: Any) -> Any:
    """Return ``value`` as the type of thing that the setting is; refuse what cannot be one."""
    if type(value) in allowed and type(value) is not int:
        return value
    # Neither NumPy nor, beyond some thousand digits, a sentence can hold any whole number.
    huge = isinstance(value, int) and value.bit_length() > _MOST_BITS
    number = isinstance(value, Real) and not isinstance(value, bool) and not huge
    if str in allowed and isinstance(value, str):
        return value
    if bool in allowed:
        fits, wanted = isinstance(value, bool), "true or false"
    elif float in allowed:
        fits, wanted = number, "a number"
    elif int in allowed:
        fits, wanted = number and math.isfinite(value) and value == int(value), "a whole number"
    else:
        fits, wanted = isinstance(value, str), "a word"
    if not fits:
        wanted += f" below 2^{_MOST_BITS} in size" * huge
        raise InputError(f"the setting {name!r} must be {wanted}; got {one_line(told(value), 60)}.")
    if not number:
        return value
    return float(value) if float in allowed else int(value)


# How far the scores of an implementation can be trusted: a proven bound, rounding alone, an
# estimate of the error, the errors of a fit on held-out texts, or standard errors of sampling.
Exactness = Literal["bound", "exact", "estimated", "fitted", "sampled"]


def per_input(
    explain: Callable[[Any, Batch], Attribution],
) -> Callable[[Any, Batch], list[Attribution]]:
    """Turn a function that explains one input into one that explains every input of a reading."""
    return lambda settings, batch: [explain(settings, single) for single in batch.apart()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """How often an implementation calls the model, as functions of settings and features.

    One call is one evaluation of the model on one masked input. An implementation without
    ``calls`` does not call the model on masked inputs. Without a ``minimum`` no budget can bound
    it. With a ``minimum`` and no ``settings`` it always makes that many calls.

    Parameters
    ----------
    calls
        Expected number of calls for settings and a number of features.
    minimum
        Smallest number of calls that explains this many features.
    settings
        Names of the settings that follow from a budget.
    fit
        Returns the settings that a number of calls allows, from settings, features and calls.
    overhead
        Seconds that the implementation itself needs for each call and feature, if the model's own
        time does not dwarf them.
    check
        Raises a ``DomainError`` before any call if the settings cannot work for this many features.
    summary
        The cost in words, if it differs from that of the method.
    """

    calls: Callable[[Any, int], int] | None = None
    minimum: Callable[[Any, int], int] | None = None
    settings: tuple[str, ...] = ()
    fit: Callable[[Any, int, int], Any] = lambda settings, *_: settings
    overhead: float = 0.0
    check: Callable[[Any, int], None] | None = None
    summary: str = ""

    def affordable_calls(self, calls: int, d: int, seconds_per_call: float) -> int:
        """Return how many of the calls remain once the time for the overhead is taken off."""
        return int(calls * seconds_per_call / (seconds_per_call + d * self.overhead))


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """How a method is computed for models with a certain capability.

    Parameters
    ----------
    needs
        The capability that the model must have; None for any model.
    exactness
        How far the scores can be trusted: "bound", "exact", "estimated", "fitted" or "sampled".
    explain
        Returns one ``Attribution`` for each input of a ``Reading``; :func:`per_input` makes such a
        function from one for a single input.
    settings
        The settings that this implementation uses, each with its meaning.
    defaults
        The values that None stands for, by setting.
    cost
        How often it calls the model.
    resolve_replacement
        Turns the setting ``replacement`` into a replacement of the model.
    hidden_settings
        Settings that a result lists only if they differ from their defaults.
    is_batched
        Whether it explains several inputs in one pass of the model.
    logit_only
        Whether it has a formula for logits only, and not for probabilities.
    """

    needs: Capability | None = None
    exactness: Exactness
    explain: Callable[[Any, Batch], list[Attribution]]
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost = Cost()
    resolve_replacement: Callable[[Model, str], str] = resolved_replacement
    hidden_settings: tuple[str, ...] = ()
    is_batched: bool = False
    logit_only: bool = False


# What settings mean in most implementations.
MEANINGS = {
    "tolerance": "largest error of a score, relative to the range of f",
    "per_head": "also score every head alone",
    "replacement": "what stands for a removed word",
    "seed": "same seed, same scores",
}


def exact_implementation(
    explain: Callable[[Any, Batch], list[Attribution]],
    settings: Collection[str] = ("tolerance",),
    **meanings: str,
) -> Implementation:
    """Return an implementation that integrates the exact game of a model, within a bound.

    Parameters
    ----------
    explain
        Returns one ``Attribution`` with a bound for each input of a ``Reading``.
    settings
        Names of the settings that it uses.
    **meanings
        Meanings of the settings that ``MEANINGS`` does not have.
    """
    known_meanings = MEANINGS | meanings
    return Implementation(
        needs="exact_game",
        exactness="bound",
        explain=explain,
        settings={name: known_meanings[name] for name in settings},
        defaults={"tolerance": 1e-6},
        logit_only=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(MethodFacts):
    """One row of the catalogue that ``limelight methods`` prints.

    ``settings`` is a :func:`settings_class`; a value of it may take the place of the method's id.
    A model is explained by the first of the ``implementations`` whose capability it has.
    """

    settings: type[Any]
    implementations: tuple[Implementation, ...]


class ConfiguredMethod(NamedTuple):
    """A method with the implementation and the settings for one model.

    ``budget`` is the budget as the user wrote it, if the settings follow from one. ``calls`` and
    ``deadline`` are then this method's part of it, and ``refusal`` says why that is not enough.
    """

    method: Method
    implementation: Implementation
    settings: Any
    model: Model
    budget: str = ""
    calls: int | None = None
    deadline: Deadline | None = None
    refusal: str = ""

    @classmethod
    def create(cls, method: Method, model: Model, settings: Any) -> "ConfiguredMethod":
        """Configure a method for a model.

        Parameters
        ----------
        method
            A method of the registry, or one that was fitted to the model.
        model
            The model that will be explained.
        settings
            Values by name, or a settings object of the method.

        Raises
        ------
        InputError
            If the model lacks what the method needs, or if a setting that is not at its default
            has no effect on this model.
        """
        implementation = select_implementation(method, model, chosen_replacement(settings))
        if implementation is None:
            raise unusable_method(method, model)
        defaults = setting_defaults(method)
        if isinstance(settings, Mapping):
            changed = dict(settings)
        else:
            values = {name: getattr(settings, name) for name in defaults}
            changed = {name: value for name, value in values.items() if value != defaults[name]}
        if changed:
            is_usual = implementation is select_implementation(method, model)
            case = "for this model" if is_usual else "with this replacement"
            _check_names(method, implementation, changed, case)
        values = defaults | changed
        changed |= {
            name: value for name, value in implementation.defaults.items() if values[name] is None
        }
        # A replacement that is no string is rejected with the other settings.
        if "replacement" in implementation.settings and isinstance(values["replacement"], str):
            changed["replacement"] = implementation.resolve_replacement(
                model, values["replacement"]
            )
        return cls(method, implementation, made(method.settings, **changed), model)

    def for_model(self, model: Model) -> "ConfiguredMethod":
        """Return the method for another model, with its settings.

        Raises
        ------
        InputError
            If a setting that was changed has no effect on that model.
        """
        if model is self.model:
            return self
        replacement = chosen_replacement(self.settings)
        implementation = select_implementation(self.method, model, replacement)
        if implementation is self.implementation:
            return self
        defaults = {**setting_defaults(self.method), **self.implementation.defaults}
        # The tolerance of an exact implementation says nothing about how much to sample.
        values = {
            name: getattr(self.settings, name)
            for name in self.implementation.settings
            if name != "tolerance"
        }
        names = values if implementation is None else implementation.settings
        for name in values.keys() - names.keys():
            if values.pop(name) != defaults[name]:
                raise InputError(
                    f"the setting {name!r} of method {self.method.id!r} has no effect on a text "
                    "that is sampled; leave it out."
                )
        return self.create(self.method, model, values)

    def with_budget(
        self, budget: str, calls: int, affordable_calls: int, d: int
    ) -> "ConfiguredMethod":
        """Fit the settings to the calls that a budget leaves for one input.

        Parameters
        ----------
        budget
            The budget as the user wrote it.
        calls
            Calls that this method may make.
        affordable_calls
            Those of them that leave time for the overhead of the method.
        d
            Number of features of the input.
        """
        settings = self.implementation.cost.fit(self.settings, d, affordable_calls)
        return self._replace(settings=settings, budget=budget, calls=calls)

    def with_samples_drawn(self, diagnostics: Mapping[str, Any]) -> "ConfiguredMethod":
        """Return the method with the count that was drawn, if a deadline ended the sampling."""
        names = self.implementation.cost.settings
        if self.deadline is None or not names:
            return self
        count, *others = names
        drawn, planned = diagnostics.get(f"{count}_drawn"), getattr(self.settings, count)
        if drawn is None or planned is None or drawn >= planned:
            return self
        counts = {count: drawn} | {name: drawn for name in others if name == f"max_{count}"}
        counts |= {name: 0 for name in others if name == "spare"}
        return self._replace(settings=replace(self.settings, **counts))

    def expected_calls(self, d: int) -> int:
        """Return the expected number of model calls for ``d`` features."""
        if self.calls is not None:
            return self.calls
        count_calls = self.implementation.cost.calls
        return 0 if count_calls is None else count_calls(self.settings, d)

    def settings_used(self) -> dict[str, Any]:
        """Return the settings of the implementation by name, and the budget they follow from.

        A learned method among them is represented by its digest.
        """
        values = {name: getattr(self.settings, name) for name in self.implementation.settings}
        used = {name: getattr(value, "digest", value) for name, value in values.items()}
        for name in self.implementation.hidden_settings:
            if used[name] == setting_defaults(self.method)[name]:
                del used[name]
        return used | {"budget": self.budget} if self.budget else used


def select_implementation(
    method: Method, model: Model, replacement: Any = "auto"
) -> Implementation | None:
    """Return the first implementation for ``model`` and ``replacement``; None if there is none."""
    capabilities, usual = model.capabilities, ("auto", model.replacements[0])
    for implementation in method.implementations:
        needs = implementation.needs
        if needs is None or capabilities.get(needs, "") is None:
            # The exact game of a model removes words as the model does, by its first replacement.
            is_exact = needs == "exact_game" and "replacement" in implementation.settings
            # A replacement that is no string is rejected with the other settings.
            is_usual = not isinstance(replacement, str) or replacement in usual
            if not is_exact or is_usual:
                return implementation
    return None


def chosen_replacement(settings: Any) -> Any:
    """Return the replacement in settings by name, or in a settings object."""
    if isinstance(settings, Mapping):
        return settings.get("replacement", "auto")
    return getattr(settings, "replacement", "auto")


def reason_unusable(method: Method, model: Model, advice: str = "") -> str:
    """Say why ``method`` cannot explain ``model``, followed by ``advice``."""
    needs = cast(Capability, method.implementations[-1].needs)  # or any model would do
    if (why := reason_missing(model, needs)) is None:  # then the replacement is at fault
        return (
            f"method {method.id!r} removes words of this model by {model.replacements[0]!r} only; "
            "leave replacement out, or use 'lime'."
        )
    return f"method {method.id!r} needs {CAPABILITIES[needs]}, and {why}{advice}."


def unusable_method(method: Method, model: Model) -> InputError:
    """Return the error for a method that cannot explain ``model``; it names methods that can."""
    return InputError(reason_unusable(method, model, "; use 'shapley', 'lime' or 'loo'"))


def setting_defaults(method: Method) -> dict[str, Any]:
    """Return the settings of ``method`` with their defaults."""
    return {setting.name: setting.default for setting in method.settings.declared}


def _check_names(
    method: Method, implementation: Implementation, names: Iterable[str], case: str
) -> None:
    known = implementation.settings
    for name in names:
        if name in known:
            continue
        if name in setting_defaults(method) or not known:
            choices = _join_names(list(known)) if known else "no setting"
            raise InputError(
                f"the setting {name!r} of method {method.id!r} does nothing {case}; "
                f"here it takes {choices}."
            )
        raise InputError(nearest(f"setting of method {method.id!r} named", name, known))


def _join_names(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
