from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.errors import InputError
from limelight.models import class_probabilities
from limelight.models.attention import padded_ids
from limelight.models.attention.tables import predict_logits, sinusoidal_positions

from tiny_models import random_texts, tiny_model


def outputs_from_equations(model, text):
    """Oracle: Eq. 1–9 one token at a time, with full keys, queries and values."""
    model_input = model.read(text)
    ids = padded_ids([model_input.encoding.ids], T_max=model.T_max)[0]
    d_e = model.embedding.shape[1]
    e = []
    for t, word in enumerate(ids):
        position = np.zeros(d_e)
        for i in range(d_e):
            angle = t / model.position_base ** (2 * (i // 2) / d_e)
            position[i] = np.sin(angle) if i % 2 == 0 else np.cos(angle)
        e.append(model.embedding[word] + model.position_scale * position)
    outputs = []
    for W_q, W_k, W_v, W_l in zip(model.W_q, model.W_k, model.W_v, model.W_l, strict=True):
        q = W_q @ e[0]
        logit = np.array([q @ (W_k @ x) / np.sqrt(len(q)) for x in e])
        g = np.exp(logit - logit.max())
        v = [W_v @ x for x in e]
        outputs.append(W_l @ sum(a * x for a, x in zip(g / g.sum(), v, strict=True)))
    return np.mean(outputs, axis=0)


@pytest.mark.parametrize("outputs", [1, 2, 5])
@given(seed=st.integers(0, 99), scale=st.floats(0, 2))
def test_predictions_follow_the_equations(outputs, seed, scale):
    model = tiny_model(seed, outputs=outputs, position_scale=scale, position_base=17.0)
    (text,) = random_texts(1, seed)
    np.testing.assert_allclose(
        model.logits([text])[0], outputs_from_equations(model, text), rtol=1e-9, atol=1e-12
    )


def test_the_comparison_with_the_equations_can_fail():
    model, nearly = tiny_model(1), tiny_model(1, position_scale=1 + 1e-6)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(
            nearly.logits(["w1 w2"])[0], outputs_from_equations(model, "w1 w2"), rtol=1e-9
        )


def test_logits_too_far_apart_for_factors_are_predicted_all_the_same():
    model = tiny_model(3, scale=4.0)
    assert model._factored_tables is None
    text = "w1 w5 never w5"
    np.testing.assert_allclose(
        model.logits([text])[0], outputs_from_equations(model, text), rtol=1e-9
    )
    near = tiny_model(3, scale=0.5)
    assert near._factored_tables is not None
    rows = [near.read(t).encoding.ids for t in random_texts(9)]
    np.testing.assert_allclose(
        near.logits_of_ids(rows),
        predict_logits(near.tables, padded_ids(rows, T_max=near.T_max)),
        rtol=1e-12,
        atol=1e-13,
    )


def test_many_texts_at_once_are_the_same_texts_one_by_one():
    model = tiny_model(outputs=2)
    texts = random_texts(300)
    singly = np.concatenate([model.logits([text]) for text in texts])
    np.testing.assert_allclose(model.logits(texts), singly, rtol=1e-12, atol=1e-13)
    assert model.logits([]).shape == (0, 2)


def test_probabilities_sum_to_one_and_survive_huge_logits():
    p = class_probabilities(np.array([[0.0], [800.0], [-800.0]]))
    np.testing.assert_array_equal(p, [[0.5, 0.5], [0, 1], [1, 0]])
    model = tiny_model(outputs=3)
    np.testing.assert_allclose(model.predict_proba(random_texts(7)).sum(axis=1), 1)


def test_attention_matrices_start_with_the_row_of_cls():
    model = tiny_model()
    model_input = model.read("w1 w2 never w2")
    matrices = model.attention_matrices(model_input)
    assert matrices.shape == (3, 5, 5)
    tables = model.tables
    logit = tables.logit(padded_ids([model_input.encoding.ids], T_max=model.T_max))[0]
    alpha = np.exp(logit) / np.exp(logit).sum(axis=0)
    np.testing.assert_allclose(matrices[:, 0], alpha[:5].T, rtol=1e-9)


def test_positions_of_odd_size_and_the_base_of_eq_3():
    positions = sinusoidal_positions(5, 3, base=5.0)
    np.testing.assert_allclose(positions[0], [0, 1, 0])
    np.testing.assert_allclose(positions[2, 2], np.sin(2 / 5 ** (2 / 3)))


def test_weights_are_frozen_copies():
    model = tiny_model()
    with pytest.raises(ValueError, match="read-only"):
        model.W_q[0] = 0
    own_value = model.W_k.copy()
    frozen = replace(model, W_k=own_value)
    own_value[0] = 0
    np.testing.assert_array_equal(frozen.W_k, model.W_k)


def test_one_string_is_not_a_list_of_texts():
    with pytest.raises(InputError, match="list of texts"):
        tiny_model().logits("w1")
    with pytest.raises(InputError, match=r"text 1 \(counting from 0\): the text has no words"):
        tiny_model().logits(["w1", " "])
    result = tiny_model().logits(text for text in ("w1", "w2 w3"))
    np.testing.assert_array_equal(result, tiny_model().logits(["w1", "w2 w3"]))
    assert len(tiny_model().logits([])) == 0


def test_the_fingerprint_tells_models_apart():
    same, other = tiny_model(3), tiny_model(4)
    assert tiny_model(3).fingerprint == same.fingerprint != other.fingerprint
    assert tiny_model(3, position_scale=2.0).fingerprint != same.fingerprint
