"""The mean of word vectors under a linear head, against all subsets; models by module:object."""

import pickle
import sys

import numpy as np
import pytest

import limelight
from limelight.theory.enumeration import all_keeps, shapley_weights

WORDS = ("good", "bad", "film", "plot", "dull")
VECTORS = dict(zip(WORDS, np.random.default_rng(0).normal(size=(5, 3)).tolist(), strict=True))
HEAD = np.random.default_rng(1).normal(size=(2, 3))


def by_hand(words, weights, bias):
    if not words:
        return bias
    w = np.array([weights.get(word, 1.0) for word in words])
    return HEAD @ (w @ np.array([VECTORS[word] for word in words]) / w.sum()) + bias


@pytest.mark.parametrize("always", [(), ("bad",)])
@pytest.mark.parametrize("features", ["words", "positions"])
@pytest.mark.parametrize("weights", [None, {"good": 3.0, "film": 0.2}])
def test_the_mean_of_word_vectors_is_explained_exactly(weights, features, always):
    model = limelight.pooling_classifier(
        VECTORS, HEAD, [0.5, -1.0], classes=["no", "yes"], weights=weights, always=always
    )
    text = "Good film, unheard of: a good plot, dull."
    e = limelight.explain(model, text, "shapley", target="yes", features=features, tolerance=1e-9)
    places = [[text[a:b].lower() for a, b in spans] for spans in e.spans]
    keep = all_keeps(len(places))
    f = [
        by_hand(
            [
                *always,
                *(
                    w
                    for row, kept in zip(places, mask, strict=True)
                    if kept
                    for w in row
                    if w in VECTORS
                ),
            ],
            weights or {},
            np.array([0.5, -1.0]),
        )
        @ [-1, 1]  # log-odds
        for mask in keep
    ]
    assert np.abs(e.scores - np.array(f) @ shapley_weights(len(places))).max() <= e.bound
    nothing = by_hand(always, weights or {}, np.array([0.5, -1.0]))
    assert e.base_value == pytest.approx(nothing[1] - nothing[0])
    whole = np.diff(model.logits([text])[0])[0]
    assert e.base_value + e.scores.sum() == pytest.approx(whole, abs=1e-6)
    again = limelight.explain(pickle.loads(pickle.dumps(model)), text, "shapley", target="yes")
    assert again.model == e.model


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vectors": {}}, "needs the vector of one word at least"),
        ({"vectors": {"good": [1.0, 2.0]}}, r"got head \(2, 3\), vectors \(1, 2\)"),
        (
            {"vectors": {"good": [1.0, 2.0, 3.0], "bad": [1.0]}},
            "rows of numbers, all of one length",
        ),
        ({"head": np.ones((3, 3))}, r"a row for each of 2 classes, .* got head \(3, 3\)"),
        ({"bias": [1.0]}, r"a number for each row; .* bias \(1,\)"),
        ({"weights": {"good": -1.0}}, "must be positive and finite"),
        ({"head": "x"}, "head must be rows of numbers"),
        ({"always": ["</s>"]}, "always names '</s>', which has no vector"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(given, sentence):
    usual = {"vectors": VECTORS, "head": HEAD, "classes": ["no", "yes"]}
    with pytest.raises(limelight.InputError, match=sentence):
        limelight.pooling_classifier(**{**usual, **given})


def test_a_model_of_a_module_is_loaded_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "my_classifiers.py").write_text(
        "import limelight\n"
        "mean = limelight.pooling_classifier({'good': [1.0]}, [[2.0]], classes=['no', 'yes'])\n"
        "class inner:\n    mean = mean\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("my_classifiers:mean", "my_classifiers:inner.mean"):
        assert limelight.load(name).logits(["good"]) == pytest.approx(2.0)
    with pytest.raises(limelight.InputError, match="there is no model 'my_classifiers:other'"):
        limelight.load("my_classifiers:other")
    with pytest.raises(limelight.InputError, match="there is no model 'no_such_module:thing'"):
        limelight.load("no_such_module:thing")
    sys.modules.pop("my_classifiers")
