"""Models: the protocol of every classifier, and the families that follow it."""

from limelight.models.collapsing import Collapsed, Collapses
from limelight.models.engine import Engine
from limelight.models.functions import Function
from limelight.models.loading import load
from limelight.models.probabilities import class_probabilities
from limelight.models.protocol import (
    CAPABILITIES,
    SCALES,
    Attended,
    Attends,
    Capability,
    Cuts,
    Differentiated,
    Differentiates,
    Freezes,
    Link,
    Model,
    Shuffles,
    Weigh,
    why_not,
)
from limelight.models.replacing import resolved_replacement
from limelight.models.sound_model import checked_model
from limelight.models.wrapping import wrap

__all__ = [
    "CAPABILITIES",
    "SCALES",
    "Attended",
    "Attends",
    "Capability",
    "Collapsed",
    "Collapses",
    "Cuts",
    "Differentiated",
    "Differentiates",
    "Engine",
    "Freezes",
    "Function",
    "Link",
    "Model",
    "Shuffles",
    "Weigh",
    "checked_model",
    "class_probabilities",
    "load",
    "resolved_replacement",
    "why_not",
    "wrap",
]
