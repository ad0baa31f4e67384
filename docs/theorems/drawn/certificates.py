"""The certificate: what an error of 1/D can do to a score, and what it does."""

__all__ = ["errors_below_bounds"]

import numpy as np

from drawn.games import uneven_game
from drawn.picture import Picture, legend, logarithmic, number, panels
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

_ROADS = {
    "Shapley": (shapley, shapley_by_enumeration, BLUE),
    "Banzhaf": (banzhaf, banzhaf_by_enumeration, GREEN),
    "LIME": (lime, lambda game: lime_by_enumeration(game).scores, ORANGE),
}


def errors_below_bounds() -> Picture:
    """Errors against bounds of three functionals, and Σ|c_S| of LIME."""
    figure, (left, right) = panels(
        ("random games of 8 words", "bound", "largest error"),
        ("Σ|c_S| of a LIME coefficient", "bandwidth ν", ""),
    )
    used, games = [], [uneven_game(seed, d=8, ratio=10.0 ** (seed % 7)) for seed in range(40)]
    for name, (method, oracle, color) in _ROADS.items():
        points = np.array([_point(method, oracle, game, i) for i, game in enumerate(games)])
        left.plot(*points.T, ".", color=color, markersize=4, label=name)
        used.append(points[:, 1] / points[:, 0])
    edge = [1e-9, 1]
    left.plot(edge, edge, color=INK, linewidth=0.9)
    logarithmic(left)
    legend(left)
    widths = np.geomspace(0.08, 10, 25)
    for d, color in ((3, PURPLE), (10, ORANGE), (100, BLUE)):
        reach = [lime_design(d, bandwidth=float(nu)).error_factors()[0] for nu in widths]
        right.plot(widths, reach, color=color, label=f"d = {d}")
    right.axhline(2.0, color=GREY, linestyle=":", linewidth=0.9)
    logarithmic(right, "x")
    legend(right)
    every = np.concatenate(used)
    return Picture(
        figure=figure,
        alt="Left: errors against bounds of Shapley, Banzhaf and LIME, all below the diagonal. "
        "Right: the absolute sum of LIME's coefficients against the bandwidth, 2 for wide kernels "
        "and more for few words and small ones.",
        caption=f"{int(np.sum(every <= 1))} of {len(every)} errors keep their bounds; they use "
        f"{number(np.median(every))} of them in the median and {number(every.max())} at most. "
        "Right: Shapley and Banzhaf values have Σ|c_S| = 2 (dotted), LIME more where few words "
        "meet a small bandwidth.",
    )


def _point(method, oracle, game: RatioGame, i: int) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    found = method(game, tolerance=10.0 ** -(1 + i % 6))
    return float(found.bound[0]), float(np.abs(found.scores - oracle(game)).max())
