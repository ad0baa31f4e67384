"""Methods: their settings and implementations, and what a method in another package needs.

Every settings class of a method is here too, by its name: ``limelight.explainers.Lime``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from limelight.explainers.batch import Batch, prepare_batch
from limelight.explainers.budget import Budget, allocate_budget, parse_budget
from limelight.explainers.explaining import read_single_text
from limelight.explainers.learned import combine_scores, load_start, read_start
from limelight.explainers.method import (
    MEANINGS,
    ConfiguredMethod,
    Cost,
    FiniteNotNegative,
    Implementation,
    Method,
    NotBelow,
    NotNegative,
    OneOf,
    Positive,
    Range,
    Share,
    at_least,
    between,
    exact_implementation,
    make_settings,
    per_input,
    settings_class,
)
from limelight.explainers.registry import (
    METHODS,
    MODULES,
    configure_method,
    find_method,
    register_method,
    usable_methods,
)
from limelight.explainers.sample_size import (
    DEFAULT_CALLS,
    MAX_SAMPLES,
    SampleSize,
    SamplingSettings,
    fit_sample_size,
    sampled_implementation,
)
from limelight.explainers.target_game import (
    TargetGame,
    add_bounds,
    exact_attributions,
    fit_masks,
    nonzero_or_none,
    rare_effect_warning,
)
from limelight.models.text_game import TextGame
from limelight.request import Targets
from limelight.results import Attribution
from limelight.sampling.masks import MASK_SIZE_POWERS, text_rng

if TYPE_CHECKING:  # for type checkers, which do not run __getattr__
    from limelight.explainers.anchors import *  # noqa: F403
    from limelight.explainers.attention import *  # noqa: F403
    from limelight.explainers.banzhaf import *  # noqa: F403
    from limelight.explainers.gradients import *  # noqa: F403
    from limelight.explainers.lime import *  # noqa: F403
    from limelight.explainers.nested import *  # noqa: F403
    from limelight.explainers.shapley import *  # noqa: F403

__all__ = [
    "DEFAULT_CALLS",
    "MASK_SIZE_POWERS",
    "MAX_SAMPLES",
    "MEANINGS",
    "METHODS",
    "Attribution",
    "Batch",
    "Budget",
    "ConfiguredMethod",
    "Cost",
    "FiniteNotNegative",
    "Implementation",
    "Method",
    "NotBelow",
    "NotNegative",
    "OneOf",
    "Positive",
    "Range",
    "SampleSize",
    "SamplingSettings",
    "Share",
    "TargetGame",
    "Targets",
    "TextGame",
    "add_bounds",
    "allocate_budget",
    "at_least",
    "between",
    "combine_scores",
    "configure_method",
    "exact_attributions",
    "exact_implementation",
    "find_method",
    "fit_masks",
    "fit_sample_size",
    "load_start",
    "make_settings",
    "nonzero_or_none",
    "parse_budget",
    "per_input",
    "prepare_batch",
    "rare_effect_warning",
    "read_single_text",
    "read_start",
    "register_method",
    "sampled_implementation",
    "settings_class",
    "text_rng",
    "usable_methods",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Settings live with their methods, whose modules are imported when they are first needed.
    if not name.startswith("_"):
        for module in MODULES:
            home = f"{__name__}.{module}"
            value = getattr(import_module(home), name, None)
            if getattr(value, "__module__", None) == home and hasattr(value, "setting_fields"):
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
