"""Methods: settings, the ways to compute them, and the registry that names them.

What a method in another package needs is here: `Method` and `Way`; `settings_class` and the ranges
of settings; `exact_values` and `by_quadrature` for games that are known, with `bounded` for scores
with a proven bound; `Draws`, `by_draws`, `TargetGame` and `fitted_masks` for methods that sample.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from limelight.explainers.budget import DEFAULT_CALLS, Budget, Drawing, Draws, by_draws
from limelight.explainers.explaining import one_reading
from limelight.explainers.method import (
    MEANS,
    Chosen,
    FiniteNotNegative,
    Method,
    NotBelow,
    NotNegative,
    OneOf,
    Positive,
    Range,
    Share,
    Way,
    at_least,
    between,
    by_quadrature,
    each,
    made,
    settings_class,
)
from limelight.explainers.reading import Reading, read
from limelight.explainers.registry import METHODS, MODULES, find_method, usable_methods
from limelight.explainers.target_game import (
    TargetGame,
    bounded,
    exact_values,
    fitted_masks,
    seen_errors,
    unseen_effects,
)
from limelight.models.text_game import TextGame
from limelight.question import Targets
from limelight.results import Finding
from limelight.sampling.masks import SIZES, text_rng

if TYPE_CHECKING:
    from limelight.explainers.anchors import Anchors
    from limelight.explainers.attention import (
        AlphaAvg,
        AlphaGrad,
        AlphaMax,
        Flow,
        GenericAttention,
        Rollout,
    )
    from limelight.explainers.banzhaf import Banzhaf, ContextCite, Interactions
    from limelight.explainers.gradients import GL1, GL2, IG, GAvg, GxI, Lrp
    from limelight.explainers.lime import Lime, LimeSampled
    from limelight.explainers.nested import Owen, Zoom
    from limelight.explainers.shapley import Loo, Shapley

__all__ = [
    "DEFAULT_CALLS", "GL1", "GL2", "IG", "MEANS", "METHODS", "SIZES", "AlphaAvg", "AlphaGrad",
    "AlphaMax", "Anchors", "Banzhaf", "Budget", "Chosen", "ContextCite", "Drawing", "Draws",
    "Finding", "FiniteNotNegative", "Flow", "GAvg", "GenericAttention", "GxI", "Interactions",
    "Lime", "LimeSampled", "Loo", "Lrp", "Method", "NotBelow", "NotNegative", "OneOf", "Owen",
    "Positive", "Range", "Reading", "Rollout", "Shapley", "Share",
    "TargetGame", "Targets", "TextGame", "Way", "Zoom", "at_least", "between", "bounded",
    "by_draws", "by_quadrature", "each", "exact_values", "find_method", "fitted_masks", "made",
    "one_reading", "read", "seen_errors", "settings_class", "text_rng", "unseen_effects",
    "usable_methods",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Settings live with their methods, whose modules are imported when they are first asked for.
    if name in __all__:
        for module in MODULES:
            if (found := getattr(import_module(f"{__name__}.{module}"), name, None)) is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
