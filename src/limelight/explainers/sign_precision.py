"""The precision of an anchor where the sign of one additive sum decides: one head."""

__all__ = ["sign_bracket_of"]

import numpy as np

from limelight.explainers.reading import Reading
from limelight.sampling import sign_bracket
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import denominator_range


def sign_bracket_of(one: Reading, words: list[int], held: int) -> tuple[float, float] | None:
    """Return rigorous bounds on the precision of ``words``; None where there are more heads."""
    arrays = one.collapsed
    game = arrays.game
    if game.K > 1 or game.C > 2:
        return None
    # Of two outputs the larger wins: the sign of their difference, which is additive as well.
    contrast = np.array([1.0] if game.C == 1 else [-1.0, 1.0])
    N0, kept, removed = (host_array(x)[0, :, 0] for x in (game.N0, game.A, game.B))
    kept_sum, removed_sum = contrast @ kept, contrast @ removed
    at_random = np.ones(game.d, bool)
    at_random[words] = False
    start = contrast @ N0 + kept_sum[words].sum() + removed_sum[at_random].sum()
    # What summing the tables' terms in floating point may have cost.
    terms = float(
        np.abs(contrast) @ (np.abs(kept).sum(axis=1) + np.abs(removed).sum(axis=1) + np.abs(N0))
    )
    slack = 2 * np.finfo(float).eps * arrays.logit.shape[-1] * terms
    # f > 0 is sure where N/D exceeds what f may be off by.
    if game.error is not None:
        largest = float(host_array(denominator_range(game)[1])[0, 0])
        slack += largest * float(np.abs(contrast) @ host_array(game.error)[0, :, 0])
    low, high = sign_bracket(float(start), (kept_sum - removed_sum)[at_random], slack=slack)
    return (low, high) if held == 1 else (1 - high, 1 - low)
