"""Models of two classes, of every family, that answer in milliseconds."""

import numpy as np
import pytest

import limelight
from limelight.models import class_probabilities

from tiny_models import tiny_model

TEXT = "superb film but the plot is bad"
WORDS = TEXT.split()
# Every word of the tiny model, each once.
SPELT = dict(zip(WORDS, ("w1", "w2", "w3", "w4", "w5", "w6", "w7"), strict=True))


def logits_of_words(texts):
    """Two outputs of which neither is the other's negative, and no constant cancels them."""
    rows = []
    for text in texts:
        words = text.split()
        superb, bad, plot = (words.count(word) for word in ("superb", "bad", "plot"))
        rows.append([0.4 + bad - 0.7 * plot * bad, 1.1 + 2.3 * superb - 0.6 * superb * plot])
    return np.array(rows)


def fit_count_pipeline(classifier):
    """Return a pipeline of counts and the classifier of that name."""
    pytest.importorskip("sklearn")
    from sklearn import linear_model, naive_bayes
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    kind = getattr(naive_bayes, classifier, None) or getattr(linear_model, classifier)
    texts = ["superb film", "superb plot but the film is superb", "bad film", "the plot is bad"]
    return make_pipeline(CountVectorizer(), kind()).fit(texts, ["yes", "yes", "no", "no"])


def network():
    pytest.importorskip("transformers")
    from models.tiny_transformers import tiny

    bert, tokenizer = tiny("bert", labels=2)
    return limelight.wrap(bert, tokenizer=tokenizer)


FAMILIES = {
    "attention, two outputs": lambda: tiny_model(3, outputs=2, scale=0.5),
    "attention, one output": lambda: tiny_model(3, outputs=1, scale=0.5),
    "network": network,
    "function of logits": lambda: limelight.wrap(
        logits_of_words, classes=["no", "yes"], scale="logit"
    ),
    "function of one logit": lambda: limelight.wrap(
        lambda texts: logits_of_words(texts)[:, :1], classes=["no", "yes"], scale="logit"
    ),
    "function of probabilities": lambda: limelight.wrap(
        lambda texts: class_probabilities(logits_of_words(texts)), classes=["no", "yes"]
    ),
    "naive Bayes": lambda: limelight.wrap(fit_count_pipeline("MultinomialNB")),
    "complement naive Bayes": lambda: limelight.wrap(fit_count_pipeline("ComplementNB")),
    "logistic regression": lambda: limelight.wrap(fit_count_pipeline("LogisticRegression")),
}


def sample_text(name):
    return " ".join(SPELT.values()) if name.startswith("attention") else TEXT
