"""What every exact method stands on: 1/x by exponentials, sizes by removals, tables by rounding."""

__all__ = ["exponentials", "moved_averages", "removals"]

import numpy as np

from drawn.picture import Picture, below, legend, logarithmic, number, panels
from limelight.theory.lime import LimePlan, lime_plan
from limelight.theory.reciprocal_sum import reciprocal_sum
from limelight_reproduction.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION

TOLERANCES = dict(zip((1e-3, 1e-6, 1e-9), (VERMILLION, ORANGE, BLUE), strict=True))


def exponentials() -> Picture:
    """The relative error of the sums inside and beyond [1, R], and how many terms they need."""
    R = 1e4
    figure, (left, right) = panels(
        (f"R = {R:g}", "x", "|x Σ w exp(−λx) − 1|"), ("", "R", "terms of the sum")
    )
    x = np.geomspace(1, 100 * R, 300)
    for tolerance, color in TOLERANCES.items():
        rule = reciprocal_sum(R, tolerance)
        error = np.abs(x * (np.exp(-np.outer(x, rule.nodes)) @ rule.weights) - 1)
        name = f"ε = {below(tolerance)}"
        left.plot(x, np.maximum(error, 1e-15), color=color, linewidth=1)
        left.plot([1, R], 2 * [rule.error], "--", color=color, linewidth=1)
        spans = np.geomspace(1, 1e12, 25)
        terms = [len(reciprocal_sum(span, tolerance).nodes) for span in spans]
        right.plot(spans, terms, color=color, label=name)
    left.axvline(R, color=GREY, linestyle=":", linewidth=0.9)
    left.set_ylim(1e-13, 3)
    logarithmic(left)
    logarithmic(right, "x")
    legend(right)
    inside = x <= R
    rule = reciprocal_sum(R, 1e-6)
    seen = np.abs(x[inside] * (np.exp(-np.outer(x[inside], rule.nodes)) @ rule.weights) - 1).max()
    counts = f"{len(rule.nodes)} terms ({len(reciprocal_sum(R, 1e-9).nodes)} for ε = 1e-9)"
    return Picture(
        figure=figure,
        alt="Left: relative errors oscillate below dashed certificates up to R and rise to 1 "
        "beyond it. Right: the number of terms grows with the logarithm of R.",
        caption=f"On [1, R] no error passes its certificate (dashed): for ε = 1e-6 the largest "
        f"seen is {number(seen)}, the certificate {number(rule.error)}, and the sum has {counts}. "
        "Beyond R (dotted) the sum soon says nothing about 1/x.",
    )


def removals() -> Picture:
    """Which sizes a mixture misses, and what more nodes gain, if anything."""
    d = 105
    figure, (left, right) = panels(
        (f"d = {d}, ν = 0.25", "words removed s", "|r|"),
        ("", "nodes p", "Σ amplification · |r|"),
    )
    for tolerance, color in TOLERANCES.items():
        mixture = _plan(d, 0.25, tolerance).mixture
        left.plot(mixture.residual[1:-1], color=color, linewidth=1)
        left.lines[-1].set_label(f"{len(mixture.p)} nodes")
    left.set_ylim(1e-15, 1e-3)
    logarithmic(left, "y")
    legend(left, loc="upper center", ncols=3)
    settings = ((25, 0.25), (105, 0.25), (255, 0.25), (3, 0.05))
    for (words, bandwidth), color in zip(settings, (GREEN, BLUE, ORANGE, VERMILLION), strict=True):
        plans = [_plan(words, bandwidth, float(e)) for e in 10.0 ** -np.arange(1, 13)]
        reached = {len(plan.mixture.p): plan.mixture_factor[0] for plan in plans}
        right.plot(*zip(*sorted(reached.items()), strict=True), "o-", color=color, markersize=3)
        right.lines[-1].set_label(f"d = {words}, ν = {bandwidth:g}")
    right.set_ylim(1e-13, 1e5)
    logarithmic(right, "y")
    legend(right)
    needed = ", ".join(f"{len(_plan(n, 0.25, 1e-9).mixture.p)} at d = {n}" for n in (25, 105, 255))
    return Picture(
        figure=figure,
        alt="Left: residuals over the number of removed words for three mixtures, smaller with "
        "more nodes. Right: what they do to a coefficient falls steeply as nodes are added, except "
        "for few words and a small bandwidth.",
        caption=f"Nodes that keep each coefficient within 1e-9 of half the range of f: {needed}. "
        f"With d = 3 and ν = 0.05 nearly all weight sits on one size, and no mixture brings the "
        f"error below {number(min(reached.values()), '.1g')}: there `lime` takes the recurrence.",
    )


def moved_averages() -> Picture:
    """How far errors of the logits move the output of a head, and how far they can."""
    figure, axes = panels(("", "error ε of the logits", "|f̂ − f| / (max u − min u)"), width=5.2)
    sizes = np.geomspace(1e-3, 10, 25)
    rng = np.random.default_rng(3)
    heads = [(spread * rng.normal(size=9), rng.normal(size=9)) for spread in 30 * [0.2, 1.0, 4.0]]
    seen = [[_most_moved(logit, u, epsilon) for epsilon in sizes] for logit, u in heads]
    axes.plot(sizes, np.transpose(seen), color=BLUE, linewidth=0.4)
    axes.plot(sizes, np.tanh(sizes / 2), "--", color=VERMILLION, label="tanh(ε/2)")
    axes.lines[0].set_label("random heads, the worst errors")
    logarithmic(axes)
    legend(axes)
    share = np.max(np.array(seen) / np.tanh(sizes / 2))
    return Picture(
        figure=figure,
        alt="The largest change of random heads against the error of their logits on logarithmic "
        "axes: a bundle of curves that rises with slope 1 to a plateau, below a dashed one.",
        caption=f"{len(heads)} random heads of 9 positions; errors of +ε above a threshold of u "
        f"and −ε below it, the worst of all thresholds. None moves f by more than {share:.0%} of "
        "tanh(ε/2) times the range of u (dashed).",
    )


def _most_moved(logit: np.ndarray, u: np.ndarray, epsilon: float) -> float:
    def average(moved: np.ndarray) -> float:
        g = np.exp(logit + moved)
        return float(g @ u / g.sum())

    changes = [average(epsilon * np.sign(u - c)) - average(0 * u) for c in u]
    return float(np.abs(changes).max() / np.ptp(u))


def _plan(d: int, bandwidth: float, tolerance: float) -> LimePlan:
    return lime_plan(d, bandwidth=bandwidth, penalty=0.0, rows=None, tolerance=tolerance)
