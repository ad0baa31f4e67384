"""What a penalty and row 0 add to LIME's scatter, against all subsets one by one."""

import math

import numpy as np
import pytest

from limelight.theory.enumeration import enumerate_masks
from limelight.theory.lime_shift import shift_scatter


def scatter_of_all_subsets(beta, *, bandwidth, samples, ridge, row0, power, left):
    """√E[w² κ² (δ·x)²] of a linear function, but for the whole text, which is ``left`` more."""
    d, keep = len(beta), enumerate_masks(len(beta))
    s = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - np.arange(d + 1) / d)) ** 2) / (2 * bandwidth**2))
    draws = psi**power / np.sum(psi[1:] ** power)
    draws[0] = 0.0
    chance = (draws / [math.comb(d, k) for k in range(d + 1)])[s]
    weight = np.divide(psi, d * draws, out=np.zeros(d + 1), where=draws > 0)[s]
    X = np.column_stack([np.ones(len(keep)), keep])
    f, full = X @ np.r_[0.7, beta], np.ones(d + 1)
    G = (X.T * (chance * weight)) @ X + row0 / samples * np.outer(full, full)
    inverse = np.linalg.inv(G + ridge / samples * np.diag([0.0] + [1.0] * d))
    right = (X.T * (chance * weight)) @ f + row0 / samples * (0.7 + beta.sum() + left) * full
    over = f - X @ (inverse @ right)
    terms = (X @ inverse)[:, 1:] * (weight * over)[:, None]
    return np.sqrt(chance @ terms**2)


@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize("bandwidth", [0.25, np.inf])
@pytest.mark.parametrize(("ridge", "row0"), [(1.0, True), (30.0, False), (0.0, True)])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_it_is_what_all_subsets_leave_over(d, bandwidth, ridge, row0, power):
    beta = np.random.default_rng(d).normal(size=d) + 0.4
    settings = {"bandwidth": bandwidth, "ridge": ridge, "row0": row0, "power": power}
    expected = scatter_of_all_subsets(beta, samples=40, left=0.8, **settings)
    result = shift_scatter(beta, 0.8, samples=40, **settings)
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


def test_each_word_may_have_samples_of_its_own():
    scores, value = np.array([1.0, -2.0, 0.5]), np.array([10, 200, 3000])
    together = shift_scatter(scores, 0.3, samples=value)
    single = [shift_scatter(scores, 0.3, samples=int(n))[j] for j, n in enumerate(value)]
    np.testing.assert_allclose(together, single, rtol=1e-12)
