"""The figure about certain sets of the strongest features."""

__all__ = ["draw_certificates"]

import numpy as np

from drawn.picture import Picture, legend, number, panels
from limelight.sampling.ranks import certify_tops, t_quantile
from limelight_reproduction.drawing import BLUE, GREY, ORANGE

_RUNS, _DRAWS, _FEATURES, _TOP = 300, 25, 60, 3
_LEVEL = 0.05


def draw_certificates() -> Picture:
    """Draw wrong certificates of ties, and how clear a gap must be."""
    counts = [1, 2, 4, 8, 16]
    wrong = np.array([_wrong_shares(ties) for ties in counts]).T
    gaps = np.arange(2.0, 13.0)
    power = np.array([_certified_shares(gap) for gap in gaps]).T
    figure, (left_axes, right_axes) = panels(
        ("wrong certificates", "pairs of equal features", "share of runs"),
        (f"the top {_TOP} of {_FEATURES}", "gap in standard errors", "certified"),
    )
    left_axes.plot(counts, wrong[1], "s-", color=ORANGE, markersize=4, label="each gap alone")
    left_axes.plot(counts, wrong[0], "o-", color=BLUE, markersize=4, label="certificates")
    left_axes.axhline(_LEVEL, color=GREY, linewidth=0.8)
    right_axes.plot(gaps, power[1], "s-", color=ORANGE, markersize=4, label="Bonferroni")
    right_axes.plot(gaps, power[0], "o-", color=BLUE, markersize=4, label="certificates")
    legend(left_axes)
    legend(right_axes)
    half = [float(np.interp(0.5, shares, gaps)) for shares in power]
    return Picture(
        figure=figure,
        alt="Left: with more pairs of equal features, tests of each gap alone are wrong in most "
        "runs, and the certificates of this page stay below five percent. Right: the certificates "
        "need a smaller gap than a Bonferroni correction over all pairs of features.",
        numbers=(
            f"{100 * wrong[0].max():.0f} %",
            f"{100 * wrong[1].max():.0f} %",
            *(number(x, ".1f") for x in half),
        ),
    )


def _wrong_shares(ties: int) -> tuple[float, float]:
    """Return the shares of runs with a wrong certificate, and with a wrong test of a gap alone."""
    center = np.repeat(10.0 * np.arange(ties, 0, -1), 2)
    certified = alone = 0
    for seed in range(_RUNS):
        rng = np.random.default_rng([seed, ties])
        draws = center + rng.standard_normal((_DRAWS, 2 * ties))
        # Even sizes end behind a pair. Odd sizes cut it.
        certified += any(k % 2 for k in certify_tops(draws))
        difference = draws[:, ::2] - draws[:, 1::2]
        error = difference.std(axis=0, ddof=1) / np.sqrt(_DRAWS)
        limit = t_quantile(_LEVEL / 2, np.array([_DRAWS - 1.0]))
        alone += bool((np.abs(difference.mean(axis=0)) > limit * error).any())
    return certified / _RUNS, alone / _RUNS


def _certified_shares(gap: float) -> tuple[float, float]:
    """Return how often the top set is certified, and how often with a Bonferroni correction."""
    center = np.zeros(_FEATURES)
    center[:_TOP] = gap / np.sqrt(_DRAWS)
    pairs = 2 * _TOP * (_FEATURES - _TOP)
    limit = t_quantile(_LEVEL / pairs, np.array([_DRAWS - 1.0]))
    certified = corrected = 0
    for seed in range(_RUNS // 3):
        draws = center + np.random.default_rng(seed).standard_normal((_DRAWS, _FEATURES))
        certified += _TOP in certify_tops(draws, first=_TOP)
        inside, outside = draws[:, :_TOP, None], draws[:, None, _TOP:]
        differences = np.stack([inside - outside, inside + outside])
        error = differences.std(axis=1, ddof=1) / np.sqrt(_DRAWS)
        corrected += bool((differences.mean(axis=1) > limit * error).all())
    return certified / (_RUNS // 3), corrected / (_RUNS // 3)
