"""Lemma D.3: mean and variance of a denominator when s words go and one is known to stay."""

__all__ = ["conditional_mean", "conditional_variance"]

from limelight.errors import DomainError
from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace


def conditional_mean(
    a: Float[Array, "*batch n"], b: Float[Array, "*batch n"], s: int
) -> Float[Array, "*batch n"]:
    """E_s[H_S | ℓ ∉ S] for every ℓ, H_S = Σ_i (a_i 1{i ∉ S} + b_i 1{i ∈ S}).

    Domain: n ≥ 2, 0 ≤ s ≤ n − 1.
    """
    xp = array_namespace(a)
    n = _checked(a, s, 2)
    share = s / (n - 1)
    both = (1 - share) * xp.sum(a, axis=-1) + share * xp.sum(b, axis=-1)
    return both[..., None] + share * (a - b)


def conditional_variance(
    a: Float[Array, "*batch n"], b: Float[Array, "*batch n"], s: int
) -> Float[Array, "*batch n"]:
    """Var_s(H_S | ℓ ∉ S) = ns(n−s−1)/((n−1)(n−2)) [Var̂(a − b) − (a_ℓ − b_ℓ − mean)²/(n−1)].

    Var̂ divides by n. Domain: n ≥ 3.
    """
    xp = array_namespace(a)
    n = _checked(a, s, 3)
    centred = a - b - xp.mean(a - b, axis=-1, keepdims=True)
    variance = xp.mean(centred**2, axis=-1, keepdims=True)
    return n * s * (n - s - 1) / ((n - 1) * (n - 2)) * (variance - centred**2 / (n - 1))


def _checked(a: Float[Array, "*batch n"], s: int, least: int) -> int:
    n = int(a.shape[-1])
    if n < least or not 0 <= s <= n - 1:
        raise DomainError(f"Lemma D.3 needs n ≥ {least} and 0 ≤ s ≤ n − 1; got n = {n}, s = {s}.")
    return n
