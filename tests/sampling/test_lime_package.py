"""The `lime` package as the oracle: the same rows must give the same numbers."""

import numpy as np
import pytest
from lime.lime_base import LimeBase
from lime.lime_text import IndexedString, LimeTextExplainer

from limelight.sampling.masks import draw_lime_masks
from limelight.sampling.regression import fit_sampled_lime
from limelight.sampling.sample import Sample
from limelight.theory.lime_weights import size_weight

N, D, M = 257, 11, 3


class Replayed:
    """Given rows instead of random ones."""

    def __init__(self, keep, weight):
        self.keep, self.weight, self.d, self.at = keep, weight, keep.shape[1], 0

    def __call__(self, n, rng):  # noqa: ARG002
        rows = slice(self.at, self.at + n)
        self.at += n
        return self.keep[rows], self.weight[rows]


def bumpy(keep):
    """A game with interactions, three outputs."""
    rng = np.random.default_rng(3)
    A, B = rng.standard_normal((2, keep.shape[1], M))
    return np.tanh(keep @ A) + (keep @ B) ** 2 / 10 + 5.0


def ours(keep, weight, *, game=bumpy, **settings):
    sampler, rng = Replayed(keep[1:], weight[1:]), np.random.default_rng(0)
    sample = Sample(game, sampler, rng, d=keep.shape[1], row0=True)
    sample.grow(len(keep))
    return fit_sampled_lime(sample, **settings)


def theirs(keep, distance, column, *, num_features, feature_selection="auto", labels=None):
    explainer = LimeTextExplainer(random_state=0)
    base: LimeBase = explainer.base
    labels = bumpy(keep) if labels is None else labels
    intercept, pairs, r2, _ = base.explain_instance_with_data(
        keep.astype(float), labels, distance, column, num_features, feature_selection
    )
    beta = np.zeros(keep.shape[1])
    for j, score in pairs:
        beta[j] = score
    return beta, intercept, r2


def rows(d=D, n=N, seed=0):
    samples = draw_lime_masks(d, n - 1, np.random.default_rng(seed))
    keep = np.concatenate([np.ones((1, d), bool), samples])
    return keep, cosine_distance(keep), size_weight(d, 0.25)[d - keep.sum(axis=1)]


def cosine_distance(keep):
    """100 (1 − √(k/d)) of k kept words out of d, which the package hands to its kernel."""
    return 100 * (1 - np.sqrt(keep.mean(axis=1)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("num_features", "selection"),
    [
        (D, "auto"),
        (3, "auto"),
        (6, "auto"),
        (7, "auto"),
        (9, "forward_selection"),
        (2, "highest_weights"),
        (5, "none"),
    ],
)
def test_the_same_rows_give_the_coefficients_of_the_package(num_features, selection, seed):
    keep, distance, weight = rows(seed=seed)
    fit = ours(keep, weight, num_features=num_features, feature_selection=selection)
    for column in range(M):
        beta, intercept, r2 = theirs(
            keep, distance, column, num_features=num_features, feature_selection=selection
        )
        np.testing.assert_allclose(fit.scores[column], beta, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(fit.intercept[column], intercept, rtol=1e-9)
        np.testing.assert_allclose(fit.r2[column], r2, rtol=1e-9)
        assert np.count_nonzero(fit.scores[column]) == fit.selected_count[column]


def test_the_same_rows_give_the_coefficients_of_the_package_at_full_size():
    keep, distance, weight = rows(d=120, n=5000)
    fit = ours(keep, weight, num_features=10)
    beta, intercept, _ = theirs(keep, distance, 1, num_features=10)
    np.testing.assert_allclose(fit.scores[1], beta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fit.intercept[1], intercept, rtol=1e-9)


@pytest.mark.parametrize("seed", range(9))
def test_the_penalties_of_selection_and_fit_are_those_of_the_package_on_few_rows(seed):
    keep, distance, weight = rows(n=2 * D, seed=seed)
    fit = ours(keep, weight, num_features=7)
    for column in range(M):
        beta, _, _ = theirs(keep, distance, column, num_features=7)
        np.testing.assert_allclose(fit.scores[column], beta, rtol=1e-9, atol=1e-11)


def test_the_comparison_can_fail():
    keep, distance, weight = rows()
    beta, _, _ = theirs(keep, distance, 0, num_features=D)
    other = ours(keep, weight, ridge=1.001).scores[0]
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(other, beta, rtol=1e-9, atol=1e-11)


def capture_masks(words, n=400):
    """Masks and distances that the package itself draws."""
    text = IndexedString(" ".join(words))
    explainer = LimeTextExplainer(random_state=1)
    draw = explainer._LimeTextExplainer__data_labels_distances
    data, _, distance = draw(text, lambda texts: np.zeros((len(texts), 2)), n)
    return explainer, data.astype(bool), distance


def test_distances_and_weights_are_those_of_the_package_on_its_own_masks():
    explainer, keep, distance = capture_masks(["a", "b", "c", "d", "e", "f", "g"])
    assert not keep.any(axis=1).all()  # a mask that keeps nothing is among them
    np.testing.assert_allclose(cosine_distance(keep), distance, rtol=0, atol=2e-12)
    weight = explainer.base.kernel_fn(distance)
    ours = size_weight(7, 0.25)[7 - keep.sum(axis=1)]
    np.testing.assert_allclose(ours, weight, rtol=1e-12)


def test_masks_have_the_distribution_of_the_package():
    d, n = 5, 20_000
    _, keep, _ = capture_masks([f"v{i}" for i in range(d)], n=n)
    samples = draw_lime_masks(d, n - 1, np.random.default_rng(2))
    code = 2 ** np.arange(d)
    counts = [np.bincount(masks @ code, minlength=2**d) for masks in (keep[1:], samples)]
    assert counts[0][-1] == counts[1][-1] == 0  # some word is always removed
    total = sum(counts)[:-1]
    difference = (counts[0] - counts[1])[:-1]
    chi2 = float((difference**2 / np.maximum(total, 1)).sum())
    assert chi2 < 31 + 5 * np.sqrt(2 * 31)
