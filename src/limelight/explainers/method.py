"""What a method is: a name, what it computes, sees and cannot see, and how to call it."""

__all__ = ["Explainer", "Method", "settings_of"]

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, final

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
        return self.explainer(
            **{name: _fitting(name, value, known[name]) for name, value in settings.items()}
        )


@cache
def settings_of(method: Method) -> Mapping[str, Any]:
    """Return the settings a user may give to ``method``, with their defaults."""
    preset = getattr(method.explainer, "keywords", {})
    parameters = inspect.signature(method.explainer).parameters.values()
    return MappingProxyType({p.name: p.default for p in parameters if p.name not in preset})


def _fitting(name: str, value: Any, default: Any) -> Any:
    """Return ``value`` as the kind of thing that ``default`` is; refuse what cannot be one.

    A default of None stands for an optional number.
    """
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, str):
        fits, kind = isinstance(value, str), "a word"
    else:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        kind = "a whole number" if isinstance(default, int) else "a number"
        if isinstance(default, int):
            fits = fits and math.isfinite(value) and value == int(value)
        if default is None and value is None:
            return None
    if not fits:
        raise InputError(f"the setting {name!r} must be {kind}; got {value!r}.")
    return type(default)(value) if isinstance(default, int | float) else value
