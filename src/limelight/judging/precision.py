"""Average precision of an order of words, exactly, also where words are tied or occur twice."""

from functools import lru_cache

import numpy as np

from limelight.judging.removals import Groups
from limelight.shapes import Float, Int

Counts = Int[np.ndarray, " w"]  # of places of each word, or of those that are marked
_NODES = 32  # of the integral held at a time


def expected_precision(
    groups: Groups,
    count: Int[np.ndarray, " d"],
    marked: Int[np.ndarray, " d"],
    cuts: Int[np.ndarray, " cuts"],
) -> tuple[float, Float[np.ndarray, " cuts"]]:
    """Return the expected average precision, and how many marked places come before each cut.

    ``groups`` are words strongest first, the words of a group tied: with all words in one group
    this is chance, the expectation over all d! orders. ``count`` and ``marked`` are c and r, with
    0 ≤ r ≤ c, c ≥ 1 and at least one place marked.
    """
    places = np.array([count[group].sum() for group in groups])
    hits = np.array([marked[group].sum() for group in groups])
    N, R = np.cumsum(places) - places, np.cumsum(hits) - hits
    # Most words have a score of their own, and need no integral: all of them at once, by a formula.
    alone = np.array([len(group) == 1 for group in groups])
    own = np.array([group[0] for group in groups])[alone]
    c, r, before = count[own], marked[own], N[alone]
    harmonic, within = _sums(c, before)
    total = (r / c * ((R[alone] + 1) * harmonic + (r - 1) * within)).sum()
    inside = np.clip(cuts - before[:, None], 0, c[:, None])
    found = ((r / c)[:, None] * inside).sum(axis=0)
    for i in np.flatnonzero(~alone & (hits > 0)):
        more = _of_tied(count[groups[i]], marked[groups[i]], int(N[i]), int(R[i]), cuts)
        total, found = total + more[0], found + more[1]
    return float(total / marked.sum()), found


def _sums(
    c: Int[np.ndarray, "*w"], N: Int[np.ndarray, "*w"]
) -> tuple[Float[np.ndarray, "*w"], Float[np.ndarray, "*w"]]:
    r"""Return what :math:`\sum M_i/i` over the places of a word after N others is made of.

    R of those others are marked. The word's p-th place is marked with probability r/c, and then
    (p − 1)(r − 1)/(c − 1) of those before it within the word are, in the mean: with
    :math:`H = \sum_{p=1}^{c} 1/(N + p)` and :math:`W = (c - (N + 1) H)/(c - 1)` the sum is

    .. math:: \frac{r}{c} \bigl( (R + 1) H + (r - 1) W \bigr).
    """
    # Sums 1/(N + 1) + … + 1/(N + c) as differences; tables by powers of two are made a few times.
    harmonic = _harmonic(int(np.max(N + c, initial=1)).bit_length())
    H = harmonic[N + c] - harmonic[N]
    return H, (c - (N + 1) * H) / np.maximum(c - 1, 1)  # of a single place there is nothing within


def _of_tied(
    c: Counts, r: Counts, N: int, R: int, cuts: Int[np.ndarray, " cuts"]
) -> tuple[float, Float[np.ndarray, " cuts"]]:
    """Return both sums over words that come in random order, after N places, R of them marked."""
    total, found = 0.0, np.zeros(len(cuts))
    sizes, size_of = np.unique(c, return_inverse=True)
    before = _before(c, r, sizes, size_of)
    after = N + np.arange(before.shape[-1])
    # Words of the same size come after the same: of their marks, Σ r and Σ r² are all that counts.
    marks, squares = (np.bincount(size_of, weights=r**power) for power in (1, 2))
    for size, once, twice, P, others, same in zip(sizes, marks, squares, *before, strict=True):
        H, W = _sums(np.full(len(after), size), after)
        own = once * ((R + 1) * P + others) + (once**2 - twice) * same
        total += float(H @ own + (twice - once) * (W @ P)) / size
        found += once / size * (np.clip(cuts[:, None] - after, 0, size) @ P)
    return total, found


def _before(
    c: Counts, r: Counts, sizes: Int[np.ndarray, " g"], size_of: Int[np.ndarray, " w"]
) -> Float[np.ndarray, "3 g n"]:
    r"""Return what comes before a word of each size when words come in random order.

    Give each word an independent uniform time; the words before j, whose time is u, are each there
    with probability u. So the number :math:`N_j` of places before j has the generating function

    .. math:: \sum_i P(N_j = i) x^i = \int_0^1 \prod_{k \neq j} (1 - u + u x^{c_k}) \, du,

    and with the factor of one :math:`k \neq j` replaced by :math:`u x^{c_k}`, it counts only the
    orders with k before j; times :math:`r_k`, summed over k, it is :math:`E[R_j; N_j = i]`. The
    integrand is a polynomial in u of degree at most w − 1, for which Gauss and Legendre's rule with
    w/2 nodes is exact, and of degree below n in x, so that n roots of unity give its coefficients.

    Both depend on j through :math:`c_j` alone, but for the term of k = j. Returned are, for every
    size: P; the sum of E over words of other sizes; and the term of one word of the same size
    marked once, of which j has (marks of that size − :math:`r_j`).
    """
    n, times = int(c.sum()), np.bincount(size_of)
    hits = np.bincount(size_of, weights=r)
    x = np.exp(-2j * np.pi / n * np.arange(n // 2 + 1))
    # By size and not by word: 500 words of a review have at most a dozen counts between them.
    powers = [x**size for size in sizes]
    sums = np.zeros((3, len(sizes), len(x)), complex)
    u, weight = _gauss(len(c))
    for start in range(0, len(u), _NODES):
        part = slice(start, start + _NODES)
        at, w = u[part, None], weight[part]
        factor = [1 - at + at * power for power in powers]
        product = np.prod([f ** int(t) for f, t in zip(factor, times, strict=True)], axis=0)
        there = [at * power / f for power, f in zip(powers, factor, strict=True)]
        every = sum(h * t for h, t in zip(hits, there, strict=True))
        for g, f in enumerate(factor):
            rest = product / f
            sums[0, g] += w @ rest
            sums[1, g] += w @ (rest * (every - hits[g] * there[g]))
            if times[g] > 1:
                sums[2, g] += w @ (rest * there[g])
    return np.fft.irfft(sums, n)


@lru_cache(maxsize=64)
def _gauss(words: int) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """Return nodes and weights on [0, 1], exact for polynomials of a degree below ``words``."""
    # An even number of nodes leaves out ½, where 1 − u + u x vanishes for x = −1.
    nodes, weights = np.polynomial.legendre.leggauss(2 * -(-words // 4))
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=8)
def _harmonic(bits: int) -> Float[np.ndarray, " n"]:
    """Return 1 + 1/2 + … + 1/i for all i of so many bits, the first for i = 0."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, (1 << bits) + 1))])
