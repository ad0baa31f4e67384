"""The paper's classifier on a torch device: the same numbers, explained by the same verbs."""

import numpy as np
import pytest

import limelight
from limelight.errors import InputError, MissingExtraError
from limelight.explainers import METHODS, prepare_batch
from limelight.models import load
from limelight.theory.ratio_game import RatioGame

from tiny_models import random_texts, tiny_model

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("method", [name for name in METHODS if name != "anchors"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_every_method_gives_the_same_numbers(method, outputs):
    model = tiny_model(4, outputs=outputs, scale=0.8)
    texts = [text for text in random_texts(13, 5) if len(set(text.split())) > 1]
    index = limelight.explain(model, texts, method)
    target = limelight.explain(model.to_device("cpu"), texts, method)
    for value, other in zip(index, target, strict=True):
        allowed = (value.bound or 0) + (other.bound or 0) + 1e-9
        np.testing.assert_allclose(other.scores, value.scores, rtol=1e-9, atol=allowed)
        np.testing.assert_allclose(other.base_value, value.base_value, rtol=1e-9, atol=1e-12)
        assert list(other.prediction) == list(value.prediction)
        assert other.settings == value.settings
        assert other.model == value.model  # a device is not part of a model


def test_games_are_tensors_of_the_device_and_equal_ours():
    model = tiny_model(4, outputs=3)
    texts = random_texts(9, 2)
    index, target = (
        prepare_batch(value, texts).collapsed_inputs.game
        for value in (model, model.to_device("cpu"))
    )
    assert isinstance(target.a, torch.Tensor)
    for name in ("D0", "a", "b", "N0", "A", "B", "sizes", "error"):
        np.testing.assert_allclose(getattr(target, name).numpy(), getattr(index, name), rtol=1e-12)
    assert isinstance(index, RatioGame)


def test_more_texts_are_explained_at_a_time():
    assert tiny_model().to_device("cpu").inputs_per_batch > tiny_model().inputs_per_batch


def test_the_shipped_model_is_loaded_for_a_device():
    text = "The plot is predictable, but the acting is superb."
    model = load(device="cpu")
    assert "on cpu" in repr(model)
    e = limelight.explain(model, text, "shapley")
    np.testing.assert_allclose(e.scores, limelight.explain(load(), text, "shapley").scores)
    assert load().device is None


def test_the_command_line_takes_a_device(limelight):
    outcome = limelight("explain", "a superb film", "--device", "cpu", "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_device_raises_an_error_at_once():
    with pytest.raises(InputError, match=r"device 'cuda' cannot be used here .* Leave device out"):
        load(device="cuda")


def test_a_device_needs_torch(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"device 'cuda' needs torch\. .*run: pip install"):
        tiny_model().to_device("cuda")
