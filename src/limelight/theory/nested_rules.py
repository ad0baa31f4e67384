"""Two rules of quadrature on the same nodes: what one says of the error of the other."""

__all__ = ["nested_rules"]

from functools import lru_cache

import numpy as np

from limelight.shapes import Float


@lru_cache(maxsize=64)
def nested_rules(n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "2 n"]]:
    """Gauss–Legendre nodes on [0, 1] with their weights, and with those of every other node.

    The first rule is exact for polynomials of degree 2n − 1, the second, which is 0 at nodes 1, 3,
    …, for degree ⌈n/2⌉ − 1. Where they differ little the first is right to far less than that; both
    are wrong where all nodes miss what there is. Domain: n ≥ 1; with one node they are the same.
    """
    # A rule of its own at n/2 nodes would cost half as much again: each node is a backward pass.
    at, weights = np.polynomial.legendre.leggauss(n)
    basis = np.polynomial.legendre.legvander(at[::2], (n + 1) // 2 - 1)
    whole = np.zeros(basis.shape[1])
    whole[0] = 2.0  # ∫P_0; every other Legendre polynomial has the integral 0
    few = np.zeros(n)
    few[::2] = np.linalg.solve(basis.T, whole)
    return (at + 1) / 2, np.stack([weights, few]) / 2
