"""Which methods explain or are compared, each with the settings that it takes."""

__all__ = [
    "COMPARED",
    "COMPARED_ELSEWHERE",
    "EXPLAINED",
    "EXPLAINED_ELSEWHERE",
    "compared_by_default",
    "default_method",
    "method_and_budget",
    "several_methods",
]

from collections.abc import Mapping, Sequence
from typing import Any

from limelight.errors import InputError, nearest
from limelight.explainers.budget import Budget, BudgetGiven, agreed_budget
from limelight.explainers.method import Chosen
from limelight.explainers.registry import configured, find_method, usable_methods, way_of
from limelight.models import Model, why_not

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
