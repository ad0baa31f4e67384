"""The registry of methods."""

__all__ = ["METHODS", "configured", "find_method", "method_table", "usable_methods"]

from collections.abc import Mapping
from typing import Any

from limelight.errors import InputError, nearest
from limelight.explainers import (
    anchor_methods,
    attention_methods,
    banzhaf_methods,
    conservative_methods,
    first_order_methods,
    generic_attention,
    gradient_methods,
    integrated_methods,
    interaction_methods,
    lime_methods,
    mean_field_methods,
    owen_methods,
    removal_methods,
    shapley_methods,
    surrogate_methods,
)
from limelight.explainers.method import (
    Chosen,
    Method,
    Way,
    chosen,
    chosen_way,
    refusal,
    setting_defaults,
)
from limelight.models import Model
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
