import numpy as np
import pytest

import limelight
from limelight.data import LabeledTexts, evaluate

from tiny_models import random_texts, tiny_model


def parrot(texts):
    """Give a text the class that it names."""
    return np.array([[0.25 + 0.5 * (name == text) for name in "abc"] for text in texts])


def test_confusion_precision_and_recall_by_hand():
    data = LabeledTexts(list("aabbba"), np.array([0, 0, 0, 1, 1, 1]), ("a", "b", "c"), "hand")
    result = evaluate(limelight.wrap(parrot, classes=list("abc"), multi_label=True), data)
    np.testing.assert_array_equal(result.confusion, [[2, 1, 0], [1, 2, 0], [0, 0, 0]])
    assert result.accuracy == pytest.approx(4 / 6)
    json_dict = result.to_dict()
    assert json_dict["classes"][0] == {
        "class": "a",
        "count": 3,
        "precision": 2 / 3,
        "recall": 2 / 3,
    }
    assert json_dict["classes"][2] == {"class": "c", "count": 0, "precision": None, "recall": None}
    assert (json_dict["texts"], json_dict["data"]) == (6, "hand")


def test_chunks_and_progress_cover_every_text_once():
    model, texts = tiny_model(), random_texts(1201)
    labels = model.predict_proba(texts).argmax(axis=1)
    seen = []
    data = LabeledTexts(texts, labels, model.classes)
    result = evaluate(model, data, progress=lambda done, total: seen.append((done, total)))
    assert result.accuracy == 1
    assert result.texts == 1201
    assert seen == [(500, 1201), (1000, 1201), (1201, 1201)]
