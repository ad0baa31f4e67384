"""Owen values of texts: sentences, words that several sentences share, totals."""

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
TEXT = "w1 w5. never w5 w8! w9"


def asked(**question):
    return limelight.explain(MODEL, TEXT, "owen", target=0, tolerance=1e-9, **question)


def test_scores_and_sentence_totals_add_up():
    e = asked()
    totals = [one["score"] for one in e.diagnostics["sentences"]]
    change = e.prediction["class 0"] - e.base_value
    assert np.isclose(e.scores.sum(), change, atol=1e-7)
    assert np.isclose(sum(totals), change, atol=1e-7)
    assert [one["text"] for one in e.diagnostics["sentences"]] == ["w1 w5.", "never w5 w8!", "w9"]
    assert [TEXT[slice(*one["span"])] for one in e.diagnostics["sentences"]] == [
        one["text"] for one in e.diagnostics["sentences"]
    ]


def test_sentence_totals_are_the_shapley_values_of_sentences():
    totals = [one["score"] for one in asked().diagnostics["sentences"]]
    whole = limelight.explain(
        MODEL, TEXT, "shapley", features="sentences", target=0, tolerance=1e-9
    )
    np.testing.assert_allclose(totals, whole.scores, atol=1e-7)


def test_a_word_of_several_sentences_is_the_sum_of_its_shares_and_a_notice_says_so():
    words, places = asked(), asked(features="positions")
    assert words.features[1] == "w5"
    at = {string: [i for i, s in enumerate(places.features) if s == string] for string in ("w5",)}
    # Inside a sentence here no word repeats, so that positions are the shares.
    assert np.isclose(words.scores[1], places.scores[at["w5"]].sum(), atol=1e-7)
    assert words.notices[1] == (
        "1 feature occurs in several sentences (w5): each sentence's share is a player of its "
        "own, and the score is the sum of them."
    )
    assert not any("several sentences" in notice for notice in places.notices)


def test_the_bound_of_a_sum_keeps_the_tolerance():
    text = ". ".join(["w1 w5 w8"] * 4)
    e = limelight.explain(MODEL, text, "owen", target=0, tolerance=1e-6)
    plain = limelight.explain(MODEL, text, "shapley", target=0, tolerance=1e-6)
    assert e.bound <= 1.5 * plain.bound  # although every word is the sum of four


def test_it_differs_from_shapley_values_of_words():
    plain = limelight.explain(
        MODEL, TEXT, "shapley", features="positions", target=0, tolerance=1e-9
    )
    assert np.abs(asked(features="positions").scores - plain.scores).max() > 1e-4


def test_one_sentence_is_shapley():
    e = limelight.explain(MODEL, "w1 w5 w8 w9", "owen", tolerance=1e-9)
    plain = limelight.explain(MODEL, "w1 w5 w8 w9", "shapley", tolerance=1e-9)
    np.testing.assert_allclose(e.scores, plain.scores, atol=1e-8)
    assert e.notices == ()


def test_protected_words_are_no_players():
    e = asked(protect=["w9", "w5"])
    assert "w5" not in e.features
    assert len(e.diagnostics["sentences"]) == 2


def test_probabilities_and_other_models_are_refused():
    with pytest.raises(limelight.InputError, match="a formula for logits only"):
        asked(scale="probability")
    function = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
    with pytest.raises(
        limelight.InputError, match="method 'owen' needs a model that is a quotient of sums"
    ):
        limelight.explain(function, TEXT, "owen")


def test_a_tolerance_is_refused_as_it_was_given():
    """Not as the share of it that a word of two sentences would have."""
    with pytest.raises(InputError, match=r"tolerance must lie between 0 and 1; got -1\.0\."):
        limelight.explain(tiny_model(), "w1 w2 . w2 w3", "owen", tolerance=-1)
