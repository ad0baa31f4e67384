"""Effective attention: the part of attention that reaches the output of a head.

A head returns A V. If a text has more tokens than V has columns, many attention matrices A give the
same A V. Effective attention is the one of least norm (Brunner et al., 2020, who subtract the part
in the left null space of V; Sun and Marasović, 2021). It can be negative.
"""

__all__ = ["effective_attention"]

import numpy as np

from limelight.shapes import Float

_RANK = 1e-6  # singular values below this share of the largest count as 0, in single precision


def effective_attention(
    alpha: Float[np.ndarray, "*b S T"], values: Float[np.ndarray, "*b T d"]
) -> Float[np.ndarray, "*b S T"]:
    """Return the attention of least norm with the same product with the values."""
    left, sizes, _ = np.linalg.svd(values, full_matrices=False)
    is_used = sizes > _RANK * sizes[..., :1]
    basis = left * is_used[..., None, :]
    return (alpha @ basis) @ np.swapaxes(basis, -1, -2)
