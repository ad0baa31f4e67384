"""The registry of methods, and which of them explain or are compared by default."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, TypeVar, dataclass_transform, get_args

from limelight.errors import IN_REPRODUCTION, InputError, nearest
from limelight.explainers.learned import PREFIX, LearnedMethod
from limelight.explainers.method import (
    ConfiguredMethod,
    Exactness,
    Implementation,
    Method,
    reason_unusable,
    select_implementation,
    setting_defaults,
    settings_class,
    unusable_method,
)
from limelight.models import CAPABILITIES, Model, get_property, has, reason_missing
from limelight.request import Request
from limelight.results.method_table import MethodFacts, MethodRow, MethodTable, SettingRow, WayRow

# Modules that register methods, in the order of the catalogue. They are imported when a method is
# looked up: a comparison of attention and gradients needs neither anchors nor their searches.
MODULES = ("attention", "gradients", "lime", "shapley", "nested", "banzhaf", "anchors")
ENTRY_POINTS = "limelight.methods"
_REPRODUCTION = ("lime-theorem", "lime-first-order", "lime-mean-field", "shapley-mean-field")
_ID = re.compile("[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Keywords of the verbs that no setting may be called: a value would go to the one or to the other.
_TAKEN = {one.name for one in fields(Request)} | {
    "model", "text", "texts", "method", "methods", "budget", "progress", "attention", "data",
    "output", "limit", "workers", "executor", "retry", "shard_texts", "texts_kept", "text_column",
    "pair_column", "id_column", "label_column", "columns", "curves", "rationales", "estimate",
    "second_replacement",
}  # fmt: skip


class Registry(Mapping[str, Method]):
    """All methods by id: those of limelight in the order of their modules, then those of others.

    Modules register their methods when they are imported, and are imported when a method is looked
    up. Packages that bring methods are looked for once, when an id is not one of limelight's,
    because a look at all that is installed takes longer than most explanations. ``broken`` has a
    sentence for each package that cannot be used.
    """

    def __init__(self) -> None:
        self._known: dict[str, Method] = {}
        # Beside it, because a class stays known whose method was registered again: values of it may
        # still be around in a notebook.
        self._by_settings: dict[type, Method] = {}
        self._has_looked = False
        self.broken: dict[str, str] = {}

    def __getitem__(self, name: str) -> Method:
        if name not in self._known:
            self._find(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        for module in MODULES:
            import_module(f"{__package__}.{module}")
        self._load_packages()
        places = {name: method.settings.__module__ for name, method in self._known.items()}
        homes = [f"{__package__}.{module}" for module in MODULES]
        for home in homes:
            yield from [name for name, place in places.items() if place == home]
        yield from [name for name, place in places.items() if place not in homes]

    def __len__(self) -> int:
        return len(list(iter(self)))

    def of_settings(self, cls: type) -> Method | None:
        """Return the method whose settings ``cls`` is; None where it is no method's."""
        # A settings class of limelight has registered its method when its module was imported.
        if cls not in self._by_settings and not cls.__module__.startswith(f"{__package__}."):
            self._load_packages()
        return self._by_settings.get(cls)

    def add(self, method: Method) -> None:
        """Register a method of another package; see :func:`register`."""
        known = self._known.get(method.id)
        # A cell of a notebook that is run again defines the same method again.
        is_repeated = known is not None and _place(known) == _place(method)
        if not is_repeated and method.id in self:
            raise InputError(f"there is a method {method.id!r} already; give yours another id.")
        other = self.of_settings(method.settings)
        if other is not None and other.id != method.id:
            raise InputError(
                f"the settings of method {method.id!r} are those of {other.id!r}; each method has "
                "a class of its own."
            )
        self.keep(method)

    def keep(self, method: Method) -> None:
        """Register a method without any check, as for the methods of limelight."""
        self._known[method.id] = self._by_settings[method.settings] = method

    def _find(self, name: str) -> None:
        """Import modules until a method called ``name`` is registered, then other packages."""
        # A module that is named for the method comes first: 'lime' needs no gradients.
        for module in sorted(MODULES, key=lambda module: not name.startswith(module)):
            import_module(f"{__package__}.{module}")
            if name in self._known:
                return
        self._load_packages()

    def _load_packages(self) -> None:
        """Register the methods that installed packages bring, once."""
        if self._has_looked:
            return
        self._has_looked = True  # before any is loaded: registering a method looks names up again
        from importlib.metadata import entry_points

        for point in entry_points(group=ENTRY_POINTS):
            try:
                register(point.load())
            except (Exception, SystemExit) as error:  # of a package that may do anything
                why = f"{error}" if isinstance(error, InputError) else repr(error)
                package = point.dist.name if point.dist is not None else point.value
                self.broken[point.name] = (
                    f"the method {point.name!r} of the package {package!r} cannot be used: "
                    f"{why.rstrip('.')}."
                )


def _place(method: Method) -> tuple[str, str]:
    return method.settings.__module__, method.settings.__qualname__


METHODS = Registry()


def register(method: Method | type[Any]) -> None:
    """Make a method of your own known to every verb and command of this process, by its id.

    A package brings one to all processes by an entry point of the group "limelight.methods". Its
    value is such a ``limelight.explainers.Method``, or a class that
    :func:`limelight.explainers.register_method` decorates.
    """
    if isinstance(method, type):  # a class that inherits from a decorated one is another method
        method = vars(method).get("registered_method", method)
    if not isinstance(method, Method):
        raise InputError(
            "a method is a limelight.explainers.Method, or a class that register_method decorates; "
            f"got {method!r}."
        )
    name, settings = method.id, getattr(method.settings, "declared", None)
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise InputError(
            "the id of a method is lower-case words with dashes, such as 'my-method'; got "
            f"{name!r}."
        )
    if settings is None:
        raise InputError(
            f"the settings of method {name!r} must be a limelight.explainers.settings_class; got "
            f"{method.settings!r}."
        )
    if not method.implementations:
        raise InputError(f"method {name!r} has no implementation; give it at least one.")
    declared, used = {setting.name for setting in settings}, set[str]()
    for setting in settings:
        if setting.default is MISSING:
            raise InputError(f"the setting {setting.name!r} of method {name!r} needs a default.")
    for implementation in method.implementations:
        used |= {*implementation.settings, *implementation.defaults}
        needs = implementation.needs
        if needs is not None and needs not in CAPABILITIES:
            raise InputError(nearest("capability", needs, CAPABILITIES))
        if implementation.exactness not in (known := get_args(Exactness)):
            raise InputError(nearest("exactness", implementation.exactness, known))
        for setting_name in (*implementation.cost.settings, *implementation.hidden_settings):
            if setting_name not in implementation.settings:
                what = f"setting of an implementation of method {name!r} named"
                raise InputError(nearest(what, setting_name, implementation.settings))
    if odd := sorted(declared ^ used):
        raise InputError(
            f"each setting of method {name!r} must be in its class and in an implementation, "
            f"with its meaning; {odd[0]!r} is not."
        )
    if taken := sorted(declared & _TAKEN):
        raise InputError(
            f"the setting {taken[0]!r} of method {name!r} has the name of a keyword of "
            "the verbs; give it another."
        )
    METHODS.add(method)


_Class = TypeVar("_Class", bound=type[Any])


@dataclass_transform(kw_only_default=True, frozen_default=True)
def register_method(
    *,
    id: str,
    label: str,
    formula: str,
    sees: str,
    blind: str,
    cost: str,
    implementations: Sequence[Implementation],
    signed: bool = True,
) -> Callable[[_Class], _Class]:
    """Make a class the settings of a method, and register the method.

    The class becomes a :func:`settings_class`. Where it is imported, every function and command of
    this process knows the method by its id.

    Parameters
    ----------
    id
        Lower-case words with dashes, by which users name the method.
    label
        Its name in tables and figures.
    formula
        Its scores as a formula.
    sees
        What the scores show.
    blind
        What the scores cannot show.
    cost
        What it costs, in words.
    implementations
        How it is computed. A model is explained by the first one whose capability it has.
    signed
        Whether the sign of a score has a meaning.
    """

    def register_class(cls: _Class) -> _Class:
        settings = settings_class(cls)
        method = Method(
            id=id,
            label=label,
            formula=formula,
            sees=sees,
            blind=blind,
            cost=cost,
            signed=signed,
            settings=settings,
            implementations=tuple(implementations),
        )
        # Tests check the methods of limelight, whose modules must not look for other packages.
        if cls.__module__.rpartition(".")[0] == __package__:
            METHODS.keep(method)
        else:
            register(method)
        settings.registered_method = method
        return settings

    return register_class


def find_method(name: Any) -> Method:
    """Return the method called ``name``, or whose settings ``name`` is.

    An unknown one is an error with the nearest guess. "learned:FOLDER" is the method in a folder
    that :func:`limelight.learn` wrote.
    """
    if isinstance(name, str) and name.startswith(PREFIX):
        name = LearnedMethod.load(name.removeprefix(PREFIX))
    if isinstance(name, LearnedMethod):
        return name.method
    if isinstance(name, str):
        if (method := METHODS.get(name)) is not None:
            return method
        if name in METHODS.broken:
            raise InputError(METHODS.broken[name])
        if name in _REPRODUCTION:
            raise InputError(IN_REPRODUCTION.format(f"the method {name!r}"))
        if name == PREFIX[:-1]:
            raise InputError(
                "a learned method is fitted to its model first: limelight.learn(model, texts), or "
                "limelight learn; then it is called 'learned:FOLDER'."
            )
    elif (method := METHODS.of_settings(type(name))) is not None:
        return method
    elif isinstance(name, type) and METHODS.of_settings(name) is not None:
        raise InputError(f"settings are a value, not a class; write {name.__name__}().")
    raise InputError(nearest("method", name, METHODS))


def is_named(name: Any) -> bool:
    """Return whether settings may be passed beside ``name``, which is no settings object."""
    return isinstance(name, str | LearnedMethod)


def usable_methods(model: Model) -> list[str]:
    """Return the methods that ``model`` allows."""
    return [
        name for name, method in METHODS.items() if select_implementation(method, model) is not None
    ]


def configure_method(name: Any, model: Model, settings: Mapping[str, Any]) -> ConfiguredMethod:
    """Configure a method for ``model``: its name with settings, or a settings object alone."""
    method = find_method(name)
    if is_named(name):
        return ConfiguredMethod.create(method, model, settings)
    for setting in settings:
        raise InputError(
            f"settings are given by name or as {type(name).__name__}(…), not both; got {setting!r}."
        )
    return ConfiguredMethod.create(method, model, name)


def method_table(model: Model | None = None, *names: str) -> MethodTable:
    """Return the registry as a table; with ``model``, only what holds for it."""
    methods = [find_method(name) for name in names] or list(METHODS.values())
    return MethodTable(tuple(_make_row(method, model) for method in methods))


def exactness_on(implementation: Implementation, model: Model | None) -> str:
    """Return how exact an implementation is on ``model``: its bound may rest on checks of texts."""
    if model is None or implementation.needs != "exact_game":
        return implementation.exactness
    return "checked" if get_property(model, "rests_on_checks") else implementation.exactness


def _make_row(method: Method, model: Model | None) -> MethodRow:
    implementations, reason, cost = method.implementations, None, method.cost
    if model is not None:
        selected = select_implementation(method, model)
        if selected is None:
            implementations, reason = (), reason_unusable(method, model)
        else:
            implementations, cost = (selected,), selected.cost.summary or cost
            if selected.needs is None and method.implementations[0].needs == "exact_game":
                cost = f"{cost}; asked, since {reason_missing(model, 'exact_game')}"
    defaults, rows = setting_defaults(method), []
    for implementation in implementations:
        values = defaults | {
            name: getattr(value, "digest", value) for name, value in implementation.defaults.items()
        }
        settings = (
            SettingRow(name, values[name], meaning)
            for name, meaning in implementation.settings.items()
        )
        exactness = exactness_on(implementation, model)
        rows.append(WayRow(implementation.needs, exactness, tuple(settings)))
    facts = {fact.name: getattr(method, fact.name) for fact in fields(MethodFacts)}
    return MethodRow(**facts | {"cost": cost}, ways=tuple(rows), refused=reason)


# What `compare` shows unless told otherwise: on the paper's classifier the paper's seven methods
# and Shapley values; elsewhere those that were measured to be faithful to a deep model, the best
# first, of which a model's own are taken. Gradient × input and G-avg are chance there.
COMPARED = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi", "shapley")
COMPARED_ELSEWHERE = ("shapley", "lime", "lrp", "ig", "loo", "alpha-avg")
# Of answers: attention and gradients say nothing there, and ContextCite is what others show.
COMPARED_OF_ANSWERS = ("banzhaf", "shapley", "context-cite", "lime", "lrp", "loo")
# What `explain` takes unless told otherwise: LIME where it is exact, as in the paper; elsewhere
# Shapley values, which have the largest share at every number of calls
# (benchmarks/results/judging_cuda_every.json).
EXPLAINED = "lime"
EXPLAINED_ELSEWHERE = "shapley"


def default_method(model: Model) -> str:
    """Return the method that explains ``model`` unless another is named.

    Of answers Banzhaf values, which are not behind ContextCite's in any measure of its paper at as
    many calls, where Shapley values are (benchmarks/answers.py).
    """
    if has(model, "generation"):
        return COMPARED_OF_ANSWERS[0]
    implementation = select_implementation(METHODS[EXPLAINED], model)
    is_sampled = implementation is None or implementation.exactness == "sampled"
    return EXPLAINED_ELSEWHERE if is_sampled else EXPLAINED


def compared_by_default(model: Model) -> list[str]:
    """Return the methods that ``compare`` shows for ``model`` unless the caller names others."""
    usual = {EXPLAINED: COMPARED, COMPARED_OF_ANSWERS[0]: COMPARED_OF_ANSWERS}
    names = usual.get(default_method(model), COMPARED_ELSEWHERE)
    return [name for name in names if select_implementation(METHODS[name], model) is not None]


def configure_methods(
    model: Model, methods: str | Sequence[str | object] | None, settings: Mapping[str, Any]
) -> list[ConfiguredMethod]:
    """Configure the methods to compare, each with those of the settings that it has."""
    names = [methods] if isinstance(methods, str) else methods
    if names is None:
        names = compared_by_default(model)
    if not names:
        raise InputError("compare needs at least one method; got none.")
    by_name = {name: find_method(name) for name in names}
    ids = [method.id for method in by_name.values()]
    if repeated := [name for name in ids if ids.count(name) > 1]:
        raise InputError(f"compare shows each method once; {repeated[0]!r} was given twice.")
    setting_names = dict[Any, Mapping[str, str]]()
    for name, method in by_name.items():
        if not is_named(name):  # a settings object
            continue
        replacement = settings.get("replacement", "auto")
        implementation = select_implementation(method, model, replacement)
        if implementation is None:
            raise unusable_method(method, model)
        setting_names[name] = implementation.settings
    known = {setting: None for names in setting_names.values() for setting in names}
    for setting in settings:
        if setting not in known:
            raise InputError(nearest("setting of these methods", setting, known))
    configured = []
    for name, method in by_name.items():
        values_or_object = name
        if name in setting_names:
            used = setting_names[name]
            values_or_object = {key: value for key, value in settings.items() if key in used}
        configured.append(ConfiguredMethod.create(method, model, values_or_object))
    return configured
