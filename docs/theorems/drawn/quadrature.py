"""Figures about 1/x by exponentials, sizes by removals, and rounding in the tables."""

__all__ = ["draw_exponentials", "draw_removals", "draw_rounding"]

import numpy as np

from drawn.picture import Picture, below, legend, logarithmic, panels
from limelight.theory.lime import LimePlan, lime_plan
from limelight.theory.reciprocal_sum import reciprocal_sum
from limelight_reproduction.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION

TOLERANCES = dict(zip((1e-3, 1e-6, 1e-9), (VERMILLION, ORANGE, BLUE), strict=True))


def draw_exponentials() -> Picture:
    """Draw the relative error of the sums against x, and their number of terms against R."""
    R = 1e4
    figure, (left_axes, right_axes) = panels(
        (f"R = {R:g}", "x", "|x Σ w exp(−λx) − 1|"), ("", "R", "terms of the sum")
    )
    x = np.geomspace(1, 100 * R, 300)
    for tolerance, color in TOLERANCES.items():
        rule = reciprocal_sum(R, tolerance)
        error = np.abs(x * (np.exp(-np.outer(x, rule.nodes)) @ rule.weights) - 1)
        name = f"ε = {below(tolerance)}"
        left_axes.plot(x, np.maximum(error, 1e-15), color=color, linewidth=1)
        left_axes.plot([1, R], 2 * [rule.error], "--", color=color, linewidth=1)
        spans = np.geomspace(1, 1e12, 25)
        terms = [len(reciprocal_sum(span, tolerance).nodes) for span in spans]
        right_axes.plot(spans, terms, color=color, label=name)
    left_axes.axvline(R, color=GREY, linestyle=":", linewidth=0.9)
    left_axes.set_ylim(1e-13, 3)
    logarithmic(left_axes)
    logarithmic(right_axes, "x")
    legend(right_axes)
    return Picture(
        figure=figure,
        alt="Left: relative errors oscillate below dashed certificates up to R and rise to 1 "
        "beyond it. Right: the number of terms grows with the logarithm of R.",
    )


def draw_removals() -> Picture:
    """Draw the residuals of mixtures by size, and their effect on a coefficient by nodes."""
    d = 105
    figure, (left_axes, right_axes) = panels(
        (f"d = {d}, ν = 0.25", "words removed s", "|r|"),
        ("", "nodes p", "Σ amplification · |r|"),
    )
    for tolerance, color in TOLERANCES.items():
        mixture = _plan(d, 0.25, tolerance).mixture
        left_axes.plot(mixture.residual[1:-1], color=color, linewidth=1)
        left_axes.lines[-1].set_label(f"{len(mixture.p)} nodes")
    left_axes.set_ylim(1e-15, 1e-3)
    logarithmic(left_axes, "y")
    legend(left_axes, loc="upper center", ncols=3)
    settings = ((25, 0.25), (105, 0.25), (255, 0.25), (3, 0.05))
    for (words, bandwidth), color in zip(settings, (GREEN, BLUE, ORANGE, VERMILLION), strict=True):
        plans = [_plan(words, bandwidth, float(e)) for e in 10.0 ** -np.arange(1, 13)]
        reached = {len(plan.mixture.p): plan.mixture_factor[0] for plan in plans}
        right_axes.plot(
            *zip(*sorted(reached.items()), strict=True), "o-", color=color, markersize=3
        )
        right_axes.lines[-1].set_label(f"d = {words}, ν = {bandwidth:g}")
    right_axes.set_ylim(1e-13, 1e5)
    logarithmic(right_axes, "y")
    legend(right_axes)
    return Picture(
        figure=figure,
        alt="Left: residuals over the number of removed words for three mixtures, smaller with "
        "more nodes. Right: what they do to a coefficient falls steeply as nodes are added, except "
        "for few words and a small bandwidth.",
        numbers=tuple(str(len(_plan(d, 0.25, 1e-9).mixture.p)) for d in (25, 255)),
    )


def draw_rounding() -> Picture:
    """Draw the effect of errors of the logits on the output of a head, with its bound."""
    figure, axes = panels(("", "error ε of the logits", "|f̂ − f| / (max u − min u)"), width=5.2)
    sizes = np.geomspace(1e-3, 10, 25)
    rng = np.random.default_rng(3)
    heads = [(spread * rng.normal(size=9), rng.normal(size=9)) for spread in 30 * [0.2, 1.0, 4.0]]
    changes_by_error = [
        [_largest_change(logit, u, epsilon) for epsilon in sizes] for logit, u in heads
    ]
    axes.plot(sizes, np.transpose(changes_by_error), color=BLUE, linewidth=0.4)
    axes.plot(sizes, np.tanh(sizes / 2), "--", color=VERMILLION, label="tanh(ε/2)")
    axes.lines[0].set_label("random heads, the worst errors")
    logarithmic(axes)
    legend(axes)
    largest = np.max(np.array(changes_by_error) / np.tanh(sizes / 2))
    return Picture(
        figure=figure,
        alt="The largest change of random heads against the error of their logits on logarithmic "
        "axes: a bundle of curves that rises with slope 1 to a plateau, below a dashed one.",
        numbers=(str(len(heads)), f"{largest:.0%}"),
    )


def _largest_change(logit: np.ndarray, u: np.ndarray, epsilon: float) -> float:
    def average(logit_error: np.ndarray) -> float:
        g = np.exp(logit + logit_error)
        return float(g @ u / g.sum())

    changes = [average(epsilon * np.sign(u - c)) - average(0 * u) for c in u]
    return float(np.abs(changes).max() / np.ptp(u))


def _plan(d: int, bandwidth: float, tolerance: float) -> LimePlan:
    return lime_plan(d, bandwidth=bandwidth, penalty=0.0, rows=None, tolerance=tolerance)
