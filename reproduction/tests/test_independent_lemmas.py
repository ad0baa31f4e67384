"""The paper's lemmas by counting, in exact fractions."""

import itertools
import math
from fractions import Fraction as Q

import numpy as np
import pytest

from limelight_reproduction.lemmas import (
    conditional_mean,
    conditional_variance,
    expected_ratio_bound,
    kept_given_kept,
    kept_probability,
    limit_at_finite_d,
    limit_of_many_words,
    mixed_probability,
    ratio_integral,
    removed_given_kept,
)


def subsets(n, s):
    return [frozenset(S) for S in itertools.combinations(range(n), s)]


def share(sets, holds):
    return Q(sum(map(holds, sets)), len(sets))


# ------------------------------------------------------------- Lemmas D.4, D.5


@pytest.mark.parametrize("n", [3, 4, 7])
def test_lemma_d4_by_counting(n):
    a, b, c = 0, 1, 2
    for s in range(n + 1):
        sets = subsets(n, s)
        counted = [
            share(sets, lambda S: a not in S),
            share(sets, lambda S: a not in S and b not in S),
            share(sets, lambda S: a not in S and b in S),
            share(sets, lambda S: not S & {a, b, c}),
            share(sets, lambda S: a not in S and b in S and c not in S),
        ]
        assert counted == [
            Q(n - s, n),
            Q((n - s) * (n - 1 - s), n * (n - 1)),
            Q(s * (n - s), n * (n - 1)),
            Q((n - s) * (n - s - 1) * (n - s - 2), n * (n - 1) * (n - 2)),
            Q(s * (n - s - 1) * (n - s), n * (n - 1) * (n - 2)),
        ]
        results = [
            kept_probability(n, s),
            kept_probability(n, s, words=2),
            mixed_probability(n, s),
            kept_probability(n, s, words=3),
            mixed_probability(n, s, kept_words=2),
        ]
        assert results == pytest.approx([float(p) for p in counted], rel=1e-14)


@pytest.mark.parametrize("n", [3, 5, 7])
def test_lemma_d5_by_counting(n):
    a, b, ell = 0, 1, 2
    for s in range(n):
        sets = [S for S in subsets(n, s) if ell not in S]
        counted = [
            share(sets, lambda S: a not in S),
            share(sets, lambda S: a in S),
            share(sets, lambda S: not S & {a, b}),
        ]
        assert counted == [
            Q(n - 1 - s, n - 1),
            Q(s, n - 1),
            Q((n - s - 1) * (n - s - 2), (n - 1) * (n - 2)),
        ]
        results = [
            kept_given_kept(n, s),
            removed_given_kept(n, s),
            kept_given_kept(n, s, words=2),
        ]
        assert results == pytest.approx([float(p) for p in counted], abs=1e-14)


# -------------------------------------------------------------------- Lemma D.3


@pytest.mark.parametrize("n", [3, 5, 6])
def test_lemma_d3_by_counting(n):
    a = [Q(3 * i * i + 1, i + 2) for i in range(n)]
    b = [Q(7, 2 * i + 3) for i in range(n)]
    distance = [x - y for x, y in zip(a, b, strict=True)]
    middle = sum(distance) / n
    spread = sum((x - middle) ** 2 for x in distance) / n
    for s in range(n):
        for ell in range(n):
            sums = [
                sum(b[i] if i in S else a[i] for i in range(n))
                for S in subsets(n, s)
                if ell not in S
            ]
            mean = sum(sums) / len(sums)
            variance = sum((x - mean) ** 2 for x in sums) / len(sums)
            x = Q(s, n - 1)
            assert mean == (1 - x) * sum(a) + x * sum(b) + x * distance[ell]
            assert variance == Q(n * s * (n - s - 1), (n - 1) * (n - 2)) * (
                spread - (distance[ell] - middle) ** 2 / (n - 1)
            )
            floats = np.array(a, float), np.array(b, float), s
            assert conditional_mean(*floats)[ell] == pytest.approx(float(mean), rel=1e-12)
            assert conditional_variance(*floats)[ell] == pytest.approx(float(variance), abs=1e-12)


# -------------------------------------------------------------------- Lemma D.2


def test_lemma_d2_term_by_term():
    """∫₀¹ x (−ax)^k dx and the series of (a − log(1 + a))/a² have the same coefficients."""
    of_integral = [Q((-1) ** k, k + 2) for k in range(30)]
    of_logarithm = [-Q((-1) ** (k + 1), k) for k in range(2, 32)]  # of −log(1 + a), from a² on
    assert of_integral == of_logarithm
    assert of_integral[:2] == [Q(1, 2), -Q(1, 3)]
    for a in (Q(1, 7), Q(-1, 5), Q(1, 3)):
        series = sum(c * a**k for k, c in enumerate(of_integral))
        assert ratio_integral(float(a)) == pytest.approx(float(series), abs=1e-13)


# -------------------------------------------------------------------- Lemma D.1


def d1(c, C, n):
    """X = ±C, Y = cn where X = C and Cn where X = −C: the gap, the bound printed, the right one.

    Both bounds are written out in fractions, and the library's must be the same.
    """
    outcomes = [(C, c * n), (-C, C * n)]
    mean_x, mean_y = (sum(o[i] for o in outcomes) / 2 for i in (0, 1))
    gap = abs(sum(x / y for x, y in outcomes) / 2 - mean_x / mean_y)
    deviation = (C - c) * n / 2  # of Y, whose variance is its square
    first = C * deviation**2 / (c * n) ** 3
    printed, right = (first + x * deviation / (c * n) ** 2 for x in (C**2, C))
    arguments = {"c": float(c), "C": float(C), "n": float(n), "variance": float(deviation**2)}
    assert expected_ratio_bound(**arguments) == pytest.approx(float(right), rel=1e-12)
    assert expected_ratio_bound(**arguments, printed=True) == pytest.approx(
        float(printed), rel=1e-12
    )
    return gap, printed, right


def test_lemma_d1_is_false_as_printed_below_one():
    gap, printed, right = d1(Q(9, 20), Q(1, 2), Q(1))
    assert gap == Q(1, 18) == (Q(1, 2) / Q(9, 20) - 1) / 2
    assert float(printed) == pytest.approx(0.0343, abs=5e-5)
    assert printed < gap < right


def test_lemma_d1_holds_from_one_on_and_with_c_in_place_of_its_square():
    for C in (Q(1, 10), Q(1, 2), Q(1), Q(3, 2), Q(7)):
        for c in (C / 20, C / 2, 9 * C / 10):
            for n in (Q(1), Q(5), Q(40)):
                gap, printed, right = d1(c, C, n)
                assert gap <= right
                assert gap <= printed or C < 1


# ----------------------------------------------------------------------- Eq. 17


def solve_exactly(matrix, right):
    """Gauss's elimination in fractions."""
    rows = [[*row, y] for row, y in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        at = next(r for r in range(i, len(rows)) if rows[r][i])
        rows[i], rows[at] = rows[at], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(len(rows)):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("d", [2, 3, 5])
def test_eq_17_and_its_exact_form(d):
    f = {S: Q((7 * sum(2**i for i in S) ** 2) % 31, 5) for s in range(d + 1) for S in subsets(d, s)}
    weight = {S: Q(1, d * math.comb(d, len(S))) for S in f if S}
    rows = {S: [Q(1), *(Q(i not in S) for i in range(d))] for S in weight}
    normal = [
        [sum(w * rows[S][i] * rows[S][j] for S, w in weight.items()) for j in range(d + 1)]
        for i in range(d + 1)
    ]
    right = [sum(w * rows[S][i] * f[S] for S, w in weight.items()) for i in range(d + 1)]
    beta = solve_exactly(normal, right)[1:]
    mean = sum(w * f[S] for S, w in weight.items())
    m = []
    for j in range(d):
        keep = {S: w for S, w in weight.items() if j not in S}
        m.append(sum(w * f[S] for S, w in keep.items()) / sum(keep.values()))
    common = Q(d - 3, d * (d - 1)) * sum(m) + Q(2, d - 1) * mean
    assert beta == [Q(3 * (d - 1), d + 1) * (m[j] - common) for j in range(d)]
    printed = [3 * m[j] - Q(3, d) * sum(m) for j in range(d)]
    assert printed == [Q(d + 1, d - 1) * (b - sum(beta) / d) for b in beta]
    floats = np.array(m, float)
    np.testing.assert_allclose(
        limit_at_finite_d(floats, np.array(float(mean))), np.array(beta, float), atol=1e-12
    )
    np.testing.assert_allclose(limit_of_many_words(floats), np.array(printed, float), atol=1e-12)
