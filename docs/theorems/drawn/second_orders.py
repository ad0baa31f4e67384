"""The figure about errors and bounds of the second order."""

__all__ = ["draw_second_order"]

from dataclasses import replace

import numpy as np

from drawn.games import LONG, SHORT, UNREPEATED, bounded_game, review_game, uneven_game
from drawn.picture import Picture, legend, logarithmic, panels
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, denominator_range
from limelight_reproduction.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field
from limelight_reproduction.theory.second_order import lime_distance_bound, lime_second_order

WINDOWS = np.array([256, 1024, 4096, 16384])
FORMS = (("first order", ORANGE, "s"), ("mean field", BLUE, "o"), ("second order", GREEN, "^"))


def draw_second_order() -> Picture:
    """Draw errors and bounds of three formulas against the window and against unevenness."""
    figure, (left_axes, right_axes) = panels(
        ("d = T = √T_max, ν = 0.25", "T_max", "largest error over largest |β|"),
        ("the second order, d = 11", "D_max/D_min", ""),
    )
    rows = np.array([_mean(window) for window in WINDOWS.tolist()])
    errors, bounds = rows[:, 0].T, rows[:, 1].T
    for (name, color, mark), error, bound in zip(FORMS, errors, bounds, strict=True):
        left_axes.plot(WINDOWS, error, mark, color=color, markersize=4, label=name)
        left_axes.plot(WINDOWS, bound, "-", color=color, linewidth=0.9)
    ratios = np.repeat(10.0 ** np.arange(0.25, 6.1, 0.5), 5)
    games = [uneven_game(seed, d=11, ratio=ratio) for seed, ratio in enumerate(ratios.tolist())]
    points = np.array([(_ratio(game), *_relative_errors(game)[:, 2]) for game in games])
    right_axes.plot(points[:, 0], points[:, 1], ".", color=GREEN, markersize=4, label="error")
    right_axes.plot(points[:, 0], points[:, 2], "_", color=GREY, markersize=6, label="bound")
    games = [review_game(text) for text in (SHORT, UNREPEATED, LONG)]
    texts = np.array([(_ratio(game), *_relative_errors(game)[:, 2]) for game in games])
    for column in (1, 2):
        right_axes.plot(texts[:, 0], texts[:, column], "*", color=VERMILLION, markersize=8)
    for axes in (left_axes, right_axes):
        logarithmic(axes)
        legend(axes)
    return Picture(
        figure=figure,
        alt="Left: the errors of first order, mean field and second order fall with the window, "
        "each faster than the one before, with lines for their bounds close above the first two. "
        "Right: error and bound of the second order rise with the ratio of the largest to the "
        "smallest denominator, the bound levelling off.",
    )


def _relative_errors(game: RatioGame) -> np.ndarray:
    """Compute errors and bounds of the three formulas over the largest coefficient of LIME."""
    exact = lime(game, tolerance=1e-9).scores
    second_order = lime_second_order(game)
    formulas = (lime_first_order(game), lime_mean_field(game), second_order.scores)
    bounds = (*(lime_distance_bound(scores, game) for scores in formulas[:2]), second_order.bound)
    errors = [float(np.abs(scores - exact).max()) for scores in formulas]
    return np.array([errors, [float(b.max()) for b in bounds]]) / float(np.abs(exact).max())


def _mean(window: int) -> np.ndarray:
    """Compute mean errors and bounds in the regime of Theorem 5.1, with words heavier than UNK."""
    games = [bounded_game(window, round(window**0.5), seed=seed) for seed in range(3)]
    heavier = [replace(game, a=1.6 * game.a, A=1.6 * game.A) for game in games]
    return np.mean([_relative_errors(game) for game in heavier], axis=0)


def _ratio(game: RatioGame) -> float:
    low, high = denominator_range(game)
    return float((high / low).max())
