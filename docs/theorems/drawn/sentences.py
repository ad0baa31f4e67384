"""The figure about Owen values."""

__all__ = ["draw_owen_values"]

import numpy as np

from drawn.games import LONG, review, review_game, uneven_game
from drawn.picture import Picture, legend, logarithmic, panels
from limelight.theory.owen import owen
from limelight.theory.shapley import shapley
from limelight_reproduction.drawing import BLUE, GREY, ORANGE


def draw_owen_values() -> Picture:
    """Draw Owen against Shapley values of a review, and errors against bounds."""
    game = review_game(LONG, "positions")
    tokens = review(LONG, "positions").features[0].strings
    groups = np.cumsum([0, *(word in {".", "!", "?"} for word in tokens[:-1])])
    owen_result, shapley_result = owen(game, groups, tolerance=1e-9), shapley(game, tolerance=1e-9)
    figure, (left_axes, right_axes) = panels(
        ("tokens of a review", "Shapley value", "Owen value"),
        ("random games of 9 words in 3 groups", "bound", "error against tolerance 1e-12"),
    )
    left_axes.plot(shapley_result.scores[0], owen_result.scores[0], "o", color=BLUE, markersize=3)
    edge = [shapley_result.scores.min(), shapley_result.scores.max()]
    left_axes.plot(edge, edge, color=GREY, linewidth=0.8)
    points = []
    for seed in range(40):
        random_game, random_groups = (
            uneven_game(seed, d=9, ratio=10.0 ** (seed % 7)),
            np.arange(9) // 3,
        )
        fine = owen(random_game, random_groups, tolerance=1e-12)
        rough = owen(random_game, random_groups, tolerance=10.0 ** -(1 + seed % 8))
        points.append((rough.bound[0], np.abs(rough.scores - fine.scores).max() + fine.bound[0]))
    table = np.array(points)
    right_axes.plot(*table.T, ".", color=BLUE, markersize=5)
    edge = [table[:, 0].min(), table[:, 0].max()]
    right_axes.plot(edge, edge, color=ORANGE, label="error = bound")
    logarithmic(right_axes)
    legend(right_axes)
    return Picture(
        figure=figure,
        alt="Left: Owen values of tokens against their Shapley values, close to the diagonal. "
        "Right: errors against bounds, all below the diagonal.",
        numbers=(str(game.d),),
    )
