"""What a method is: a name, what it computes, sees and cannot see, and how to call it."""

__all__ = [
    "KINDS",
    "Explainer",
    "Method",
    "WordOrNumber",
    "kind_of",
    "settings_of",
    "with_defaults",
]

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, final

from limelight.errors import InputError, nearest
from limelight.explainers.scores import Scores

# Settings of a method that can be called with a reading of the kind of model they are for.
Explainer = Callable[[Any], list[Scores]]

# Kinds of models: the paper's classifier, where everything follows from its tables; deep models
# that show attention and gradients; functions of texts, which show nothing but their answers.
KINDS = ("tables", "deep", "function")


class WordOrNumber(str):
    """The default of a setting that may be a word or a whole number, which becomes one."""


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
        return make(
            **{name: _fitting(name, value, known[name]) for name, value in settings.items()}
        )

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
    make = method.maker(kind)
    if make is None:
        return MappingProxyType({})
    preset = getattr(make, "keywords", {})
    parameters = inspect.signature(make).parameters.values()
    return MappingProxyType({p.name: p.default for p in parameters if p.name not in preset})


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


def _fitting(name: str, value: Any, default: Any) -> Any:
    """Return ``value`` as the kind of thing that ``default`` is; refuse what cannot be one.

    A default of None stands for an optional number.
    """
    if isinstance(default, WordOrNumber) and isinstance(value, int):
        return str(value)
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, str):
        fits, kind = isinstance(value, str), "a word"
    else:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        kind = "a whole number" if isinstance(default, int) else "a number"
        if isinstance(default, int):
            fits = fits and value == int(value)
        if default is None and value is None:
            return None
    if not fits:
        raise InputError(f"the setting {name!r} must be {kind}; got {value!r}.")
    return type(default)(value) if isinstance(default, int | float) else value
