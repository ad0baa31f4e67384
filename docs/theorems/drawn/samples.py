"""The figure about the standard error of sampled LIME."""

__all__ = ["draw_standard_errors"]

import numpy as np

from drawn.games import LONG, review_game, uneven_game
from drawn.picture import Picture, legend, logarithmic, number, panels
from limelight.sampling.masks import draw_lime_masks
from limelight.theory.lime_weights import size_weight
from limelight.theory.ratio_game import RatioGame, value
from limelight_reproduction.drawing import BLUE, GREY, ORANGE
from limelight_reproduction.theory.lime_variance import lime_variance

_RUNS = 60


def draw_standard_errors() -> Picture:
    """Draw empirical against computed standard errors, and both against the number of samples."""
    n, uneven = 2000, uneven_game(1, d=30, ratio=1e3)
    expected = np.sqrt(lime_variance(uneven)[0] / n)
    empirical = _empirical_errors(uneven, n)
    game = review_game(LONG)
    computed = np.sqrt(lime_variance(game)[0])
    figure, (left_axes, right_axes) = panels(
        (f"a random game, {n} samples", "computed standard error", f"of {_RUNS} runs"),
        ("the word that scatters most", "samples", "standard error"),
    )
    left_axes.plot(expected, empirical, "o", color=BLUE, markersize=3)
    edge = [empirical.min(), empirical.max()]
    left_axes.plot(edge, edge, color=GREY, linewidth=0.8)
    counts, word = np.array([150, 300, 600, 1200, 2400]), int(np.argmax(computed))
    coefficients = [_empirical_errors(game, int(count))[word] for count in counts]
    right_axes.plot(counts, coefficients, "o", color=BLUE, markersize=4, label=f"{_RUNS} runs")
    right_axes.plot(counts, computed[word] / np.sqrt(counts), color=ORANGE, label="σ/√n")
    psi = size_weight(game.d, 0.25)[1:]
    overhead = (game.d + 1) * np.mean(psi**2) / np.mean(psi) ** 2
    right_axes.plot(
        counts, computed[word] / np.sqrt(counts - overhead), "--", color=GREY, label="σ/√(n − n₀)"
    )
    logarithmic(right_axes)
    legend(right_axes)
    ratio = empirical / expected
    return Picture(
        figure=figure,
        alt="Left: empirical against computed standard errors of all words, around the diagonal. "
        "Right: the error of one word falls like one over the root of the samples, and lies above "
        "that line where samples are few.",
        numbers=(number(np.median(ratio), ".2f"), str(game.d), f"{overhead:.0f}"),
    )


def _empirical_errors(game: RatioGame, n: int) -> np.ndarray:
    rng, coefficients = np.random.default_rng(n), []
    for _ in range(_RUNS):
        keep = draw_lime_masks(game.d, n, rng)
        root = np.sqrt(size_weight(game.d, 0.25)[game.d - keep.sum(axis=1)])
        X = root[:, None] * np.column_stack([np.ones(n), keep])
        coefficients.append(np.linalg.solve(X.T @ X, X.T @ (root * value(game, keep)[0]))[1:])
    return np.std(coefficients, axis=0, ddof=1)
