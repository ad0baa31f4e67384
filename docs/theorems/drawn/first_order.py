"""Figures about Theorem 5.1 as printed and corrected, Eq. 17 and Proposition B.1."""

__all__ = [
    "draw_conditionals",
    "draw_corrected_formula",
    "draw_printed_formula",
    "draw_word_counts",
]

import numpy as np

from drawn.games import LONG, SHORT, UNREPEATED, bounded_game, distance, review_game, uneven_game
from drawn.picture import Picture, below, legend, logarithmic, panels
from limelight.theory.conditionals import expectations
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.heavy_form import heavy_form
from limelight.theory.lime import full_and_empty_values, lime
from limelight.theory.ratio_game import RatioGame, denominator_range
from limelight.theory.removal_mixture import removal_mixture
from limelight_reproduction.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION
from limelight_reproduction.lemmas import (
    approximate_conditionals,
    limit_at_finite_d,
    limit_of_many_words,
)
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.paper import lime_theorem

WINDOWS = np.array([256, 1024, 4096, 16384])
SEEDS = range(3)


def _limit(game: RatioGame) -> np.ndarray:
    return np.asarray(lime(game, bandwidth=np.inf, tolerance=1e-9).scores)


def _distances(formula, *, T=None, offset: float = 0.0) -> list[float]:  # type: ignore[no-untyped-def]
    """Compute the mean distance of ``formula`` to the limit for each window.

    The texts have ``T`` words, or √T_max words by default.
    """
    distances = []
    for window in WINDOWS.tolist():
        words = T or round(window**0.5)
        games = [bounded_game(window, words, seed=seed, offset=offset) for seed in SEEDS]
        distances.append(float(np.mean([distance(formula(game), _limit(game)) for game in games])))
    return distances


def draw_printed_formula() -> Picture:
    """Draw distances of Eq. 19 in its own regime, and after a constant is added to all values."""
    figure, (left_axes, right_axes) = panels(
        ("d = T = √T_max, 1/2 ≤ g ≤ 2", "T_max", "relative L2 distance to the limit"),
        ("T_max = 4096, T = 64", "constant added to all values", ""),
    )
    centered, off = _distances(lime_theorem), _distances(lime_theorem, offset=1.0)
    ours = _distances(lime_first_order, offset=1.0)
    left_axes.plot(WINDOWS, off, "x-", color=VERMILLION, label="Eq. 19, values around 1")
    left_axes.plot(
        WINDOWS, centered, "s-", color=ORANGE, markersize=4, label="Eq. 19, values around 0"
    )
    left_axes.plot(
        WINDOWS, ours, "o-", color=BLUE, markersize=4, label="corrected, values around 1"
    )
    logarithmic(left_axes)
    constants = np.linspace(-3, 3, 13)
    games = [bounded_game(4096, 64, offset=float(c)) for c in constants]
    exact = [_limit(game) for game in games]
    for name, formula, style, color in (
        ("Eq. 19", lime_theorem, "x-", VERMILLION),
        ("corrected", lime_first_order, "o-", BLUE),
    ):
        pairs = zip(games, exact, strict=True)
        errors = [distance(formula(game), beta) for game, beta in pairs]
        right_axes.plot(constants, errors, style, color=color, markersize=4, label=name)
    right_axes.set_ylim(-0.1, None)
    legend(right_axes, loc="upper center")
    legend(left_axes, loc="center right", bbox_to_anchor=(1.0, 0.45))
    return Picture(
        figure=figure,
        alt="Left: against the window the printed formula stays at one half or above while the "
        "corrected one falls. Right: the printed formula's distance grows with a constant added "
        "to all values, the corrected one's does not.",
        numbers=(str(WINDOWS[-1]), f"{centered[-1]:.2f}", f"{off[-1]:.2f}", below(ours[-1])),
    )


def draw_corrected_formula() -> Picture:
    """Draw distances of the corrected form inside the regime and on uneven attention."""
    figure, (left_axes, right_axes) = panels(
        ("bounded weights, 1/2 ≤ g ≤ 2", "T_max", "relative L2 distance to the limit"),
        ("uneven weights, d = 11", "D_max/D_min", ""),
    )
    fixed, growing = _distances(lime_first_order, T=64), _distances(lime_first_order)
    left_axes.plot(WINDOWS, fixed, "o-", color=BLUE, markersize=4, label="T = 64")
    left_axes.plot(WINDOWS, growing, "s-", color=GREEN, markersize=4, label="T = √T_max")
    left_axes.plot(WINDOWS, fixed[-1] * WINDOWS[-1] / WINDOWS, ":", color=GREY, label="1/T_max")
    ratios = np.repeat(10.0 ** np.arange(0.25, 6.1, 0.5), 7)
    games = [uneven_game(seed, d=11, ratio=ratio) for seed, ratio in enumerate(ratios.tolist())]
    points = np.array([_ratio_and_distance(game) for game in games])
    right_axes.plot(*points.T, ".", color=ORANGE, markersize=4, label="random games")
    texts = np.array([_ratio_and_distance(review_game(text)) for text in (SHORT, UNREPEATED, LONG)])
    right_axes.plot(*texts.T, "*", color=VERMILLION, markersize=9, label="shipped model, 3 texts")
    right_axes.axhline(0.1, color=GREY, linestyle=":", linewidth=0.9)
    for axes in (left_axes, right_axes):
        logarithmic(axes)
        legend(axes)
    return Picture(
        figure=figure,
        alt="Left: the distance falls like one over the window. Right: on uneven weights it rises "
        "with the ratio of the largest to the smallest denominator; three texts under the shipped "
        "model lie among the games.",
    )


def _ratio_and_distance(game: RatioGame) -> tuple[float, float]:
    """Compute the largest D_max/D_min over heads, and the distance of first order to the limit."""
    low, high = denominator_range(game)
    return float((high / low).max()), distance(lime_first_order(game), _limit(game))


def draw_word_counts() -> Picture:
    """Draw distances of Eq. 17 and its finite form against words and against bandwidths."""
    figure, (left_axes, right_axes) = panels(
        ("ν = ∞, T_max = 4096", "words d", "relative L2 distance to the limit"),
        ("d = 30", "bandwidth ν", ""),
    )
    counts = np.array([4, 8, 16, 32, 64, 128, 256])
    lines = {lift: [_two_forms(d, lift) for d in counts.tolist()] for lift in (0.0, 1.0)}
    for lift, color in ((1.0, VERMILLION), (0.0, ORANGE)):
        name = f"Eq. 17, values {lift:g} above UNK's"
        left_axes.plot(counts, [x for x, _ in lines[lift]], "x-", color=color, label=name)
    game = uneven_game(2, d=30, ratio=100.0)
    finite = limit_at_finite_d(*_conditionals(game))
    widths = np.geomspace(0.1, 30, 15)
    away = [distance(finite, lime(game, bandwidth=float(nu)).scores) for nu in widths]
    right_axes.plot(widths, away, "o-", color=BLUE, markersize=4, label="finite d")
    right_axes.axvline(0.25, color=GREY, linestyle=":", linewidth=0.9)
    left_axes.set_ylim(0.02, 3)
    logarithmic(left_axes)
    logarithmic(right_axes)
    legend(left_axes, loc="lower left")
    legend(right_axes)
    return Picture(
        figure=figure,
        alt="Left: the distance of Eq. 17 falls with the number of words, but not where words are "
        "worth more than UNK. Right: the finite form leaves the limit as the bandwidth shrinks.",
    )


def _two_forms(d: int, lift: float) -> tuple[float, float]:
    """Compute the distances of Eq. 17 and of its finite form to the limit."""
    game = bounded_game(4096, d, lift=lift)
    m, mean = _conditionals(game)
    exact = _limit(game)
    return distance(limit_of_many_words(m), exact), distance(limit_at_finite_d(m, mean), exact)


def _conditionals(game: RatioGame) -> tuple[np.ndarray, np.ndarray]:
    """Compute E[f | j kept] for every j, and E f, for sizes uniform on 1..d."""
    d, form = game.d, heavy_form(game)
    nodes = removal_mixture(np.full(d + 1, 1 / (d + 1)), np.ones(d + 1), tolerance=1e-12)
    tiled = [np.tile(x, (game.K, 1)) for x in (nodes.p, nodes.omega)]
    sums = expectations(form, *tiled, tolerance=1e-12)
    kept_expectations = np.where(
        form.kept_is_heavy[:, None], sums.heavy, sums.total[..., None] - sums.heavy
    )
    full, _ = full_and_empty_values(form)
    kept_expectations = (
        (d + 1) * kept_expectations - full[..., None]
    ) / d  # without the empty removal
    mean = ((d + 1) * sums.total - full) / d
    m = kept_expectations * 2 * d / (d - 1)  # over the chance (d − 1)/(2d) that j is kept
    return (m + form.c[..., None]).mean(0), (mean + form.c).mean(0)


def draw_conditionals() -> Picture:
    """Draw errors of the approximate conditionals with both weights, against T_max and d."""
    figure, (left_axes, right_axes) = panels(
        ("d = 7", "T_max", "largest error × T_max"), ("T_max = 1024", "words d", "")
    )
    windows, words = np.array([64, 256, 1024, 4096]), np.arange(3, 12)
    rows = {
        "weights 1/d, as printed": (True, "x-", VERMILLION),
        "weights ∝ d − s": (False, "o-", BLUE),
    }
    for name, (as_printed, style, color) in rows.items():
        by_window = [_conditional_error(bounded_game(n, 7), as_printed) for n in windows.tolist()]
        by_words = [_conditional_error(bounded_game(1024, d), as_printed) for d in words.tolist()]
        left_axes.plot(windows, by_window * windows, style, color=color, markersize=4, label=name)
        right_axes.plot(words, 1024 * np.array(by_words), style, color=color, markersize=4)
    logarithmic(left_axes)
    logarithmic(right_axes, "y")
    legend(left_axes, loc="lower left")
    return Picture(
        figure=figure,
        alt="Errors times the window: constant against the window for the printed weights, falling "
        "for the corrected ones; against the number of words the first stay high.",
    )


def _conditional_error(game: RatioGame, as_printed: bool) -> float:
    """Compute the largest error of Eq. 29 and Eq. 30 over words, from all subsets."""
    keep = enumerate_masks(game.d)
    s = game.d - keep.sum(axis=1)
    weight = np.where(s > 0, 1 / np.bincount(s)[s], 0.0) / game.d
    D = game.D0[:, None] + game.a @ keep.T + game.b @ (~keep).T
    part = np.where(keep.T, game.A[0][..., None], game.B[0][..., None]) / D[:, None, :]
    table = part.mean(axis=0) @ (weight[:, None] * keep / (weight @ keep))
    t = np.arange(game.d)
    same, other = approximate_conditionals(game, printed=as_printed)
    exact = table[t, t], table[t, (t + 1) % game.d]
    return max(float(np.abs(x[0] - y).max()) for x, y in zip((same, other), exact, strict=True))
