"""The functions that fit an array: NumPy's own, or those of array-api-compat."""

from typing import Any

import numpy as np

from limelight.shapes import Array

_COMPLETE = hasattr(np, "cumulative_sum")  # NumPy 2.1 and later need no help


def array_namespace(x: Array) -> Any:
    """Return the array API for ``x``.

    array-api-compat's copy of NumPy imports all of it, f2py and its tests too, which costs a
    command more time than the mathematics; NumPy itself has all that `theory` uses, and
    the rest of that package is loaded for the arrays of others.
    """
    if _COMPLETE and isinstance(x, np.ndarray | np.generic):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(x)


def host_array(x: Array) -> np.ndarray:
    """Return ``x`` as a NumPy array, fetched from its device where it has one."""
    if isinstance(x, np.ndarray):
        return x
    import array_api_compat

    return np.asarray(array_api_compat.to_device(x, "cpu"))


def array_like(x: np.ndarray, other: Array) -> Array:
    """Return the NumPy array ``x`` as an array of ``other``'s library, on its device."""
    if isinstance(other, np.ndarray | np.generic):
        return x
    xp = array_namespace(other)
    # A copy: torch warns of arrays that may not be written to.
    return xp.asarray(np.array(x), device=other.device)
