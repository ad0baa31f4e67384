"""The figure about the mean field."""

__all__ = ["draw_mean_field"]

import numpy as np

from drawn.games import distance, uneven_game
from drawn.picture import Picture, legend, logarithmic, number, panels
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, denominator_range
from limelight_reproduction.drawing import BLUE, GREY, ORANGE, VERMILLION
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field


def draw_mean_field() -> Picture:
    """Draw distances on uneven games, and D(all kept) ∫κ/D̄ against the ratio of denominators."""
    figure, (left_axes, right_axes) = panels(
        ("ν = 0.25, d = 11", "D_max/D_min", "relative L2 distance to LIME"),
        ("the mean-field factor at ν = ∞", "D(all removed)/D(all kept)", "D(all kept) ∫κ/D̄"),
    )
    ratios = np.repeat(10.0 ** np.arange(0.25, 6.1, 0.5), 5)
    games = [uneven_game(seed, d=11, ratio=ratio) for seed, ratio in enumerate(ratios.tolist())]
    for formula, style, color, name in (
        (lime_first_order, "x", GREY, "corrected first order"),
        (lime_mean_field, ".", BLUE, "mean field"),
    ):
        points = [(_ratio(game), distance(formula(game), lime(game).scores)) for game in games]
        left_axes.plot(*np.array(points).T, style, color=color, markersize=4, label=name)
    logarithmic(left_axes)
    legend(left_axes)
    ends = np.geomspace(1e-4, 1e2, 60)
    factors = [_factor(float(end)) for end in ends]
    right_axes.plot(ends, factors, color=BLUE)
    printed_ratio = float(np.interp(-1.5, -np.array(factors), ends))
    right_axes.plot([printed_ratio], [1.5], "o", color=ORANGE)
    right_axes.axhline(1.0, color=GREY, linestyle=":", linewidth=0.9)
    logarithmic(right_axes, "x")
    right_axes.plot([1.0], [1.0], "s", color=VERMILLION, markersize=4)
    return Picture(
        figure=figure,
        alt="Left: distances of the mean field and of the first order to LIME, both rising with "
        "the unevenness of the denominators, the mean field below. Right: a curve that falls from "
        "3 through 1 towards 0 as the removed text weighs more.",
        numbers=(number(printed_ratio),),
    )


def _ratio(game: RatioGame) -> float:
    low, high = denominator_range(game)
    return float((high / low).max())


def _factor(end: float) -> float:
    """Compute D(all) ∫ 6x(1−x)/(x + (1−x) end) dx, the score of A_1 − B_1 = 1."""
    difference = np.array([[1.0, -1.0]])
    game = RatioGame(
        D0=np.zeros(1),
        a=np.array([[0.5, 0.5]]),
        b=np.array([[0.5 * end, 0.5 * end]]),
        N0=np.zeros((1, 1)),
        A=difference[None] / 2,
        B=0 * difference[None],
    )
    return float(np.ptp(lime_mean_field(game, bandwidth=np.inf)[0]))
