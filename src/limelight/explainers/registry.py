"""The registry of methods, and which of them explain or are compared."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

from limelight.errors import IN_REPRODUCTION, InputError, nearest
from limelight.explainers.budget import Budget, BudgetGiven, agreed_budget
from limelight.explainers.learned import PREFIX, Learned
from limelight.explainers.method import (
    Chosen,
    Method,
    Way,
    chosen,
    chosen_way,
    refusal,
    setting_defaults,
)
from limelight.models import CAPABILITIES, Model, get_property, has, reason_missing
from limelight.question import Question
from limelight.results.method_table import MethodFacts, MethodRow, MethodTable, SettingRow, WayRow

# A method is a row in the module that computes it, which is imported when the method is asked for:
# a comparison of attention and gradients needs no anchors.
MODULES = {
    "attention": ("alpha-avg", "alpha-max", "alpha-grad", "rollout", "flow", "generic-attention"),
    "gradients": ("g-avg", "g-l1", "g-l2", "gxi", "ig", "lrp"),
    "lime": ("lime", "lime-sampled"),
    "shapley": ("loo", "shapley"),
    "nested": ("owen", "zoom"),
    "banzhaf": ("banzhaf", "interactions", "context-cite"),
    "anchors": ("anchors",),
}
_HOME = {name: module for module, names in MODULES.items() for name in names}
ENTRY_POINTS = "limelight.methods"
_REPRODUCTION = ("lime-theorem", "lime-first-order", "lime-mean-field", "shapley-mean-field")
_ID = re.compile("[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Keywords of the verbs that no setting may be called: a value would go to the one or to the other.
_TAKEN = {one.name for one in fields(Question)} | {
    "model", "text", "texts", "method", "methods", "budget", "progress", "attention", "data",
    "output", "limit", "workers", "executor", "retry", "shard_texts", "texts_kept", "text_column",
    "pair_column", "id_column", "label_column", "columns", "curves", "rationales", "estimate",
    "second_replacement",
}  # fmt: skip


class Registry(Mapping[str, Method]):
    """All methods by name: ours in their order, then those of others.

    Packages that bring methods are looked for once, when something is asked for that is not ours,
    because looking through all that is installed takes longer than most explanations. ``broken``
    has a sentence for each of them that cannot be used.
    """

    def __init__(self) -> None:
        self._known: dict[str, Method] = {}
        # Beside it, because a class stays known whose method was registered again: values of it may
        # still be around in a notebook.
        self._by_settings: dict[type, Method] = {}
        self._looked = False
        self.broken: dict[str, str] = {}

    def __getitem__(self, name: str) -> Method:
        if name not in self._known:
            self._load(_HOME.get(name))
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._load(None)
        yield from _HOME
        yield from [name for name in self._known if name not in _HOME]

    def __len__(self) -> int:
        return len(list(iter(self)))

    def of_settings(self, cls: type) -> Method | None:
        """Return the method whose settings ``cls`` is; None where it is no method's."""
        if cls not in self._by_settings:
            package, _, module = cls.__module__.rpartition(".")
            self._load(module if package == __package__ and module in MODULES else None)
        return self._by_settings.get(cls)

    def add(self, method: Method) -> None:
        """Take in a method of somebody else; see :func:`register`."""
        known = None if method.id in _HOME else self._known.get(method.id)
        # A cell of a notebook that is run again defines the same method again.
        again = known is not None and _place(known) == _place(method)
        if not again and method.id in self:
            raise InputError(f"there is a method {method.id!r} already; give yours another id.")
        other = self.of_settings(method.settings)
        if other is not None and other.id != method.id:
            raise InputError(
                f"the settings of method {method.id!r} are those of {other.id!r}; each method has "
                "a class of its own."
            )
        self._keep(method)

    def _keep(self, method: Method) -> None:
        self._known[method.id] = self._by_settings[method.settings] = method

    def _load(self, module: str | None) -> None:
        """Import a module of ours, or for None what packages bring."""
        if module is not None:
            for row in import_module(f"{__package__}.{module}").ROWS:
                self._keep(row)
        elif not self._looked:
            self._looked = True  # before any is loaded: registering one asks for names again
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


def register(method: Method) -> None:
    """Make a method of your own known to every verb and command of this process, by its id.

    A package brings one to all processes by an entry point of the group "limelight.methods" whose
    value is such a ``limelight.explainers.Method``.
    """
    if not isinstance(method, Method):
        raise InputError(f"a method is a limelight.explainers.Method; got {method!r}.")
    name, own = method.id, getattr(method.settings, "declared", None)
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise InputError(
            "the id of a method is lower-case words with dashes, such as 'my-method'; got "
            f"{name!r}."
        )
    if own is None:
        raise InputError(
            f"the settings of method {name!r} must be a limelight.explainers.settings_class; got "
            f"{method.settings!r}."
        )
    if not method.ways:
        raise InputError(f"method {name!r} has no way to be computed; give it one.")
    declared, used = {one.name for one in own}, set[str]()
    for way in method.ways:
        used |= {*way.settings, *way.defaults}
        if way.needs is not None and way.needs not in CAPABILITIES:
            raise InputError(nearest("capability", way.needs, CAPABILITIES))
    if odd := sorted(declared ^ used):
        raise InputError(
            f"each setting of method {name!r} must be in its class and in one of its ways, with "
            f"what it means there; {odd[0]!r} is not."
        )
    if taken := sorted(declared & _TAKEN):
        raise InputError(
            f"the setting {taken[0]!r} of method {name!r} has the name of a keyword of "
            "the verbs; give it another."
        )
    METHODS.add(method)


def find_method(name: Any) -> Method:
    """Return the method called ``name``, or whose settings ``name`` is.

    An unknown one is an error with the nearest guess. "learned:FOLDER" is the method in a folder
    that :func:`limelight.learn` wrote.
    """
    if isinstance(name, str) and name.startswith(PREFIX):
        name = Learned.load(name.removeprefix(PREFIX))
    if isinstance(name, Learned):
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
    elif (found := METHODS.of_settings(type(name))) is not None:
        return found
    elif isinstance(name, type) and METHODS.of_settings(name) is not None:
        raise InputError(f"settings are a value, not a class; write {name.__name__}().")
    raise InputError(nearest("method", name, METHODS))


def is_named(name: Any) -> bool:
    """Whether settings may be given beside ``name``, which holds none itself."""
    return isinstance(name, str | Learned)


def usable_methods(model: Model) -> list[str]:
    """Return the methods that ``model`` allows."""
    return [name for name, method in METHODS.items() if chosen_way(method, model) is not None]


def configured(name: Any, model: Model, settings: Mapping[str, Any]) -> Chosen:
    """Return a method ready for ``model``: its name with settings, or a settings object alone."""
    method = find_method(name)
    way = way_of(method, model, _replacement(name, settings))
    if is_named(name):
        return chosen(method, way, model, settings)
    for given in settings:
        raise InputError(
            f"settings are given by name or as {type(name).__name__}(…), not both; got {given!r}."
        )
    return chosen(method, way, model, name)


def _replacement(name: Any, settings: Mapping[str, Any]) -> Any:
    """Return the replacement in the settings that are given by name or as an object."""
    if is_named(name):
        return settings.get("replacement", "auto")
    return getattr(name, "replacement", "auto")


def way_of(method: Method, model: Model, replacement: Any = "auto") -> Way:
    """Return the way that fits ``model``; where none does, an error says why and what fits."""
    if (way := chosen_way(method, model, replacement)) is None:
        # Which any model allows.
        raise InputError(refusal(method, model, "; use 'shapley', 'lime' or 'loo'"))
    return way


def method_table(model: Model | None = None, *names: str) -> MethodTable:
    """Return the registry as a table; with ``model``, only what holds for it."""
    rows = [find_method(name) for name in names] or list(METHODS.values())
    return MethodTable(tuple(_row(row, model) for row in rows))


def exactness_on(way: Way, model: Model | None) -> str:
    """Return how exact a way is on ``model``: its bound may rest on checks of each text."""
    if model is None or way.needs != "exact_game":
        return way.exactness
    return "checked" if get_property(model, "rests_on_checks") else way.exactness


def _row(method: Method, model: Model | None) -> MethodRow:
    ways, why, cost = method.ways, None, method.cost
    if model is not None:
        way = chosen_way(method, model)
        ways = () if way is None else (way,)
        why = refusal(method, model) if way is None else None
        cost = (way and way.cost) or cost
        if way is not None and way.needs is None and method.ways[0].needs == "exact_game":
            cost = f"{cost}; asked, since {reason_missing(model, 'exact_game')}"
    defaults, rows = setting_defaults(method), []
    for way in ways:
        own = defaults | {k: getattr(x, "digest", x) for k, x in way.defaults.items()}
        settings = (SettingRow(name, own[name], means) for name, means in way.settings.items())
        rows.append(WayRow(way.needs, exactness_on(way, model), tuple(settings)))
    facts = {one.name: getattr(method, one.name) for one in fields(MethodFacts)}
    return MethodRow(**facts | {"cost": cost}, ways=tuple(rows), refused=why)


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
    sampled = way_of(METHODS[EXPLAINED], model).exactness == "sampled"
    return EXPLAINED_ELSEWHERE if sampled else EXPLAINED


def fitting(model: Model, d: int, calls: int, fewest: int) -> str:
    """Say which methods explain ``d`` features with so few calls, or with fewer than ``fewest``.

    The budgets that are named include the call for the text itself.
    """
    usual = [configured(name, model, {}) for name in compared_by_default(model)]
    takes = {
        one.method.id: one.way.fewest(one.settings, d)
        for one in usual
        if one.way.fewest is not None
    }
    if not takes:  # as of a model whose usual methods are all exact
        return f", or use {default_method(model)!r}, which asks the model nothing"
    least = min(takes, key=takes.__getitem__)
    if takes[least] > calls:
        fewer = takes[least] < fewest
        return f", or one of {takes[least] + 1:,} calls and {least!r}" if fewer else ""
    first = next(name for name in takes if takes[name] <= calls)
    names = (f"{name!r}, which takes {takes[name]:,}" for name in dict.fromkeys((first, least)))
    return f", or use {', or '.join(names)}"


def methods_and_budget(
    model: Model,
    method: Any,
    settings: Mapping[str, Any],
    budget: BudgetGiven | None,
    *,
    several: bool = False,
) -> tuple[list[Chosen], Budget | None]:
    """Return the method that explains ``model``, or ``several`` to compare, and their budget.

    None is the default. With a budget, a learned method that explains is where Shapley values
    start: calls are there to be spent.
    """
    learned = isinstance(method, Learned) or str(method).startswith(PREFIX)
    if several:
        chosen = several_methods(model, method, settings)
    elif learned and budget is not None:
        chosen = [configured("shapley", model, {"start": method, **settings})]
    else:
        named = default_method(model) if method is None else method
        chosen = [configured(named, model, settings)]
    return chosen, None if budget is None else agreed_budget(budget, chosen, settings)


def compared_by_default(model: Model) -> list[str]:
    """Return the methods that ``compare`` shows for ``model`` unless it is told otherwise."""
    listed = {EXPLAINED: COMPARED, COMPARED_OF_ANSWERS[0]: COMPARED_OF_ANSWERS}.get(
        default_method(model), COMPARED_ELSEWHERE
    )
    return [name for name in listed if chosen_way(METHODS[name], model) is not None]


def several_methods(
    model: Model, methods: str | Sequence[str | object] | None, settings: Mapping[str, Any]
) -> list[Chosen]:
    """Return the methods to compare, each with those of the settings that it has."""
    names = [methods] if isinstance(methods, str) else methods
    if names is None:
        names = compared_by_default(model)
    if not names:
        raise InputError("compare needs at least one method; got none.")
    several = {name: find_method(name) for name in names}
    ids = [method.id for method in several.values()]
    if twice := [name for name in ids if ids.count(name) > 1]:
        raise InputError(f"compare shows each method once; {twice[0]!r} was given twice.")
    ways = {
        name: way_of(method, model, _replacement(name, settings))
        for name, method in several.items()
    }
    known = {key: None for name, way in ways.items() if is_named(name) for key in way.settings}
    for key in settings:
        if key not in known:
            raise InputError(nearest("setting of these methods", key, known))
    found = []
    for name, method in several.items():
        way = ways[name]
        own = {key: value for key, value in settings.items() if key in way.settings}
        found.append(chosen(method, way, model, own if is_named(name) else name))
    return found
