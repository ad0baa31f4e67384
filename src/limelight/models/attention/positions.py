"""Sinusoidal positions (Eq. 3, in the order of the authors' code)."""

__all__ = ["sinusoidal_positions"]

import numpy as np

from limelight.shapes import Float


def sinusoidal_positions(
    T_max: int, d_e: int, *, base: float, scale: float = 1.0
) -> Float[np.ndarray, "T_max d_e"]:
    """Return ``W_p``: sine of t / base^(2i/d_e) at dimension 2i, its cosine at 2i + 1, scaled.

    ``t`` counts from 0, the place of [cls]. ``base`` is 10000 in the authors' code and ``T_max``
    in Eq. 3.
    """
    pair = np.arange(0, d_e, 2)
    angle = np.arange(T_max)[:, None] / base ** (pair / d_e)
    positions = np.empty((T_max, d_e))
    positions[:, 0::2] = np.sin(angle)
    positions[:, 1::2] = np.cos(angle[:, : d_e // 2])
    return scale * positions
