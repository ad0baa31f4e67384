"""The games of the figures: random games, and reviews under the shipped model."""

__all__ = [
    "LONG",
    "SHORT",
    "UNREPEATED",
    "bounded_game",
    "distance",
    "review",
    "review_game",
    "uneven_game",
]

from functools import lru_cache

import numpy as np

import limelight
from limelight.explainers import Batch, prepare_batch
from limelight.theory.ratio_game import RatioGame

SHORT = "The plot is predictable, but the acting is superb."
UNREPEATED = "A dull script wastes fine actors, yet its ending saved my evening."
LONG = (
    "I went in with low hopes and left rather moved. The first hour drags, some jokes fall flat, "
    "and the villain is a bore; still, the two leads are wonderful together, the music never "
    "shouts, and the last scene is simply perfect. Not a great film, but a warm and honest one."
)


@lru_cache(maxsize=8)
def review(text: str, features: str = "words") -> Batch:
    """Prepare ``text`` for an explanation of the shipped model's logit of "positive"."""
    return prepare_batch(limelight.load(), [text], features=features, target="positive")


def review_game(text: str, features: str = "words") -> RatioGame:
    """Return the ratio game of one text under the shipped model."""
    game = review(text, features).ratio_game
    return RatioGame(*(getattr(game, name)[0] for name in ("D0", "a", "b", "N0", "A", "B")))


def uneven_game(seed: int, *, d: int, ratio: float, K: int = 2) -> RatioGame:
    """Return a random game with log-uniform weights in [1/ratio, 1] and normal values."""
    rng = np.random.default_rng(seed)
    a, b = ratio ** -rng.random((2, K, d))
    D0 = (0.1 + rng.random(K)) / ratio
    u, u_h = rng.normal(size=(2, 1, K, d))
    return RatioGame(D0=D0, a=a, b=b, N0=rng.normal(size=(1, K)) * D0, A=u * a, B=u_h * b)


def bounded_game(
    T_max: int, T: int, *, seed: int = 0, offset: float = 0.0, lift: float = 0.0
) -> RatioGame:
    """Return a game that meets Theorem 5.1: d = T words, 1/2 ≤ g ≤ 2, values around ``offset``.

    ``lift`` is the mean difference between the values of words and of UNK.
    """
    rng = np.random.default_rng(seed)
    K = 2
    g, g_h = np.exp(rng.uniform(-np.log(2), np.log(2), (2, K, T_max)))
    u, u_h = offset + rng.uniform(-1, 1, (2, 1, K, T_max))
    u = u + lift
    return RatioGame(
        D0=g_h[:, T:].sum(-1),
        a=g[:, :T],
        b=g_h[:, :T],
        N0=(g_h * u_h)[:, :, T:].sum(-1),
        A=(g * u)[:, :, :T],
        B=(g_h * u_h)[:, :, :T],
    )


def distance(approximation: np.ndarray, exact: np.ndarray) -> float:
    """Return the L2 distance of two arrays, relative to the length of ``exact``."""
    return float(np.linalg.norm(approximation - exact) / np.linalg.norm(exact))
