"""Rules of quadrature on the same nodes: what some say of the error of the other."""

__all__ = ["nested_rules"]

from functools import lru_cache

import numpy as np

from limelight.shapes import Float


@lru_cache(maxsize=64)
def nested_rules(n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "3 n"]]:
    """Gauss–Legendre nodes on [0, 1], with the weights of three rules on them.

    The first rule takes all nodes and is exact for polynomials of degree 2n − 1, the others take
    every other node (0, 2, … and 1, 3, …) and are exact for degree ⌊n/2⌋ − 1 at least. Where they
    differ little the first is right to far less than that; all are wrong where the nodes miss what
    there is. Domain: n ≥ 1; of one node the third rule has none.
    """
    # A rule of its own at n/2 nodes would cost half as much again: each node is a backward pass.
    # Two halves rather than one: by chance one of them may agree with the whole.
    at, weights = np.polynomial.legendre.leggauss(n)
    rules = np.stack([weights, np.zeros(n), np.zeros(n)])
    for rule, first in zip(rules[1:], (0, 1), strict=True):
        some = at[first::2]
        basis = np.polynomial.legendre.legvander(some, max(len(some) - 1, 0))
        whole = 2.0 * (np.arange(len(some)) == 0)  # ∫P_k is 2 for k = 0, else 0
        rule[first::2] = np.linalg.solve(basis.T[: len(some)], whole)
    return (at + 1) / 2, rules / 2
