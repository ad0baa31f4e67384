"""The registry of methods."""

__all__ = ["METHODS", "find_method"]

from limelight.errors import InputError, nearest
from limelight.explainers import (
    anchors,
    attention,
    gradients,
    integrated,
    lime,
    lime_sampled,
    removal,
)
from limelight.explainers.method import Method

# A method is a row in the module that computes it; a module is a name in this list.
_MODULES = (attention, gradients, integrated, lime, lime_sampled, removal, anchors)
METHODS: dict[str, Method] = {row.id: row for module in _MODULES for row in module.ROWS}


def find_method(name: str) -> Method:
    """Return the method called ``name``; an unknown one is an error with the nearest guess."""
    if name not in METHODS:
        raise InputError(nearest("method", name, METHODS))
    return METHODS[name]
