"""Patches of a picture: what becomes of the first order and of the mean field as they get more."""

__all__ = ["by_number_of_patches"]

import numpy as np

from drawn.picture import Picture, legend, logarithmic, number, panels
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK, ORANGE
from limelight_reproduction.images.patch_theorems import RATES, SIDES, formula_errors

_MODELS = 30


def by_number_of_patches() -> Picture:
    """Errors of formulas on random models over patches, and φ(r) against exact LIME."""
    figure, (left, right) = panels(
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
        left.plot(patches, row, "o-", color=color, markersize=3, label=label)
    logarithmic(left)
    legend(left)
    weights = np.geomspace(0.1, 10, 60)
    right.plot(weights, [_limit(r) for r in weights], color=INK, label="φ(r)")
    few = np.geomspace(0.1, 10, 7)
    for T, color in ((9, ORANGE), (100, BLUE)):
        right.plot(few, [_exact(r, T) for r in few], ".", color=color, label=f"exact, T = {T}")
    logarithmic(right, "x")
    legend(right)
    slopes = [np.polyfit(np.log(patches), np.log(row), 1)[0] for row in errors.T[1:]]
    far = max(abs(_exact(r, 100) / _limit(r) - 1) for r in few)
    return Picture(
        figure=figure,
        alt="Left: with more patches the error of the first order stays where it is, that of the "
        "first order on few of them and that of the mean field fall. Right: what a patch of value "
        "one is worth falls from three to nothing as the mean patch weighs more.",
        caption=f"Fitted exponents {', '.join(number(round(s, 1)) for s in slopes)} of the first "
        "order on all patches, on √T of them, and of the mean field: the theory says 0, −½ and −1. "
        f"Right: exact LIME of 100 patches is within {number(far)} of φ(r), relatively.",
    )


def _limit(r: float) -> float:
    """φ(r), by Gauss–Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x = (1 + nodes) / 2
    return float((weights / 2) @ (6 * x * (1 - x) / (r + (1 - r) * x)))


def _exact(r: float, T: int) -> float:
    """T β_t/u_t of the first patch, in a game whose patches have values that cancel."""
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
