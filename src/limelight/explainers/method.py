"""Methods: facts, settings, and implementations with their costs."""

import math
import re
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

from limelight.errors import InputError, short_repr, unknown_name_message
from limelight.explainers.batch import Batch
from limelight.models import (
    CAPABILITIES,
    Capability,
    Model,
    reason_missing,
    resolve_replacement,
)
from limelight.models.protocol import REFILL
from limelight.results import Attribution
from limelight.results.method_table import MethodFacts
from limelight.sampling.deadline import Deadline
from limelight.text import truncate_line


class Range(NamedTuple):
    """The allowed values of a setting, used in an annotation: ``Annotated[float, Positive]``.

    Parameters
    ----------
    contains
        Whether a value is allowed.
    requirement
        A part of the error message "{name} must {requirement}, not {value}."
    """

    contains: Callable[[Any], bool]
    requirement: str


# No range contains NaN, because every comparison with NaN is false.
Positive = Range(lambda x: x > 0, "be positive")
NotNegative = Range(lambda x: x >= 0, "be at least 0")
FiniteNotNegative = Range(lambda x: 0 <= x < math.inf, "be finite and at least 0")
Share = Range(lambda x: 0 < x < 1, "be between 0 and 1")
PositiveShare = Range(lambda x: 0 < x <= 1, "be above 0 and at most 1")


_TOP = re.compile(r"top ([1-9][0-9]{0,8})", re.ASCII)
# The allowed values of the setting ``until``.
Top = Range(
    lambda text: _TOP.fullmatch(text) is not None, 'be a number of features such as "top 3"'
)


def parse_top(until: str | None) -> int | None:
    """Return the number of features in a text such as "top 3"; None stays None."""
    match = None if until is None else _TOP.fullmatch(until)
    return None if match is None else int(match[1])


def at_least(minimum: int) -> Range:
    """Return the range of numbers that are not smaller than ``minimum``."""
    return Range(lambda x: x >= minimum, f"be at least {minimum}")


def between(minimum: int, maximum: int) -> Range:
    """Return the range of numbers from ``minimum`` to ``maximum``, both included."""
    return Range(lambda x: minimum <= x <= maximum, f"be between {minimum} and {maximum}")


class OneOf(NamedTuple):
    """The strings that a setting may be."""

    choices: Collection[str]


class NotBelow(NamedTuple):
    """Another setting, which this setting must not be smaller than."""

    setting: str


_MAX_BITS = 63
UNTIL = "until"  # the setting that asks for certain top features


class SettingField(NamedTuple):
    """A setting of a method: its name, its default, its types, and its allowed values."""

    name: str
    default: Any
    types: tuple[Any, ...]
    ranges: tuple[Any, ...]


_Class = TypeVar("_Class", bound=type[Any])


@dataclass_transform(kw_only_default=True, frozen_default=True)
def settings_class(cls: _Class) -> _Class:
    """Turn a class into a frozen dataclass of settings that checks its values.

    The annotation of a field gives its types and its allowed values. A ``__post_init__`` of the
    class runs after these checks. It checks settings that depend on each other. Settings may be
    inherited from another settings class. The decorated class has the attribute
    ``setting_fields``.
    """
    settings_type: Any = cls
    settings_type.check_combination = vars(cls).get("__post_init__")
    settings_type.__post_init__ = _check_values
    settings_type = dataclass(frozen=True, kw_only=True)(settings_type)
    hints, setting_fields = get_type_hints(settings_type, include_extras=True), []
    for dataclass_field in fields(settings_type):
        hint = hints[dataclass_field.name]
        ranges = getattr(hint, "__metadata__", ())
        plain_hint = hint.__origin__ if ranges else hint
        types = get_args(plain_hint) or (plain_hint,)
        setting_fields.append(
            SettingField(dataclass_field.name, dataclass_field.default, types, ranges)
        )
    settings_type.setting_fields = tuple(setting_fields)
    return settings_type


def _check_values(settings: Any) -> None:
    """Raise an error for settings of a wrong type or outside their range, or that do not fit."""
    for name, default, types, ranges in settings.setting_fields:
        value = getattr(settings, name)
        # Defaults are correct, and most settings have their defaults.
        if value is not default:
            object.__setattr__(settings, name, value := _convert_value(name, types, value))
        for allowed in ranges:
            if isinstance(allowed, NotBelow):
                minimum = getattr(settings, allowed.setting)
                if minimum is not None and value < minimum:
                    raise InputError(
                        f"{name} must be at least {allowed.setting} ({minimum}), not {value}."
                    )
            elif value is default or value is None:
                continue
            elif isinstance(allowed, OneOf):
                if value not in allowed.choices:
                    raise InputError(unknown_name_message(name, value, allowed.choices))
            elif not allowed.contains(value):
                raise InputError(f"{name} must {allowed.requirement}, not {value}.")
    if settings.check_combination is not None:
        settings.check_combination()


def make_settings(cls: type[Any], **values: Any) -> Any:
    """Return settings of a class, with values converted to the types of the settings."""
    # The values are converted before the class sees them. Tests check types at run time, and would
    # fail at the signature of the class instead of with a message about the setting.
    types = {setting.name: setting.types for setting in cls.setting_fields}
    return cls(**{name: _convert_value(name, types[name], value) for name, value in values.items()})


def _convert_value(name: str, types: tuple[Any, ...], value: Any) -> Any:
    """Return the value of a setting as one of its types: 100.0 samples become 100.

    Raises
    ------
    InputError
        If the value cannot be converted without a loss.
    """
    if type(value) in types and type(value) is not int:
        return value
    # NumPy cannot store an integer of any size, and an error message cannot show it.
    is_huge = isinstance(value, int) and value.bit_length() > _MAX_BITS
    is_number = isinstance(value, Real) and not isinstance(value, bool) and not is_huge
    if str in types and isinstance(value, str):
        return value
    if bool in types:
        is_valid, expected = isinstance(value, bool), "true or false"
    elif float in types:
        is_valid, expected = is_number, "a number"
    elif int in types:
        is_valid = is_number and math.isfinite(value) and value == int(value)
        expected = "a whole number"
    else:
        is_valid, expected = isinstance(value, str), "a string"
    if not is_valid:
        expected += f" below 2^{_MAX_BITS} in size" * is_huge
        shown_value = truncate_line(short_repr(value), 60)
        raise InputError(f"the setting {name!r} must be {expected}, not {shown_value}.")
    if not is_number:
        return value
    return float(value) if float in types else int(value)


# How far the scores of an implementation can be trusted: a proven bound, rounding alone, an
# estimate of the error, the errors of a fit on held-out texts, or standard errors of sampling.
Exactness = Literal["bound", "exact", "estimated", "fitted", "sampled"]


def per_input(
    explain: Callable[[Any, Batch], Attribution],
) -> Callable[[Any, Batch], list[Attribution]]:
    """Turn a function that explains one input into one that explains every input of a batch."""
    return lambda settings, batch: [explain(settings, single) for single in batch.split()]


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
        Returns one ``Attribution`` for each input of a ``Batch``. :func:`per_input` makes this
        function from one for a single input.
    settings
        The settings that this implementation uses, each with its meaning.
    defaults
        The values that None stands for, by setting.
    cost
        How often it calls the model.
    choose_replacement
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
    choose_replacement: Callable[[Model, str], str] = resolve_replacement
    hidden_settings: tuple[str, ...] = ()
    is_batched: bool = False
    logit_only: bool = False

    @property
    def can_stop_when_certain(self) -> bool:
        """Whether the setting ``until`` has a meaning. Exact scores meet it at once."""
        return UNTIL in self.settings or self.exactness in ("bound", "exact")


# What settings mean in most implementations.
MEANINGS = {
    "tolerance": "largest error of a score, relative to the range of f",
    "per_head": "also score every head alone",
    "replacement": "the replacement of a removed word",
    "seed": "random seed",
}
_REFILL_TOLERANCE = "largest error of a score, relative to the range of the values of all words"


def exact_implementation(
    explain: Callable[[Any, Batch], list[Attribution]],
    settings: Collection[str] = ("tolerance",),
    **meanings: str,
) -> Implementation:
    """Return an implementation that computes scores from the exact game of a model, with a bound.

    Parameters
    ----------
    explain
        Returns one ``Attribution`` with a bound for each input of a ``Batch``.
    settings
        Names of the settings that it uses.
    **meanings
        Meanings of the settings that ``MEANINGS`` does not have.
    """
    all_meanings = MEANINGS | meanings
    return Implementation(
        needs="exact_game",
        exactness="bound",
        explain=explain,
        settings={name: all_meanings[name] for name in settings},
        defaults={"tolerance": 1e-6},
        logit_only=True,
    )


def refill_implementation(
    explain: Callable[[Any, Batch], list[Attribution]],
    settings: Collection[str] = ("tolerance", "per_head"),
    **meanings: str,
) -> Implementation:
    """Return an implementation for the replacement "refill", with exact means over all refills.

    Parameters
    ----------
    explain
        Returns one ``Attribution`` with a bound for each input of a ``Batch``.
    settings
        Names of the settings that it uses, beside the replacement.
    **meanings
        Meanings of the settings that ``MEANINGS`` does not have.
    """
    meanings = {"tolerance": _REFILL_TOLERANCE, **meanings}
    implementation = exact_implementation(explain, (*settings, "replacement"), **meanings)
    return replace(implementation, needs="refilling")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(MethodFacts):
    """A method: facts about it, its settings, and its implementations.

    ``limelight methods`` prints one row per method. ``settings`` is a :func:`settings_class`. A
    settings object can be used in place of the method's id. A model is explained by the first of
    the ``implementations`` whose capability it has.
    """

    settings: type[Any]
    implementations: tuple[Implementation, ...]


class ConfiguredMethod(NamedTuple):
    """A method with the implementation and the settings for one model.

    ``budget`` is the budget as the user wrote it, if the settings follow from one. ``calls`` and
    ``deadline`` are then this method's part of it. ``budget_error`` is the error message if the
    part is too small.
    """

    method: Method
    implementation: Implementation
    settings: Any
    model: Model
    budget: str = ""
    calls: int | None = None
    deadline: Deadline | None = None
    budget_error: str = ""

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
        implementation = select_implementation(method, model, requested_replacement(settings))
        if implementation is None:
            raise unusable_method_error(method, model)
        defaults = setting_defaults(method)
        if isinstance(settings, Mapping):
            changed = dict(settings)
        else:
            values = {name: getattr(settings, name) for name in defaults}
            changed = {name: value for name, value in values.items() if value != defaults[name]}
        text = changed.pop(UNTIL, None)
        until = {} if text is None else {UNTIL: text}
        # Not every method has the setting, which checks its value.
        if until and (not isinstance(text, str) or parse_top(text) is None):
            raise InputError(f"until must {Top.requirement}, not {short_repr(text)}.")
        if until and not implementation.can_stop_when_certain:
            raise InputError(
                f"method {method.id!r} cannot sample until its strongest features are certain. "
                "Leave until out, or use 'shapley'."
            )
        if changed:
            is_default = implementation is select_implementation(method, model)
            case = "for this model" if is_default else "with this replacement"
            _check_names(method, implementation, changed, case)
        # Exact scores need no samples. Their settings keep the wish for a text that is sampled.
        changed |= {name: until[name] for name in until if name in defaults}
        values = defaults | changed
        changed |= {
            name: value for name, value in implementation.defaults.items() if values[name] is None
        }
        # A replacement that is no string is rejected with the other settings.
        if "replacement" in implementation.settings and isinstance(values["replacement"], str):
            changed["replacement"] = implementation.choose_replacement(model, values["replacement"])
        return cls(method, implementation, make_settings(method.settings, **changed), model)

    def for_model(self, model: Model) -> "ConfiguredMethod":
        """Return the method for another model, with its settings.

        Raises
        ------
        InputError
            If a setting that was changed has no effect on that model.
        """
        if model is self.model:
            return self
        replacement = requested_replacement(self.settings)
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
        if (until := getattr(self.settings, UNTIL, None)) is not None:
            values[UNTIL] = until
        names = values if implementation is None else implementation.settings
        for name in values.keys() - names.keys() - {UNTIL}:
            if values.pop(name) != defaults[name]:
                raise InputError(
                    f"the setting {name!r} of method {self.method.id!r} has no effect on a sampled "
                    f"text. Leave {name} out."
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

        Returns
        -------
        The method with the settings that the budget allows.
        """
        settings = self.implementation.cost.fit(self.settings, d, affordable_calls)
        return self._replace(settings=settings, budget=budget, calls=calls)

    def with_drawn_samples(self, diagnostics: Mapping[str, Any]) -> "ConfiguredMethod":
        """Return the method with the count in ``diagnostics``, if a deadline ended the sampling."""
        names = self.implementation.cost.settings
        if self.deadline is None or not names:
            return self
        count_name = names[0]
        drawn_count = diagnostics.get(f"{count_name}_drawn")
        planned_count = getattr(self.settings, count_name)
        if drawn_count is None or planned_count is None or drawn_count >= planned_count:
            return self
        counts = {count_name: drawn_count}
        if f"max_{count_name}" in names:
            counts[f"max_{count_name}"] = drawn_count
        if "spare" in names:
            counts["spare"] = 0
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
    capabilities, default_replacements = model.capabilities, ("auto", model.replacements[0])
    refills = isinstance(replacement, str) and replacement == REFILL
    for implementation in method.implementations:
        needs = implementation.needs
        # Other implementations would ignore the noise of random outputs.
        if needs is None and capabilities.get("agreement", "") is None:
            continue
        # Random refilling is another game, with an implementation of its own.
        if needs in ("exact_game", "refilling") and refills != (needs == "refilling"):
            continue
        if needs is None or capabilities.get(needs, "") is None:
            # The exact game of a model removes words as the model does, by its first replacement.
            is_exact = needs == "exact_game" and "replacement" in implementation.settings
            # A replacement that is no string is rejected with the other settings.
            is_default = not isinstance(replacement, str) or replacement in default_replacements
            if not is_exact or is_default:
                return implementation
    return None


def requested_replacement(settings: Any) -> Any:
    """Return the replacement in settings by name or in a settings object; "auto" by default."""
    if isinstance(settings, Mapping):
        return settings.get("replacement", "auto")
    return getattr(settings, "replacement", "auto")


def reason_unusable(method: Method, model: Model, advice: str = "") -> str:
    """Return the error message that says why a method cannot explain a model, with ``advice``."""
    needs = cast(Capability, method.implementations[-1].needs)
    if needs is None:  # any model would do whose outputs are not random
        return (
            f"method {method.id!r} does not support the answers of a chat API (agreement=), "
            f"because it ignores their noise.{advice}"
        )
    if (reason := reason_missing(model, needs)) is None:  # then the replacement is at fault
        return (
            f"method {method.id!r} supports only replacement={model.replacements[0]!r} for this "
            "model. Leave replacement out, or use 'lime'."
        )
    return f"method {method.id!r} needs {CAPABILITIES[needs]}, but {reason}.{advice}"


def unusable_method_error(method: Method, model: Model) -> InputError:
    """Return the error for a method that cannot explain ``model``; it names methods that can."""
    return InputError(reason_unusable(method, model, " Use 'shapley', 'lime' or 'loo'."))


def setting_defaults(method: Method) -> dict[str, Any]:
    """Return the default of each setting of a method, by name."""
    return {setting.name: setting.default for setting in method.settings.setting_fields}


def _check_names(
    method: Method, implementation: Implementation, names: Iterable[str], case: str
) -> None:
    """Raise an error if the implementation does not use one of the settings ``names``."""
    usable_names = implementation.settings
    for name in names:
        if name in usable_names:
            continue
        if name in setting_defaults(method) or not usable_names:
            advice = f", or use {_join_names(list(usable_names))}" if usable_names else ""
            raise InputError(
                f"the setting {name!r} of method {method.id!r} has no effect {case}. "
                f"Leave {name} out{advice}."
            )
        raise InputError(
            unknown_name_message(f"setting of method {method.id!r}", name, usable_names)
        )


def _join_names(names: list[str]) -> str:
    """Return the names as a list in a sentence: 'a', 'b' or 'c'."""
    quoted = [repr(name) for name in names]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
