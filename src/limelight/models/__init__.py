"""Models: the protocol of every classifier, and the families that follow it."""

from limelight.models.engine import Engine
from limelight.models.functions import Function
from limelight.models.loading import load, wrap
from limelight.models.protocol import (
    CAPABILITIES,
    SCALES,
    Attention,
    Capability,
    Capable,
    Gradients,
    Link,
    Model,
    Weigh,
    are_opposite,
    check_needed,
    checked_model,
    class_probabilities,
    class_weights,
    compare_classes,
    has,
    reason_missing,
    resolved_replacement,
)

__all__ = [
    "CAPABILITIES",
    "SCALES",
    "Attention",
    "Capability",
    "Capable",
    "Engine",
    "Function",
    "Gradients",
    "Link",
    "Model",
    "Weigh",
    "are_opposite",
    "check_needed",
    "checked_model",
    "class_probabilities",
    "class_weights",
    "compare_classes",
    "has",
    "load",
    "reason_missing",
    "resolved_replacement",
    "wrap",
]
