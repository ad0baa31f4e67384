"""Values of a game of few words from what it says of all masks, by their definitions."""

from itertools import combinations
from math import comb

import numpy as np

from limelight.theory.lime_weights import size_weight


def shapley_by_subsets(masks, values):
    """Return the Shapley values."""
    d = masks.shape[1]
    game = {tuple(np.flatnonzero(row)): v for row, v in zip(masks, values, strict=True)}
    return np.array([
        sum(
            (game[tuple(sorted((*S, j)))] - game[S]) / (d * comb(d - 1, len(S)))
            for k in range(d)
            for S in combinations([i for i in range(d) if i != j], k)
        )
        for j in range(d)
    ])  # fmt: skip


def lime_by_subsets(masks, values):
    """Return LIME's intercept and its coefficients, without row 0 and without a penalty."""
    d = masks.shape[1]
    removed = d - masks.sum(axis=1)
    sets = np.array([comb(d, s) for s in range(d + 1)])
    weight = np.where(removed > 0, size_weight(d, 0.25)[removed] / sets[removed], 0.0)
    design = np.column_stack([np.ones(len(masks)), masks]) * np.sqrt(weight)[:, None]
    return np.linalg.lstsq(design, values * np.sqrt(weight), rcond=None)[0]
