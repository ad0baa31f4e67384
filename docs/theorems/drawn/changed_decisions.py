"""The figure about certified decisions."""

__all__ = ["draw_bounds_of_margins"]

import math

import numpy as np

from drawn.games import uneven_game
from drawn.picture import Picture, legend, panels, share
from limelight.shapes import Float
from limelight.theory.decisions import bound_margin, certify_removals
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.faithfulness import size_extremes
from limelight.theory.ratio_game import RatioGame, full_value, subtract_constants, value
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK

_HEADS = (1, 2, 3, 6)
_COUNT = 100


def draw_bounds_of_margins() -> Picture:
    """Draw bounds of a margin by the number of removed words, and how often bounds are exact."""
    game = _margin(5, K=6)
    figure, (left_axes, right_axes) = panels(
        ("margin with at most k words removed", "k", ""),
        ("lower bound is the smallest size", "heads", "share of random games"),
    )
    k = np.arange(1, game.d + 1)
    exact, joint = _minima(game), bound_margin(game)
    separate = np.minimum.accumulate(size_extremes(game).low)
    for low, color, style, name in (
        (exact, INK, "-", "minimum"),
        (joint, BLUE, "--", "joint bound"),
        (separate, GREY, ":", "separate bounds"),
    ):
        left_axes.plot(k, low, style, color=color, label=name)
    left_axes.axhline(0, color=GREY, linewidth=0.5)
    legend(left_axes, loc="center right", bbox_to_anchor=(1, 0.65))
    games = {K: [_margin(seed, K=K) for seed in range(_COUNT)] for K in _HEADS}
    places = np.arange(len(_HEADS))
    shares = np.array([_exact_shares(games[K]) for K in _HEADS]).T
    for values, color, marker, name in zip(
        shares, (GREY, BLUE, GREEN), "sod", ("separate", "joint", "branch and bound"), strict=True
    ):
        right_axes.plot(places, values, marker + "-", color=color, label=name, markersize=4)
    right_axes.set_xticks(places, labels=[str(K) for K in _HEADS])
    right_axes.set_ylim(0, 1.05)
    legend(right_axes, loc="lower left")
    return Picture(
        figure=figure,
        alt="Left: the least margin falls as more words may be removed; the joint bound of all "
        "heads lies below it and stays positive, and the separate bounds become negative. Right: "
        "with more heads the separate bounds find the smallest size less and less often, the joint "
        "bound more often than they do, and branch and bound always.",
        numbers=(str(game.d), str(_COUNT), *(share(float(x)) for x in shares[:, -1])),
    )


def _margin(seed: int, *, K: int) -> RatioGame:
    """Return a random game of ten words, with a constant added so that its margin is 0.5."""
    game = uneven_game(seed, d=10, ratio=100.0, K=K)
    full = float(full_value(game)[0])
    return subtract_constants(game, np.full((1, K), full - 0.5))


def _minima(game: RatioGame) -> Float[np.ndarray, " d"]:
    """Return the least margin over all sets of at most k removed words."""
    keep = enumerate_masks(game.d)
    f, size = value(game, keep)[0], (~keep).sum(axis=1)
    return np.array([f[size <= k].min() for k in range(1, game.d + 1)])


def _exact_shares(games: list[RatioGame]) -> list[float]:
    """Return how often each bound gives the smallest number of words that changes the sign."""
    hits = []
    for game in games:
        smallest = _first_change(_minima(game))
        certificate = certify_removals([game], seconds=math.inf)
        hits.append(
            [
                _first_change(size_extremes(game).low) == smallest,
                _first_change(bound_margin(game)) == smallest,
                certificate.lower_bound == smallest and certificate.is_settled,
            ]
        )
    return np.mean(hits, axis=0).tolist()


def _first_change(low: Float[np.ndarray, " d"]) -> int:
    """Return the first size whose bound allows a change, d + 1 if there is none."""
    sizes = np.flatnonzero(low <= 0)
    return int(sizes[0]) + 1 if len(sizes) else len(low) + 1
