"""Every method: its name, what it computes, what it can and cannot see, and how to call it."""

__all__ = ["METHODS", "Method", "find_method", "settings_of"]

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final

from limelight.errors import InputError, nearest
from limelight.explainers.attention import Attention
from limelight.explainers.gradients import Gradient
from limelight.explainers.integrated import Integrated
from limelight.explainers.reading import Reading, Scores


class Explainer(Protocol):
    """Settings of a method that can be called."""

    def __call__(self, reading: Reading) -> list[Scores]:
        """Return the scores of every document."""
        ...


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
        return self.explainer(**settings)


def settings_of(method: Method) -> dict[str, Any]:
    """Return the settings a user may give to ``method``, with their defaults."""
    preset = getattr(method.explainer, "keywords", {})
    parameters = inspect.signature(method.explainer).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in preset}


def find_method(name: str) -> Method:
    """Return the method called ``name``; an unknown one is an error with the nearest guess."""
    if name not in METHODS:
        raise InputError(nearest("method", name, METHODS))
    return METHODS[name]


_CATALOGUE = (
    Method(
        id="alpha-avg",
        label="α-avg",
        formula="mean over heads of α_t (Eq. 10)",
        sees="where [cls] looks",
        blind="values, the last layer, and so the sign and the class",
        cost="one forward pass",
        signed=False,
        explainer=partial(Attention, over_heads="mean"),
    ),
    Method(
        id="alpha-max",
        label="α-max",
        formula="max over heads of α_t (Eq. 11)",
        sees="where at least one head looks",
        blind="values, the last layer, and so the sign and the class",
        cost="one forward pass",
        signed=False,
        explainer=partial(Attention, over_heads="max"),
    ),
    Method(
        id="g-avg",
        label="G-avg",
        formula="mean over dimensions of ∇_{e_t} f (Theorem 4.1)",
        sees="attention, values and the last layer, to first order",
        blind="what happens far from the text; the axes of the embedding are arbitrary",
        cost="one forward pass and two small products",
        explainer=partial(Gradient, summary="mean"),
    ),
    Method(
        id="g-l1",
        label="G-l1",
        formula="‖∇_{e_t} f‖₁ (Theorem 4.1)",
        sees="how sensitive the output is to a word",
        blind="the sign; what happens far from the text",
        cost="one forward pass and two small products",
        signed=False,
        explainer=partial(Gradient, summary="l1"),
    ),
    Method(
        id="g-l2",
        label="G-l2",
        formula="‖∇_{e_t} f‖₂ (Theorem 4.1)",
        sees="how sensitive the output is to a word",
        blind="the sign; what happens far from the text",
        cost="one forward pass and two small products",
        signed=False,
        explainer=partial(Gradient, summary="l2"),
    ),
    Method(
        id="gxi",
        label="G×I",
        formula="e_t · ∇_{e_t} f (Theorem 4.1)",
        sees="attention, values and the last layer, with a sign",
        blind="saturation: it compares with the zero vector, which is no word",
        cost="one forward pass and two small products",
        explainer=partial(Gradient, summary="input"),
    ),
    Method(
        id="ig",
        label="IG",
        formula="∫₀¹ (e_t − h)·∇_{e_t} f dx along UNK → word",
        sees="the whole way from UNK to the word; scores add up to f − f(all UNK)",
        blind="mixtures of kept and removed words off that way",
        cost="32 to 128 forward passes on the tables",
        explainer=Integrated,
    ),
)
METHODS: dict[str, Method] = {method.id: method for method in _CATALOGUE}
