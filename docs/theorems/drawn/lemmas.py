"""Figures about Lemmas D.1 to D.5."""

__all__ = ["draw_lemma_d1", "draw_lemma_d2", "draw_lemma_d3", "draw_lemma_d4", "draw_lemma_d5"]

from itertools import combinations

import numpy as np

from drawn.picture import Picture, legend, logarithmic, panels
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, VERMILLION
from limelight_reproduction.lemmas import (
    conditional_mean,
    conditional_variance,
    expected_ratio_bound,
    integral_approximation,
    kept_given_kept,
    kept_probability,
    mixed_probability,
    ratio_integral,
    removed_given_kept,
)

N = 9
DOTS = {"marker": "o", "linestyle": "none", "markersize": 4, "markerfacecolor": "none"}


def draw_lemma_d1() -> Picture:
    """Draw gap and bound for random pairs of variables, and for denominators close to 0."""
    figure, (left_axes, right_axes) = panels(
        ("120 pairs (X, Y), c = 0.5, C = 2", "bound", "|E[X/Y] − E[X]/E[Y]|"),
        ("the same draws, Y ≥ cn with c → 0", "c", ""),
    )
    rng = np.random.default_rng(0)
    points = np.array([_gap_and_bound(rng, c=0.5, n=n) for n in np.geomspace(1, 1000, 120)])
    left_axes.plot(*points.T, ".", color=BLUE, markersize=4)
    edge = [points[:, 1].min(), points[:, 0].max()]
    left_axes.plot(edge, edge, color=ORANGE, label="gap = bound")
    lows = np.geomspace(1e-3, 1, 31)
    near = np.array([_gap_and_bound(np.random.default_rng(1), c=c, n=1.0) for c in lows])
    right_axes.plot(lows, near[:, 0], color=ORANGE, label="bound")
    right_axes.plot(lows, near[:, 1], color=BLUE, linestyle="--", label="gap")
    for axes in (left_axes, right_axes):
        logarithmic(axes)
        legend(axes)
    return Picture(
        figure=figure,
        alt="Left: points of gap against bound, all below the diagonal. Right: as c falls to 0 the "
        "bound grows much faster than the gap.",
    )


def _gap_and_bound(rng: np.random.Generator, *, c: float, n: float) -> tuple[float, float]:
    """Return bound and gap of one pair of variables with 12 equally likely values."""
    C = 2.0
    X, Y = rng.uniform(-C, C, 12), n * rng.uniform(c, C, 12)
    gap = abs(np.mean(X / Y) - np.mean(X) / np.mean(Y))
    return expected_ratio_bound(c=c, C=C, n=n, variance=float(np.var(Y))), float(gap)


def draw_lemma_d2() -> Picture:
    """Draw the integral with its expansion, and the rounding errors of the closed form near 0."""
    figure, (left_axes, right_axes) = panels(
        ("∫₀¹ x dx/(1 + ax)", "a", ""), ("errors near 0", "a", "absolute error")
    )
    x, w = np.polynomial.legendre.leggauss(200)
    x, w = (x + 1) / 2, w / 2
    a = np.linspace(-0.95, 4, 100)
    left_axes.plot(
        a, [ratio_integral(float(z)) for z in a], color=BLUE, label="(a − log(1 + a))/a²"
    )
    left_axes.plot(a, [integral_approximation(float(z)) for z in a], "--", color=VERMILLION)
    left_axes.lines[-1].set_label("1/2 − a/3")
    sample_points = a[::9]
    summed = [float(w @ (x / (1 + z * x))) for z in sample_points]
    left_axes.plot(sample_points, summed, color=INK, **DOTS, label="quadrature")
    left_axes.axvline(-1, color=GREY, linewidth=0.8, linestyle=":")
    left_axes.set_ylim(-0.9, 1.6)
    small = np.geomspace(1e-7, 0.3, 40)
    exact = np.array([ratio_integral(float(z)) for z in small])
    first = np.abs([integral_approximation(float(z)) for z in small] - exact)
    closed = np.abs((small - np.log1p(small)) / small**2 - exact)
    right_axes.plot(small, first, "--", color=VERMILLION, label="1/2 − a/3")
    right_axes.plot(
        small[closed > 0], closed[closed > 0], color=ORANGE, label="closed form, as it rounds"
    )
    right_axes.axvline(1e-2, color=GREY, linewidth=0.8, linestyle=":")
    right_axes.set_ylim(1e-17, 1)
    logarithmic(right_axes)
    legend(left_axes)
    legend(right_axes, loc="upper left")
    return Picture(
        figure=figure,
        alt="Left: the integral, quadrature points on it, and the straight line that leaves it. "
        "Right: the expansion's error falls with a, the closed form's rounding error rises.",
    )


def draw_lemma_d3() -> Picture:
    """Draw mean and variance of the denominator for two words, over all sets of every size."""
    a, b = np.random.default_rng(4).random((2, N))
    words = {"smallest": int(np.argmin(a - b)), "largest": int(np.argmax(a - b))}
    figure, axes = panels(
        ("E[H | ℓ ∉ S]", "words removed s", ""), ("Var(H | ℓ ∉ S)", "words removed s", "")
    )
    sizes = np.arange(N)
    for color, (name, word) in zip((BLUE, GREEN), words.items(), strict=True):
        sums = [_sums(a, b, s, word) for s in sizes]
        for panel, formula, average in (
            (axes[0], conditional_mean, np.mean),
            (axes[1], conditional_variance, np.var),
        ):
            theory = np.array([formula(a, b, int(s))[word] for s in sizes])
            counted = np.array([average(H) for H in sums])
            panel.plot(sizes, theory, color=color, label=f"{name} a − b")
            panel.plot(sizes, counted, color=INK, **DOTS)
    unconditional = [np.var(_sums(a, b, int(s), None)) for s in sizes]
    axes[1].plot(sizes, unconditional, ":", color=VERMILLION, label="no word known to stay")
    for panel in axes:
        legend(panel)
    return Picture(
        figure=figure,
        alt="Two lines over the number of removed words for the mean and for the variance, points "
        "from all sets on them; the variance without the condition lies elsewhere.",
    )


def _sums(a: np.ndarray, b: np.ndarray, s: int, word: int | None) -> list[float]:
    """Compute H_S for all sets S of size s without ``word``."""
    return [
        float(a.sum() - sum(a[i] - b[i] for i in S))
        for S in combinations(range(N), s)
        if word is None or word not in S
    ]


def draw_lemma_d4() -> Picture:
    """Draw survival probabilities with counts of sets and with independent words."""
    figure, axes = panels((f"n = {N}", "words removed s", "probability"), width=5.2)
    sizes = list(range(N + 1))
    lines = {
        "a ∉ S": (BLUE, lambda s: kept_probability(N, s), {0}, set()),
        "a, b ∉ S": (GREEN, lambda s: kept_probability(N, s, words=2), {0, 1}, set()),
        "a ∉ S, b ∈ S": (ORANGE, lambda s: mixed_probability(N, s), {0}, {1}),
        "a, b, c ∉ S": (PURPLE, lambda s: kept_probability(N, s, words=3), {0, 1, 2}, set()),
        "a, c ∉ S, b ∈ S": (GREY, lambda s: mixed_probability(N, s, kept_words=2), {0, 2}, {1}),
    }
    for name, (color, formula, kept_words, removed_words) in lines.items():
        counted = [_share(s, kept_words, removed_words) for s in sizes]
        theory = [formula(s) for s in sizes]
        axes.plot(sizes, theory, color=color, label=name)
        axes.plot(sizes, counted, color=INK, **DOTS)
    independent = [(1 - s / N) ** 3 for s in sizes]
    axes.plot(sizes, independent, ":", color=VERMILLION, label="(1 − s/n)³, independent")
    legend(axes)
    return Picture(
        figure=figure,
        alt="Five curves of probabilities over the number of removed words, with circles from "
        "counted sets on them, and a dotted curve for independent words beside one of them.",
    )


def draw_lemma_d5() -> Picture:
    """Draw survival probabilities with and without the condition that one word is kept."""
    figure, axes = panels((f"n = {N}", "words removed s", "probability"), width=5.2)
    sizes = list(range(N))
    lines = {
        "a ∉ S": (BLUE, lambda s: kept_given_kept(N, s), {0}, set()),
        "a ∈ S": (ORANGE, lambda s: removed_given_kept(N, s), set(), {0}),
        "a, b ∉ S": (GREEN, lambda s: kept_given_kept(N, s, words=2), {0, 1}, set()),
    }
    for name, (color, formula, kept_words, removed_words) in lines.items():
        counted = [_share(s, kept_words, removed_words, condition=N - 1) for s in sizes]
        theory = [formula(s) for s in sizes]
        axes.plot(sizes, theory, color=color, label=f"{name} given ℓ ∉ S")
        axes.plot(sizes, counted, color=INK, **DOTS)
    unconditional = [kept_probability(N, s) for s in [*sizes, N]]
    axes.plot([*sizes, N], unconditional, ":", color=VERMILLION, label="a ∉ S, nothing given")
    axes.axvline(N, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_ylim(-0.05, 1.4)
    legend(axes, loc="upper center", ncols=2)
    return Picture(
        figure=figure,
        alt="Three curves over the number of removed words with circles from counted sets on them; "
        "a dotted curve shows one of them without the condition.",
    )


def _share(
    s: int, kept_words: set[int], removed_words: set[int], condition: int | None = None
) -> float:
    """Compute the share of sets of size s that keep and remove the given words.

    Only the sets without the word ``condition`` count.
    """
    sets = [set(S) for S in combinations(range(N), s) if condition not in S]
    return sum(not kept_words & S and removed_words <= S for S in sets) / len(sets)
