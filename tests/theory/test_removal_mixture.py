import numpy as np
import pytest
from scipy.stats import binom

from limelight.theory.lime_weights import size_weight
from limelight.theory.removal_mixture import removal_mixture, size_probabilities


@pytest.mark.parametrize("n", [1, 2, 19, 255, 2048])
def test_size_probabilities_are_binomial(n):
    p = np.asarray([1e-3, 0.2, 0.5, 0.97])
    want = binom.pmf(np.arange(n + 1)[:, None], n, p)
    np.testing.assert_allclose(size_probabilities(n, p), want, rtol=1e-10, atol=1e-290)


@pytest.mark.parametrize(("n", "nodes"), [(50, 29), (105, 41), (255, 60)])
@pytest.mark.parametrize("bandwidth", [0.25, np.inf])
def test_a_few_removal_probabilities_give_limes_weights(n, nodes, bandwidth):
    target = size_weight(n, bandwidth) / n
    mixture = removal_mixture(target, np.ones(n + 1), tolerance=1e-9, ignores_ends=True)
    missed = binom.pmf(np.arange(n + 1)[:, None], n, mixture.p) @ mixture.omega - target
    assert np.abs(missed[1:-1]).sum() <= 1e-9
    assert (np.abs(missed[1:-1]) <= mixture.residual[1:-1] * (1 + 1e-3) + 1e-18).all()
    assert len(mixture.p) <= nodes
    assert np.abs(mixture.omega).sum() < 1.2  # no cancellation


def test_uniform_sizes_are_gauss_legendre():
    mixture = removal_mixture(np.full(8, 1 / 8), np.ones(8), tolerance=1e-9)
    np.testing.assert_allclose(mixture.attained, 1 / 8, rtol=1e-9)


def test_too_few_nodes_would_be_noticed():
    target = size_weight(105, 0.25) / 105
    mixture = removal_mixture(target, np.ones(106), tolerance=1e-3)
    assert mixture.residual.sum() > 1e-9
