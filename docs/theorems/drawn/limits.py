"""LIME without sampling: its limit, its fit, and what it is not."""

__all__ = ["deleted", "explained", "two_roads", "without_samples"]

import numpy as np

from drawn.games import LONG, UNREPEATED, distance, review, review_game, uneven_game
from drawn.picture import Picture, below, exponent, legend, logarithmic, panels, share
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


def without_samples() -> Picture:
    """Sampled LIME against its limit, and errors of the limit against their bounds."""
    figure, (left, right) = panels(
        ("sampled LIME", "samples n", "relative L2 distance to the limit"),
        ("100 random games, d = 7", "bound", "error against all subsets"),
    )
    game = review_game(LONG)
    far, other = _sampled_distances(
        LONG, "unk", [lime(game, bandwidth=nu, tolerance=1e-9).scores[0] for nu in (0.25, 1.0)]
    )
    left.plot(COUNTS, far, "o-", color=BLUE, markersize=4, label="limit for ν = 0.25")
    left.plot(COUNTS, other, "x--", color=VERMILLION, markersize=4, label="limit for ν = 1")
    left.plot(COUNTS, far[0] * np.sqrt(COUNTS[0] / COUNTS), ":", color=GREY, label="1/√n")
    points = np.array([_bound_and_error(seed) for seed in range(100)])
    right.plot(*points.T, ".", color=BLUE, markersize=4)
    edge = [points[:, 0].min(), points[:, 0].max()]
    right.plot(edge, edge, color=ORANGE, label="error = bound")
    for axes in (left, right):
        logarithmic(axes)
        legend(axes)
    kept = int(np.sum(points[:, 1] <= points[:, 0]))
    return Picture(
        figure=figure,
        alt="Left: the distance of sampled LIME to its limit falls like one over the root of n, "
        "that to the limit of another bandwidth does not. Right: errors against bounds, all below "
        "the diagonal.",
        caption=f"Left: a review of {game.d} words under the shipped model, sampled with ν = 0.25, "
        f"mean of 3 seeds; the exponent is {exponent(COUNTS, far)}, and {COUNTS[-1]} samples are "
        f"still {share(far[-1])} off. The limit belongs to its bandwidth: that of ν = 1 is "
        f"{share(other[-1])} away. Right: tolerances from 1e-1 to 1e-9; {kept} of {len(points)} "
        "errors keep their bounds.",
    )


def _sampled_distances(text: str, replacement: str, limits: list[np.ndarray]) -> list[list[float]]:
    """Mean distance of three runs, without penalty and row 0, to each limit, for all COUNTS."""
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
    found = lime(game, tolerance=10.0 ** -(1 + seed % 9))
    error = np.abs(found.scores - lime_by_enumeration(game).scores).max()
    return float(found.bound[0]), max(float(error), 1e-17)


def two_roads() -> Picture:
    """What the mixture can promise and what the recurrence can, as the bandwidth shrinks."""
    figure, axes = panels(
        ("", "bandwidth ν", "error, relative to the range of f"), width=5.6, height=3.3
    )
    widths = np.geomspace(0.03, 2, 25)
    fails = {}
    for d, color in ((3, VERMILLION), (5, ORANGE), (12, GREEN)):
        promised = [_promised(d, float(nu)) for nu in widths]
        beyond = [nu for nu, error in zip(widths, promised, strict=True) if error > TIGHT]
        fails[d] = max(beyond, default=0.0)
        axes.plot(widths, promised, color=color, label=f"mixture, proven, d = {d}")
    game = uneven_game(3, d=5, ratio=100.0)
    bounds, errors = zip(*(_recurrence(game, float(nu)) for nu in widths), strict=True)
    axes.plot(widths, bounds, "--", color=BLUE, label="recurrence, proven, d = 5")
    axes.plot(widths, errors, color=INK, **DOTS, label="recurrence against all subsets")
    axes.set_ylim(1e-14, 1e3)
    axes.axhline(TIGHT, color=GREY, linestyle=":", linewidth=0.9)
    logarithmic(axes)
    axes.set_xticks([0.05, 0.1, 0.25, 1, 2], labels=["0.05", "0.1", "0.25", "1", "2"])
    legend(axes, loc="upper right")
    below_nu = " and ".join(f"ν ≈ {nu:.2g} at d = {d}" for d, nu in list(fails.items())[:2])
    return Picture(
        figure=figure,
        alt="Errors against the bandwidth: those of the mixture rise for few words and small "
        "bandwidths, those of the recurrence stay below the tolerance.",
        caption=f"Asked for 1e-9 (dotted), the mixture over removal probabilities fails below "
        f"{below_nu}, rounding included; the recurrence keeps its promise at every ν, within "
        f"{below(max(errors))} of all subsets on a random game.",
    )


def _promised(d: int, bandwidth: float) -> float:
    """What the mixture can prove: what it misses of the weights, and rounding."""
    plan = lime_plan(d, bandwidth=bandwidth, penalty=0.0, rows=None, tolerance=TIGHT)
    steps = 4 * d + 30 * len(plan.mixture.p)
    return plan.mixture_factor[0] + plan.rounding_factor[0] * steps * 2**-52


def _recurrence(game: RatioGame, bandwidth: float) -> tuple[float, float]:
    """Bound and error of the recurrence, relative to the range of f."""
    scores, bound, _, _ = lime_by_recurrence(game, bandwidth=bandwidth, tolerance=TIGHT)
    exact = lime_by_enumeration(game, bandwidth=bandwidth).scores
    extent = float(np.ptp(value(game, enumerate_masks(game.d))))
    return float(bound[0]) / extent, max(float(np.abs(scores - exact).max()) / extent, 1e-16)


def explained() -> Picture:
    """R² against the bandwidth, and the mean of the heads' R², which is not it."""
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
    r2 = [float(one.r2[0]) for one in exact]
    figure, axes = panels(("", "bandwidth ν", "R²"), width=5.2)
    axes.plot(widths, r2, color=BLUE, label="exact R² of the model")
    axes.plot(widths, counted, color=INK, **DOTS, label="all subsets")
    axes.plot(widths, heads, "--", color=VERMILLION, label="mean of the heads' R²")
    logarithmic(axes, "x")
    axes.set_xticks([0.1, 0.25, 1, 5], labels=["0.1", "0.25", "1", "5"])
    legend(axes)
    off = max(abs(x - y) for x, y in zip(r2, counted, strict=True))
    apart = max(abs(x - y) for x, y in zip(r2, heads, strict=True))
    return Picture(
        figure=figure,
        alt="R² against the bandwidth: circles from all subsets lie on the exact curve, the mean "
        "of the heads' R² lies elsewhere.",
        caption=f"A random game of {game.K} heads and {game.d} words: the exact R² agrees with "
        f"the regression on all subsets within {below(off, least=1e-6)} and lies between "
        f"{min(r2):.2f} and {max(r2):.2f}. The mean of the heads' R² is up to {apart:.2f} away: R² "
        "is quadratic in f, so heads enter in pairs.",
    )


def deleted() -> Picture:
    """LIME that deletes words, against its own limit and against that for replaced words."""
    batch = review(UNREPEATED)
    exact = lime_under_deletion(deletion_game(batch, 0), tolerance=1e-9)
    unknown = lime(review_game(UNREPEATED), tolerance=1e-9).scores[0]
    ours, other = _sampled_distances(UNREPEATED, "delete", [exact.scores[0], unknown])
    figure, (left, right) = panels(
        ("sampled LIME, words deleted", "samples n", "relative L2 distance"),
        ("limit under deletion − limit with UNK", "", ""),
    )
    left.plot(COUNTS, ours, "o-", color=BLUE, markersize=4, label="to the limit under deletion")
    left.plot(COUNTS, other, "x--", color=VERMILLION, markersize=4, label="to that with UNK")
    left.plot(COUNTS, ours[0] * np.sqrt(COUNTS[0] / COUNTS), ":", color=GREY, label="1/√n")
    logarithmic(left)
    legend(left)
    names = batch.features[0].strings
    at = np.arange(len(names))
    right.bar(at, exact.scores[0] - unknown, color=ORANGE)
    right.axhline(0, color=GREY, linewidth=0.8)
    right.set_xticks(at, labels=names, rotation=90, fontsize=8)
    return Picture(
        figure=figure,
        alt="Left: the distance of sampled LIME under deletion to its exact limit falls like one "
        "over the root of n, that to the limit for replacement levels off. Right: the difference "
        "of the two limits, word by word.",
        caption=f"“{UNREPEATED}” under the shipped model, mean of 3 seeds. {COUNTS[-1]} samples "
        f"come within {share(ours[-1])} of the limit under deletion, with the exponent "
        f"{exponent(COUNTS, ours)}; the limit for words replaced by UNK stays {share(other[-1])} "
        "away, however many are drawn.",
    )
