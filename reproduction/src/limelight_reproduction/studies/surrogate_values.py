"""Values of a ratio game fitted to a model's outputs, with standard errors for the model."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from limelight.explainers.target_game import rare_effect_warning
from limelight.shapes import Float
from limelight.theory.banzhaf import banzhaf
from limelight.theory.interactions import shapley_interactions
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame
from limelight.theory.shapley import shapley
from limelight_reproduction.studies.fitted_ratio_games import (
    CrossFit,
    pair_errors,
    word_errors,
)

_POOR_FIT = 0.5  # R² below which the fitted game is another game
_EQUAL_FIT = 0.001  # difference of R² below which two fits explain the same
_TOLERANCE = 1e-6  # of the range of f: far below any standard error
_VALUES: dict[str, Callable[[RatioGame], Any]] = {
    "shapley": partial(shapley, tolerance=_TOLERANCE),
    "lime": partial(lime, tolerance=_TOLERANCE),
    "banzhaf": partial(banzhaf, tolerance=_TOLERANCE),
    "interactions": partial(shapley_interactions, tolerance=_TOLERANCE),
}


class SurrogateValues(NamedTuple):
    """Scores of words, or a matrix of interactions, with standard errors and warnings."""

    scores: Float[np.ndarray, "*d"]
    stderr: Float[np.ndarray, "*d"]
    warnings: tuple[str, ...]


def compute_surrogate_values(fits: CrossFit, kind: str) -> SurrogateValues:
    """Compute exact values of a fitted ratio game as estimates of the model's values.

    ``kind`` is "shapley", "lime", "banzhaf" or "interactions".
    """
    scores, *part_scores = _VALUES[kind](fits.games).scores[:, 0]
    if kind == "interactions":
        stderr, spike = pair_errors(fits.held_out, scores, np.stack(part_scores)), 0.0
    else:
        stderr, spike = word_errors(fits.held_out, scores, np.stack(part_scores), kind)
    held_out = fits.held_out
    unseen = rare_effect_warning(
        has_no_spread=held_out.has_no_residuals,
        largest_share=spike,
        possible_effect=held_out.size,
        sample_count=held_out.draws,
    )
    return SurrogateValues(scores, stderr, fit_warnings(fits) + unseen)


def fit_warnings(fits: CrossFit) -> tuple[str, ...]:
    """Warn if the fitted game is not the model, or if a linear model is nearer to it."""
    warnings = []
    if fits.r2 < _POOR_FIT:
        warnings.append(
            f"The fitted game explains {max(fits.r2, 0.0):.0%} of the model's changes (R² on masks "
            "left out). Its scores are those of another game."
        )
    if fits.r2 < fits.r2_linear - _EQUAL_FIT:
        warnings.append(
            f"The fitted game explains less than a linear model does (R² {fits.r2:.3f} against "
            f"{fits.r2_linear:.3f} on the same masks left out)."
        )
    return tuple(warnings)
