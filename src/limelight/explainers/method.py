"""What a method is: a name, what it computes, sees and cannot see, and the ways to compute it."""

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

from limelight.errors import DomainError, InputError, nearest, told
from limelight.explainers.reading import Reading
from limelight.models import (
    CAPABILITIES,
    Capability,
    Model,
    reason_missing,
    resolved_replacement,
)
from limelight.results import Finding
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


# How far the numbers of a way can be trusted: a proven bound, rounding alone, an estimate of the
# error, what texts kept aside have shown of a fit, or standard errors of sampling.
Exactness = Literal["bound", "exact", "estimated", "fitted", "sampled"]


class Allowance(NamedTuple):
    """What a method may spend on a text: the budget as it was given, and calls of the model.

    ``each`` is the seconds that a call takes; None where it is calls that were given, not a time.
    Where it is ``shared``, other methods have their part of it: ``sharers`` divide evenly what the
    methods of fixed cost leave, which take ``reserved`` calls. A ``deadline`` ends what the method
    draws, if it is a time.
    """

    said: str
    calls: int
    each: float | None = None
    shared: bool = False
    sharers: int = 1
    reserved: int = 0
    deadline: Deadline | None = None


def each(found: Callable[[Any, Reading], Finding]) -> Callable[[Any, Reading], list[Finding]]:
    """Return how a way explains that takes one text at a time."""
    return lambda settings, reading: [found(settings, one) for one in reading.apart()]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to compute a method, for models that have what it ``needs`` (None: any model).

    ``settings`` names the fields of the method's settings that this way uses and says what each
    means here; ``defaults`` says what None stands for here, where ways differ. ``calls`` is how
    often a model is asked about a text of d features, for ways that ask it, a text under one mask
    being one call, and ``cost`` what that amounts to in words, where it is not what the method
    says. A way that asks keeps within a budget if it has ``fewest``, the calls below which d
    features cannot be explained: it always asks so often, unless it has ``counts``, settings that
    are then ``fitted`` to a number of calls. ``own`` are the seconds that it computes by itself for
    each call and feature, where they are not small beside those of the model. ``feasible`` refuses,
    before the model is asked, settings that cannot work for so many features. ``replaced`` turns
    the setting ``replacement`` into what the model understands. ``caution`` is what measurements
    say against the scores; every result carries it as a notice. A ``joint`` way takes several texts
    at a time also where a model does not collapse, as many as the model says; a way of ``logits``
    has a formula for no other scale. Settings that are ``unsaid`` stand in a result only where they
    are set.
    """

    needs: Capability | None
    exactness: Exactness
    explain: Callable[[Any, Reading], list[Finding]]
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    calls: Callable[[Any, int], int] | None = None
    cost: str = ""
    fewest: Callable[[Any, int], int] | None = None
    counts: tuple[str, ...] = ()
    fitted: Callable[[Any, int, int], Any] = lambda settings, *_: settings
    own: float = 0.0
    feasible: Callable[[Any, int], None] | None = None
    replaced: Callable[[Model, str], str] = resolved_replacement
    caution: str = ""
    joint: bool = False
    logits: bool = False
    unsaid: tuple[str, ...] = ()


# What a setting means in most of the ways that have it.
MEANS = {
    "tolerance": "largest error of a score, relative to the range of f",
    "per_head": "also score every head alone",
    "replacement": "what stands for a removed word",
    "seed": "same seed, same scores",
}


def by_quadrature(
    explain: Callable[[Any, Reading], list[Finding]],
    settings: Collection[str] = ("tolerance",),
    **meant: str,
) -> Way:
    """Return a way that integrates the game of a model, within a bound.

    ``meant`` is what settings mean that are not among those of most ways.
    """
    means = MEANS | meant
    return Way(
        needs="exact_game",
        exactness="bound",
        explain=explain,
        settings={name: means[name] for name in settings},
        defaults={"tolerance": 1e-6},
        logits=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(MethodFacts):
    """One row of the catalogue that ``limelight methods`` prints.

    ``settings`` is a :func:`settings_class`; a value of it may take the place of the method's name.
    The first of the ``ways`` whose capability the model has is the one that is used.
    """

    settings: type[Any]
    ways: tuple[Way, ...]


class Chosen(NamedTuple):
    """A method, the way that fits a model, and settings ready for it."""

    method: Method
    way: Way
    settings: Any
    model: Model
    allowance: Allowance | None = None

    def asking(self, model: Model) -> "Chosen":
        """Return the same for ``model``, which may have to be asked about a text."""
        if model is self.model:
            return self
        replacement = getattr(self.settings, "replacement", "auto")
        if (way := chosen_way(self.method, model, replacement)) is None:
            raise InputError(refusal(self.method, model))
        if way is self.way:
            return self
        # How close an exact way comes to its limit says nothing about how much is to be sampled.
        used = way.settings.keys() - {"tolerance"}
        own = {name: getattr(self.settings, name) for name in self.way.settings if name in used}
        return chosen(self.method, way, model, own)

    def fitted(self, d: int) -> "Chosen":
        """Return the same with the counts that what it may spend allows for ``d`` features."""
        way = self.way
        if self.allowance is None or way.fewest is None:
            return self
        allowance = self.allowance
        calls, each = allowance.calls, allowance.each
        if each is not None:  # what a way computes by itself takes time that no call has
            calls = int(calls * each / (each + d * way.own))
        if calls < (fewest := way.fewest(self.settings, d)):
            from limelight.explainers.registry import fitting  # which is made of this module

            after = " after reading the text and timing the model" * (each is not None)
            # One call is for the text itself.
            enough = (
                1 + fewest * allowance.sharers + allowance.reserved if way.counts else 1 + fewest
            )
            instead = "" if allowance.shared else fitting(self.model, d, calls, fewest)
            raise DomainError(
                f"{self.method.label} of {d} words takes {fewest:,} calls of the model or more, "
                f"and a budget of {allowance.said} leaves it {calls:,}{after}. Give a budget of "
                f"{enough:,} calls{instead}."
            )
        return self._replace(settings=way.fitted(self.settings, d, calls))

    def with_draws(self, diagnostics: Mapping[str, Any]) -> "Chosen":
        """Return the same with the count that was drawn, if a deadline ended the draws early."""
        if self.allowance is None or self.allowance.deadline is None or not self.way.counts:
            return self
        count, *others = self.way.counts
        drawn, planned = diagnostics.get(f"{count}_drawn"), getattr(self.settings, count)
        if drawn is None or planned is None or drawn >= planned:
            return self
        counts = {count: drawn} | {name: drawn for name in others if name == f"max_{count}"}
        counts |= {name: 0 for name in others if name == "spare"}
        return self._replace(settings=replace(self.settings, **counts))

    def expected_calls(self, d: int) -> int:
        """Return how often the model will be asked, as far as that is known."""
        if self.allowance is not None:
            return self.allowance.calls
        return 0 if self.way.calls is None else self.way.calls(self.settings, d)

    def asked(self) -> dict[str, Any]:
        """Return the settings that this way uses, by name, and the budget they follow from.

        A learned method among them stands as its digest.
        """
        values = {name: getattr(self.settings, name) for name in self.way.settings}
        own = {name: getattr(value, "digest", value) for name, value in values.items()}
        for name in self.way.unsaid:
            if own[name] == setting_defaults(self.method)[name]:
                del own[name]
        return own if self.allowance is None else own | {"budget": self.allowance.said}


def chosen_way(method: Method, model: Model, replacement: Any = "auto") -> Way | None:
    """Return the first way that ``model`` allows with ``replacement``; None if there is none."""
    known = model.capabilities
    for way in method.ways:
        if way.needs is None or known.get(way.needs, "") is None:
            # The exact game of a model removes words as the model does, by its first replacement.
            is_exact = way.needs == "exact_game" and "replacement" in way.settings
            if not is_exact or replacement in ("auto", model.replacements[0]):
                return way
    return None


def refusal(method: Method, model: Model, instead: str = "") -> str:
    """Say why ``model`` does not allow ``method``, and what to use ``instead``."""
    needs = cast(Capability, method.ways[-1].needs)  # or it would be allowed
    why = reason_missing(model, needs)
    return f"method {method.id!r} needs {CAPABILITIES[needs]}, and {why}{instead}."


def chosen(method: Method, way: Way, model: Model, given: Any | Mapping[str, Any]) -> Chosen:
    """Return ``method`` with the settings that were ``given``, by name or as its own object.

    A setting that this way does not use must not have been set: it would do nothing.
    """
    usual = setting_defaults(method)
    if isinstance(given, Mapping):
        own = dict(given)
    else:
        values = {name: getattr(given, name) for name in usual}
        own = {name: value for name, value in values.items() if value != usual[name]}
    if own:
        is_usual = way is chosen_way(method, model)
        _check_names(method, way, own, "for this model" if is_usual else "with this replacement")
    values = usual | own
    own |= {name: value for name, value in way.defaults.items() if values[name] is None}
    # What is no word is refused as every setting is.
    if "replacement" in way.settings and isinstance(values["replacement"], str):
        own["replacement"] = way.replaced(model, values["replacement"])
    return Chosen(method, way, made(method.settings, **own), model)


def setting_defaults(method: Method) -> dict[str, Any]:
    """Return the settings of ``method`` with their defaults."""
    return {one.name: one.default for one in method.settings.declared}


def _check_names(method: Method, way: Way, names: Iterable[str], case: str) -> None:
    for name in names:
        if name in way.settings:
            continue
        if name in setting_defaults(method) or not way.settings:
            here = _listed(list(way.settings)) if way.settings else "no setting"
            raise InputError(
                f"the setting {name!r} of method {method.id!r} does nothing {case}; "
                f"here it takes {here}."
            )
        raise InputError(nearest(f"setting of method {method.id!r} named", name, way.settings))


def _listed(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
