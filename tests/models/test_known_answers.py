"""Models whose answers are known: TF-IDF on real reviews, and the paper's classifier as a function.

Without normalization the logit is linear in the counts, so every method must find the weights;
with it, all subsets of a short sentence are asked.
"""

import re
from dataclasses import asdict
from itertools import product

import numpy as np
import pytest
from all_subsets import lime_by_subsets, shapley_by_subsets

import limelight
from limelight.models.scikit import wrap_scikit
from limelight.text import tokenize

from tiny_models import tiny_model

TOKEN = re.compile(r"(?u)\b\w\w+\b")  # scikit-learn's


@pytest.fixture(scope="module")
def reviews(shared):
    pytest.importorskip("pyarrow")
    from limelight.data import read_labeled

    data = read_labeled(shared / "data" / "imdb" / "train.parquet", labels=("negative", "positive"))
    chosen = np.random.default_rng(0).permutation(len(data.texts))[:1500]
    return [data.texts[i] for i in chosen], [int(data.labels[i]) for i in chosen]


def fit_pipeline(reviews, **options):
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts, labels = reviews
    weak = LogisticRegression(C=options.pop("C"), max_iter=1000)
    return make_pipeline(TfidfVectorizer(**options), weak).fit(texts, labels)


def word_weights(pipeline):
    tfidf, regression = pipeline[0], pipeline[1]
    names = tfidf.get_feature_names_out()
    return dict(zip(names, tfidf.idf_ * regression.coef_[0], strict=True))


def text_with_length(reviews, count):
    texts = (text.replace("<br />", " ") for text in reviews[0])
    return min(texts, key=lambda text: abs(len(text.split()) - count))


@pytest.mark.parametrize("method", ["loo", "shapley", "lime", "lime-sampled"])
def test_a_linear_model_of_real_reviews_has_known_scores(reviews, method):
    pipeline = fit_pipeline(reviews, C=1e-4, norm=None)
    model = wrap_scikit(pipeline, mask=".")  # a stop keeps the words beside it apart
    text = text_with_length(reviews, 60)
    more = {"lime-sampled": {"ridge": 0.0}, "shapley": {"pairs": 3}}.get(method, {})
    e = limelight.explain(model, text, method, **more)
    weight = word_weights(pipeline)
    reference = [
        len(places) * sum(weight.get(token, 0.0) for token in TOKEN.findall(word.lower()))
        for word, places in zip(e.features, e.spans, strict=True)
    ]
    assert np.abs(reference).max() > 0.03
    np.testing.assert_allclose(e.scores, reference, atol=1e-7)
    assert e.base_value == pytest.approx(pipeline[1].intercept_[0], abs=1e-9)
    assert (e.stderr is None) == (method == "loo")
    if e.stderr is not None:  # nothing varied, which is not the same as certainty
        assert 0 < e.stderr.max() < 0.1
        assert any("may be missing" in warning for warning in e.warnings)
    shifted = np.roll(reference, 1)
    assert not np.allclose(e.scores, shifted, atol=1e-7)


@pytest.fixture(scope="module")
def subset_outputs(reviews):
    """A normalized model, a sentence of nine words, and the logit of each of its subsets."""
    pipeline = fit_pipeline(reviews, C=10.0)
    model = limelight.wrap(pipeline.predict_proba, classes=["negative", "positive"])  # asked
    weight = word_weights(pipeline)
    strong = sorted(weight, key=lambda word: -abs(weight[word]))[:40]
    words = ["the", *strong[::5]]
    masks = np.array(list(product([False, True], repeat=len(words))))
    texts = [" ".join(w for w, keep in zip(words, row, strict=True) if keep) for row in masks]
    value = pipeline.decision_function(texts)
    return model, " ".join(words), masks, value


@pytest.mark.usefixtures("short_texts_are_sampled")
def test_shapley_values_of_a_normalised_model_are_those_of_all_subsets(subset_outputs):
    model, text, masks, value = subset_outputs
    d, exact = masks.shape[1], shapley_by_subsets(masks, value)
    every = limelight.explain(model, text, "shapley", pairs=400)
    np.testing.assert_allclose(every.scores, exact, atol=1e-7)
    e = limelight.explain(model, text, "shapley", pairs=30)  # fewer calls than there are masks
    assert (np.abs(e.scores - exact) <= 5 * e.stderr + 1e-9).all()
    assert 0 < e.stderr.max() < 0.1 * np.abs(exact).max()
    assert not (np.abs(e.scores - value[-1] / d) <= 5 * e.stderr + 1e-9).all()


@pytest.mark.usefixtures("short_texts_are_sampled")
def test_lime_of_a_normalised_model_is_least_squares_on_all_subsets(subset_outputs):
    model, text, masks, value = subset_outputs
    solution = lime_by_subsets(masks, value)
    every = limelight.explain(model, text, "lime", samples=4000)
    np.testing.assert_allclose(every.scores, solution[1:], atol=1e-7)
    for sizes in ("uniform", "balanced", "importance"):
        e = limelight.explain(model, text, "lime", samples=500, sizes=sizes)
        assert (np.abs(e.scores - solution[1:]) <= 5 * e.stderr).all(), sizes
        assert abs(e.intercept - solution[0]) <= 5 * e.diagnostics["intercept_stderr"]
        assert 0 < e.stderr.max() < 0.1 * np.abs(solution).max()
        assert not (np.abs(e.scores - 2 * solution[1:]) <= 5 * e.stderr).all()


def test_anchors_of_the_papers_classifier_as_a_function_hold_as_often_as_all_masks_say():
    paper = tiny_model(3, outputs=3, scale=0.6, T_max=17)
    words = [f"w{i}" for i in (1, 5, 2, 8, 11, 7, 3, 9, 4, 14, 6, 12)]
    text, d = " ".join(words), len(words)
    function = limelight.wrap(
        paper.logits,
        classes=paper.classes,
        scale="logit",
        mask="zzz",
        words=lambda arguments: tokenize(arguments).spans,
    )
    options = {"samples": 500, "threshold": 0.9, "batch": 50, "max_samples": 20_000}
    ours, e = (limelight.explain(m, text, "anchors", **options) for m in (paper, function))
    assert asdict(e.anchor) == asdict(ours.anchor)
    np.testing.assert_allclose(e.scores, ours.scores, atol=1e-12)
    contained = list(e.anchor.features)
    assert contained
    assert e.diagnostics["precision_by"] == "sampling"

    def precision(kept):
        masks = np.array(list(product([False, True], repeat=d)))
        masks = masks[masks[:, kept].all(axis=1)]
        texts = [
            " ".join(w if k else "zzz" for w, k in zip(words, row, strict=True)) for row in masks
        ]
        best = paper.logits([text]).argmax()
        return float((paper.logits(texts).argmax(axis=1) == best).mean())

    exact = precision(contained)
    error = np.sqrt(exact * (1 - exact) / 500)
    assert abs(e.anchor.precision - exact) <= 5 * error + 1e-12
    for j in contained:
        loss = exact - precision([i for i in contained if i != j])
        sign = 1 if e.diagnostics["holds"] == e.target else -1
        assert abs(sign * e.scores[j] - loss) <= 5 * e.stderr[j] + 1e-12
        assert loss > 0
