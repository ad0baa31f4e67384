"""LIME's linear model of a sample: select words by the `lime` package's rules, then fit them."""

from typing import NamedTuple

import numpy as np

from limelight.errors import InputError, nearest
from limelight.sampling.regression import RidgeFit, ridge_coefficients, ridge_fit
from limelight.sampling.sample import Moments, Sample
from limelight.shapes import Bool, Float, Int
from limelight.theory.lime_shift import lime_shift

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


class LimeFit(NamedTuple):
    """One coefficient per word and output; words that were not kept have 0 with error 0.

    Standard errors are those of the final regression: they take the selection as given. ``flat``
    and ``spike`` are as in :class:`RidgeFit`.
    """

    scores: Float[np.ndarray, "m d"]
    stderr: Float[np.ndarray, "m d"]
    intercept: Float[np.ndarray, " m"]
    intercept_stderr: Float[np.ndarray, " m"]
    r2: Float[np.ndarray, " m"]
    kept: Int[np.ndarray, " m"]
    samples: int
    flat: Bool[np.ndarray, " m"]
    spike: Float[np.ndarray, " m"]


def _shifts(
    sample: Sample, fit: RidgeFit, outputs: list[int], ridge: float, bandwidth: float | None
) -> Float[np.ndarray, "m k"]:
    """How far penalty and row 0 shift the coefficients of each output, as the fit itself tells."""
    if bandwidth is None or sample.d < 2 or not (ridge or sample.row0):
        return np.zeros_like(fit.coefficients)
    of_text = fit.intercept + fit.coefficients.sum(axis=1)
    shifts = [
        lime_shift(
            scores,
            float(left),
            samples=sample.n,
            bandwidth=bandwidth,
            ridge=ridge,
            row0=sample.row0,
            words=sample.d,
        ).most
        for scores, left in zip(fit.coefficients, sample.origin[outputs] - of_text, strict=True)
    ]
    return np.stack(shifts)


def fitted_lime(
    sample: Sample,
    *,
    ridge: float = 1.0,
    num_features: int | None = None,
    feature_selection: str = "auto",
    known_range: float = 0.0,
    bandwidth: float | None = None,
) -> LimeFit:
    """Return the coefficients as the `lime` package computes them from the same rows.

    ``known_range`` is how far the output can move, as far as anybody knows. With the ``bandwidth``
    of the draws standard errors are about LIME's limit, √(error² + shift²): what a penalty and row
    0 shift (`lime_shift`) is part of the distance to it. None: about the penalised limit.
    """
    centred = sample.moments.centred()
    m, d = len(sample.origin), sample.d
    chosen = [
        selected(centred, column, count=num_features, method=feature_selection)
        for column in range(m)
    ]
    columns: dict[tuple[int, ...], list[int]] = {}
    for column, features in enumerate(chosen):
        columns.setdefault(features, []).append(column)
    scores, stderr = np.zeros((m, d)), np.zeros((m, d))
    whole = np.zeros((5, m))
    for features, outputs in columns.items():
        fit: RidgeFit = ridge_fit(
            sample, ridge=ridge, features=features, columns=outputs, known_range=known_range
        )
        scores[np.ix_(outputs, features)] = fit.coefficients
        shift = _shifts(sample, fit, outputs, ridge, bandwidth)
        stderr[np.ix_(outputs, features)] = np.hypot(fit.stderr, shift)
        whole[:, outputs] = fit.intercept, fit.intercept_stderr, fit.r2, fit.flat, fit.spike
    kept = np.array([len(features) for features in chosen])
    intercept, intercept_stderr, r2, flat, spike = whole
    return LimeFit(scores, stderr, intercept, intercept_stderr, r2, kept, sample.n, flat > 0, spike)
