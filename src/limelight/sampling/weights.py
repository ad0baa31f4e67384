"""How much a sample counts: LIME's kernel of the cosine distance to the untouched document."""

__all__ = ["cosine_distance", "kernel_weight"]

import numpy as np

from limelight.shapes import Bool, Float


def cosine_distance(keep: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return 100 × the cosine distance of each mask to the mask of ones, as `lime` does.

    The distance of k kept words out of d is 100 (1 − √(k/d)); with none kept it is 100.
    """
    return 100 * (1 - np.sqrt(keep.sum(axis=1) / keep.shape[1]))


def kernel_weight(
    distance: Float[np.ndarray, " n"], *, bandwidth: float = 0.25
) -> Float[np.ndarray, " n"]:
    """Return √exp(−distance²/width²) with width = 100 ν; ν = 0.25 is `lime`, ν = ∞ gives 1."""
    width = 100 * min(max(bandwidth, 1e-150), 1e150)  # past these only 0 and 1 are left
    return np.exp(-((distance / width) ** 2) / 2)
