"""Methods that explain answers, judged: every number against all ablations by direct calls."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from test_answers import ANSWER, TEXT, subsets, writer

import limelight
from limelight import InputError, Judgment, judge

from tiny_models import tiny_model

ANSWERS = [ANSWER, "The plot is bad."]


def without(values, order, k):
    """Log p without the first ``k`` sentences of an order."""
    keep = [True] * 3
    for j in order[:k]:
        keep[j] = False
    return values[tuple(keep)]


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_areas_drops_and_lds_are_those_of_all_ablations(family):
    model, methods = writer(family), ["shapley", "loo"]
    judgment = judge(model, [TEXT, TEXT], methods, answer=ANSWERS)
    for text, answer in zip(judgment.texts, ANSWERS, strict=True):
        values = subsets(model, answer=answer)
        full, masks = values[True, True, True], np.array(list(values))
        assert text.full == pytest.approx(full, abs=1e-3)
        columns = {name: column.values for name, column in text.columns.items()}
        assert set(columns) >= {"additivity", "lds", "top_1_drop", "top_3_drop"}
        assert "top_5_drop" not in columns  # there are three sentences
        for method in methods:
            scores = limelight.explain(model, TEXT, method, answer=answer).scores
            order = np.argsort(-scores, kind="stable").tolist()
            remaining = [without(values, order, k) for k in (1, 2, 3)]
            back = [without(values, order[::-1], k) for k in (1, 2, 3)]
            assert text.deletion.areas[method] == pytest.approx(full - np.mean(remaining), abs=1e-3)
            assert text.insertion.areas[method] == pytest.approx(np.mean(back), abs=1e-3)
            assert columns["top_1_drop"][method] == pytest.approx(full - remaining[0], abs=1e-3)
            lds = spearmanr(masks @ scores, list(values.values())).statistic
            assert columns["lds"][method] == pytest.approx(lds, abs=1e-9)
    again = Judgment.from_json(judgment.to_json())
    assert again == judgment
    assert list(again.settings["answer"]) == ANSWERS
    assert "drop without top 3" in judgment.to_html()


def test_an_answer_is_written_once_and_is_the_one_that_is_explained(monkeypatch):
    model, request = writer(max_new_tokens=4), []
    write = type(model).generate
    monkeypatch.setattr(
        type(model), "generate", lambda self, text: request.append(text) or write(self, text)
    )
    judgment = judge(model, [TEXT], ["loo"], estimate=lambda _: None)
    assert request == [TEXT]
    arguments = judge(model, [TEXT], ["loo"], answer=write(model, TEXT).text)
    assert judgment.texts[0].deletion.areas == arguments.texts[0].deletion.areas
    compared = limelight.compare(model, TEXT, methods=["loo", "shapley"])
    single = limelight.explain(model, TEXT, "loo")
    np.testing.assert_array_equal(compared["loo"].scores, single.scores)


def test_answers_that_do_not_fit_raise_an_error():
    with pytest.raises(
        InputError, match=r"a list with one answer for each text, not 1 answer for 2 texts\."
    ):
        judge(writer(), [TEXT, TEXT], ["loo"], answer=[ANSWER])
    with pytest.raises(
        InputError, match="answer needs a language model, but AttentionClassifier does not"
    ):
        judge(tiny_model(3), ["a text"], ["loo"], answer=ANSWER)
    for name in ("eraser", "ferret"):
        with pytest.raises(
            InputError, match=f"column '{name}' needs prob.* Choose from: additivity, "
        ):
            judge(writer(), [TEXT], ["loo"], answer=ANSWER, columns=["lds", name])
    judgment = judge(writer(), [TEXT, TEXT], ["loo"], answer=[ANSWER, " "])
    assert judgment.texts[0].reason is None
    assert "an answer must be a text with words" in judgment.texts[1].reason
