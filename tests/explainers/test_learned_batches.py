"""Learned methods score the texts of a batch together, as each of them alone."""

import math

import numpy as np
import pytest

import limelight
from limelight.explainers import learned as learned_module
from limelight.explainers.batch import read_batch
from limelight.explainers.learned import (
    LearnedMethod,
    NetworkInputs,
    error_design,
    make_network_inputs,
    summarize_texts,
)
from limelight.request import Request, prepare_model
from limelight.text import side_index

TEXTS = ["a good film", "bad", "a film , a very good film", "not bad at all , not at all"]
PAIRS = [("a good film", "a bad film"), ("bad", "good , very good"), ("a a b", "b a")]
SIZES = (3, 1, 5, 2, 4)


def read_functions(texts):
    def count_letters(texts):
        return np.array([[0.0, len(text)] for text in texts])

    model = limelight.wrap(count_letters, classes=["short", "long"], scale="logit")
    model, request = prepare_model(model, Request())
    return read_batch(model, texts, request)


def read_pairs(texts):
    pytest.importorskip("torch")
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    model, request = prepare_model(limelight.wrap(network, tokenizer=tokenizer), Request())
    return read_batch(model, texts, request)


def expected_places(batch, i):
    """Return the signals of places feature by feature, with loops."""
    model_input, features = batch.inputs[i], batch.features[i]
    T, rows = len(model_input.tokens.strings), []
    for feature, spans in enumerate(features.spans):
        positions = [t for t, index in enumerate(features.feature_index) if index == feature]
        side = side_index(spans[0][0], model_input.parts)
        first = positions[0]
        count = len(positions)
        rows.append([math.log(len(features)), math.log(count), first / T, math.log1p(first), side])
    return np.array(rows)


@pytest.mark.parametrize(("read", "texts"), [(read_functions, TEXTS), (read_pairs, PAIRS)])
def test_places_of_a_batch_are_those_of_each_text(read, texts):
    batch = read(texts)
    inputs = make_network_inputs(batch, ["places"])
    expected = [expected_places(batch, i) for i in range(len(texts))]
    np.testing.assert_allclose(inputs.words, np.concatenate(expected), rtol=1e-6)
    for i, single in enumerate(batch.split()):
        alone = make_network_inputs(single, ["places"])
        np.testing.assert_array_equal(inputs.words[inputs.owner == i], alone.words)
        np.testing.assert_array_equal(inputs.word[inputs.owner == i], alone.word)
    # The control: the texts in another order have other places.
    assert not np.array_equal(
        make_network_inputs(read(texts[::-1]), ["places"]).words, inputs.words
    )


def random_inputs(to_array=np.asarray):
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    words, texts = rng.normal(size=(len(owner), 7)), rng.normal(size=(len(SIZES), 2))
    return NetworkInputs(
        to_array(words.astype(np.float32)),
        to_array(texts.astype(np.float32)),
        owner,
        np.arange(len(owner)),
    )


@pytest.mark.parametrize("texts_per_product", [1, 2, 256])
def test_texts_are_summarized_on_a_device_as_on_the_host(monkeypatch, texts_per_product):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(learned_module, "_TEXTS_PER_PRODUCT", texts_per_product)
    inputs = random_inputs()
    means = [inputs.words[inputs.owner == i].mean(axis=0) for i in range(len(SIZES))]
    expected = np.concatenate([inputs.texts, means], axis=1)
    for to_array in (np.asarray, torch.as_tensor):
        summary = summarize_texts(random_inputs(to_array))
        assert summary.dtype == np.float64
        np.testing.assert_allclose(summary, expected, rtol=1e-5, atol=1e-6)
    # The control: the mean of all words is another one.
    assert not np.allclose(expected[:, 2:], inputs.words.mean(axis=0), atol=1e-2)


def random_method():
    rng = np.random.default_rng(4)
    shapes = {"first.weight": (6, 9), "first.bias": (6,), "second.weight": (6, 6)}
    shapes |= {"second.bias": (6,), "last.weight": (2, 6), "last.bias": (2,)}
    shapes["linear.weight"] = (2, 9)
    arrays = {
        f"{k}.{name}": rng.normal(size=shape).astype(np.float32)
        for k in range(2)
        for name, shape in shapes.items()
    }
    arrays |= {"scale": np.array([2.0, 3.0]), "vocabulary": np.arange(8)}
    arrays |= {"errors": rng.normal(size=4), "draws": rng.normal(size=4)}
    for name, size in (("words", 7), ("texts", 2)):
        arrays[f"{name}.mean"] = rng.normal(size=size).astype(np.float32)
        arrays[f"{name}.scale"] = np.full(size, 2.0, np.float32)
    return LearnedMethod({}, arrays)


def test_errors_follow_from_the_regressors():
    method, inputs = random_method(), random_inputs()
    scores = method.predict_scores(inputs)
    design = error_design(method.member_scores(inputs), inputs.owner)
    scale = method.arrays["scale"]
    variance = np.exp(design @ method.arrays["errors"]) + learned_module.MIN_ERROR**2
    np.testing.assert_allclose(scores.stderr, np.sqrt(variance) * scale, rtol=1e-9)
    variance = np.exp(design @ method.arrays["draws"]) + learned_module.MIN_ERROR**2
    deviation = np.sqrt(variance) * (np.array(SIZES)[inputs.owner] > math.e)[:, None]
    np.testing.assert_allclose(scores.draw_deviation, deviation * scale, rtol=1e-9)
    np.testing.assert_allclose(method.draw_deviation(design), deviation, rtol=1e-9)
    assert (deviation == 0).any()
    assert (deviation > 0).any()


def test_weights_are_copied_to_a_device_once(monkeypatch):
    torch = pytest.importorskip("torch")
    method, copied = random_method(), []
    place = learned_module.array_like

    def count_copies(x, other):
        assert isinstance(x, np.ndarray)  # a tensor of a GPU is no array of the host
        copied.append(x.shape)
        return place(x, other)

    monkeypatch.setattr(learned_module, "array_like", count_copies)
    inputs = random_inputs(torch.as_tensor)
    first = method.member_scores(method.standardize_inputs(inputs))
    counts = [len(copied)]
    second = method.member_scores(method.standardize_inputs(inputs))
    counts.append(len(copied) - counts[0])
    assert counts[0] == 16
    assert counts[1] == 1
    np.testing.assert_array_equal(first, second)
    host = random_inputs()
    expected = method.member_scores(method.standardize_inputs(host))
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-5)
    # The control: another method has its own weights.
    other = LearnedMethod({}, {name: 2 * array for name, array in method.arrays.items()})
    assert not np.allclose(other.member_scores(inputs), method.member_scores(inputs))


def test_signals_of_a_device_are_never_read_on_the_host(monkeypatch):
    torch = pytest.importorskip("torch")
    states = torch.ones(3, 2, dtype=torch.float64)

    def refuse(self, *args, **options):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    with pytest.raises(TypeError):
        np.array(states)
    joined = learned_module._concatenate_signals([states, np.zeros((3, 1))], 3, states)
    assert joined.dtype == torch.float32
    assert joined.tolist() == [[1.0, 1.0, 0.0]] * 3
