"""Words of few texts are not among the strongest words of a run."""

import numpy as np
import pytest

import limelight

WEIGHTS = {"superb": 1.0, "awful": -1.0, "unique": 6.0, "film": 0.1}


def predict(texts):
    z = np.array([sum(WEIGHTS.get(word, 0.0) for word in text.split()) for text in texts])
    return np.stack([-z / 2, z / 2], axis=1)


@pytest.fixture
def summarize(tmp_path):
    """Return a function that lists the strongest words of texts, by their kind."""
    model = limelight.wrap(predict, classes=["no", "yes"], scale="logit")

    def list_words(texts, **options):
        run = limelight.explain_data(
            model, texts, "loo", output=tmp_path / "run", progress=False, workers=1
        )
        return {row["word"] for row in run.summary(**options).words.records()}

    return list_words


def make_texts(count, *, rare):
    fillers = [f"w{i}" for i in range(40)]
    return [
        f"film {'superb' if i % 3 else 'awful'} {fillers[i % 40]}{' unique' * (i < rare)} n{i}"
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "rare", "is_listed"),
    [(200, 9, False), (200, 10, True), (50, 4, False), (50, 5, True)],
)
def test_a_word_of_fewer_than_ten_texts_or_a_tenth_is_not_listed(summarize, count, rare, is_listed):
    words = summarize(make_texts(count, rare=rare))
    assert {"superb", "awful"} <= words
    assert ("unique" in words) == is_listed
