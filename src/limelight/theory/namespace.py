"""The array API of an array: that of NumPy, or one from array-api-compat."""

from typing import Any

import numpy as np

from limelight.shapes import Array

_COMPLETE = hasattr(np, "cumulative_sum")  # NumPy 2.1 and later have all functions


def array_namespace(x: Array) -> Any:
    """Return the array API for ``x``.

    NumPy itself has all functions that `theory` uses. array-api-compat is imported only for arrays
    of other libraries: its copy of NumPy imports all submodules, with f2py and its tests, which
    takes longer than the computations of a command.
    """
    if _COMPLETE and isinstance(x, np.ndarray | np.generic):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(x)


def host_array(x: Array) -> np.ndarray:
    """Return ``x`` as a NumPy array, copied from its device if necessary."""
    if isinstance(x, np.ndarray):
        return x
    import array_api_compat

    return np.asarray(array_api_compat.to_device(x, "cpu"))


def array_like(x: Array, other: Array) -> Array:
    """Return ``x`` as an array of ``other``'s library, on its device.

    ``x`` is a NumPy array, or an array that is already there.
    """
    if isinstance(other, np.ndarray | np.generic) or not isinstance(x, np.ndarray):
        return x
    xp = array_namespace(other)
    # A copy, since torch warns about read-only arrays.
    return xp.asarray(np.array(x), device=other.device)
