"""What a method is: a name, what it computes, sees and cannot see, and how to call it."""

__all__ = ["Explainer", "Method", "settings_of"]

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, final, get_args

from limelight.errors import InputError, nearest
from limelight.explainers.reading import Reading, Scores

Explainer = Callable[[Reading], list[Scores]]  # settings of a method that can be called


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row of the catalogue that ``limelight methods`` prints."""

    id: str
    label: str
    formula: str
    sees: str
    blind: str
    cost: str
    signed: bool = True
    explainer: Callable[..., Explainer]

    def configured(self, settings: Mapping[str, Any]) -> Explainer:
        """Return the explainer with ``settings``; an unknown one is an error that lists all."""
        known = settings_of(self)
        for name in settings:
            if name not in known:
                if not known:
                    raise InputError(f"method {self.id!r} has no settings; got {name!r}.")
                raise InputError(nearest(f"setting of method {self.id!r}", name, known))
        return self.explainer(**{k: _fitting(self, k, value) for k, value in settings.items()})


@cache
def settings_of(method: Method) -> Mapping[str, Any]:
    """Return the settings a user may give to ``method``, with their defaults."""
    return MappingProxyType({name: p.default for name, p in _parameters(method).items()})


@cache
def _parameters(method: Method) -> Mapping[str, inspect.Parameter]:
    preset = getattr(method.explainer, "keywords", {})
    parameters = inspect.signature(method.explainer).parameters
    return {name: p for name, p in parameters.items() if name not in preset}


def _fitting(method: Method, name: str, value: Any) -> Any:
    """Return ``value`` as the kind of thing that the setting is; refuse what cannot be one."""
    parameter = _parameters(method)[name]
    allowed = get_args(parameter.annotation) or (parameter.annotation,)
    if value is None and type(None) in allowed:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if bool in allowed:
        fits, kind = isinstance(value, bool), "true or false"
    elif float in allowed:
        fits, kind = number, "a number"
    elif int in allowed:
        fits, kind = number and math.isfinite(value) and value == int(value), "a whole number"
    else:
        fits, kind = isinstance(value, str), "a word"
    if not fits:
        raise InputError(f"the setting {name!r} must be {kind}; got {value!r}.")
    if not number:
        return value
    return float(value) if float in allowed else int(value)
