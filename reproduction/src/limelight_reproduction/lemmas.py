"""Eq. 17, Proposition B.1 and the lemmas of the paper's appendix, which only the paper needs."""

import math

import numpy as np

from limelight import DomainError
from limelight.shapes import Array, Float
from limelight.theory.namespace import array_namespace
from limelight.theory.ratio_game import RatioGame


def expected_ratio_bound(
    *, c: float, C: float, n: float, variance: float, printed: bool = False
) -> float:
    """Return the bound C Var(Y)/(c³n³) + C √Var(Y)/(c²n²) on |E[X/Y] − E[X]/E[Y]| (Lemma D.1).

    Hypotheses: |X| ≤ C and cn ≤ Y ≤ Cn. The paper has C² in the second term (``printed``), which is
    not a bound for C < 1.
    """
    if not (0 < c <= C and n > 0 and variance >= 0):
        raise DomainError(f"Lemma D.1 needs 0 < c ≤ C and n > 0, not c = {c}, C = {C} and n = {n}.")
    second = C**2 if printed else C
    return C * variance / (c * n) ** 3 + second * math.sqrt(variance) / (c * n) ** 2


def ratio_integral(a: float) -> float:
    """Return ∫₀¹ x dx/(1 + ax) = (a − log(1 + a))/a² (Lemma D.2), which is 1/2 for a = 0.

    Domain: a > −1 (the paper: a > 0).
    """
    if not a > -1:
        raise DomainError(f"Lemma D.2 needs a > −1, not {a}.")
    if abs(a) < 1e-2:  # the difference cancels; the series Σ (−a)^k/(k + 2) does not
        return math.fsum((-a) ** k / (k + 2) for k in range(9))
    return (a - math.log1p(a)) / a**2


def integral_approximation(a: float) -> float:
    """Return 1/2 − a/3, the expansion of `ratio_integral` at 0, with error O(a²) (Lemma D.2)."""
    return 0.5 - a / 3


def limit_of_many_words(m: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """Return β_j = 3 m_j − (3/d) Σ_k m_k with m_j = E[f | j ∉ S] (Eq. 17), the limit for large d.

    It is (d+1)/(d−1) (β_j − mean β) of the exact β. Its scores sum to 0 in every game.
    """
    xp = array_namespace(m)
    return 3 * (m - xp.mean(m, axis=-1, keepdims=True))


def limit_at_finite_d(
    m: Float[Array, "*batch d"], mean: Float[Array, "*batch"]
) -> Float[Array, "*batch d"]:
    """Return the exact β_j for every d ≥ 2.

    β_j = 3(d−1)/(d+1) · [m_j − (d−3)/(d(d−1)) Σ_k m_k − 2/(d−1) E f]. m_j = E[f | j ∉ S],
    E f = ``mean``, sizes uniform on 1..d.
    """
    xp = array_namespace(m)
    d = int(m.shape[-1])
    if d < 2:
        raise DomainError(f"LIME needs at least 2 words, not {d}.")
    total = xp.sum(m, axis=-1, keepdims=True)
    common = (d - 3) / (d * (d - 1)) * total + 2 / (d - 1) * mean[..., None]
    return 3 * (d - 1) / (d + 1) * (m - common)


def conditional_weights(d: int, *, printed: bool = True) -> Float[Array, " sizes"]:
    """Return P(s | ℓ ∉ S) for s = 0..d−1, or the weights as printed in Proposition B.1.

    The printed weights are 1/d for s ≥ 1. This error becomes the factor 3/2 in Eq. 19. "Size
    uniform on 1..d" implies weights in proportion to d − s, s ≥ 1.
    """
    s = np.arange(d)
    if printed:
        return np.where(s >= 1, 1 / d, 0.0)
    return np.where(s >= 1, 2 * (d - s) / (d * (d - 1)), 0.0)


def approximate_conditionals(
    game: RatioGame, *, printed: bool = True
) -> tuple[Float[Array, "*batch C d"], Float[Array, "*batch C d"]]:
    """Return E[A_t V_t | ℓ ∉ S] for every word t if t = ℓ (Eq. 29) and if t ≠ ℓ (Eq. 30).

    This is Proposition B.1. Each is Σ_s weight_s N_t(s)/D(s), D(s) = (1−x) D(all) + x D(none),
    x = s/(d−1), mean over heads. Domain: d ≥ 2, one game. Error O(T_max^{−3/2}) in the regime of
    Theorem 5.1 (with ``printed=False``; the printed weights do not sum to 1).
    """
    xp = array_namespace(game.a)
    d = game.d
    if d < 2:
        raise DomainError(f"Proposition B.1 needs at least 2 words, not {d}.")
    full = game.D0 + xp.sum(game.a, axis=-1)
    empty = game.D0 + xp.sum(game.b, axis=-1)
    same, other = xp.zeros_like(game.A), xp.zeros_like(game.A)
    for s, weight in enumerate(conditional_weights(d, printed=printed).tolist()):
        x = s / (d - 1)
        D = ((1 - x) * full + x * empty)[..., None, :, None]
        same = same + weight * game.A / D
        other = other + weight * ((1 - x) * game.A + x * game.B) / D
    return xp.mean(same, axis=-2), xp.mean(other, axis=-2)


def conditional_mean(
    a: Float[Array, "*batch n"], b: Float[Array, "*batch n"], s: int
) -> Float[Array, "*batch n"]:
    """Return E_s[H_S | ℓ ∉ S] for every ℓ, with H_S = Σ_i (a_i 1{i ∉ S} + b_i 1{i ∈ S}).

    Domain: n ≥ 2, 0 ≤ s ≤ n − 1.
    """
    xp = array_namespace(a)
    n = _check_lemma_d3(a, s, 2)
    share = s / (n - 1)
    expected = (1 - share) * xp.sum(a, axis=-1) + share * xp.sum(b, axis=-1)
    return expected[..., None] + share * (a - b)


def conditional_variance(
    a: Float[Array, "*batch n"], b: Float[Array, "*batch n"], s: int
) -> Float[Array, "*batch n"]:
    """Return Var_s(H_S | ℓ ∉ S) for every ℓ.

    It is ns(n−s−1)/((n−1)(n−2)) [Var̂(a − b) − (a_ℓ − b_ℓ − mean)²/(n−1)]. Var̂ divides by n.
    Domain: n ≥ 3.
    """
    xp = array_namespace(a)
    n = _check_lemma_d3(a, s, 3)
    centered = a - b - xp.mean(a - b, axis=-1, keepdims=True)
    variance = xp.mean(centered**2, axis=-1, keepdims=True)
    return n * s * (n - s - 1) / ((n - 1) * (n - 2)) * (variance - centered**2 / (n - 1))


def _check_lemma_d3(a: Float[Array, "*batch n"], s: int, minimum: int) -> int:
    """Return n, or raise if n is below ``minimum`` or s is outside 0..n − 1."""
    n = int(a.shape[-1])
    if n < minimum or not 0 <= s <= n - 1:
        raise DomainError(
            f"Lemma D.3 needs n ≥ {minimum} and 0 ≤ s ≤ n − 1, not n = {n} and s = {s}."
        )
    return n


def _falling_factorial(x: int, m: int) -> int:
    """Return x(x − 1)…(x − m + 1), with negative factors replaced by 0."""
    product = 1
    for i in range(m):
        product *= max(0, x - i)
    return product


def _check_sizes(n: int, s: int, words: int) -> None:
    if not 0 <= s <= n or words > n:
        raise DomainError(
            f"s must be from 0 to n and words at most n, not s = {s}, n = {n} and {words} words."
        )


def kept_probability(n: int, s: int, *, words: int = 1) -> float:
    """Return P_s(no one of m words in S) = (n−s)(n−s−1)…/(n(n−1)…), m factors each.

    Lemma D.4, lines 1, 2 and 4.
    """
    _check_sizes(n, s, words)
    return _falling_factorial(n - s, words) / _falling_factorial(n, words)


def mixed_probability(n: int, s: int, *, kept_words: int = 1, removed_words: int = 1) -> float:
    """Return the probability that some words are kept and other words are removed.

    Lemma D.4, lines 3 and 5, with ``kept_words`` = 1 or 2 and ``removed_words`` = 1.
    """
    words = kept_words + removed_words
    _check_sizes(n, s, words)
    favorable = _falling_factorial(n - s, kept_words) * _falling_factorial(s, removed_words)
    return favorable / _falling_factorial(n, words)


def kept_given_kept(n: int, s: int, *, words: int = 1) -> float:
    """Return P_s(m other words kept | ℓ kept) = (n−s−1)…/((n−1)…) (Lemma D.5, lines 1 and 3).

    Domain: s < n.
    """
    _check_sizes(n, s, words + 1)
    if s == n:
        raise DomainError(f"s must be less than n = {n}, because no word stays if all are removed.")
    return _falling_factorial(n - 1 - s, words) / _falling_factorial(n - 1, words)


def removed_given_kept(n: int, s: int) -> float:
    """Return P_s(a ∈ S | ℓ ∉ S) = s/(n−1) (Lemma D.5, line 2). Domain: s < n."""
    return 1 - kept_given_kept(n, s)
