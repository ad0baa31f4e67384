"""What a method is: a name, what it computes, sees and cannot see, and how to call it."""

__all__ = [
    "KINDS",
    "Explainer",
    "Method",
    "kind_of",
    "settings_of",
    "with_defaults",
]

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, final, get_args

from limelight.errors import InputError, nearest
from limelight.explainers.scores import Scores

# Settings of a method that can be called with a reading of the kind of model they are for.
Explainer = Callable[[Any], list[Scores]]

# Kinds of models: the paper's classifier, where everything follows from its tables; deep models
# that show attention and gradients; functions of texts, which show nothing but their answers.
KINDS = ("tables", "deep", "function")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row of the catalogue that ``limelight methods`` prints.

    ``explainer`` makes the settings for the paper's classifier, ``deep`` those for models that show
    attention and gradients, ``sampled`` those for any other; a deep model takes what it can get.
    """

    id: str
    label: str
    formula: str
    sees: str
    blind: str
    cost: str
    signed: bool = True
    explainer: Callable[..., Explainer]
    deep: Callable[..., Explainer] | None = None
    sampled: Callable[..., Explainer] | None = None

    def maker(self, kind: str = "tables") -> Callable[..., Explainer] | None:
        """Return what makes the explainer for a kind of model; None where there is none."""
        return {
            "tables": self.explainer,
            "deep": self.deep or self.sampled,
            "function": self.sampled,
        }[kind]

    def configured(self, settings: Mapping[str, Any], kind: str = "tables") -> Explainer:
        """Return the explainer with ``settings``; an unknown one is an error that lists all."""
        make = self.maker(kind)
        if make is None:
            raise InputError(f"method {self.id!r} {self._why_not(kind)}")
        known = settings_of(self, kind)
        for name in settings:
            if name not in known:
                if not known:
                    raise InputError(f"method {self.id!r} has no settings; got {name!r}.")
                raise InputError(nearest(f"setting of method {self.id!r}", name, known))
        return make(**{k: _fitting(self, kind, k, value) for k, value in settings.items()})

    def _why_not(self, kind: str) -> str:
        if kind == "function" and self.deep is not None:
            return (
                "looks inside the model, and a function of texts shows only its answers; "
                "use 'lime', 'shapley', 'loo', 'lime-sampled' or 'anchors'."
            )
        return (
            "is known for the paper's attention classifier only; "
            "use 'lime', 'shapley' or 'loo' for other models."
        )


def kind_of(model: Any) -> str:
    """Return which of ``KINDS`` a model is."""
    inside = getattr(model, "sees_inside", None)
    return "tables" if inside is None else "deep" if inside else "function"


@cache
def settings_of(method: Method, kind: str = "tables") -> Mapping[str, Any]:
    """Return the settings a user may give to ``method``, with their defaults."""
    return MappingProxyType({name: p.default for name, p in _parameters(method, kind).items()})


@cache
def _parameters(method: Method, kind: str) -> Mapping[str, inspect.Parameter]:
    make = method.maker(kind)
    if make is None:
        return {}
    preset = getattr(make, "keywords", {})
    parameters = inspect.signature(make).parameters
    return {name: p for name, p in parameters.items() if name not in preset}


def with_defaults(make: Callable[..., Explainer], **defaults: Any) -> Callable[..., Explainer]:
    """Return ``make`` with other defaults, which its signature shows."""

    def remade(**settings: Any) -> Explainer:
        return make(**{**defaults, **settings})

    signature = inspect.signature(make)
    remade.__dict__["__signature__"] = signature.replace(
        parameters=[
            p.replace(default=defaults.get(p.name, p.default))
            for p in signature.parameters.values()
        ]
    )
    remade.__dict__["keywords"] = getattr(make, "keywords", {})
    return remade


def _fitting(method: Method, of: str, name: str, value: Any) -> Any:
    """Return ``value`` as the kind of thing that the setting is; refuse what cannot be one."""
    parameter = _parameters(method, of)[name]
    allowed = get_args(parameter.annotation) or (parameter.annotation,)
    if value is None and type(None) in allowed:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if str in allowed and isinstance(value, str):
        return value
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
