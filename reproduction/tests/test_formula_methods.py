"""The paper's formula for LIME, its correction and the mean field, as methods with a bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight import DomainError, InputError
from limelight.explainers import METHODS, prepare_batch
from limelight.rendering.wording import precision_sentence, round_up
from limelight.theory.attention import attention
from limelight.theory.enumeration import lime_by_enumeration, shapley_by_enumeration
from limelight_reproduction.methods import formulas

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
TEXT = "w1 w5. never w5 w8! w9"
EVERY = ("lime-theorem", "lime-first-order", "lime-mean-field", "shapley-mean-field")
every_method = pytest.mark.parametrize("method", EVERY)


def test_limelight_finds_the_methods_by_their_entry_points():
    assert [METHODS[name].settings for name in EVERY] == [
        formulas.LimeTheorem,
        formulas.LimeFirstOrder,
        formulas.LimeMeanField,
        formulas.ShapleyMeanField,
    ]


@pytest.mark.parametrize("method", ["lime-first-order", "lime-theorem"])
def test_the_first_order_says_how_near_lime_is(method):
    e = limelight.explain(MODEL, TEXT, method, bandwidth=1.0, target=0)
    exact = limelight.explain(MODEL, TEXT, "lime", bandwidth=1.0, target=0)
    assert np.abs(e.scores - exact.scores).max() <= e.bound
    assert e.warnings[-1].endswith("to the limit of LIME at bandwidth 1 and penalty 0.")
    assert f"error at most {round_up(e.bound)} (proven bound)" in precision_sentence(e)
    shrunk = limelight.explain(MODEL, TEXT, method, penalty=0.1, target=0)
    exact = limelight.explain(MODEL, TEXT, "lime", penalty=0.1, target=0)
    assert np.abs(shrunk.scores - exact.scores).max() <= shrunk.bound
    assert "of LIME at bandwidth 0.25 and penalty 0.1." in shrunk.warnings[-1]
    with pytest.raises(DomainError, match="at least 2 features"):
        limelight.explain(MODEL, [TEXT, "w1"], method, target=0)


@pytest.mark.parametrize(
    ("method", "of", "settings", "message"),
    [
        ("lime-mean-field", "lime", {"bandwidth": 1.0}, "to the limit of LIME at bandwidth 1."),
        ("shapley-mean-field", "shapley", {}, "to the Shapley value."),
    ],
)
def test_the_mean_field_says_how_near_it_is(method, of, settings, message):
    e = limelight.explain(MODEL, TEXT, method, target=0, **settings)
    exact = limelight.explain(MODEL, TEXT, of, target=0, **settings)
    assert 1e-9 < np.abs(e.scores - exact.scores).max() <= e.bound < 1
    assert message in e.warnings[-1]


@given(st.floats(1e-12, 1e6))
def test_a_bound_in_words_is_no_less_than_it_is(bound):
    assert bound <= float(round_up(bound)) <= 1.1 * bound


def test_the_package_brings_the_methods():
    assert set(EVERY) <= set(METHODS)
    assert all(METHODS[name].settings.__module__.startswith("limelight_repro") for name in EVERY)


def first_order_by_token(batch):
    """Both first-order formulas, position by position."""
    arrays, weights = batch.collapsed_inputs, batch.target_gradient[0]
    alpha, u = arrays.alpha[0], np.einsum("c,ckt->kt", weights, arrays.u[0])
    logit, base_logit = arrays.logit[0], arrays.base_logit[0]
    alpha_h, u_h = attention(base_logit), np.einsum("c,ckt->kt", weights, arrays.base_u[0])
    largest = logit.max(axis=1, keepdims=True)
    full = np.exp(logit - largest).sum(axis=1, keepdims=True)
    replaced = np.exp(base_logit - largest) / full  # over the denominator of the full text
    f = (alpha * u).sum(axis=1, keepdims=True)
    formulas = {
        "lime-theorem": 1.5 * (alpha * u - alpha_h * u_h),
        "lime-first-order": alpha * (u - f) - replaced * (u_h - f),
    }
    return {
        name: arrays.pool_features(rows.mean(axis=0)[None, 1:])[0]
        for name, rows in formulas.items()
    }


STEPS = 2_000


def mean_field_by_steps(batch):
    """Both mean fields by even steps in y, x = 1/(1 + e^{−2 sinh y}), from every token."""
    y, step = np.linspace(-4, 4, STEPS, retstep=True)
    x, remainder = 1 / (1 + np.exp(-2 * np.sinh(y))), 1 / (1 + np.exp(2 * np.sinh(y)))
    weight = 2 * np.cosh(y) * x * remainder * step
    psi = weight * np.exp(-((1 - np.sqrt(x)) ** 2) / (2 * 0.25**2))
    kernels = {"shapley-mean-field": weight, "lime-mean-field": psi * x * remainder}
    scores = {}
    for method, kernel in kernels.items():
        heads = list(mean_field_of_heads(batch, x, remainder, kernel / kernel.sum()))
        scores[method] = np.mean([by_word for by_word, _ in heads], axis=0)
        if method == "lime-mean-field":
            remaining = x - psi @ x / psi.sum()
            slopes = [(psi * remaining) @ f / ((psi * remaining) @ x) for _, f in heads]
            d = len(scores[method])
            scores[method] = scores[method] + (np.mean(slopes) - scores[method].sum()) / d
    return scores


def mean_field_of_heads(batch, x, rest, kernel):
    """Of every head ∫ κ h_j for each word and f̄ at the shares ``x``."""
    arrays, weights = batch.collapsed_inputs, batch.target_gradient[0]
    feature_index = np.concatenate([[-1], batch.features[0].feature_index])
    words = np.flatnonzero(feature_index >= 0)
    for head in range(arrays.logit.shape[1]):
        keep, removed = arrays.logit[0, head], arrays.base_logit[0, head]
        top = max(keep.max(), removed.max())
        g, h = np.exp(keep - top), np.exp(removed - top)
        u, v = weights @ arrays.u[0, :, head], weights @ arrays.base_u[0, :, head]
        D = x * g.sum() + rest * h.sum()
        f = (x * (g @ u) + rest * (h @ v)) / D
        by_token = (g * u - h * v) * (kernel @ (1 / D)) - (g - h) * (kernel @ (f / D))
        yield np.bincount(feature_index[words], by_token[words]), f


@pytest.mark.parametrize("outputs", [1, 3])
@every_method
def test_scores_are_those_of_an_independent_computation(method, outputs):
    model = tiny_model(3, outputs=outputs, scale=0.5)
    batch = prepare_batch(model, [TEXT])
    by_hand = first_order_by_token(batch) | mean_field_by_steps(batch)
    e = limelight.explain(model, TEXT, method)
    np.testing.assert_allclose(e.scores, by_hand[method], atol=1e-9)
    moved = limelight.explain(model, "w1 w2. never w2 w8! w9", method)
    assert np.abs(moved.scores - by_hand[method]).max() > 1e-6  # negative control


@every_method
def test_values_by_all_subsets_lie_within_the_bound_and_beyond_a_tenth_of_it(method):
    model = tiny_model(3, scale=0.3)
    text = "w1 w5 never w5 w8"
    game = prepare_batch(model, [text]).ratio_game
    exact = shapley_by_enumeration(game) if "shapley" in method else lime_by_enumeration(game)[0]
    e = limelight.explain(model, text, method)
    error = np.abs(e.scores - exact[0, 0]).max()
    assert 0.1 * e.bound < error <= e.bound + 1e-9


def test_a_formula_for_logits_raises_an_error_for_probabilities():
    with pytest.raises(InputError) as caught:
        limelight.explain(MODEL, TEXT, "lime-theorem", scale="probability")
    assert str(caught.value) == (
        "method 'lime-theorem' explains logits only. Use scale='logit', or use 'lime-sampled' for "
        "probabilities."
    )
    judgment = limelight.judge(MODEL, [TEXT], ["loo", "lime-theorem"], scale="probability")
    assert "explains logits only" in judgment["lime-theorem"].reason
    assert judgment["loo"].share is not None


def test_a_formula_for_lime_names_lime_for_a_single_word():
    for method in EVERY[:3]:
        with pytest.raises(DomainError, match="at least 2 features, unlike 'lime' itself"):
            limelight.explain(MODEL, "w1", method)
    assert limelight.explain(MODEL, "w1", "lime")
    with pytest.raises(DomainError):
        limelight.compare(MODEL, "w1", methods=["lime-theorem", "gxi"])


@every_method
def test_a_model_without_tables_raises_an_error(method):
    function = limelight.wrap(lambda texts: [[0.5, 0.5] for _ in texts], classes=["a", "b"])
    with pytest.raises(InputError) as caught:
        limelight.explain(function, TEXT, method)
    assert str(caught.value) == (
        f"method {method!r} needs a model with tables, such as AttentionClassifier, but a function "
        "returns only outputs. Use 'shapley', 'lime' or 'loo'."
    )


@every_method
def test_scores_of_one_class_against_another_are_the_difference(method):
    classes = limelight.explain_classes(MODEL, TEXT, method)
    e = limelight.explain(MODEL, TEXT, method, target="class 2", against="class 0")
    expected = classes["class 2"].scores - classes["class 0"].scores
    np.testing.assert_allclose(e.scores, expected, rtol=1e-6, atol=1e-9)
    turned = limelight.explain(MODEL, TEXT, method, target="class 0", against="class 2")
    np.testing.assert_allclose(turned.scores, -e.scores, rtol=1e-6, atol=1e-9)
