"""Methods: settings that are called, and the registry that names them."""

from limelight.explainers.api import COMPARED, compare, explain
from limelight.explainers.method import Explainer, Method, settings_of
from limelight.explainers.reading import Reading, read
from limelight.explainers.registry import METHODS, find_method
from limelight.explainers.scores import Scores
from limelight.explainers.targets import OUTPUTS, Targets

__all__ = [
    "COMPARED",
    "METHODS",
    "OUTPUTS",
    "Explainer",
    "Method",
    "Reading",
    "Scores",
    "Targets",
    "compare",
    "explain",
    "find_method",
    "read",
    "settings_of",
]
