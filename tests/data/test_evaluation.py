import numpy as np
import pytest

import limelight
from limelight.data import LabelledTexts, evaluate, wilson_interval
from limelight.errors import InputError

from tiny_models import random_texts, tiny_model


def parrot(texts):
    """Give a text the class that it names."""
    return np.array([[0.25 + 0.5 * (name == text) for name in "abc"] for text in texts])


def test_confusion_precision_and_recall_by_hand():
    data = LabelledTexts(list("aabbba"), np.array([0, 0, 0, 1, 1, 1]), ("a", "b", "c"), "hand")
    result = evaluate(limelight.wrap(parrot, classes=list("abc"), multi_label=True), data)
    np.testing.assert_array_equal(result.confusion, [[2, 1, 0], [1, 2, 0], [0, 0, 0]])
    assert result.accuracy == pytest.approx(4 / 6)
    told = result.to_dict()
    assert told["classes"][0] == {"class": "a", "count": 3, "precision": 2 / 3, "recall": 2 / 3}
    assert told["classes"][2] == {"class": "c", "count": 0, "precision": None, "recall": None}
    assert (told["texts"], told["data"]) == (6, "hand")


def test_chunks_and_progress_cover_every_text_once():
    model, texts = tiny_model(), random_texts(1201)
    labels = model.predict_proba(texts).argmax(axis=1)
    seen = []
    data = LabelledTexts(texts, labels, model.classes)
    result = evaluate(model, data, progress=lambda done, total: seen.append((done, total)))
    assert result.accuracy == 1
    assert result.texts == 1201
    assert seen == [(500, 1201), (1000, 1201), (1201, 1201)]


def test_the_interval_solves_its_equation():
    """Oracle: at its ends the observed share is z standard errors away."""
    z = 1.959963984540054
    for right, total in ((0, 7), (3, 7), (7, 7), (21_700, 25_000)):
        low, high = wilson_interval(right, total)
        assert low - 1e-12 < right / total < high + 1e-12
        assert low < high
        for end in (low, high):
            distance = abs(right / total - end)
            assert distance == pytest.approx(z * np.sqrt(end * (1 - end) / total), abs=1e-7)


def test_the_interval_reaches_the_end_where_nothing_else_was_seen():
    for total in (1, 7, 10, 37, 25_000):
        assert wilson_interval(0, total)[0] == 0.0
        assert wilson_interval(total, total)[1] == 1.0
        assert 0 < wilson_interval(0, total)[1] < 1


def test_other_classes_are_refused():
    data = LabelledTexts(["w1"], np.array([0]), ("x", "y"), "d.csv")
    with pytest.raises(InputError) as caught:
        evaluate(tiny_model(), data)
    assert str(caught.value).startswith("in 'd.csv' the label 'x' matches no class of the model")


def test_a_text_without_words_names_its_row():
    texts = ["w1"] * 700 + [";;"]
    data = LabelledTexts(texts, np.zeros(701, dtype=int), None, "d.csv")
    with pytest.raises(InputError) as caught:
        evaluate(tiny_model(), data)
    assert str(caught.value) == (
        "row 701 of 'd.csv' cannot be read: the text has no words; give at least one word."
    )
