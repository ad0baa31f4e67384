"""The registry of methods, and which of them explain or are compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from limelight.errors import InputError, nearest
from limelight.explainers import anchors as anchor_methods
from limelight.explainers import approximations as first_order_methods
from limelight.explainers import approximations as mean_field_methods
from limelight.explainers import attention as attention_methods
from limelight.explainers import attention as generic_attention
from limelight.explainers import banzhaf as banzhaf_methods
from limelight.explainers import banzhaf as interaction_methods
from limelight.explainers import gradients as conservative_methods
from limelight.explainers import gradients as gradient_methods
from limelight.explainers import gradients as integrated_methods
from limelight.explainers import lime as lime_methods
from limelight.explainers import shapley as owen_methods
from limelight.explainers import shapley as removal_methods
from limelight.explainers import shapley as shapley_methods
from limelight.explainers import surrogate as surrogate_methods
from limelight.explainers.budget import Budget, BudgetGiven, agreed_budget
from limelight.explainers.method import (
    Chosen,
    Method,
    Way,
    chosen,
    chosen_way,
    refusal,
    setting_defaults,
)
from limelight.models import Model, why_not
from limelight.results.method_table import MethodRow, MethodTable, SettingRow, WayRow

# A method is a row in the module that computes it; a module is a name in this list.
_MODULES = (
    attention_methods,
    generic_attention,
    gradient_methods,
    integrated_methods,
    conservative_methods,
    lime_methods,
    first_order_methods,
    mean_field_methods,
    removal_methods,
    shapley_methods,
    owen_methods,
    banzhaf_methods,
    interaction_methods,
    surrogate_methods,
    anchor_methods,
)
METHODS: dict[str, Method] = {row.id: row for module in _MODULES for row in module.ROWS}
_BY_SETTINGS: dict[type, Method] = {row.settings: row for row in METHODS.values()}
_OFTEN_USED = ("shapley", "lime", "loo")


def find_method(name: Any) -> Method:
    """Return the method called ``name``, or whose settings ``name`` is.

    An unknown one is an error with the nearest guess.
    """
    if type(name) in _BY_SETTINGS:
        return _BY_SETTINGS[type(name)]
    if isinstance(name, type) and name in _BY_SETTINGS:
        raise InputError(f"settings are a value, not a class; write {name.__name__}().")
    if not isinstance(name, str) or name not in METHODS:
        raise InputError(nearest("method", name, METHODS))
    return METHODS[name]


def usable_methods(model: Model) -> list[str]:
    """Return the methods that ``model`` allows."""
    return [name for name, method in METHODS.items() if chosen_way(method, model) is not None]


def configured(name: Any, model: Model, settings: Mapping[str, Any]) -> Chosen:
    """Return a method ready for ``model``: its name with settings, or a settings object alone."""
    method = find_method(name)
    way = way_of(method, model)
    if isinstance(name, str):
        return chosen(method, way, model, settings)
    if settings:
        given = next(iter(settings))
        raise InputError(
            f"settings are given by name or as {type(name).__name__}(…), not both; got {given!r}."
        )
    return chosen(method, way, model, name)


def way_of(method: Method, model: Model) -> Way:
    """Return the way that fits ``model``; where none does, an error says why and what fits."""
    if (way := chosen_way(method, model)) is not None:
        return way
    usable = usable_methods(model)
    often = [one for one in _OFTEN_USED if one in usable]
    raise InputError(refusal(method, model, often))


def method_table(model: Model | None = None, *names: str) -> MethodTable:
    """Return the registry as a table; with ``model``, only what holds for it."""
    rows = [find_method(name) for name in names] or list(METHODS.values())
    return MethodTable(tuple(_row(row, model) for row in rows))


def _row(method: Method, model: Model | None) -> MethodRow:
    ways, why, cost = method.ways, None, method.cost
    if model is not None:
        way = chosen_way(method, model)
        ways = () if way is None else (way,)
        why = refusal(method, model, []) if way is None else None
        cost = (way and way.cost) or cost
    return MethodRow(
        id=method.id,
        label=method.label,
        formula=method.formula,
        sees=method.sees,
        blind=method.blind,
        cost=cost,
        signed=method.signed,
        ways=tuple(_way_row(method, way) for way in ways),
        refused=why,
    )


def _way_row(method: Method, way: Way) -> WayRow:
    defaults = {**setting_defaults(method), **way.defaults}
    rows = (SettingRow(name, defaults[name], means) for name, means in way.settings.items())
    return WayRow(way.needs, way.exactness, tuple(rows))


# What `compare` shows unless told otherwise: on the paper's classifier the paper's seven methods
# and Shapley values; elsewhere those that were measured to be faithful to a deep model, the best
# first, of which a model's own are taken. Gradient × input and G-avg are chance there.
COMPARED = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi", "shapley")
COMPARED_ELSEWHERE = ("shapley", "lime", "lrp", "ig", "loo", "alpha-avg")
# What `explain` takes unless told otherwise: LIME where it is exact, as in the paper; elsewhere
# Shapley values, which have the largest share at every number of calls
# (benchmarks/results/judging_cuda_every.json).
EXPLAINED = "lime"
EXPLAINED_ELSEWHERE = "shapley"


def default_method(model: Model) -> str:
    """Return the method that explains ``model`` unless another is named."""
    return EXPLAINED if why_not(model, "collapses") is None else EXPLAINED_ELSEWHERE


def method_and_budget(
    model: Model, method: Any, settings: Mapping[str, Any], budget: BudgetGiven | None
) -> tuple[Chosen, Budget | None]:
    """Return the method that explains ``model``, the default one for None, and its budget."""
    chosen = configured(default_method(model) if method is None else method, model, settings)
    return chosen, agreed_budget(budget, [chosen], settings)


def compared_by_default(model: Model) -> list[str]:
    """Return the methods that ``compare`` shows for ``model`` unless it is told otherwise."""
    listed = COMPARED if why_not(model, "collapses") is None else COMPARED_ELSEWHERE
    usable = usable_methods(model)
    return [name for name in listed if name in usable]


def several_methods(
    model: Model, methods: str | Sequence[str | object] | None, settings: Mapping[str, Any]
) -> list[Chosen]:
    """Return the methods to compare, each with those of the settings that it has."""
    names = [methods] if isinstance(methods, str) else methods
    if names is None:
        names = list(compared_by_default(model))
    if not names:
        raise InputError("compare needs at least one method; got none.")
    several = list(dict.fromkeys(names))
    ids = [find_method(name).id for name in several]
    if twice := [name for name in ids if ids.count(name) > 1]:
        raise InputError(f"compare shows each method once; {twice[0]!r} was given twice.")
    own = [way_of(find_method(n), model).settings if isinstance(n, str) else {} for n in several]
    known = {name: None for settings_of_way in own for name in settings_of_way}
    for name in settings:
        if name not in known:
            raise InputError(nearest("setting of these methods", name, known))
    return [
        configured(name, model, {k: v for k, v in settings.items() if k in taken})
        for name, taken in zip(several, own, strict=True)
    ]
