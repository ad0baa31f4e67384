"""LIME's linear model of a sample: select words, then fit them."""

__all__ = ["LimeFit", "fitted_lime"]

from typing import NamedTuple

import numpy as np

from limelight.sampling.regression import RidgeFit, ridge_fit
from limelight.sampling.sample import Sample
from limelight.sampling.selection import selected
from limelight.shapes import Bool, Float, Int


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


def fitted_lime(
    sample: Sample,
    *,
    ridge: float = 1.0,
    num_features: int | None = None,
    feature_selection: str = "auto",
    known_range: float = 0.0,
) -> LimeFit:
    """Return the coefficients as the `lime` package computes them from the same rows.

    ``known_range`` is how far the output can move, as far as anybody knows.
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
        stderr[np.ix_(outputs, features)] = fit.stderr
        whole[:, outputs] = fit.intercept, fit.intercept_stderr, fit.r2, fit.flat, fit.spike
    kept = np.array([len(features) for features in chosen])
    intercept, intercept_stderr, r2, flat, spike = whole
    return LimeFit(scores, stderr, intercept, intercept_stderr, r2, kept, sample.n, flat > 0, spike)
