"""Banzhaf values from the neighbors of random masks: each differs from a mask in one feature."""

import numpy as np

from limelight.sampling.masks import draw_coin_masks
from limelight.sampling.sample import Game
from limelight.shapes import Float, Rng


def banzhaf_values_from_neighbors(
    game: Game, d: int, rng: Rng, *, masks: int
) -> Float[np.ndarray, "m d"]:
    r"""Estimate Banzhaf values without bias from a few random masks and all their neighbors.

    For a mask S from fair coins, f(S ∪ j) − f(S ∖ j) has the Banzhaf value of feature j as its
    expectation. The mask and its neighbors take d + 1 calls. Every second mask is the complement of
    the mask before it. If f is additive, the values are exact.

    Parameters
    ----------
    game
        Outputs of the model for masks.
    d
        Number of features.
    rng
        Source of the random masks.
    masks
        Number of random masks.

    Returns
    -------
    The mean over the masks, for each output and feature.
    """
    coin_masks = draw_coin_masks(d, -(-masks // 2), rng)
    centers = np.stack([coin_masks, ~coin_masks], axis=1).reshape(-1, d)[:masks]
    changes = np.concatenate([np.zeros((1, d), bool), np.eye(d, dtype=bool)])
    outputs = game((centers[:, None] ^ changes).reshape(-1, d)).reshape(masks, d + 1, -1)
    sign = np.where(centers, -1.0, 1.0)[:, :, None]
    return np.mean(sign * (outputs[:, 1:] - outputs[:, :1]), axis=0).T
