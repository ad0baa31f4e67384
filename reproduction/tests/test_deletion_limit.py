"""LIME of texts whose removed words are really deleted."""

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
from test_patches import image_model
from test_table_rounding import cancelling, cancelling_units, forgotten
from weights_oracle import exact_deletion_game, exact_scores, largest_error

import limelight
from limelight import InputError
from limelight.text import read_image
from limelight_reproduction.deletion_limit import limit_under_deletion

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
TEXT = "w1 w5 never w8 w9"


def deleted_rows():
    """The words that are kept, the output of a text without the others, and its weight."""
    words = TEXT.split()
    d = len(words)
    for size in range(d):
        for combination in combinations(range(d), size):
            psi = np.exp(-((1 - np.sqrt(size / d)) ** 2) / 2)
            ids = MODEL.vocabulary.encode([words[j] for j in combination])
            row = [1.0, *(float(j in combination) for j in range(d))]
            yield row, MODEL.logits_of_ids([ids])[0, 2], psi / comb(d, size)


def test_scores_are_those_of_a_regression_on_all_texts_with_words_deleted():
    e = limit_under_deletion(MODEL, TEXT, target=2, tolerance=1e-10, bandwidth=1.0)
    X, y, w = map(np.array, zip(*deleted_rows(), strict=True))
    beta = np.linalg.solve(X.T @ (w[:, None] * X), X.T @ (w * y))
    np.testing.assert_allclose(e.scores, beta[1:], atol=e.bound + 1e-9)
    assert e.bound < 1e-8


def test_lime_of_the_library_samples_the_same_game():
    exact = limit_under_deletion(MODEL, TEXT, target=2)
    sampled = limelight.explain(MODEL, TEXT, "lime", target=2, replacement="delete")
    # All 2^5 texts are few enough to be asked.
    assert sampled.diagnostics["masks"] == 32
    np.testing.assert_allclose(sampled.scores, exact.scores, atol=exact.bound + 1e-9)
    text = " ".join(f"w{i}" for i in range(1, 13))
    exact = limit_under_deletion(MODEL, text, target=2)
    sampled = limelight.explain(MODEL, text, "lime", target=2, replacement="delete", samples=2000)
    assert sampled.bound is None
    assert (np.abs(sampled.scores - exact.scores) < 5 * sampled.stderr + exact.bound).all()


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("w1 w5 never w5", {}, "'w5' repeats"),
        ("w1 w5 never w8", {"protect": ["w1"]}, "not every token is a feature of its own"),
        ("w1 w5. never", {"features": "sentences"}, "not every token is a feature of its own"),
        ("w1 w2 " * 9, {}, "the last words were cut off"),
    ],
)
def test_a_text_that_has_no_exact_value_is_sampled_as_the_message_says(text, options, reason):
    with pytest.raises(InputError) as caught:
        limit_under_deletion(MODEL, text, **options)
    assert str(caught.value).endswith(
        f"but {reason}. Use method 'lime' with replacement='delete', which samples."
    )
    if options.get("features") != "sentences":  # which are too few for LIME's regression
        assert limelight.explain(MODEL, text, "lime", replacement="delete", **options)


def test_a_head_far_below_the_others_does_not_vanish():
    model, text = tiny_model(), "w1 w2 w3"
    expected = limit_under_deletion(model, text).scores
    tables = model.tables
    low = tables.position_logit - np.array([0.0, 900.0, 0.0])  # no softmax notices a constant
    model.__dict__["tables"] = replace(tables, position_logit=low)
    lowered = limit_under_deletion(model, text).scores
    np.testing.assert_allclose(lowered, expected, rtol=1e-6)


@pytest.mark.parametrize("created", [cancelling, cancelling_units])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_within_the_bound_of_what_the_weights_say(seed, created):
    model, text = created(seed), "w0 w1 w2"
    exact = exact_scores(exact_deletion_game(model, model.read(text)), "lime")
    e = limit_under_deletion(model, text, tolerance=1e-12)
    assert largest_error(e.scores, exact) <= e.bound < 1e-3
    without = limit_under_deletion(forgotten(model), text, tolerance=1e-12)
    assert largest_error(without.scores, exact) > 10 * without.bound


def test_other_models_and_probabilities_raise_an_error():
    function = limelight.wrap(lambda texts: [[0.5, 0.5] for _ in texts], classes=["a", "b"])
    for model, request in ((function, {}), (MODEL, {"scale": "probability"})):
        with pytest.raises(InputError, match="exact for logits of an AttentionClassifier"):
            limit_under_deletion(model, TEXT, **request)


def test_images_are_rejected():
    image = read_image(np.zeros((4, 9), dtype=np.uint8))
    with pytest.raises(InputError, match="needs the words of a text, not an image"):
        limit_under_deletion(image_model(0), image)
