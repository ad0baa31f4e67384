"""Owen values: words inside sentences."""

__all__ = ["inside_sentences"]

import numpy as np

from drawn.games import LONG, review, review_game, uneven_game
from drawn.picture import Picture, below, legend, logarithmic, number, panels
from limelight.theory.owen import owen
from limelight.theory.ratio_game import empty_value, full_value
from limelight.theory.shapley import shapley
from limelight_reproduction.drawing import BLUE, GREY, ORANGE


def inside_sentences() -> Picture:
    """Owen against Shapley values of a review, and errors against bounds."""
    game = review_game(LONG, "positions")
    tokens = review(LONG, "positions").features[0].strings
    groups = np.cumsum([0, *(word in {".", "!", "?"} for word in tokens[:-1])])
    found, plain = owen(game, groups, tolerance=1e-9), shapley(game, tolerance=1e-9)
    figure, (left, right) = panels(
        ("tokens of a review", "Shapley value", "Owen value"),
        ("random games of 9 words in 3 groups", "bound", "error against tolerance 1e-12"),
    )
    left.plot(plain.scores[0], found.scores[0], "o", color=BLUE, markersize=3)
    edge = [plain.scores.min(), plain.scores.max()]
    left.plot(edge, edge, color=GREY, linewidth=0.8)
    points = []
    for seed in range(40):
        one, some = uneven_game(seed, d=9, ratio=10.0 ** (seed % 7)), np.arange(9) // 3
        fine = owen(one, some, tolerance=1e-12)
        rough = owen(one, some, tolerance=10.0 ** -(1 + seed % 8))
        points.append((rough.bound[0], np.abs(rough.scores - fine.scores).max() + fine.bound[0]))
    table = np.array(points)
    right.plot(*table.T, ".", color=BLUE, markersize=5)
    edge = [table[:, 0].min(), table[:, 0].max()]
    right.plot(edge, edge, color=ORANGE, label="error = bound")
    logarithmic(right)
    legend(right)
    whole = float((full_value(game) - empty_value(game))[0])
    totals = np.bincount(groups, found.scores[0])
    kept = int(np.sum(table[:, 1] <= table[:, 0]))
    far = float(np.abs(found.scores - plain.scores).max())
    return Picture(
        figure=figure,
        alt="Left: Owen values of tokens against their Shapley values, close to the diagonal. "
        "Right: errors against bounds, all below the diagonal.",
        caption=f"A review of {game.d} tokens in {len(totals)} sentences under the shipped model: "
        f"the sentences' totals are {', '.join(number(x) for x in totals)} and add up to "
        f"f(all) − f(none) = {whole:.2f} within {below(abs(totals.sum() - whole), least=1e-7)}. No "
        f"token's value differs by more than {number(far)} from its Shapley value. Right: {kept} "
        f"of {len(table)} errors keep their bounds.",
    )
