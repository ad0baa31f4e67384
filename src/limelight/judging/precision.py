"""Average precision of an order of words, exactly, also where words are tied or occur twice."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from limelight.judging.removals import Groups
from limelight.shapes import Float, Int

Counts = Int[np.ndarray, " w"]  # of places of each word, or of those that are marked
_NODES = 32  # of the integral held at a time


class Precision(NamedTuple):
    """The expected average precision, and the expected number of marked places before each cut."""

    average: float
    found: Float[np.ndarray, " cuts"]


def expected_precision(
    groups: Groups,
    count: Int[np.ndarray, " d"],
    marked: Int[np.ndarray, " d"],
    cuts: Int[np.ndarray, " cuts"],
) -> Precision:
    """Return what an order finds, ``groups`` of words strongest first, words of a group tied.

    With all words in one group this is chance: the expectation over all d! orders. ``count`` and
    ``marked`` are c and r, with 0 ≤ r ≤ c, c ≥ 1 and at least one place marked.
    """
    places = np.array([count[group].sum() for group in groups])
    hits = np.array([marked[group].sum() for group in groups])
    N, R = np.cumsum(places) - places, np.cumsum(hits) - hits
    # Most words have a score of their own, and need no integral: all of them at once, by a formula.
    alone = np.array([len(group) == 1 for group in groups])
    own = np.array([group[0] for group in groups])[alone]
    c, r, before = count[own], marked[own], N[alone]
    slope, level = _coefficients(c, r, before)
    total = (slope * R[alone] + level).sum()
    inside = np.clip(cuts - before[:, None], 0, c[:, None])
    found = ((r / c)[:, None] * inside).sum(axis=0)
    for i in np.flatnonzero(~alone & (hits > 0)):
        more = _of_tied(count[groups[i]], marked[groups[i]], int(N[i]), int(R[i]), cuts)
        total, found = total + more[0], found + more[1]
    return Precision(float(total / marked.sum()), found)


def _coefficients(
    c: Int[np.ndarray, "*w"], r: Int[np.ndarray, "*w"], N: Int[np.ndarray, "*w"]
) -> tuple[Float[np.ndarray, "*w"], Float[np.ndarray, "*w"]]:
    r"""Return :math:`\sum M_i/i` over each word's places, as slope and level of a line in R.

    N places, R of them marked, come before the word. Its p-th place is marked with probability r/c,
    and then (p − 1)(r − 1)/(c − 1) of those before it within the word are, in the mean: with
    :math:`H = \sum_{p=1}^{c} 1/(N + p)` the sum is

    .. math:: \frac{r}{c} \Bigl( (R + 1) H + \frac{r - 1}{c - 1} (c - (N + 1) H) \Bigr).
    """
    # Sums 1/(N + 1) + … + 1/(N + c) as differences; tables by powers of two are made a few times.
    harmonic = _harmonic(int(np.max(N + c, initial=1)).bit_length())
    H = harmonic[N + c] - harmonic[N]
    within = np.where(c > 1, (r - 1) / np.maximum(c - 1, 1), 0.0) * (c - (N + 1) * H)
    return r / c * H, r / c * (H + within)


def _of_tied(
    c: Counts, r: Counts, N: int, R: int, cuts: Int[np.ndarray, " cuts"]
) -> tuple[float, Float[np.ndarray, " cuts"]]:
    """Return both sums over words that come in random order, after N places, R of them marked."""
    total, found = 0.0, np.zeros(len(cuts))
    sizes, size_of = np.unique(c, return_inverse=True)
    probability, others, same = _before(c, r, sizes, size_of)
    after = N + np.arange(len(probability[0]))
    hits = np.bincount(size_of, weights=r)
    # Words of the same size and marks come after the same: each such kind is added once.
    kinds, counts = np.unique(np.stack([size_of, r]), axis=1, return_counts=True)
    for g, marks, times in zip(*kinds.tolist(), counts.tolist(), strict=True):
        if not marks:
            continue
        P = probability[g]
        before = R * P + others[g] + (hits[g] - marks) * same[g]
        size = np.full(len(after), sizes[g])
        slope, level = _coefficients(size, np.full(len(after), marks), after)
        total += times * float(slope @ before + level @ P)
        inside = np.clip(cuts[:, None] - after, 0, sizes[g]) @ P
        found += times * marks / sizes[g] * inside
    return total, found


def _before(
    c: Counts, r: Counts, sizes: Int[np.ndarray, " g"], size_of: Int[np.ndarray, " w"]
) -> tuple[Float[np.ndarray, "g n"], Float[np.ndarray, "g n"], Float[np.ndarray, "g n"]]:
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
    probability, others, same = np.fft.irfft(sums, n)
    return probability, others, same


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
