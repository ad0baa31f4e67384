"""Equality of frozen values that hold arrays."""

__all__ = ["equal_fields"]

from dataclasses import fields
from typing import Any

import numpy as np


def equal_fields(a: Any, b: Any) -> bool:
    """Whether two dataclass values of one type hold the same, arrays element by element."""
    return type(a) is type(b) and all(
        _equal(getattr(a, one.name), getattr(b, one.name)) for one in fields(a) if one.compare
    )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and np.array_equal(a, b)
    return bool(a == b)
