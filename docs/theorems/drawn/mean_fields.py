"""Mean field: how near it comes to LIME and Shapley values, and the factor of the first order."""

__all__ = ["near_and_far"]

import numpy as np

from drawn.games import LONG, SHORT, UNREPEATED, distance, review_game, uneven_game
from drawn.picture import Picture, legend, logarithmic, number, panels, share
from limelight.theory.lime import lime
from limelight.theory.ratio_game import RatioGame, denominator_range
from limelight.theory.shapley import shapley
from limelight_reproduction.drawing import BLUE, GREY, ORANGE, VERMILLION
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field, shapley_mean_field
from limelight_reproduction.theory.paper import lime_theorem


def near_and_far() -> Picture:
    """Distances on uneven games and on reviews, and ∫κ/D̄ against the ratio of denominators."""
    figure, (left, right) = panels(
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
        left.plot(*np.array(points).T, style, color=color, markersize=4, label=name)
    logarithmic(left)
    legend(left)
    ends = np.geomspace(1e-4, 1e2, 60)
    factors = [_factor(float(end)) for end in ends]
    right.plot(ends, factors, color=BLUE)
    at = float(np.interp(-1.5, -np.array(factors), ends))
    right.plot([at], [1.5], "o", color=ORANGE)
    right.axhline(1.0, color=GREY, linestyle=":", linewidth=0.9)
    logarithmic(right, "x")
    texts = [review_game(text) for text in (SHORT, UNREPEATED, LONG)]
    rows = {
        name: [distance(formula(game), exact(game).scores) for game in texts]
        for name, formula, exact in (
            ("mean", lime_mean_field, lime),
            ("printed", lime_theorem, lime),
            ("values", shapley_mean_field, shapley),
        )
    }
    right.plot([1.0], [1.0], "s", color=VERMILLION, markersize=4)
    return Picture(
        figure=figure,
        alt="Left: distances of the mean field and of the first order to LIME, both rising with "
        "the unevenness of the denominators, the mean field below. Right: a curve that falls from "
        "3 through 1 towards 0 as the removed text weighs more.",
        caption="On three texts under the shipped model mean-field LIME is "
        f"{share(min(rows['mean']))} to {share(max(rows['mean']))} from LIME (Eq. 19: "
        f"{share(min(rows['printed']))} to {share(max(rows['printed']))}), and mean-field Shapley "
        f"values are {share(min(rows['values']))} to {share(max(rows['values']))} from the exact "
        "ones. Right: the factor before α_t u_t is 1 where removal does not move the denominator "
        "(square) and tends to 3 as the removed text loses all weight; it is 3/2 at a ratio of "
        f"{number(at)} (circle).",
    )


def _ratio(game: RatioGame) -> float:
    low, high = denominator_range(game)
    return float((high / low).max())


def _factor(end: float) -> float:
    """D(all) ∫ 6x(1−x)/(x + (1−x) end) dx: the score of A_1 − B_1 = 1 where Σ(a − b) is at rest."""
    one = np.array([[1.0, -1.0]])
    game = RatioGame(
        D0=np.zeros(1),
        a=np.array([[0.5, 0.5]]),
        b=np.array([[0.5 * end, 0.5 * end]]),
        N0=np.zeros((1, 1)),
        A=one[None] / 2,
        B=0 * one[None],
    )
    return float(np.ptp(lime_mean_field(game, bandwidth=np.inf)[0]))
