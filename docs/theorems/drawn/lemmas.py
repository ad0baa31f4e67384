"""Lemmas D.1 to D.5: the formulas against averages over all sets, and where they end."""

__all__ = ["lemma_d1", "lemma_d2", "lemma_d3", "lemma_d4", "lemma_d5"]

from itertools import combinations

import numpy as np

from drawn.picture import Picture, below, exponent, legend, logarithmic, number, panels
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


def lemma_d1() -> Picture:
    """Gap and bound for random pairs of variables, and as the denominator comes close to 0."""
    figure, (left, right) = panels(
        ("120 pairs (X, Y), c = 0.5, C = 2", "bound", "|E[X/Y] − E[X]/E[Y]|"),
        ("the same draws, Y ≥ cn with c → 0", "c", ""),
    )
    rng = np.random.default_rng(0)
    found = np.array([_gap_and_bound(rng, c=0.5, n=n) for n in np.geomspace(1, 1000, 120)])
    left.plot(*found.T, ".", color=BLUE, markersize=4)
    edge = [found[:, 1].min(), found[:, 0].max()]
    left.plot(edge, edge, color=ORANGE, label="gap = bound")
    lows = np.geomspace(1e-3, 1, 31)
    near = np.array([_gap_and_bound(np.random.default_rng(1), c=c, n=1.0) for c in lows])
    right.plot(lows, near[:, 0], color=ORANGE, label="bound")
    right.plot(lows, near[:, 1], color=BLUE, linestyle="--", label="gap")
    for axes in (left, right):
        logarithmic(axes)
        legend(axes)
    kept = int(np.sum(found[:, 1] <= found[:, 0]))
    slack = np.median(found[:, 0] / found[:, 1])
    return Picture(
        figure=figure,
        alt="Left: points of gap against bound, all below the diagonal. Right: as c falls to 0 the "
        "bound grows much faster than the gap.",
        caption=f"{kept} of {len(found)} gaps lie below their bounds, which are {slack:.0f} times "
        f"as large in the median. On the right only the lower edge c of Y/n moves: at "
        f"c = {lows[0]:g} the bound is {number(near[0, 0] / near[0, 1], '.0e')} times the gap, and "
        "at c = 0 there is none.",
    )


def _gap_and_bound(rng: np.random.Generator, *, c: float, n: float) -> tuple[float, float]:
    """Return bound and gap of one pair of variables with 12 equally likely values."""
    C = 2.0
    X, Y = rng.uniform(-C, C, 12), n * rng.uniform(c, C, 12)
    gap = abs(np.mean(X / Y) - np.mean(X) / np.mean(Y))
    return expected_ratio_bound(c=c, C=C, n=n, variance=float(np.var(Y))), float(gap)


def lemma_d2() -> Picture:
    """The integral, its expansion, and what the closed form loses near 0."""
    figure, (left, right) = panels(
        ("∫₀¹ x dx/(1 + ax)", "a", ""), ("errors near 0", "a", "absolute error")
    )
    x, w = np.polynomial.legendre.leggauss(200)
    x, w = (x + 1) / 2, w / 2
    a = np.linspace(-0.95, 4, 100)
    left.plot(a, [ratio_integral(float(z)) for z in a], color=BLUE, label="(a − log(1 + a))/a²")
    left.plot(a, [integral_approximation(float(z)) for z in a], "--", color=VERMILLION)
    left.lines[-1].set_label("1/2 − a/3")
    some = a[::9]
    summed = [float(w @ (x / (1 + z * x))) for z in some]
    left.plot(some, summed, color=INK, **DOTS, label="quadrature")
    left.axvline(-1, color=GREY, linewidth=0.8, linestyle=":")
    left.set_ylim(-0.9, 1.6)
    small = np.geomspace(1e-7, 0.3, 40)
    exact = np.array([ratio_integral(float(z)) for z in small])
    first = np.abs([integral_approximation(float(z)) for z in small] - exact)
    closed = np.abs((small - np.log1p(small)) / small**2 - exact)
    right.plot(small, first, "--", color=VERMILLION, label="1/2 − a/3")
    right.plot(
        small[closed > 0], closed[closed > 0], color=ORANGE, label="closed form, as it rounds"
    )
    right.axvline(1e-2, color=GREY, linewidth=0.8, linestyle=":")
    right.set_ylim(1e-17, 1)
    logarithmic(right)
    legend(left)
    legend(right, loc="upper left")
    off = max(abs(ratio_integral(float(z)) - y) for z, y in zip(some, summed, strict=True))
    inside = small > 1e-3
    return Picture(
        figure=figure,
        alt="Left: the integral, quadrature points on it, and the straight line that leaves it. "
        "Right: the expansion's error falls with a, the closed form's rounding error rises.",
        caption=f"Quadrature agrees within {below(off, least=1e-10)}; the function ends at a = −1 "
        f"(dotted). The expansion errs like a to the power {exponent(small[inside], first[inside])}"
        "; the closed form loses its digits near 0, so left of the dotted line a series is used.",
    )


def lemma_d3() -> Picture:
    """Mean and variance of the denominator for two words, over all sets of every size."""
    a, b = np.random.default_rng(4).random((2, N))
    words = {"smallest": int(np.argmin(a - b)), "largest": int(np.argmax(a - b))}
    figure, axes = panels(
        ("E[H | ℓ ∉ S]", "words removed s", ""), ("Var(H | ℓ ∉ S)", "words removed s", "")
    )
    sizes, off = np.arange(N), 0.0
    for color, (name, word) in zip((BLUE, GREEN), words.items(), strict=True):
        sums = [_sums(a, b, s, word) for s in sizes]
        for one, formula, average in (
            (axes[0], conditional_mean, np.mean),
            (axes[1], conditional_variance, np.var),
        ):
            theory = np.array([formula(a, b, int(s))[word] for s in sizes])
            counted = np.array([average(H) for H in sums])
            one.plot(sizes, theory, color=color, label=f"{name} a − b")
            one.plot(sizes, counted, color=INK, **DOTS)
            off = max(off, float(np.abs(theory - counted).max()))
    blind = [np.var(_sums(a, b, int(s), None)) for s in sizes]
    axes[1].plot(sizes, blind, ":", color=VERMILLION, label="no word known to stay")
    for one in axes:
        legend(one)
    return Picture(
        figure=figure,
        alt="Two lines over the number of removed words for the mean and for the variance, points "
        "from all sets on them; the variance without the condition lies elsewhere.",
        caption=f"Lines: the lemma for n = {N}, for the words of smallest and largest a − b; "
        f"circles: all sets, within {below(off)}. The dotted line is the variance over all sets: "
        "knowing that one word stays changes it, at s = n − 1 down to 0.",
    )


def _sums(a: np.ndarray, b: np.ndarray, s: int, word: int | None) -> list[float]:
    """H_S over all sets S of size s that leave out ``word``."""
    return [
        float(a.sum() - sum(a[i] - b[i] for i in S))
        for S in combinations(range(N), s)
        if word is None or word not in S
    ]


def lemma_d4() -> Picture:
    """Survival probabilities against counts of sets, and against independent words."""
    figure, axes = panels((f"n = {N}", "words removed s", "probability"), width=5.2)
    sizes = list(range(N + 1))
    lines = {
        "a ∉ S": (BLUE, lambda s: kept_probability(N, s), {0}, set()),
        "a, b ∉ S": (GREEN, lambda s: kept_probability(N, s, words=2), {0, 1}, set()),
        "a ∉ S, b ∈ S": (ORANGE, lambda s: mixed_probability(N, s), {0}, {1}),
        "a, b, c ∉ S": (PURPLE, lambda s: kept_probability(N, s, words=3), {0, 1, 2}, set()),
        "a, c ∉ S, b ∈ S": (GREY, lambda s: mixed_probability(N, s, kept_words=2), {0, 2}, {1}),
    }
    off = 0.0
    for name, (color, formula, kept, removed) in lines.items():
        counted = [_share(s, kept, removed) for s in sizes]
        theory = [formula(s) for s in sizes]
        axes.plot(sizes, theory, color=color, label=name)
        axes.plot(sizes, counted, color=INK, **DOTS)
        off = max(off, *(abs(x - y) for x, y in zip(theory, counted, strict=True)))
    alone = [(1 - s / N) ** 3 for s in sizes]
    axes.plot(sizes, alone, ":", color=VERMILLION, label="(1 − s/n)³, independent")
    legend(axes)
    apart = max(x - kept_probability(N, s, words=3) for s, x in zip(sizes, alone, strict=True))
    return Picture(
        figure=figure,
        alt="Five curves of probabilities over the number of removed words, with circles from "
        "counted sets on them, and a dotted curve for independent words beside one of them.",
        caption=f"Circles count the sets of each size, within {below(off)} of the lemma. Words of "
        "a set of given size are not independent: the product (dotted) is off by up to "
        f"{apart:.2f} for three words of {N}.",
    )


def lemma_d5() -> Picture:
    """Survival probabilities given that one word stays, with and without that knowledge."""
    figure, axes = panels((f"n = {N}", "words removed s", "probability"), width=5.2)
    sizes = list(range(N))
    lines = {
        "a ∉ S": (BLUE, lambda s: kept_given_kept(N, s), {0}, set()),
        "a ∈ S": (ORANGE, lambda s: removed_given_kept(N, s), set(), {0}),
        "a, b ∉ S": (GREEN, lambda s: kept_given_kept(N, s, words=2), {0, 1}, set()),
    }
    off = 0.0
    for name, (color, formula, kept, removed) in lines.items():
        counted = [_share(s, kept, removed, known=N - 1) for s in sizes]
        theory = [formula(s) for s in sizes]
        axes.plot(sizes, theory, color=color, label=f"{name} given ℓ ∉ S")
        axes.plot(sizes, counted, color=INK, **DOTS)
        off = max(off, *(abs(x - y) for x, y in zip(theory, counted, strict=True)))
    plainly = [kept_probability(N, s) for s in [*sizes, N]]
    axes.plot([*sizes, N], plainly, ":", color=VERMILLION, label="a ∉ S, nothing given")
    axes.axvline(N, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_ylim(-0.05, 1.4)
    legend(axes, loc="upper center", ncols=2)
    apart = max(plainly[s] - kept_given_kept(N, s) for s in sizes)
    return Picture(
        figure=figure,
        alt="Three curves over the number of removed words with circles from counted sets on them; "
        "a dotted curve shows one of them without the condition.",
        caption=f"Circles count the sets that spare ℓ, within {below(off)} of the lemma. Without "
        f"the condition the same word stays more often, by up to {apart:.2f} (dotted). At s = n "
        "there is nothing to condition on, and the curves stop before it.",
    )


def _share(s: int, kept: set[int], removed: set[int], known: int | None = None) -> float:
    """The share of sets of size s that spare ``kept`` and hold ``removed``, of those without
    ``known``."""
    sets = [set(S) for S in combinations(range(N), s) if known not in S]
    return sum(not kept & S and removed <= S for S in sets) / len(sets)
