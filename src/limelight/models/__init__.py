"""Models: the protocol of every classifier, and the families that follow it."""

from typing import TYPE_CHECKING, Any

from limelight.models.engine import Engine
from limelight.models.loading import load, wrap
from limelight.models.protocol import (
    CAPABILITIES,
    PROPERTIES,
    SCALES,
    Attention,
    Capability,
    Capable,
    Gradients,
    Link,
    Model,
    OutputGradient,
    Property,
    are_opposite,
    check_model,
    class_probabilities,
    class_weights,
    get_property,
    has,
    reason_missing,
    require,
    resolve_replacement,
    target_output_weights,
)

if TYPE_CHECKING:
    from limelight.models.functions import Function

__all__ = [
    "CAPABILITIES",
    "PROPERTIES",
    "SCALES",
    "Attention",
    "Capability",
    "Capable",
    "Engine",
    "Function",
    "Gradients",
    "Link",
    "Model",
    "OutputGradient",
    "Property",
    "are_opposite",
    "check_model",
    "class_probabilities",
    "class_weights",
    "get_property",
    "has",
    "load",
    "reason_missing",
    "require",
    "resolve_replacement",
    "target_output_weights",
    "wrap",
]


def __getattr__(name: str) -> Any:
    # Imported at the first use, because commands with the included model do not need the module.
    if name == "Function":
        from limelight.models.functions import Function

        return Function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
