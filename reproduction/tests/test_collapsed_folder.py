"""The collapsed form: a model that predicts and explains as the whole one does."""

import json

import numpy as np
import pytest

from limelight import InputError, explain
from limelight_reproduction.collapsed_folder import is_collapsed, load_collapsed, save_collapsed
from limelight_reproduction.one_layer.subjects import SENTENCE
from limelight_reproduction.setting import BUNDLED_MODEL

from tiny_models import tiny_model

TEXT = "w3 w1 w4 w1 w5 never w2"


@pytest.fixture
def full_model():
    """A model whose heads read fewer numbers (3 + 2·3) than an embedding has."""
    return tiny_model(3, outputs=2, d_e=19, scale=0.5)


def test_predictions_and_explanations_stay_to_half_precision(tmp_path, full_model):
    save_collapsed(full_model, tmp_path / "model")
    result = load_collapsed(tmp_path / "model")
    np.testing.assert_allclose(result.logits([TEXT]), full_model.logits([TEXT]), atol=5e-3)
    for method in ("alpha-avg", "alpha-max", "lime", "shapley", "loo", "g-avg", "g-l1", "gxi"):
        wanted = explain(full_model, TEXT, method, target="class 1").scores
        got = explain(result, TEXT, method, target="class 1").scores
        np.testing.assert_allclose(got, wanted, atol=5e-3 * np.abs(wanted).max())


def test_what_heads_read_is_what_they_read_before(tmp_path, full_model):
    save_collapsed(full_model, tmp_path / "model")
    result = load_collapsed(tmp_path / "model")
    for name in ("word_logit", "word_value"):
        before, after = getattr(full_model.tables, name), getattr(result.tables, name)
        np.testing.assert_allclose(after, before, rtol=2**-10, atol=1e-5)
    np.testing.assert_allclose(result.directions.value, full_model.directions.value, atol=1e-6)
    np.testing.assert_allclose(result.directions.key, full_model.directions.key, atol=1e-6)


def test_other_rows_of_attention_are_kept_among_whole_words_alone(tmp_path, full_model):
    save_collapsed(full_model, tmp_path / "model", full_words=["w3", "w1"])
    result = load_collapsed(tmp_path / "model")

    def rows(text):
        return [value.attention_matrices(value.read(text)) for value in (result, full_model)]

    np.testing.assert_allclose(*rows("w3 w1 w3"), atol=1e-5)
    got, wanted = rows("w3 w4")
    np.testing.assert_allclose(got[:, 0], wanted[:, 0], atol=1e-2)
    assert np.abs(got[:, 2] - wanted[:, 2]).max() > 1e-2


def test_a_folder_says_whether_it_is_collapsed(tmp_path, full_model):
    save_collapsed(full_model, tmp_path / "model")
    assert is_collapsed(tmp_path / "model")
    assert not is_collapsed(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    assert not is_collapsed(tmp_path)


@pytest.mark.parametrize("name", ["vocab.txt", "model.safetensors"])
def test_a_damaged_folder_raises_an_error(tmp_path, full_model, name):
    save_collapsed(full_model, tmp_path / "model")
    (tmp_path / "model" / name).write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"^the collapsed model in '.*' cannot be read \("):
        load_collapsed(tmp_path / "model")


def test_the_carried_model_is_small_and_keeps_the_sentence_of_figure_1():
    assert is_collapsed(BUNDLED_MODEL)
    assert sum(file.stat().st_size for file in BUNDLED_MODEL.iterdir()) < 5.5e6
    model = load_collapsed(BUNDLED_MODEL)
    rows = model.vocabulary.encode(SENTENCE.split())
    # A word that is kept whole has parts that no head reads; the others lie in what heads read.
    read = np.concatenate([model.directions.key, *model.directions.value])
    unread = np.eye(model.sizes["d_e"]) - np.linalg.pinv(read) @ read
    assert np.abs(model.embedding[rows] @ unread).max(axis=1).min() > 0.1
    assert np.abs(model.embedding[5000:6000] @ unread).max() < 1e-3
    config = json.loads((BUNDLED_MODEL / "config.json").read_text("utf-8"))
    assert config["training"]["training_rows"] == 20_000
