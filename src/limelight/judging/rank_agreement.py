"""How far two lists of scores put words in the same order."""

__all__ = ["kendall_tau"]

import numpy as np

from limelight.shapes import Float


def kendall_tau(x: Float[np.ndarray, " d"], y: Float[np.ndarray, " d"]) -> float | None:
    """Return Kendall's τ-b, pairs tied in one list counted for neither side; None for a constant.

    τ_b = Σ_{i<j} sign(x_i − x_j) sign(y_i − y_j) / √(pairs untied in x · pairs untied in y).
    """
    a, b = (np.sign(z[:, None] - z[None, :]) for z in (x, y))
    norm = np.sqrt(np.count_nonzero(a) * float(np.count_nonzero(b)))
    return float(np.sum(a * b) / norm) if norm else None
