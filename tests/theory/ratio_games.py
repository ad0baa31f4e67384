"""Random ratio games for the tests of theory; every axis has its own prime size."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from limelight.theory.enumeration import enumerate_masks
from limelight.theory.ratio_game import RatioGame, value

K, C = 3, 2
quick = settings(deadline=None, max_examples=30)  # the first game of a kind fits its quadrature


def random_game(seed, *, d=7, K=K, C=C, batch=(), ratio=1e3):
    """A game whose weights are spread over [1/ratio, 1], some of them 0; values are normal."""
    rng = np.random.default_rng(seed)

    def weights(*shape):
        return ratio ** -rng.random(shape) if ratio > 1 else np.ones(shape)

    a, b = weights(*batch, K, d), weights(*batch, K, d)
    if ratio > 1:
        a = a * (rng.random(a.shape) < 0.9)
    D0 = (0.1 + rng.random((*batch, K))) / ratio
    u, u_h = rng.normal(size=(2, *batch, C, K, d))
    N0 = rng.normal(size=(*batch, C, K)) * D0[..., None, :]
    return RatioGame(D0=D0, a=a, b=b, N0=N0, A=u * a[..., None, :, :], B=u_h * b[..., None, :, :])


def peaked_game(seed, *, d=127, K=6, C=1, T_max=256, spread=2.0):
    """A game like a trained model's: Gaussian logits, and padding that carries what UNK carries."""
    rng = np.random.default_rng(seed)
    g = np.exp(spread * rng.normal(size=(K, d)))
    pad = np.exp(0.3 * spread * rng.normal(size=(K, 1))) * 0.05
    b = pad * np.exp(0.2 * rng.normal(size=(K, d)))
    D0 = pad[:, 0] * (T_max - d) + 0.1
    u, u_h = rng.normal(size=(C, K, d)), 0.3 * rng.normal(size=(C, K, d))
    N0 = 0.2 * rng.normal(size=(C, K)) * D0
    return RatioGame(D0=D0, a=g, b=b, N0=N0, A=u * g, B=u_h * b)


def value_spread(game):
    """max f − min f over all sets of words, per class."""
    f = value(game, enumerate_masks(game.d))
    return f.max(axis=-1) - f.min(axis=-1)


def games(*, least=2, most=6):
    """Hypothesis strategy: random games of a few words with denominators of any unevenness."""
    return st.builds(
        lambda seed, d, decades: random_game(seed, d=d, ratio=10.0**decades),
        st.integers(0, 2**32 - 1),
        st.integers(least, most),
        st.floats(0, 7),
    )
