"""The figure about image patches: errors of the first order and the mean field by patch count."""

__all__ = ["draw_patch_counts"]

import numpy as np

from drawn.picture import Picture, legend, logarithmic, number, panels
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK, ORANGE
from limelight_reproduction.images.patch_theorems import RATES, SIDES, formula_errors

_MODELS = 30


def draw_patch_counts() -> Picture:
    """Draw errors of formulas on random models over patches, and φ(r) with exact LIME."""
    figure, (left_axes, right_axes) = panels(
        ("random models over patches", "patches", "relative error"),
        ("all patches scored, ū = 0, Σu = 0", "weight r of the mean patch", "T β_t / u_t"),
    )
    rng = np.random.default_rng(29)
    errors = np.array(
        [np.median([formula_errors(rng, side) for _ in range(_MODELS)], axis=0) for side in SIDES]
    )
    names = ("Eq. 19 as printed, all patches", *(label for label, _ in RATES.values()))
    patches = np.array(SIDES) ** 2
    for row, label, color in zip(errors.T, names, (GREY, ORANGE, BLUE, GREEN), strict=True):
        left_axes.plot(patches, row, "o-", color=color, markersize=3, label=label)
    logarithmic(left_axes)
    legend(left_axes)
    weights = np.geomspace(0.1, 10, 60)
    right_axes.plot(weights, [_limit(r) for r in weights], color=INK, label="φ(r)")
    weight_marks = np.geomspace(0.1, 10, 7)
    for T, color in ((9, ORANGE), (100, BLUE)):
        right_axes.plot(
            weight_marks,
            [_exact(r, T) for r in weight_marks],
            ".",
            color=color,
            label=f"exact, T = {T}",
        )
    logarithmic(right_axes, "x")
    legend(right_axes)
    slopes = [np.polyfit(np.log(patches), np.log(row), 1)[0] for row in errors.T[1:]]
    return Picture(
        figure=figure,
        alt="Left: with more patches the error of the first order stays where it is, that of the "
        "first order on few of them and that of the mean field fall. Right: what a patch of value "
        "one is worth falls from three to nothing as the mean patch weighs more.",
        numbers=tuple(number(round(slope, 1)) for slope in slopes),
    )


def _limit(r: float) -> float:
    """Compute φ(r) by Gauss–Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x = (1 + nodes) / 2
    return float((weights / 2) @ (6 * x * (1 - x) / (r + (1 - r) * x)))


def _exact(r: float, T: int) -> float:
    """Compute T β_t/u_t of the first patch in a game in which the values of the patches cancel."""
    u = np.linspace(-1, 1, T)
    game = RatioGame(
        D0=np.zeros((1, 1)),
        a=np.ones((1, 1, T)),
        b=np.full((1, 1, T), r),
        N0=np.zeros((1, 1, 1)),
        A=u[None, None, None],
        B=np.zeros((1, 1, 1, T)),
        sizes=np.array([T]),
    )
    return float(T * lime(game, bandwidth=np.inf, tolerance=1e-9).scores[0, 0, 0] / u[0])
