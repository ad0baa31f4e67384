"""Bounds hold from the weights on: 60 digits against every exact method, cancelling keys too."""

from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weights_oracle import (
    exact_game,
    exact_path,
    exact_scores,
    exact_tables,
    exact_units,
    largest_error,
)

import limelight
from limelight import DomainError
from limelight.explainers import prepare_batch
from path_integrals import integral_by_tanh_sinh

from tiny_models import tiny_model

SIZES = {"V": 5, "d_e": 3, "K": 2, "d_att": 2, "d_out": 3, "T_max": 6}
TEXT = "w0 w1 w2 w1"
METHODS = ("lime", "shapley", "banzhaf", "interactions", "loo")
SETTINGS = {method: {} if method == "loo" else {"tolerance": 1e-12} for method in METHODS}


def plain(seed, scale=1.0):
    return tiny_model(seed, scale=scale, **SIZES)


def cancelling(seed, c=1e8):
    """Keys of two large rows whose parts of every logit cancel but for what a plain model has."""
    model = plain(seed)
    start = model.embedding[0] + model.positions[0]
    q = np.einsum("kad,d->ka", model.W_q, start)
    W_k = model.W_k.copy()
    W_k[:, 0] *= c
    W_k[:, 1] -= W_k[:, 0] * (q[:, 0] / q[:, 1])[:, None]
    return replace(model, W_k=W_k)


def steep(seed, largest=700.0):
    """Logits of the text up to ±700."""
    model = plain(seed)
    logit = prepare_batch(model, [TEXT]).collapsed_inputs.logit
    return replace(model, W_k=model.W_k * (largest / np.abs(logit).max()))


def offset(seed, size=1e7):
    """Values that share a huge offset, which every average takes along."""
    model = plain(seed)
    W_v = model.W_v.copy()
    W_v[:, :, 0] += size
    return replace(model, W_v=W_v)


def long_angles(seed):
    """Positions that turn so fast that their sines have lost digits."""
    return replace(plain(seed), position_base=1e-9)


def additive(seed, scale=1.0):
    """Logits by hidden units."""
    model = plain(seed, scale)
    w_a = np.random.default_rng([seed, 1]).standard_normal((SIZES["K"], SIZES["d_att"]))
    return replace(model, attention="additive", w_a=w_a)


def cancelling_units(seed, c=1e8):
    """Keys of two large columns whose parts of what a unit is given cancel but for a share."""
    model = additive(seed)
    embedding, W_k = model.embedding.copy(), model.W_k.copy()
    embedding[:, 1] = embedding[:, 0]
    W_k[..., 0] += c
    W_k[..., 1] -= c
    return replace(model, embedding=embedding, W_k=W_k, position_scale=0.0)


KINDS = {
    "plain": plain,
    "half": lambda seed: plain(seed).with_precision("float16"),
    "cancelling": cancelling,
    "steep": steep,
    "offset": offset,
    "long angles": long_angles,
    "additive": additive,
    "cancelling units": cancelling_units,
    "saturated units": lambda seed: additive(seed, 6.0),
}


@cache
def answers(kind, seed):
    model = KINDS[kind](seed)
    batch = prepare_batch(model, [TEXT])
    return model, exact_game(model, batch.inputs[0], batch.features[0])


def explain_or_error(model, method):
    """The explanation, or the sentence in which it is refused."""
    try:
        return limelight.explain(model, TEXT, method, **SETTINGS[method])
    except DomainError as error:
        return str(error)


def assert_bounded(kind, seed):
    model, f = answers(kind, seed)
    for method in METHODS:
        e = explain_or_error(model, method)
        if isinstance(e, str):
            assert kind == "steep"
            assert e.startswith(
                "the denominators D of a ratio game must be finite, at least 2.2e-308"
            )
        else:
            assert largest_error(e.scores, exact_scores(f, method)) <= e.bound, method


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_within_the_bound_of_what_the_weights_say(kind):
    for seed in range(3):
        assert_bounded(kind, seed)


@pytest.mark.slow
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 9999))
@settings(max_examples=40, deadline=None)
def test_scores_of_any_model_are_within_the_bound(kind, seed):
    assert_bounded(kind, seed)


def exact_ig(model):
    batch = prepare_batch(model, [TEXT])
    text = batch.inputs[0], batch.features[0]
    logit, base, u, base_u = exact_path(model, *text)
    if model.attention == "additive":
        units, zero = exact_units(model, *text), 0 * logit
        scores = integral_by_tanh_sinh(zero, zero, u, base_u, units=units, halvings=14)
    else:
        scores = integral_by_tanh_sinh(logit, base, u, base_u, halvings=14)
    tokens = scores[1:].astype(float)
    return batch.collapsed_inputs.pool_features(tokens[None])[0]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "steep"])
def test_integrated_gradients_are_within_the_bound_of_what_the_weights_say(kind):
    for seed in range(4):
        model = KINDS[kind](seed)
        e = limelight.explain(model, TEXT, "ig")
        assert np.abs(e.scores - exact_ig(model)).max() <= e.bound


@pytest.mark.parametrize("created", [cancelling, cancelling_units])
def test_without_the_errors_of_the_tables_integrated_gradients_break_their_bound(created):
    model = created(0)
    exact, e = exact_ig(model), limelight.explain(forgotten(model), TEXT, "ig")
    assert np.abs(e.scores - exact).max() > 10 * e.bound
    assert limelight.explain(model, TEXT, "ig").bound < 1e-3


def forgotten(model):
    """The same model without the errors of its tables."""
    errors = model.table_errors
    copy = replace(model)
    copy.__dict__["table_errors"] = errors._replace(logit=0 * errors.logit, value=0 * errors.value)
    return copy


@pytest.mark.parametrize("kind", ["cancelling", "cancelling units"])
@pytest.mark.parametrize("method", METHODS)
def test_without_the_errors_of_the_tables_cancelling_keys_break_the_bound(method, kind):
    model, f = answers(kind, 0)
    exact = exact_scores(f, method)
    e = limelight.explain(forgotten(model), TEXT, method, **SETTINGS[method])
    assert largest_error(e.scores, exact) > 10 * e.bound
    e = limelight.explain(model, TEXT, method, **SETTINGS[method])
    assert largest_error(e.scores, exact) <= e.bound < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_no_entry_of_the_tables_exceeds_its_error_bound(kind):
    model, _ = answers(kind, 0)
    batch = prepare_batch(model, [TEXT])
    _, logit, value = exact_tables(model, batch.inputs[0])
    tables, errors = model.tables, model.table_errors
    with mpmath.workdps(60):
        for (k, word, t), exact in logit.items():
            result = tables.logit(np.array(word), np.array(t))[k]
            assert abs(mpmath.mpf(float(result)) - exact) <= errors.logit[word, k]
        for (k, c, word, t), exact in value.items():
            result = tables.word_value[word, c, k] + tables.position_value[t, c, k]
            assert abs(mpmath.mpf(float(result)) - exact) <= errors.value[word, c, k]


@pytest.mark.parametrize("created", [cancelling, cancelling_units])
def test_a_device_carries_the_same_errors(created):
    torch = pytest.importorskip("torch")
    model = created(1)
    texts = [TEXT, "w2 w0", "never w1"]
    index, target = (
        prepare_batch(element, texts).collapsed_inputs.game
        for element in (model, model.to_device("cpu"))
    )
    assert isinstance(target.error, torch.Tensor)
    np.testing.assert_allclose(target.error.numpy(), index.error, rtol=1e-9)
    for method in METHODS:
        value, other = (
            limelight.explain(m, TEXT, method, **SETTINGS[method])
            for m in (model, model.to_device("cpu"))
        )
        assert other.bound == pytest.approx(value.bound, rel=1e-6)


def test_an_ordinary_bound_stays_tiny(shipped):
    text = "The plot is predictable, but the acting is superb."
    for method in METHODS:
        e = limelight.explain(shipped, text, method, **SETTINGS[method])
        assert e.bound < 2e-10


def test_an_infinite_bound_has_a_warning():
    broken = plain(0)
    reference = broken.table_errors
    infinite = reference._replace(value=np.full_like(reference.value, np.inf))
    broken.__dict__["table_errors"] = infinite
    e = limelight.explain(broken, TEXT, "loo")
    assert e.bound == np.inf
    assert any("no finite error bound" in warning for warning in e.warnings)
    assert limelight.Explanation.from_json(e.to_json()) == e
