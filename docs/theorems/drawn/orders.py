"""The figure about chance and ceiling of the deletion area."""

__all__ = ["draw_chance_and_ceiling"]

import itertools

import numpy as np

from drawn.games import LONG, review_game, uneven_game
from drawn.picture import Picture, legend, panels
from limelight.theory.faithfulness import (
    deletion_area,
    deletion_curves,
    greedy_order,
    random_removal_mean,
    size_extremes,
)
from limelight.theory.ratio_game import RatioGame, full_value
from limelight.theory.shapley import shapley
from limelight_reproduction.drawing import BLUE, GREEN, GREY, INK, ORANGE

_HEADS = (1, 2, 3, 6)
_ORDERS = np.array(list(itertools.permutations(range(6))))


def draw_chance_and_ceiling() -> Picture:
    """Draw the deletion curves of a review, and shares of the best orders on random games."""
    game = review_game(LONG)
    rng = np.random.default_rng(0)
    orders = {
        "greedy": (BLUE, "-", greedy_order(game)),
        "Shapley": (ORANGE, "--", np.argsort(-shapley(game).scores[0])),
        "random": (GREY, "-", rng.permutation(game.d)),
    }
    curves = deletion_curves(game, np.array([order for *_, order in orders.values()]))
    figure, (left_axes, right_axes) = panels(
        ("f without the k strongest words", "k", ""),
        ("random games of 6 words", "heads", "share of the best of all orders"),
    )
    for (name, (color, style, _)), curve in zip(orders.items(), curves, strict=True):
        left_axes.plot(curve, style, color=color, label=name)
    low = size_extremes(game).low
    left_axes.plot(np.arange(1, game.d + 1), low, ":", color=INK, label="proven floor")
    legend(left_axes, loc="center")
    shares = [[_best_share(seed, K) for seed in range(60)] for K in _HEADS]
    for place, head_shares in enumerate(shares):
        x = place + 0.3 * (np.random.default_rng(place).random(len(head_shares)) - 0.5)
        right_axes.plot(x, head_shares, "o", color=GREEN, markersize=3, alpha=0.5)
    right_axes.set_xticks(range(len(_HEADS)), labels=[str(K) for K in _HEADS])
    right_axes.set_ylim(0, 1.05)
    full = float(full_value(game)[0])
    chance, ceiling = full - float(random_removal_mean(game).value), full - float(low.mean())
    greedy, values, _ = (float(area) for area in deletion_area(curves))
    return Picture(
        figure=figure,
        alt="Left: f of a review falls as words are removed, fastest in the greedy order, which "
        "lies on the proven floor; a random order stays far above. Right: on random games the best "
        "order reaches the ceiling with one head and falls short of it with several.",
        numbers=(str(game.d), *(f"{area:.3f}" for area in (chance, values, greedy, ceiling))),
    )


def _best_share(seed: int, K: int) -> float:
    game: RatioGame = uneven_game(seed, d=6, ratio=100.0, K=K)
    full = float(full_value(game)[0])
    chance = full - float(random_removal_mean(game).value)
    ceiling = full - float(size_extremes(game).low.mean())
    best = float(deletion_area(deletion_curves(game, _ORDERS)).max())
    return (best - chance) / (ceiling - chance)
