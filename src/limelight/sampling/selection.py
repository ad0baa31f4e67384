"""Which words a sparse LIME keeps: the `lime` package's rules, from the weighted sums alone."""

__all__ = ["SELECTIONS", "forward_selection", "highest_weights", "selected"]

import numpy as np

from limelight.errors import InputError, nearest
from limelight.sampling.regression import ridge_coefficients
from limelight.sampling.sample import Moments
from limelight.shapes import Float

SELECTIONS = ("auto", "forward_selection", "highest_weights", "none")
_FEW = 6  # up to here "auto" selects forward


def selected(
    centred: Moments, column: int, *, count: int | None, method: str = "auto"
) -> tuple[int, ...]:
    """Return the features to keep for output ``column``, at most ``count`` (None: all of them).

    "auto" is forward selection for up to 6 features and the highest weights beyond.
    """
    if method not in SELECTIONS:
        raise InputError(nearest("feature_selection", method, SELECTIONS))
    d = len(centred.x)
    if method == "none" or count is None or count >= d:
        return tuple(range(d))
    if method == "forward_selection" or (method == "auto" and count <= _FEW):
        return forward_selection(centred.xx, centred.xy[:, column], count)
    return highest_weights(centred, column, count)


def forward_selection(
    xx: Float[np.ndarray, "d d"], xy: Float[np.ndarray, " d"], count: int
) -> tuple[int, ...]:
    """Return ``count`` features, each the one that raises R² of least squares most.

    A feature's gain is (Σ x̃ỹ)²/Σx̃² once what the chosen ones explain is swept out of both.
    """
    # The package fits a new regression for every candidate. Sweeping the chosen feature out of the
    # sums gives the gains of all others in O(d²), with the same choices.
    xx, xy = xx.copy(), xy.copy()
    spread = np.diag(xx).copy()
    chosen: list[int] = []
    for _ in range(count):
        left = np.diag(xx)
        alive = left > 1e-12 * spread  # the others are combinations of the chosen
        gain = np.where(alive, xy**2 / np.where(alive, left, 1.0), 0.0)
        gain[chosen] = -1.0  # below the 0 of combinations, so that ``count`` are found in any case
        best = int(np.argmax(gain))
        chosen.append(best)
        if alive[best]:
            share = xx[:, best] / xx[best, best]
            xy -= share * xy[best]
            xx -= np.outer(share, xx[best])
    return tuple(chosen)


def highest_weights(centred: Moments, column: int, count: int) -> tuple[int, ...]:
    """Return the features with the largest |β| of a ridge regression with penalty 0.01 on all."""
    # The package ranks coefficient × row 0, where every word is present: the same order. Its sort
    # is stable too, so ties fall alike.
    beta = ridge_coefficients(centred, ridge=0.01)[:, column]
    return tuple(map(int, np.argsort(-np.abs(beta), kind="stable")[:count]))
