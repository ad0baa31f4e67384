"""The registry of methods, and the methods that functions use by default."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, TypeVar, dataclass_transform, get_args

from limelight.errors import (
    IN_REPRODUCTION,
    InputError,
    similar_name,
    unknown_keyword_message,
    unknown_name_message,
)
from limelight.explainers.learned import LEARNED_PREFIX, LearnedMethod
from limelight.explainers.method import (
    UNTIL,
    ConfiguredMethod,
    Exactness,
    Implementation,
    Method,
    reason_unusable,
    select_implementation,
    setting_defaults,
    settings_class,
    unusable_method_error,
)
from limelight.models import CAPABILITIES, Model, get_property, has, reason_missing
from limelight.request import Request
from limelight.results.method_table import (
    ImplementationRow,
    MethodFacts,
    MethodRow,
    MethodTable,
    SettingRow,
)
from limelight.setting_keywords import MethodSettings

# Modules that register methods, in the order of the catalogue. They are imported when a method is
# looked up: a comparison of attention and gradients needs neither anchors nor their searches.
MODULES = ("attention", "gradients", "lime", "shapley", "nested", "banzhaf", "anchors")
ENTRY_POINTS = "limelight.methods"
_REPRODUCTION_METHODS = (
    "lime-theorem", "lime-first-order", "lime-mean-field", "shapley-mean-field",
)  # fmt: skip
_METHOD_ID = re.compile("[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Keywords of public functions. A setting with the same name could not be passed.
_RESERVED_NAMES = {request_field.name for request_field in fields(Request)} | {
    "model", "text", "texts", "method", "methods", "budget", "progress", "attention", "data",
    "output", "limit", "workers", "executor", "retry", "shard_texts", "store_texts", "text_column",
    "pair_column", "documents_column", "messages_column", "id_column", "label_column", "columns",
    "curves", "rationales", "estimate",
    "second_replacement",
}  # fmt: skip


class Registry(Mapping[str, Method]):
    """All methods by id: those of limelight in the order of their modules, then other packages'.

    A module registers its methods when it is imported. It is imported when a method is looked up.
    Installed packages with methods are searched once, when an id is not one of limelight's, because
    the search takes longer than most explanations. ``load_errors`` has an error message for each
    method that could not be loaded.
    """

    def __init__(self) -> None:
        self._methods: dict[str, Method] = {}
        # If a method is registered again, old settings objects may still exist in a notebook.
        # Therefore their class stays in this second dictionary.
        self._methods_by_settings: dict[type, Method] = {}
        self._has_searched_packages = False
        self._entry_points: list[Any] = []  # those that are not loaded yet
        self.load_errors: dict[str, str] = {}

    def __getitem__(self, name: str) -> Method:
        if name not in self._methods:
            self._import_method(name)
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        for module in MODULES:
            import_module(f"{__package__}.{module}")
        self._load_packages()
        modules = {name: method.settings.__module__ for name, method in self._methods.items()}
        own_modules = [f"{__package__}.{module}" for module in MODULES]
        for own_module in own_modules:
            yield from [name for name, module in modules.items() if module == own_module]
        yield from [name for name, module in modules.items() if module not in own_modules]

    def __len__(self) -> int:
        return len(list(iter(self)))

    def find_by_settings(self, cls: type) -> Method | None:
        """Return the method whose settings class is ``cls``, or None if there is none."""
        # The settings classes of limelight registered their methods when they were imported.
        is_own = cls.__module__.startswith(f"{__package__}.")
        if cls not in self._methods_by_settings and not is_own:
            self._load_packages()
        return self._methods_by_settings.get(cls)

    def add(self, method: Method) -> None:
        """Register a method of another package; see :func:`register`.

        Raises
        ------
        InputError
            If another method has this id or this settings class.
        """
        registered = self._methods.get(method.id)
        # If a notebook cell runs again, it defines the same method again.
        is_repeated = registered is not None and _definition(registered) == _definition(method)
        if not is_repeated and method.id in self:
            raise InputError(f"the id {method.id!r} belongs to another method. Choose another id.")
        owner = self.find_by_settings(method.settings)
        if owner is not None and owner.id != method.id:
            raise InputError(
                f"methods {owner.id!r} and {method.id!r} have the same settings class. Give each "
                "method its own class."
            )
        self.add_unchecked(method)

    def add_unchecked(self, method: Method) -> None:
        """Register a method without any check, as for the methods of limelight."""
        self._methods[method.id] = self._methods_by_settings[method.settings] = method

    def _import_method(self, name: str) -> None:
        """Import the modules of limelight, then other packages, until ``name`` is registered."""
        # Modules named like the method are first: 'lime' does not need the gradients.
        for module in sorted(MODULES, key=lambda module: not name.startswith(module)):
            import_module(f"{__package__}.{module}")
            if name in self._methods:
                return
        self._load_packages()

    def _load_packages(self) -> None:
        """Register the methods of installed packages, each once."""
        if not self._has_searched_packages:
            # This is set first, because registering a method looks up names again.
            self._has_searched_packages = True
            from importlib.metadata import entry_points

            self._entry_points = list(entry_points(group=ENTRY_POINTS))
        candidates, self._entry_points = self._entry_points, []
        for entry_point in candidates:
            # A module that registers a method while it is imported comes later.
            if _is_being_imported(entry_point.module):
                self._entry_points.append(entry_point)
                continue
            try:
                register(entry_point.load())
            except (Exception, SystemExit) as error:  # a package may raise any error
                reason = f"{error}" if isinstance(error, InputError) else repr(error)
                distribution = entry_point.dist
                package = entry_point.value if distribution is None else distribution.name
                self.load_errors[entry_point.name] = (
                    f"the method {entry_point.name!r} of the package {package!r} cannot be used: "
                    f"{reason.rstrip('.')}."
                )


def _is_being_imported(name: str) -> bool:
    """Return whether the import of a module has begun and has not ended."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _definition(method: Method) -> tuple[str, str]:
    """Return the module and the name of the settings class of a method."""
    return method.settings.__module__, method.settings.__qualname__


METHODS = Registry()


def register(method: Method | type[Any]) -> None:
    """Make your own method available in all functions and commands, by its id.

    It is available in this process. To make it available in all processes, install a package with
    an entry point of the group "limelight.methods" whose value is the method.

    Parameters
    ----------
    method
        A ``limelight.explainers.Method``, or a class that
        :func:`limelight.explainers.register_method` decorates.

    Raises
    ------
    InputError
        If the method is not complete, or if its id or one of its settings has a name that is taken.

    Examples
    --------
    ``register_method`` calls ``register``. This method scores each feature by its length:

    >>> import limelight
    >>> import numpy as np
    >>> from limelight.explainers import (
    ...     Attribution, Batch, Implementation, per_input, register_method,
    ... )
    >>> def score_lengths(settings: "Length", batch: Batch) -> Attribution:
    ...     lengths = [float(len(name)) for name in batch.features[0].strings]
    ...     return Attribution(scores=np.array(lengths))
    >>> @register_method(
    ...     id="length",
    ...     label="Length",
    ...     formula="number of characters",
    ...     sees="the length of a word",
    ...     blind="the model",
    ...     cost="nothing",
    ...     implementations=[
    ...         Implementation(exactness="exact", explain=per_input(score_lengths))
    ...     ],
    ... )
    ... class Length:
    ...     pass
    >>> limelight.explain(limelight.load(), "A superb film.", "length").top(1)
    [('superb', 6.0)]
    """
    if isinstance(method, type):  # a subclass of a decorated class is not a method itself
        method = vars(method).get("registered_method", method)
    if not isinstance(method, Method):
        raise InputError(
            "a method must be a limelight.explainers.Method, or a class that register_method "
            f"decorates, not {method!r}."
        )
    name, setting_fields = method.id, getattr(method.settings, "setting_fields", None)
    if not isinstance(name, str) or not _METHOD_ID.fullmatch(name):
        raise InputError(
            "the id of a method must be lower-case words with dashes, such as 'my-method', not "
            f"{name!r}."
        )
    if setting_fields is None:
        raise InputError(
            f"the settings of method {name!r} must be a class that "
            f"limelight.explainers.settings_class decorates, not {method.settings!r}."
        )
    if not method.implementations:
        raise InputError(f"method {name!r} has no implementation. Give it at least one.")
    declared_names, used_names = {setting.name for setting in setting_fields}, set[str]()
    for setting in setting_fields:
        if setting.default is MISSING:
            raise InputError(f"the setting {setting.name!r} of method {name!r} needs a default.")
    for implementation in method.implementations:
        used_names |= {*implementation.settings, *implementation.defaults}
        needs = implementation.needs
        if needs is not None and needs not in CAPABILITIES:
            raise InputError(unknown_name_message("capability", needs, CAPABILITIES))
        if implementation.exactness not in (choices := get_args(Exactness)):
            raise InputError(unknown_name_message("exactness", implementation.exactness, choices))
        for setting_name in (*implementation.cost.settings, *implementation.hidden_settings):
            if setting_name not in implementation.settings:
                noun = f"setting of an implementation of method {name!r}"
                raise InputError(unknown_name_message(noun, setting_name, implementation.settings))
    if mismatched := sorted(declared_names ^ used_names):
        raise InputError(
            f"the setting {mismatched[0]!r} of method {name!r} must be in its settings class and, "
            "with a meaning, in an implementation."
        )
    if reserved := sorted(declared_names & _RESERVED_NAMES):
        raise InputError(
            f"the setting {reserved[0]!r} of method {name!r} has the name of a keyword of public "
            "functions. Choose another name."
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
    """Return a decorator that makes a class the settings of a new method, and registers the method.

    The class becomes a :func:`settings_class`. When it is imported, the method is available in all
    functions and commands of the process, by its id.

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

    Returns
    -------
    The decorator.
    """

    def register_class(cls: _Class) -> _Class:
        """Make a class the settings of the method, and register the method."""
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
        # Tests check the methods of limelight. Their modules must not search for other packages.
        if cls.__module__.rpartition(".")[0] == __package__:
            METHODS.add_unchecked(method)
        else:
            register(method)
        settings.registered_method = method
        return settings

    return register_class


def find_method(name: Any) -> Method:
    """Return the method with a given id or settings object.

    Parameters
    ----------
    name
        The id of a method, a settings object, a learned method, or "learned:FOLDER" for a folder
        that :func:`limelight.learn` wrote.

    Raises
    ------
    InputError
        If there is no such method. The message suggests the most similar id.
    """
    if isinstance(name, str) and name.startswith(LEARNED_PREFIX):
        name = LearnedMethod.load(name.removeprefix(LEARNED_PREFIX))
    if isinstance(name, LearnedMethod):
        return name.method
    if isinstance(name, str):
        if (method := METHODS.get(name)) is not None:
            return method
        if name in METHODS.load_errors:
            raise InputError(METHODS.load_errors[name])
        if name in _REPRODUCTION_METHODS:
            raise InputError(IN_REPRODUCTION.format(f"the method {name!r}"))
        if name == LEARNED_PREFIX[:-1]:
            raise InputError(
                "a learned method must first be fitted with limelight.learn(model, texts, "
                "output=FOLDER) or limelight learn. Then its name is 'learned:FOLDER'."
            )
    elif (method := METHODS.find_by_settings(type(name))) is not None:
        return method
    elif isinstance(name, type) and METHODS.find_by_settings(name) is not None:
        raise InputError(f"settings must be an object, not a class. Write {name.__name__}().")
    raise InputError(unknown_name_message("method", name, METHODS))


def accepts_settings(method: Any) -> bool:
    """Return whether settings can be passed with ``method``, because it is no settings object."""
    return isinstance(method, str | LearnedMethod)


def usable_methods(model: Model) -> list[str]:
    """Return the ids of the methods that can explain ``model``."""
    return [
        name for name, method in METHODS.items() if select_implementation(method, model) is not None
    ]


def check_keywords(function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raise an InputError for a keyword that is probably a mistyped parameter of ``function``."""
    # Most calls have no other settings, and need not import all methods.
    if settings.keys() <= MethodSettings.__annotations__.keys():
        return
    method_settings = {
        member.name for method in METHODS.values() for member in fields(method.settings)
    }
    parameters = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    for name in settings:
        if name in method_settings or name == UNTIL:
            continue
        match = similar_name(name, [*parameters, *method_settings])
        if match in parameters:
            raise InputError(unknown_keyword_message(function, name, match))


def configure_method(name: Any, model: Model, settings: Mapping[str, Any]) -> ConfiguredMethod:
    """Configure a method for ``model``.

    Parameters
    ----------
    name
        The id of a method, a learned method, or a settings object.
    model
        The model that will be explained.
    settings
        Settings by name. They must be empty if ``name`` is a settings object.

    Raises
    ------
    InputError
        If the method or a setting is unknown, or cannot be used with the model.
    """
    method = find_method(name)
    if accepts_settings(name):
        return ConfiguredMethod.create(method, model, settings)
    for setting in settings:
        raise InputError(
            f"give settings by name or in {type(name).__name__}(…), not both. Move {setting!r} "
            f"into {type(name).__name__}(…), or leave it out."
        )
    return ConfiguredMethod.create(method, model, name)


def method_table(model: Model | None = None, *names: str) -> MethodTable:
    """Return methods as a table; with ``model``, only the implementations that explain it.

    Without ``names`` the table has all methods.
    """
    methods = [find_method(name) for name in names] or list(METHODS.values())
    return MethodTable(tuple(_make_row(method, model) for method in methods))


def exactness_for_model(implementation: Implementation, model: Model | None) -> str:
    """Return the exactness of an implementation; "checked" if checks of texts give its bound."""
    if model is None or implementation.needs != "exact_game":
        return implementation.exactness
    return "checked" if get_property(model, "exactness_is_checked") else implementation.exactness


def _make_row(method: Method, model: Model | None) -> MethodRow:
    """Return the row of a method in the table of methods."""
    implementations, reason, cost = method.implementations, None, method.cost
    if model is not None:
        selected = select_implementation(method, model)
        if selected is None:
            implementations, reason = (), reason_unusable(method, model)
        else:
            implementations, cost = (selected,), selected.cost.summary or cost
            if selected.needs is None and method.implementations[0].needs == "exact_game":
                cost = f"{cost}, because {reason_missing(model, 'exact_game')}"
    defaults, rows = setting_defaults(method), []
    for implementation in implementations:
        values = defaults | {
            name: getattr(value, "digest", value) for name, value in implementation.defaults.items()
        }
        settings = (
            SettingRow(name, values[name], meaning)
            for name, meaning in implementation.settings.items()
        )
        exactness = exactness_for_model(implementation, model)
        rows.append(ImplementationRow(implementation.needs, exactness, tuple(settings)))
    facts = {fact.name: getattr(method, fact.name) for fact in fields(MethodFacts)}
    return MethodRow(
        **facts | {"cost": cost}, implementations=tuple(rows), reason_unavailable=reason
    )


# Methods that `compare` uses by default. If LIME is exact for the model, these are the seven
# methods of the paper and Shapley values. Otherwise they are methods that are faithful to deep
# models, best first, if the model allows them. Gradient × input and G-avg are no better than chance
# there.
EXACT_COMPARISON = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi", "shapley")
SAMPLED_COMPARISON = ("shapley", "lime", "lrp", "ig", "loo", "alpha-avg")
# Attention and gradients are not faithful to answers. Other tools show ContextCite.
ANSWER_COMPARISON = ("banzhaf", "shapley", "context-cite", "lime", "lrp", "loo")
# The method that `explain` uses by default: LIME if it is exact, as in the paper, otherwise Shapley
# values, which have the largest share at every number of calls
# (benchmarks/results/judging_cuda_every.json).
EXACT_DEFAULT = "lime"
SAMPLED_DEFAULT = "shapley"
# What a display shows until the sampled scores arrive. LRP is exact and fast. On deep models its
# share is two thirds, and that of attention one sixth.
PREVIEW = "lrp"


def default_method(model: Model) -> str:
    """Return the id of the method that explains ``model`` by default.

    Answers are explained by Banzhaf values. At an equal number of calls they are at least as good
    as ContextCite in each measure of its paper, and Shapley values are not
    (reproduction/studies/answers.py).
    """
    if has(model, "generation"):
        return ANSWER_COMPARISON[0]
    implementation = select_implementation(METHODS[EXACT_DEFAULT], model)
    is_sampled = implementation is None or implementation.exactness == "sampled"
    return SAMPLED_DEFAULT if is_sampled else EXACT_DEFAULT


def preview_method(model: Model) -> str | None:
    """Return the quick method to show until sampled scores arrive, or None if none is needed."""
    if default_method(model) != SAMPLED_DEFAULT:
        return None
    sampled, quick = (
        select_implementation(METHODS[name], model) for name in (SAMPLED_DEFAULT, PREVIEW)
    )
    is_needed = sampled is not None and sampled.cost.calls is not None
    return PREVIEW if is_needed and quick is not None else None


def default_comparison(model: Model) -> list[str]:
    """Return the ids of the methods that ``compare`` uses for ``model`` by default."""
    comparisons = {EXACT_DEFAULT: EXACT_COMPARISON, ANSWER_COMPARISON[0]: ANSWER_COMPARISON}
    names = comparisons.get(default_method(model), SAMPLED_COMPARISON)
    return [name for name in names if select_implementation(METHODS[name], model) is not None]


def configure_methods(
    model: Model, methods: str | Sequence[str | object] | None, settings: Mapping[str, Any]
) -> list[ConfiguredMethod]:
    """Configure the methods to compare, each with the settings that it has.

    Parameters
    ----------
    model
        The model that will be explained.
    methods
        Methods by id, learned methods and settings objects; None for the default comparison.
    settings
        Settings by name. At least one of the methods must have each of them.

    Raises
    ------
    InputError
        If a method is unknown or repeated, or if no method has a setting.
    """
    names = [methods] if isinstance(methods, str) else methods
    if names is None:
        names = default_comparison(model)
    if not names:
        raise InputError("compare needs at least one method.")
    by_name = {name: find_method(name) for name in names}
    ids = [method.id for method in by_name.values()]
    if repeated := [name for name in ids if ids.count(name) > 1]:
        raise InputError(f"compare needs each method once, but {repeated[0]!r} was given twice.")
    setting_names = dict[Any, Mapping[str, str]]()
    for name, method in by_name.items():
        if not accepts_settings(name):  # a settings object
            continue
        replacement = settings.get("replacement", "auto")
        implementation = select_implementation(method, model, replacement)
        if implementation is None:
            raise unusable_method_error(method, model)
        setting_names[name] = implementation.settings
        if implementation.can_stop_when_certain:
            setting_names[name] = {**implementation.settings, UNTIL: ""}
    usable_settings = {setting: None for names in setting_names.values() for setting in names}
    for setting in settings:
        if setting not in usable_settings:
            raise InputError(
                unknown_name_message("setting of these methods", setting, usable_settings)
            )
    configured = []
    for name, method in by_name.items():
        values_or_object = name
        if name in setting_names:
            used = setting_names[name]
            values_or_object = {key: value for key, value in settings.items() if key in used}
        configured.append(ConfiguredMethod.create(method, model, values_or_object))
    return configured
