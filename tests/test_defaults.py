"""What nobody has to name works on every model: on probabilities, and of a text of one word."""

import pickle

import numpy as np
import pytest

import limelight
from limelight.models import class_probabilities
from limelight.serving.texts import TextRequest, explain_text

from two_classes import FAMILIES, TEXT, sample_text

NAMES = (*FAMILIES, "shipped")


@pytest.fixture(scope="module")
def families(shipped):
    created = {"shipped": shipped}

    def family(name):
        if name not in created:
            created[name] = FAMILIES[name]()
        return created[name]

    return family


def explained_by_default(model, text, folder, **asked):
    """Return what each verb says without a method, as explanations, and what judge says."""
    results = [limelight.explain(model, text, **asked), *limelight.compare(model, text, **asked)]
    results += limelight.explain_classes(model, text, **asked).values()
    results.append(limelight.explain(model, text, budget="60 calls", **asked))
    run = limelight.explain_data(model, [text], output=folder, progress=False, **asked)
    assert len(list(run)) == 1
    return [*results, *run], limelight.judge(model, [text], columns=[], **asked).methods


@pytest.mark.parametrize("name", NAMES)
def test_every_default_explains_probabilities(families, name, tmp_path):
    pytest.importorskip("pyarrow")
    model, text = families(name), TEXT if name == "shipped" else sample_text(name)
    result, judged = explained_by_default(model, text, tmp_path / "run", scale="probability")
    chances = dict(zip(model.classes, model.predict_proba([text])[0], strict=True))
    for e in result:
        assert e.scale == "probability"
        assert e.explained_value == pytest.approx(chances[e.target], abs=1e-6)
        if e.method == "shapley":
            change = e.explained_value - e.base_value
            assert e.scores.sum() == pytest.approx(change, abs=1e-5)
    assert {"shapley", "lime", "loo"} <= {e.method for e in result}
    assert all(value.share is not None for value in judged)


@pytest.mark.parametrize("name", ["attention, two outputs", "naive Bayes", "function of logits"])
def test_the_page_shows_every_method_on_probabilities(families, name):
    request = {"tab": "a", "panel": "b", "text": sample_text(name), "scale": "probability"}
    question = TextRequest(**request, methods=["shapley", "lime", "loo"])
    answer = explain_text(families(name), question, lambda *_: None)
    assert answer["errors"] == {}
    assert len(answer["explanations"]) == 3


@pytest.mark.parametrize("method", ["shapley", "lime", "banzhaf", "loo"])
def test_probabilities_of_the_paper_s_classifier_are_those_of_all_subsets(families, method):
    """Against the same model as a function, which is asked for its probabilities."""
    model = families("attention, two outputs")
    text = sample_text("attention, two outputs")
    request = limelight.wrap(
        lambda texts: class_probabilities(model.logits(texts)),
        classes=list(model.classes),
        mask="never",
    )
    exact = limelight.explain(model, text, method, scale="probability")
    other = limelight.explain(request, text, method, scale="probability")
    np.testing.assert_allclose(exact.scores, other.scores, atol=1e-9)
    assert exact.stderr is None


def test_a_model_of_probabilities_keeps_its_scale_in_another_process(shipped):
    request = shipped.drop_inexact_games("words", "probability")
    again = pickle.loads(pickle.dumps(request))
    assert again.capabilities == request.capabilities != shipped.capabilities
    assert again.fingerprint == shipped.fingerprint
    assert pickle.loads(pickle.dumps(shipped)).capabilities == shipped.capabilities


@pytest.mark.parametrize("scale", ["logit", "probability"])
@pytest.mark.parametrize("name", NAMES)
def test_every_default_explains_a_text_of_one_word(families, name, scale, tmp_path):
    pytest.importorskip("pyarrow")
    model = families(name)
    word = "w1" if name.startswith("attention") else "superb"
    result, judged = explained_by_default(model, word, tmp_path / "run", scale=scale)
    for e in result:
        assert len(e) == 1
        if e.method in ("lime", "shapley", "loo"):
            lost = e.explained_value - e.base_value
            assert e.scores[0] == pytest.approx(lost, abs=1e-5)
    assert judged  # a text without room for an order has no share, and is no error


def test_lime_of_one_word_goes_through_the_text_with_and_without_it(shipped):
    e = limelight.explain(shipped, "superb", "lime", fit=True, per_head=True)
    lost = limelight.explain(shipped, "superb", "loo")
    assert e.scores[0] == lost.scores[0]
    assert e.bound == pytest.approx(lost.bound, rel=1e-3)
    assert e.intercept == e.base_value
    assert e.heads.mean() == pytest.approx(e.scores[0])
    assert "its LIME score is the change of the output without it" in e.warnings[-1]
    # The untouched text among the samples makes it so for any number of them.
    fit = limelight.explain(shipped, "superb", "lime", rows=50)
    assert fit.scores[0] == e.scores[0]
    # Among others in a batch nothing changes.
    values = limelight.explain(shipped, ["a film", "superb", "superb superb"], "lime")
    assert values[1].scores[0] == pytest.approx(e.scores[0], abs=1e-9)
    assert len(values[2]) == 1
    with pytest.raises(limelight.DomainError, match="at least 2 features"):
        limelight.explain(shipped, "superb", "lime", penalty=0.1)
