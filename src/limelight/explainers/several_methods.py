"""Which methods are compared, each with the settings that it takes."""

__all__ = ["COMPARED", "several_methods"]

from collections.abc import Mapping, Sequence
from typing import Any

from limelight.errors import InputError, nearest
from limelight.explainers.method import Chosen
from limelight.explainers.registry import configured, find_method, usable_methods, way_of
from limelight.models import Model

# What `compare` shows unless told otherwise: of these, those that a model allows.
COMPARED = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi", "shapley")
COMPARED_BY_ASKING = ("loo", "lime", "shapley")


def several_methods(
    model: Model, methods: str | Sequence[str | object] | None, settings: Mapping[str, Any]
) -> list[Chosen]:
    """Return the methods to compare, each with those of the settings that it has."""
    names = [methods] if isinstance(methods, str) else methods
    if names is None:
        usable = usable_methods(model)
        names = [name for name in COMPARED if name in usable]
        if len(names) <= len(COMPARED_BY_ASKING):  # nothing but lime and shapley
            names = list(COMPARED_BY_ASKING)
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
