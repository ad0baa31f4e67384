"""Sinusoidal positions (Eq. 3, in the order of the authors' code)."""

__all__ = ["position_errors", "sinusoidal_positions"]

import numpy as np

from limelight.shapes import Float
from limelight.theory.table_rounding import ROUNDING


def sinusoidal_positions(
    T_max: int, d_e: int, *, base: float, scale: float = 1.0
) -> Float[np.ndarray, "T_max d_e"]:
    """Return ``W_p``: sine of t / base^(2i/d_e) at dimension 2i, its cosine at 2i + 1, scaled.

    ``t`` counts from 0, the place of [cls]. ``base`` is 10000 in the authors' code and ``T_max``
    in Eq. 3.
    """
    angle = _angles(T_max, d_e, base)
    positions = np.empty((T_max, d_e))
    positions[:, 0::2] = np.sin(angle)
    positions[:, 1::2] = np.cos(angle[:, : d_e // 2])
    return scale * positions


def position_errors(
    T_max: int, d_e: int, *, base: float, scale: float = 1.0
) -> Float[np.ndarray, "T_max d_e"]:
    """Return bounds on what rounding made of each number of :func:`sinusoidal_positions`.

    The exponent 2i/d_e, rounded, moves its power by |log base| 2i/d_e as much, relatively; power,
    sine and cosine are right to 4 units in the last place. Past a turn nothing is known.
    """
    power = np.abs(np.log(base)) * np.arange(0, d_e, 2) / d_e
    angle = np.abs(_angles(T_max, d_e, base))
    off = np.minimum(2.0, ROUNDING * (power + 8) * angle) + 8 * ROUNDING
    return np.abs(scale) * np.repeat(off, 2, axis=1)[:, :d_e]


def _angles(T_max: int, d_e: int, base: float) -> Float[np.ndarray, "T_max pairs"]:
    return np.arange(T_max)[:, None] / base ** (np.arange(0, d_e, 2) / d_e)
