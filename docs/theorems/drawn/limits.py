"""Figures about the limit of LIME."""

__all__ = ["draw_deletion", "draw_limit_and_bounds", "draw_r2", "draw_recurrence"]

import numpy as np

from drawn.games import LONG, UNREPEATED, distance, review, review_game, uneven_game
from drawn.picture import Picture, below, legend, logarithmic, panels, share
from limelight.explainers import LimeSampled
from limelight.explainers.lime import explain_by_regression
from limelight.theory.enumeration import enumerate_masks, lime_by_enumeration
from limelight.theory.lime import lime, lime_plan
from limelight.theory.lime_fit import lime_fit
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.ratio_game import RatioGame, select_heads, value
from limelight_reproduction.deletion_limit import deletion_game
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK, ORANGE, VERMILLION
from limelight_reproduction.theory.deletion import lime_under_deletion

COUNTS = np.array([500, 1500, 5000, 15000])
TIGHT = 1e-9
DOTS = {"marker": "o", "linestyle": "none", "markersize": 4, "markerfacecolor": "none"}


def draw_limit_and_bounds() -> Picture:
    """Draw sampled LIME with its limit, and errors of the limit with their bounds."""
    figure, (left_axes, right_axes) = panels(
        ("sampled LIME", "samples n", "relative L2 distance to the limit"),
        ("100 random games, d = 7", "bound", "error against all subsets"),
    )
    game = review_game(LONG)
    distances, other_distances = _sampled_distances(
        LONG, "unk", [lime(game, bandwidth=nu, tolerance=1e-9).scores[0] for nu in (0.25, 1.0)]
    )
    left_axes.plot(COUNTS, distances, "o-", color=BLUE, markersize=4, label="limit for ν = 0.25")
    left_axes.plot(
        COUNTS, other_distances, "x--", color=VERMILLION, markersize=4, label="limit for ν = 1"
    )
    left_axes.plot(
        COUNTS, distances[0] * np.sqrt(COUNTS[0] / COUNTS), ":", color=GREY, label="1/√n"
    )
    points = np.array([_bound_and_error(seed) for seed in range(100)])
    right_axes.plot(*points.T, ".", color=BLUE, markersize=4)
    edge = [points[:, 0].min(), points[:, 0].max()]
    right_axes.plot(edge, edge, color=ORANGE, label="error = bound")
    for axes in (left_axes, right_axes):
        logarithmic(axes)
        legend(axes)
    return Picture(
        figure=figure,
        alt="Left: the distance of sampled LIME to its limit falls like one over the root of n, "
        "that to the limit of another bandwidth does not. Right: errors against bounds, all below "
        "the diagonal.",
        numbers=(
            str(game.d),
            str(COUNTS[-1]),
            share(distances[-1]),
            share(other_distances[-1]),
            str(np.sum(points[:, 1] <= points[:, 0])),
        ),
    )


def _sampled_distances(text: str, replacement: str, limits: list[np.ndarray]) -> list[list[float]]:
    """Compute the mean distance of three runs to each limit, for all COUNTS.

    The runs have no penalty and no row 0.
    """
    settings = {"ridge": 0.0, "row0": False, "replacement": replacement}
    runs = [
        [
            explain_by_regression(
                LimeSampled(samples=n, seed=seed, **settings), review(text)
            ).scores
            for seed in range(3)
        ]
        for n in COUNTS.tolist()
    ]
    return [
        [float(np.mean([distance(run, limit) for run in same])) for same in runs]
        for limit in limits
    ]


def _bound_and_error(seed: int) -> tuple[float, float]:
    game = uneven_game(seed, d=7, ratio=10.0 ** (seed % 7))
    result = lime(game, tolerance=10.0 ** -(1 + seed % 9))
    error = np.abs(result.scores - lime_by_enumeration(game).scores).max()
    return float(result.bound[0]), max(float(error), 1e-17)


def draw_recurrence() -> Picture:
    """Draw the bounds of the mixture and of the recurrence against the bandwidth."""
    figure, axes = panels(
        ("", "bandwidth ν", "error, relative to the range of f"), width=5.6, height=3.3
    )
    widths = np.geomspace(0.03, 2, 25)
    failures = {}
    for d, color in ((3, VERMILLION), (5, ORANGE), (12, GREEN)):
        bounds_of_mixture = [_mixture_bound(d, float(nu)) for nu in widths]
        failing_bandwidths = [
            nu for nu, error in zip(widths, bounds_of_mixture, strict=True) if error > TIGHT
        ]
        failures[d] = max(failing_bandwidths, default=0.0)
        axes.plot(widths, bounds_of_mixture, color=color, label=f"mixture, proven, d = {d}")
    game = uneven_game(3, d=5, ratio=100.0)
    bounds, errors = zip(*(_recurrence(game, float(nu)) for nu in widths), strict=True)
    axes.plot(widths, bounds, "--", color=BLUE, label="recurrence, proven, d = 5")
    axes.plot(widths, errors, color=INK, **DOTS, label="recurrence against all subsets")
    axes.set_ylim(1e-14, 1e3)
    axes.axhline(TIGHT, color=GREY, linestyle=":", linewidth=0.9)
    logarithmic(axes)
    axes.set_xticks([0.05, 0.1, 0.25, 1, 2], labels=["0.05", "0.1", "0.25", "1", "2"])
    legend(axes, loc="upper right")
    first_failure = failures[3]
    return Picture(
        figure=figure,
        alt="Errors against the bandwidth: those of the mixture rise for few words and small "
        "bandwidths, those of the recurrence stay below the tolerance.",
        numbers=(f"{first_failure:.2g}", below(max(errors))),
    )


def _mixture_bound(d: int, bandwidth: float) -> float:
    """Compute the bound of the mixture: its error in the weights, and rounding."""
    plan = lime_plan(d, bandwidth=bandwidth, penalty=0.0, rows=None, tolerance=TIGHT)
    steps = 4 * d + 30 * len(plan.mixture.p)
    return plan.mixture_factor[0] + plan.rounding_factor[0] * steps * 2**-52


def _recurrence(game: RatioGame, bandwidth: float) -> tuple[float, float]:
    """Compute bound and error of the recurrence, relative to the range of f."""
    scores, bound, _, _ = lime_by_recurrence(game, bandwidth=bandwidth, tolerance=TIGHT)
    exact = lime_by_enumeration(game, bandwidth=bandwidth).scores
    extent = float(np.ptp(value(game, enumerate_masks(game.d))))
    return float(bound[0]) / extent, max(float(np.abs(scores - exact).max()) / extent, 1e-16)


def draw_r2() -> Picture:
    """Draw R² and the mean of the heads' R² against the bandwidth."""
    game = uneven_game(0, d=9, ratio=1e5, K=3)
    widths = np.geomspace(0.1, 5, 13)
    exact = [lime_fit(game, bandwidth=float(nu)) for nu in widths]
    counted = [float(lime_by_enumeration(game, bandwidth=float(nu)).r2[0]) for nu in widths]
    heads = [
        np.mean(
            [
                lime_fit(select_heads(game, slice(i, i + 1)), bandwidth=float(nu)).r2[0]
                for i in range(game.K)
            ]
        )
        for nu in widths
    ]
    r2 = [float(fit.r2[0]) for fit in exact]
    figure, axes = panels(("", "bandwidth ν", "R²"), width=5.2)
    axes.plot(widths, r2, color=BLUE, label="exact R² of the model")
    axes.plot(widths, counted, color=INK, **DOTS, label="all subsets")
    axes.plot(widths, heads, "--", color=VERMILLION, label="mean of the heads' R²")
    logarithmic(axes, "x")
    axes.set_xticks([0.1, 0.25, 1, 5], labels=["0.1", "0.25", "1", "5"])
    legend(axes)
    largest_error = max(abs(x - y) for x, y in zip(r2, counted, strict=True))
    head_gap = max(abs(x - y) for x, y in zip(r2, heads, strict=True))
    return Picture(
        figure=figure,
        alt="R² against the bandwidth: circles from all subsets lie on the exact curve, the mean "
        "of the heads' R² lies elsewhere.",
        numbers=(str(game.K), str(game.d), below(largest_error, least=1e-6), f"{head_gap:.2f}"),
    )


def draw_deletion() -> Picture:
    """Draw the distances of LIME that deletes words to its limit and to the limit with UNK."""
    batch = review(UNREPEATED)
    exact = lime_under_deletion(deletion_game(batch, 0), tolerance=1e-9)
    unknown = lime(review_game(UNREPEATED), tolerance=1e-9).scores[0]
    ours, other_distances = _sampled_distances(UNREPEATED, "delete", [exact.scores[0], unknown])
    figure, (left_axes, right_axes) = panels(
        ("sampled LIME, words deleted", "samples n", "relative L2 distance"),
        ("limit under deletion − limit with UNK", "", ""),
    )
    left_axes.plot(
        COUNTS, ours, "o-", color=BLUE, markersize=4, label="to the limit under deletion"
    )
    left_axes.plot(
        COUNTS, other_distances, "x--", color=VERMILLION, markersize=4, label="to that with UNK"
    )
    left_axes.plot(COUNTS, ours[0] * np.sqrt(COUNTS[0] / COUNTS), ":", color=GREY, label="1/√n")
    logarithmic(left_axes)
    legend(left_axes)
    names = batch.features[0].strings
    at = np.arange(len(names))
    right_axes.bar(at, exact.scores[0] - unknown, color=ORANGE)
    right_axes.axhline(0, color=GREY, linewidth=0.8)
    right_axes.set_xticks(at, labels=names, rotation=90, fontsize=8)
    return Picture(
        figure=figure,
        alt="Left: the distance of sampled LIME under deletion to its exact limit falls like one "
        "over the root of n, that to the limit for replacement levels off. Right: the difference "
        "of the two limits, word by word.",
        numbers=(str(COUNTS[-1]), share(ours[-1]), share(other_distances[-1])),
    )
