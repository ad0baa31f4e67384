"""Lemmas D.1 and D.2: how far E[X/Y] is from E[X]/E[Y], and an integral.

The integral is where the factor 3/2 of Eq. 19 comes from.
"""

__all__ = ["expected_ratio_bound", "integral_approximation", "ratio_integral"]

import math

from limelight.errors import DomainError


def expected_ratio_bound(
    *, c: float, C: float, n: float, variance: float, printed: bool = False
) -> float:
    """|E[X/Y] − E[X]/E[Y]| ≤ C Var(Y)/(c³n³) + C √Var(Y)/(c²n²) (Lemma D.1).

    Hypotheses: |X| ≤ C and cn ≤ Y ≤ Cn. The paper has C² in the second term (``printed``), which is
    not a bound for C < 1.
    """
    if not (0 < c <= C and n > 0 and variance >= 0):
        raise DomainError(f"Lemma D.1 needs 0 < c ≤ C, n > 0; got c = {c}, C = {C}, n = {n}.")
    second = C**2 if printed else C
    return C * variance / (c * n) ** 3 + second * math.sqrt(variance) / (c * n) ** 2


def ratio_integral(a: float) -> float:
    """∫₀¹ x dx/(1 + ax) = (a − log(1 + a))/a² (Lemma D.2); a = 0 gives 1/2.

    Domain: a > −1 (the paper: a > 0).
    """
    if not a > -1:
        raise DomainError(f"Lemma D.2 needs a > −1; got {a}.")
    if abs(a) < 1e-2:  # the difference cancels; the series Σ (−a)^k/(k + 2) does not
        return math.fsum((-a) ** k / (k + 2) for k in range(9))
    return (a - math.log1p(a)) / a**2


def integral_approximation(a: float) -> float:
    """1/2 − a/3, the expansion of `ratio_integral` at 0, with error O(a²) (Lemma D.2)."""
    return 0.5 - a / 3
