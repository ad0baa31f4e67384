"""The figure about the certificate."""

__all__ = ["draw_errors_and_bounds"]

import numpy as np

from drawn.games import uneven_game
from drawn.picture import Picture, legend, logarithmic, panels
from limelight.theory.banzhaf import banzhaf
from limelight.theory.enumeration import (
    banzhaf_by_enumeration,
    lime_by_enumeration,
    shapley_by_enumeration,
)
from limelight.theory.lime import lime
from limelight.theory.lime_weights import lime_design
from limelight.theory.ratio_game import RatioGame
from limelight.theory.shapley import shapley
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK, ORANGE, PURPLE

_METHODS = {
    "Shapley": (shapley, shapley_by_enumeration, BLUE),
    "Banzhaf": (banzhaf, banzhaf_by_enumeration, GREEN),
    "LIME": (lime, lambda game: lime_by_enumeration(game).scores, ORANGE),
}


def draw_errors_and_bounds() -> Picture:
    """Draw errors against bounds of three methods, and Σ|c_S| of LIME."""
    figure, (left_axes, right_axes) = panels(
        ("random games of 8 words", "bound", "largest error"),
        ("Σ|c_S| of a LIME coefficient", "bandwidth ν", ""),
    )
    ratio_groups, games = (
        [],
        [uneven_game(seed, d=8, ratio=10.0 ** (seed % 7)) for seed in range(40)],
    )
    for name, (method, reference, color) in _METHODS.items():
        points = np.array([_point(method, reference, game, i) for i, game in enumerate(games)])
        left_axes.plot(*points.T, ".", color=color, markersize=4, label=name)
        ratio_groups.append(points[:, 1] / points[:, 0])
    edge = [1e-9, 1]
    left_axes.plot(edge, edge, color=INK, linewidth=0.9)
    logarithmic(left_axes)
    legend(left_axes)
    widths = np.geomspace(0.08, 10, 25)
    for d, color in ((3, PURPLE), (10, ORANGE), (100, BLUE)):
        reach = [lime_design(d, bandwidth=float(nu)).error_factors()[0] for nu in widths]
        right_axes.plot(widths, reach, color=color, label=f"d = {d}")
    right_axes.axhline(2.0, color=GREY, linestyle=":", linewidth=0.9)
    logarithmic(right_axes, "x")
    legend(right_axes)
    ratios = np.concatenate(ratio_groups)
    return Picture(
        figure=figure,
        alt="Left: errors against bounds of Shapley, Banzhaf and LIME, all below the diagonal. "
        "Right: the absolute sum of LIME's coefficients against the bandwidth, 2 for wide kernels "
        "and more for few words and small ones.",
        numbers=(str(int(np.sum(ratios <= 1))),),
    )


def _point(method, reference, game: RatioGame, i: int) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    result = method(game, tolerance=10.0 ** -(1 + i % 6))
    return float(result.bound[0]), float(np.abs(result.scores - reference(game)).max())
