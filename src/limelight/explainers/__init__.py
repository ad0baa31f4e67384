"""Methods: settings, the ways to compute them, and the registry that names them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from limelight.explainers.method import Chosen, Method, Way, each, settings_class
from limelight.explainers.reading import Reading, read
from limelight.explainers.registry import METHODS, MODULES, find_method, usable_methods
from limelight.explainers.target_game import TargetGame
from limelight.models.text_game import TextGame
from limelight.question import Targets

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
    from limelight.explainers.lime import (
        Lime,
        LimeFirstOrder,
        LimeMeanField,
        LimeSampled,
        LimeTheorem,
    )
    from limelight.explainers.nested import Owen, Zoom
    from limelight.explainers.shapley import Loo, Shapley, ShapleyMeanField

__all__ = [
    "GL1", "GL2", "IG", "METHODS", "AlphaAvg", "AlphaGrad", "AlphaMax", "Anchors", "Banzhaf",
    "Chosen", "ContextCite", "Flow", "GAvg", "GenericAttention", "GxI", "Interactions", "Lime",
    "LimeFirstOrder", "LimeMeanField", "LimeSampled", "LimeTheorem", "Loo", "Lrp", "Method", "Owen",
    "Reading", "Rollout", "Shapley", "ShapleyMeanField", "TargetGame",
    "Targets", "TextGame", "Way", "Zoom", "each", "find_method", "read", "settings_class",
    "usable_methods",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Settings live with their methods, whose modules are imported when they are first asked for.
    if name in __all__:
        for module in MODULES:
            if (found := getattr(import_module(f"{__name__}.{module}"), name, None)) is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
