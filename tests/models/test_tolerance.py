"""A tolerance for sampled scores of other people's models: met, or said that it is not."""

import numpy as np
import pytest

import limelight

from tiny_models import tiny_model

TEXT = " ".join(f"w{i}" for i in range(14))  # too long for all masks
SETTINGS = {
    "lime": {"samples": 100},
    "lime-sampled": {"samples": 100},
    "shapley": {"pairs": 12},
}
DRAWN = {"lime": "samples_drawn", "lime-sampled": "samples_drawn", "shapley": "pairs_drawn"}


def function():
    paper = tiny_model(2, outputs=3, scale=0.6, T_max=17)
    return limelight.wrap(paper.logits, classes=paper.classes, scale="logit", mask="zzz")


def scikit():
    """Normalized counts: the log-odds are not linear, so values are uncertain."""
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(C=30))
    pipeline.fit(["w1 w5 w2", "w8 w11 w7", "w5 w9", "w7 w4"], [1, 0] * 2)
    return limelight.wrap(pipeline.predict_proba, classes=["0", "1"])  # the pipeline is exact


def transformer():
    pytest.importorskip("transformers")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    return limelight.wrap(network, tokenizer=tokenizer)


MODELS = (
    (function, TEXT),
    (scikit, TEXT),
    (transformer, "a superb film, but the plot is predictable. good or bad acting!"),
)
everywhere = pytest.mark.parametrize(("make", "text"), MODELS)


@everywhere
@pytest.mark.parametrize("method", SETTINGS)
def test_it_is_met_for_every_score(make, text, method):
    model = make()
    subset = limelight.explain(model, text, method, **SETTINGS[method])
    options = {**SETTINGS[method], "tolerance": float(subset.stderr.max()) / 3}
    e = limelight.explain(model, text, method, **options)
    assert 0 < e.stderr.max() <= options["tolerance"]
    assert e.diagnostics[DRAWN[method]] > subset.diagnostics[DRAWN[method]]
    assert e.settings["tolerance"] == options["tolerance"]
    assert not any("tolerance" in warning for warning in e.warnings)
    again = limelight.explain(model, text, method, **options)
    np.testing.assert_array_equal(e.scores, again.scores)


@everywhere
@pytest.mark.parametrize(
    ("method", "most", "name"),
    [
        ("lime", 150, "max_samples"),
        ("lime-sampled", 150, "max_samples"),
        ("shapley", 14, "max_pairs"),
    ],
)
def test_an_unreachable_tolerance_gives_a_warning(make, text, method, most, name):
    model = make()
    subset = limelight.explain(model, text, method, **SETTINGS[method])
    tolerance = float(subset.stderr.max()) / 100
    options = {**SETTINGS[method], "tolerance": tolerance, name: most}
    e = limelight.explain(model, text, method, **options)
    assert e.diagnostics[DRAWN[method]] == most
    worst = float(e.stderr.max())
    assert worst > tolerance
    assert e.warnings[-1] == (
        f"The largest standard error after {most} samples is {worst:.2g}, above the tolerance "
        f"{tolerance:.2g}. Raise max_samples, or max_pairs for 'shapley'."
    )


def test_scores_are_within_a_few_tolerances_of_the_long_run():
    model, tolerance = function(), 1e-4
    long = limelight.explain(model, TEXT, "shapley", pairs=4000, seed=1)
    e = limelight.explain(model, TEXT, "shapley", pairs=12, tolerance=tolerance)
    assert long.stderr is None  # so many calls that all masks are asked instead
    assert e.stderr is not None
    assert (np.abs(e.scores - long.scores) <= 5 * tolerance).all()
    assert np.abs(e.scores).max() > 100 * tolerance
