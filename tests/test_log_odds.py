"""Of two classes the logit is the log-odds of one against the other, in every family and view."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import limelight
from limelight.rendering.wording import class_outcomes, headline, typographic_minus
from limelight.results import Explanation

from tiny_models import tiny_model
from two_classes import FAMILIES, TEXT, fit_count_pipeline, logits_of_words, sample_text

TWO_OUTPUTS = (
    "attention, two outputs", "network", "function of logits", "naive Bayes",
)  # fmt: skip


@pytest.fixture(scope="module")
def families():
    created = {}

    def family(name):
        if name not in created:
            created[name] = FAMILIES[name]()
        return created[name]

    return family


def log_odds(p):
    return math.log(p) - math.log1p(-p)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_logit_that_is_shown_is_the_log_odds_of_the_probability_that_is_shown(families, name):
    model, text = families(name), sample_text(name)
    chances = dict(zip(model.classes, model.predict_proba([text])[0], strict=True))
    for target in model.classes:
        e = limelight.explain(model, text, "loo", target=target)
        expected = log_odds(chances[target])
        assert e.explained_value == pytest.approx(expected, abs=1e-6)
        assert f"(logit {e.explained_value:+.3f})" in "".join(headline([e]))
        for outcome in class_outcomes(e):
            if outcome.logit is None:  # of a single output, which is that of the second class
                assert len(e.prediction) == 1
                continue
            assert outcome.logit == pytest.approx(log_odds(outcome.probability), abs=1e-6)
            assert outcome.probability == pytest.approx(chances[outcome.name], abs=1e-6)
        assert f"logit {typographic_minus(f'{e.explained_value:+.3f}')}" in e.to_html()
        assert json.loads(e.to_json())["explained_value"] == e.explained_value
        assert Explanation.from_json(e.to_json()) == e
    for target, logit in limelight.predict(model, text)["logits"].items():
        assert logit == pytest.approx(log_odds(chances[target]), abs=1e-6)
    (judged,) = limelight.judge(model, [text], ["loo"], target="predicted", columns=[]).texts
    assert judged.full == pytest.approx(log_odds(max(chances.values())), abs=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_run_stores_log_odds(families, name, tmp_path):
    pytest.importorskip("pyarrow")
    model, text = families(name), sample_text(name)
    run = limelight.explain_data(model, [text], "loo", output=tmp_path / "run", progress=False)
    (e,) = run
    chances = dict(zip(model.classes, model.predict_proba([text])[0], strict=True))
    assert e.scale == "logit"
    assert e.explained_value == pytest.approx(log_odds(chances[e.target]), abs=1e-4)
    direct = limelight.explain(model, text, "loo")
    np.testing.assert_allclose(e.scores, direct.scores, rtol=1e-5, atol=1e-5)


# ------------------------------------------------- all subsets, by asking the model of texts


def games_of_texts(name, model):
    """The masks of all subsets of the words, and the log-odds of "yes" for the text of each."""
    words = sample_text(name).split()
    masks = np.array(list(itertools.product([False, True], repeat=len(words))))
    gone = {"attention": "never", "network": "[MASK]"}.get(name.split(",")[0])
    texts = [
        " ".join(
            word if keep else gone
            for word, keep in zip(words, mask, strict=True)
            if keep or gone is not None
        )
        for mask in masks
    ]
    if name == "naive Bayes":
        result = fit_count_pipeline("MultinomialNB").predict_log_proba(texts)
    elif name == "function of logits":
        result = logits_of_words(texts)
    else:
        result = np.concatenate([model.logits([text]) for text in texts])
    return masks, result[:, 1] - result[:, 0]


def dividends(masks, values):
    """What each subset adds to its own subsets (Harsanyi), by inclusion and exclusion."""
    added = values.reshape((2,) * masks.shape[1])
    for axis in range(masks.shape[1]):
        added = np.diff(added, axis=axis, prepend=0)
    return added.ravel()


def lime_limit(masks, values):
    """LIME's slopes over all masks but the whole text, in the limit of many samples."""
    d, size = masks.shape[1], masks.sum(axis=1)
    sets = np.array([math.comb(d, k) for k in range(d + 1)])
    near = np.exp(-((1 - np.sqrt(size / d)) ** 2) / (2 * 0.25**2))
    root = np.sqrt(np.where(size < d, near / sets[size], 0.0))[:, None]
    design = np.column_stack([np.ones(len(masks)), masks])
    return np.linalg.lstsq(root * design, root[:, 0] * values, rcond=None)[0][1:]


@pytest.mark.parametrize("name", TWO_OUTPUTS)
def test_values_are_those_of_the_log_odds_over_all_subsets(families, name):
    model, text = families(name), sample_text(name)
    masks, values = games_of_texts(name, model)
    added, size, d = dividends(masks, values), masks.sum(axis=1), masks.shape[1]
    expected = {
        "shapley": (added / np.maximum(size, 1)) @ masks,
        "owen": (added / np.maximum(size, 1)) @ masks,  # one sentence: the same
        "banzhaf": (added / 2.0 ** (size - 1)) @ masks,
        "loo": values[-1] - np.array([values[len(masks) - 1 - (1 << j)] for j in range(d)])[::-1],
        "lime": lime_limit(masks, values),
    }
    for method, wanted in expected.items():
        e = limelight.explain(model, text, method, target=model.classes[1])
        if e.stderr is not None:  # sampled: a limit, not these very subsets
            assert np.all(np.abs(e.scores - wanted) <= 5 * e.stderr + 1e-6), method
            continue
        assert np.all(np.abs(e.scores - wanted) <= (e.bound or 0) + 1e-6), method
        assert e.base_value == pytest.approx(values[0], abs=1e-6)
        other = limelight.explain(model, text, method, target=model.classes[0])
        np.testing.assert_allclose(other.scores, -e.scores, rtol=0, atol=2 * (e.bound or 1e-7))
    e = limelight.explain(model, text, "interactions", target=model.classes[1])
    together = (masks.T * (added / np.maximum(size - 1, 1))) @ masks
    wanted = together[tuple(e.pairs.features.T)]
    assert np.all(np.abs(e.pairs.scores - wanted) <= (e.bound or 0) + 1e-6)


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "lime", "interactions", "owen"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_bounds_hold_of_the_log_odds(families, method, tolerance):
    """A loose tolerance makes the bound of the combined numerator matter."""
    name = "attention, two outputs"
    model, text = families(name), sample_text(name)
    exact = limelight.explain(model, text, method, target="class 1", tolerance=1e-9)
    loose = limelight.explain(model, text, method, target="class 1", tolerance=tolerance)
    got, wanted = (
        e.scores if e.pairs is None else e.pairs.scores[np.lexsort(e.pairs.features.T)]
        for e in (loose, exact)
    )
    assert np.abs(got - wanted).max() <= loose.bound + exact.bound
    assert loose.bound <= tolerance


# ------------------------------------------------------------------------ gradients


def test_gradients_of_a_network_are_those_of_the_log_odds(families):
    torch = pytest.importorskip("torch")
    model = families("network")
    bert, tokenizer = model.network, model.tokenizer
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    embedded = bert.get_input_embeddings()(ids).detach().requires_grad_()
    output = bert(inputs_embeds=embedded).logits[0]
    (output[1] - output[0]).backward()
    wanted = (embedded.grad * embedded.detach()).sum(-1)[0, 1:-1].numpy()
    e = limelight.explain(model, TEXT, "gxi", target=model.classes[1], features="positions")
    np.testing.assert_allclose(e.scores, wanted, rtol=1e-3, atol=1e-5)
    sizes = embedded.grad.abs().mean(-1)[0, 1:-1].numpy()
    score = limelight.explain(model, TEXT, "g-l1", target=model.classes[1], features="positions")
    ratio = score.scores / sizes
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)
    ig = limelight.explain(model, TEXT, "ig", target=model.classes[1])
    change = ig.explained_value - ig.base_value
    assert ig.scores.sum() == pytest.approx(change, abs=max(1e-2, abs(0.02 * change)))


LINEAR = ("alpha-grad", "g-avg", "gxi", "ig", "lrp", "loo")


@pytest.mark.parametrize("method", LINEAR)
@pytest.mark.parametrize("name", ["attention, two outputs", "network"])
def test_methods_that_are_linear_in_the_outputs_subtract_the_two(families, name, method):
    model, text = families(name), sample_text(name)
    first, second = model.classes
    request = {"method": method, "features": "positions"}
    odds = limelight.explain(model, text, target=second, **request)
    of, other = (
        limelight.explain(model, text, target=name, scale="score", **request)
        for name in (second, first)
    )
    np.testing.assert_allclose(odds.scores, of.scores - other.scores, rtol=1e-4, atol=2e-5)
    if (name, method) != ("network", "g-avg"):  # norms of layers make the mean gradient 0
        assert np.abs(of.scores - odds.scores).max() > 1e-3  # negative control
    contained = limelight.explain(model, text, target=second, against=first, **request)
    np.testing.assert_array_equal(contained.scores, odds.scores)


METHODS = ("lime", "shapley", "banzhaf", "loo", "gxi", "ig", "g-l2", "generic-attention", "lrp")


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_added_to_both_outputs_changes_nothing(method):
    """Along what every text shares: the class direction that both outputs have in common."""
    model = tiny_model(3, outputs=2, scale=0.5)
    common = np.random.default_rng(8).standard_normal(model.W_l[:, :1].shape)
    moved = replace(model, W_l=model.W_l + common)
    texts = ["w1 w2 w3 w4 w5 w2"]
    (a,), (b,) = (limelight.explain(m, texts, method, target="class 1") for m in (model, moved))
    np.testing.assert_allclose(a.scores, b.scores, rtol=1e-6, atol=3e-6)
    assert a.explained_value == pytest.approx(b.explained_value)
    (c,), (d,) = (
        limelight.explain(m, texts, method, target="class 1", scale="score") for m in (model, moved)
    )
    assert np.abs(c.scores - d.scores).max() > 1e-3  # negative control


def test_what_is_not_two_classes_of_a_softmax_stays():
    three = tiny_model(3, outputs=3, scale=0.5)
    text = "w1 w2 w3"
    for target in three.classes:
        e, raw = (
            limelight.explain(three, text, "loo", target=target, scale=scale)
            for scale in ("logit", "score")
        )
        np.testing.assert_array_equal(e.scores, raw.scores)
        assert e.explained_value == e.prediction[target]
    labels = limelight.wrap(logits_of_words, classes=["no", "yes"], scale="logit", multi_label=True)
    for target in labels.classes:
        e = limelight.explain(labels, TEXT, "loo", target=target)
        assert e.explained_value == e.prediction[target]


def test_explaining_every_class_of_two_gives_opposite_scores():
    model = tiny_model(3, outputs=2, scale=0.5)
    for method in ("shapley", "lime", "gxi"):
        no, yes = limelight.explain_classes(model, "w1 w2 w3", method).values()
        np.testing.assert_allclose(no.scores, -yes.scores, rtol=0, atol=1e-12)
        assert no.explained_value == -yes.explained_value
