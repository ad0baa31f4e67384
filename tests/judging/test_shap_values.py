"""judge scores a shap.Explanation: its tokens are mapped to words, or the message says why not."""

import numpy as np
import pytest

import limelight
from limelight import InputError, judge

from tiny_models import random_texts, tiny_model

shap = pytest.importorskip("shap")
MODEL = tiny_model(3)
TEXTS = [text for text in random_texts(40, seed=3, longest=8) if len(set(text.split())) > 3][:12]


def shap_rows(token_lists, value_lists, **fields):
    """A shap.Explanation as the Text masker makes it: a row of tokens for each text."""
    data, values = (np.empty(len(token_lists), dtype=object) for _ in range(2))
    data[:] = [np.array(tokens, dtype=object) for tokens in token_lists]
    values[:] = [np.array(row, dtype=float) for row in value_lists]
    return shap.Explanation(values=values, data=data, base_values=np.zeros(len(values)), **fields)


def shares(methods, **options):
    return {m.method: m.share for m in judge(MODEL, TEXTS, methods, **options).methods}


def test_a_round_trip_through_shap_keeps_the_share():
    explanations = limelight.explain(MODEL, TEXTS, "shapley", target="predicted")
    by_class = limelight.explain(MODEL, TEXTS, "shapley")
    result = shares({"shap": by_class.to_shap(), "stored": list(explanations)})
    assert result["shap"] == pytest.approx(result["stored"], abs=1e-12)
    worst = by_class.to_shap()
    negated = shap_rows([list(row.data) for row in worst], [-row.values * 1.0 for row in worst])
    assert shares({"shap": negated})["shap"] < result["shap"] - 0.5


def test_the_scores_of_tokens_add_up_to_those_of_words():
    explanations = limelight.explain(MODEL, TEXTS, "shapley")
    token_lists, value_lists = [], []
    for text, e in zip(TEXTS, explanations, strict=True):
        tokens, values = [""], [0.0]  # the start token of a pipeline
        counts = {name: text.split().count(name) for name in e.features}
        for word in text.split():
            score = e.scores[e.features.index(word)] / counts[word]
            # The halves are far from half of the score: only their sum is right.
            tokens += [word[:1], word[1:] + " "] if len(word) > 1 else [word + " "]
            values += [score + 9, -9] if len(word) > 1 else [score]
        token_lists.append(tokens)
        value_lists.append(values)
    result = shares({"tokens": shap_rows(token_lists, value_lists), "stored": list(explanations)})
    assert result["tokens"] == pytest.approx(result["stored"], abs=1e-9)


@pytest.mark.parametrize("names", [("negative", "positive"), ("positive", "negative"), None])
def test_the_output_of_the_judged_class_is_selected(names):
    model = tiny_model(outputs=2)
    first, second = model.classes
    order = [first, second] if names is None or names[0] == "negative" else [second, first]
    by_class = {name: limelight.explain(model, TEXTS, "loo", target=name) for name in model.classes}
    rows = [
        np.stack([by_class[name][i].scores for name in order], axis=1) for i in range(len(TEXTS))
    ]
    tokens = [by_class[first][i].features for i in range(len(TEXTS))]
    stored = shap_rows(tokens, rows, output_names=None if names is None else order)
    judgment = judge(model, TEXTS, {"shap": stored, "loo": "loo"}, target=second)
    assert judgment["shap"].share == pytest.approx(judgment["loo"].share, abs=1e-12)


def test_texts_that_do_not_match_have_a_reason():
    tokens = [text.split() for text in TEXTS[:-1]]
    values = [np.arange(len(row)) for row in tokens]
    judgment = judge(MODEL, TEXTS, {"shap": shap_rows(tokens, values), "loo": "loo"})
    reasons = [text.reasons.get("shap") for text in judgment.texts]
    assert reasons[:-1] == [None] * len(tokens)
    assert reasons[-1].startswith("the shap.Explanation has no row with the tokens or the words")
    merged = [[" ".join(text.split()[:2]), *text.split()[2:]] for text in TEXTS]
    values = [np.arange(len(row)) for row in merged]
    judgment = judge(MODEL, TEXTS, {"shap": shap_rows(merged, values), "loo": "loo"})
    pairs = zip(TEXTS, judgment.texts, strict=True)
    reasons = [judged.reasons["shap"] for text, judged in pairs if len(set(text.split()[:2])) > 1]
    assert reasons
    assert all("belongs to several words" in reason for reason in reasons)


def test_values_that_belong_to_no_words_raise():
    table = shap.Explanation(values=np.ones((2, 3)), data=np.ones((2, 3)), base_values=np.zeros(2))
    no_data = shap.Explanation(values=np.ones((2, 3)), base_values=np.zeros(2))
    for explanation in (table, no_data):
        with pytest.raises(InputError, match="must be the words or tokens of each text"):
            judge(MODEL, TEXTS, {"shap": explanation})


def test_the_explainer_of_shap_is_judged_as_limelight_judges_its_own_values():
    """shap's exact Shapley values of a text in which no word occurs twice are ours."""
    texts = ["bad plot", "fine cast today"]
    model = limelight.wrap(
        lambda batch: [[0.6, 0.4] if "bad" in t else [0.5, 0.5] if "fine" in t else [0.3, 0.7]
                       for t in batch],
        classes=["no", "yes"],
    )  # fmt: skip

    def function(batch):
        return np.array([limelight.predict(model, str(text))["logits"]["yes"] for text in batch])

    explainer = shap.Explainer(function, shap.maskers.Text(r"\W+"), silent=True)
    values = explainer(texts)
    judgment = judge(model, texts, {"shap": values, "shapley": "shapley"}, target="yes")
    assert [text.reasons for text in judgment.texts] == [{}, {}]
    assert judgment["shap"].share == pytest.approx(judgment["shapley"].share, abs=1e-9)
