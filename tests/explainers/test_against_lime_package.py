"""Exact LIME against the `lime` package on the shipped model: what its samples converge to."""

import numpy as np
import pytest
from lime.lime_text import LimeTextExplainer

import limelight

# Words only: the package splits at everything else. Repeats are features of their own, as with
# features="positions".
TEXT = (
    "a great cast and a brilliant script cannot save this dull film from its awful ending but the "
    "music is beautiful and i loved every minute of the first half"
)
RUNS = {1_250: 8, 5_000: 5, 20_000: 2}  # of each number of samples; 5,000 is the default


def package_coefficients(model, text, *, samples, seed):
    """Coefficients of all positions, as the package computes them with replacement by UNK."""
    explainer = LimeTextExplainer(bow=False, mask_string="UNK", random_state=seed)

    def predict(texts):
        f = model.logits(texts)[:, 0]
        return np.stack([-f, f], axis=1)

    d = len(text.split())
    result = explainer.explain_instance(
        text, predict, labels=(1,), num_features=d, num_samples=samples
    )
    scores = np.zeros(d)
    for position, score in result.as_map()[1]:
        scores[position] = score
    return scores


def rms(x):
    """Root of the mean over runs of the squared L2 distance."""
    return float(np.sqrt((x**2).sum(axis=-1).mean()))


def exact(model, **settings):
    return limelight.explain(
        model, TEXT, "lime", features="positions", tolerance=1e-9, **settings
    ).scores


@pytest.mark.slow
def test_samples_of_the_package_converge_to_the_exact_limit(shipped):
    runs = {
        n: np.stack(
            [package_coefficients(shipped, TEXT, samples=n, seed=seed) for seed in range(count)]
        )
        for n, count in RUNS.items()
    }
    limit = exact(shipped)
    distance = [rms(runs[n] - limit) for n in RUNS]
    slope = np.polyfit(np.log(list(RUNS)), np.log(distance), 1)[0]
    assert -0.62 < slope < -0.38
    assert distance[-1] < 0.01 * np.linalg.norm(limit)

    # At the package's default what is left is its own noise from run to run,
    mean, count = runs[5_000].mean(axis=0), RUNS[5_000]
    noise = rms(runs[5_000] - mean) * np.sqrt(count / (count - 1))
    assert 0.8 < distance[1] / noise < 1.25
    # not a bias that noise hides: the mean of the runs is nearer by the root of their number.
    assert rms(mean - limit) < 1.6 * noise / np.sqrt(count)
    for other in ({"bandwidth": 0.5}, {"bandwidth": np.inf}, {"penalty": 0.01}):
        assert rms(mean - exact(shipped, **other)) > 5 * noise / np.sqrt(count)
