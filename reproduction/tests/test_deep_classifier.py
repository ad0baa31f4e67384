"""The deep networks, and what limelight makes of them, against other roads: torch's own attention,
differences, all subsets, texts written anew.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import limelight
from limelight.models import CAPABILITIES, check_model
from limelight.sampling.masks import text_rng
from limelight.text import CLS, UNK, Vocabulary, token_strings
from limelight.theory.enumeration import enumerate_masks
from limelight_reproduction.deep import deep_classifier
from limelight_reproduction.deep.sampled_lime import sampled_lime

from deep_toys import SHAPE, VOCABULARY, make_trained_network, network

TEXT = "w1 w2 w3 w1 w4 never w5"


def ids(*rows, T_max=SHAPE.T_max):
    result = np.full((len(rows), T_max), UNK)
    result[:, 0] = CLS
    for row, words in zip(result, rows, strict=True):
        row[1 : 1 + len(words)] = words
    return torch.from_numpy(result)


# ------------------------------------------------------------------- the network


def attention_by_torch(module, e, layer):
    """Oracle: torch's own attention with the same parameters, all rows and heads of a layer.

    Its heads together are as wide as its input, so the input is padded with zeros to that width.
    """
    wide, d_e = SHAPE.heads * SHAPE.d_att, SHAPE.d_e
    theirs = torch.nn.MultiheadAttention(wide, SHAPE.heads, batch_first=True)
    block = module.layers[layer]
    with torch.no_grad():
        for part, linear in enumerate((block.query, block.key, block.value)):
            rows = slice(part * wide, (part + 1) * wide)
            theirs.in_proj_weight[rows] = 0
            theirs.in_proj_weight[rows, :d_e] = linear.weight
            theirs.in_proj_bias[rows] = linear.bias
        x = torch.nn.functional.pad(block.norm_attention(e), (0, wide - d_e))
        pooled, weights = theirs(x, x, x, average_attn_weights=False)
        # without their output map, which is square where ours is not
        inverse = torch.linalg.solve(
            theirs.out_proj.weight, (pooled - theirs.out_proj.bias).transpose(1, 2)
        )
    return weights, inverse.transpose(1, 2)


def embed_rows(module, rows):
    return torch.nn.functional.embedding(rows, module.embedding) + module.positions


def attention(module, rows):
    """What the network shows of every layer, and its outputs when it does."""
    results = []
    outputs = module.embedding_outputs(embed_rows(module, rows), results)
    return torch.stack(results), outputs


def test_attention_is_that_of_torch_in_every_layer_and_head():
    module, rows = network(), ids([2, 3, 4], [5, 6, 7, 8, 5, 9])
    result, _ = attention(module, rows)
    assert result.shape == (2, 2, 3, 13, 13)  # layers, texts, heads, positions
    e = embed_rows(module, rows)
    for layer, block in enumerate(module.layers):
        weights, _ = attention_by_torch(module, e, layer)
        torch.testing.assert_close(result[layer], weights, rtol=1e-4, atol=1e-6)
        e = block(e)


def test_attention_of_another_layer_is_another():
    module, rows = network(), ids([2, 3, 4])
    weights, _ = attention_by_torch(module, embed_rows(module, rows), 1)
    assert (attention(module, rows)[0][0] - weights).abs().max() > 1e-2


def test_a_network_that_shows_its_attention_answers_the_same():
    module, rows = network().double(), ids([2, 3, 4], [5, 6, 7, 8, 5, 9])
    _, output = attention(module, rows)
    plain = module.embedding_outputs(embed_rows(module, rows))
    torch.testing.assert_close(output, plain, rtol=1e-10, atol=1e-12)


def test_a_layer_pools_as_torch_does():
    module, rows = network(), ids([2, 3, 4], [5, 6, 7, 8, 5, 9])
    e, block = embed_rows(module, rows), module.layers[0]
    _, pooled = attention_by_torch(module, e, 0)
    with torch.no_grad():
        e = e + pooled @ block.mixed.weight.T + block.mixed.bias
        hidden = torch.nn.functional.gelu(block.hidden(block.norm_hidden(e)))
        expected = e + hidden @ block.back.weight.T + block.back.bias
        torch.testing.assert_close(block(embed_rows(module, rows)), expected, rtol=1e-3, atol=1e-3)


def test_on_the_cpu_training_computes_in_full_precision():
    module, rows = network(), ids([2, 3, 4], [5, 6])
    plain = module(rows)
    assert plain.dtype == torch.float32
    noisy = module(rows, dropout=0.0, rng=np.random.default_rng(0))
    torch.testing.assert_close(noisy, plain, rtol=0, atol=0)
    torch.testing.assert_close(
        plain, module.embedding_outputs(embed_rows(module, rows)), rtol=0, atol=0
    )
    with torch.autocast("cpu", torch.bfloat16):
        lossy = module.embedding_outputs(embed_rows(module, rows))
    assert (lossy.float() - plain).abs().max() > 1e-4  # what half precision would do


def test_dropout_needs_random_numbers_and_then_changes_the_outputs():
    module, rows = network(), ids([2, 3, 4])
    same, other = (module(rows, dropout=0.5, rng=np.random.default_rng(seed)) for seed in (1, 2))
    assert not torch.equal(same, other)
    torch.testing.assert_close(module(rows, dropout=0.5), module(rows))


# ------------------------------------------------------------- what a model reads


def test_it_is_a_model_that_attends_and_differentiates():
    model = make_trained_network()
    assert isinstance(model, limelight.Model)
    check_model(model)  # which looks for what its capabilities bring
    has = {name for name, why in model.capabilities.items() if why is None}
    assert has == {"attention", "attention_only", "gradients"}
    assert set(model.capabilities) == set(CAPABILITIES)


def test_models_differ_by_weights_words_and_classes():
    value = make_trained_network()
    other_values = [
        make_trained_network(1),
        replace(value, classes=("a", "b")),
        replace(value, vocabulary=Vocabulary((*VOCABULARY.words[:-1], "new"))),
    ]
    assert value.fingerprint == make_trained_network().fingerprint
    assert len({model.fingerprint for model in (value, *other_values)}) == 4


def windows_asked(model, ask):
    """The ids that the network is given while ``ask`` is called."""
    request = []
    forward = type(model.network).forward

    def heard(rows, **kwargs):
        request.append(rows.numpy().copy())
        return forward(model.network, rows, **kwargs)

    model.network.forward = heard
    ask()
    return np.concatenate(request)


def test_repeated_words_are_one_feature():
    model = make_trained_network()
    model_input = model.read(TEXT)
    assert model_input.tokens.strings == tuple(TEXT.split())
    assert model_input.cutoff is None
    assert model.token_positions(model_input).tolist() == [-1, *range(7), *[-1] * 5]
    *_, window = windows_asked(model, lambda: model.outputs([model_input]))
    assert window.tolist() == [CLS, 3, 4, 5, 3, 6, UNK, 7, *[UNK] * 5]
    game = limelight.game(model, TEXT)
    assert game.features == ("w1", "w2", "w3", "w4", "never", "w5")
    *_, window = windows_asked(model, lambda: game([[False, True, True, True, True, True]]))
    assert window.tolist() == [CLS, UNK, 4, 5, UNK, 6, UNK, 7, *[UNK] * 5]


def test_words_beyond_the_window_are_no_features_and_give_a_warning():
    words = [f"w{i}" for i in range(14)]  # T_max is 13 with [cls]
    text = " ".join([*words, "w3"])
    model = make_trained_network()
    model_input = model.read(text)
    assert model_input.tokens.strings == tuple(words[:12])
    assert text[: model_input.cutoff] == " ".join(words[:12])
    assert model.token_positions(model_input).tolist() == [-1, *range(12)]
    *_, window = windows_asked(model, lambda: model.outputs([model_input]))
    assert window.tolist() == [CLS, *range(2, 14)]


def test_what_moves_into_the_window_under_deletion_goes_with_its_word():
    model = make_trained_network()
    text = " ".join([*(f"w{i}" for i in range(14)), "w3", "w2"])
    game = limelight.game(model, text, replacement="delete")
    keep = np.ones((1, 12), bool)
    keep[0, [0, 1, 3]] = False
    *_, window = windows_asked(model, lambda: game(keep))
    # w2, w4 to w11, then from beyond the window w12, w13 and w2, but not w3
    assert window.tolist() == [CLS, 4, *range(6, 14), 14, 15, 4]


def test_a_position_takes_nothing_along_from_beyond_the_window():
    model = make_trained_network()
    text = " ".join([f"w{i}" for i in range(12)] + ["w0"])
    game = limelight.game(model, text, features="positions", replacement="delete")
    *_, window = windows_asked(model, lambda: game([[False] + [True] * 11]))
    assert window.tolist() == [CLS, *range(3, 14), 2]


def test_a_text_without_words_has_an_answer_and_no_explanation():
    model = make_trained_network()
    model_input = model.read("")
    assert len(model_input.tokens) == 0
    *_, window = windows_asked(model, lambda: model.outputs([model_input]))
    assert window.tolist() == [CLS, *[UNK] * 12]
    with pytest.raises(limelight.InputError):
        limelight.explain(model, "")


# --------------------------------------------------------------- what it answers


@pytest.mark.parametrize("outputs", [1, 3])
def test_outputs_are_those_of_the_network(outputs):
    model = make_trained_network(outputs=outputs)
    inputs = [model.read(text) for text in (TEXT, "w9")]
    rows = ids([3, 4, 5, 3, 6, UNK, 7], [11])
    np.testing.assert_array_equal(model.outputs(inputs), model.network(rows).numpy())


def test_one_output_speaks_for_the_second_class():
    model = make_trained_network()
    e = limelight.explain(model, TEXT, "gxi")
    other = limelight.explain(model, TEXT, "gxi", target="class 0")
    assert e.target == "class 1"
    assert list(e.prediction) == ["class 1"]
    np.testing.assert_allclose(other.scores, -e.scores)


def test_outputs_do_not_depend_on_the_batch_size(monkeypatch):
    model = make_trained_network()
    inputs = [model.read(f"w{i} w{i + 1}") for i in range(7)]
    full = model.outputs(inputs)
    monkeypatch.setattr(deep_classifier, "_CHUNK", 3)
    np.testing.assert_allclose(model.outputs(inputs), full, rtol=1e-6)


# ------------------------------------------------------------- attention, gradients


def test_attention_scores_are_summed_over_places_and_lack_what_padding_takes():
    model = make_trained_network()
    rows, _ = attention(model.network, ids([3, 4, 5, 3, 6, UNK, 7]))
    alpha = rows[:, 0, :, 0].mean(dim=1).numpy()  # of [cls], mean over heads
    results = [limelight.explain(model, TEXT, "alpha-avg", layer=layer).scores for layer in (0, 1)]
    assert np.shape(results) == (2, 6)
    for index, wanted in zip(results, alpha, strict=True):
        assert index[0] == pytest.approx(wanted[1] + wanted[4])
        assert index[4] == pytest.approx(wanted[6])
        assert index.sum() == pytest.approx(1 - wanted[0] - wanted[8:].sum())
    mean = limelight.explain(model, TEXT, "alpha-avg", layer="mean").scores
    np.testing.assert_allclose(mean, np.mean(results, axis=0))


class Nudged(list):
    """Attention of which one entry is moved as the layers append it."""

    def __init__(self, entry, by):
        super().__init__()
        self.entry, self.by = entry, by

    def append(self, alpha):
        layer, head, s, t = self.entry
        if len(self) == layer:
            alpha = alpha.clone()
            alpha[0, head, s, t] += self.by
        super().append(alpha)


@pytest.mark.parametrize("entry", [(0, 0, 0, 3), (0, 2, 5, 1), (1, 1, 0, 12)])
def test_the_gradient_of_attention_is_what_a_little_more_of_it_does(entry):
    model, step = make_trained_network(outputs=3), 1e-6
    model_input = model.read(TEXT)
    (result,) = model.attention(model_input, lambda f: np.broadcast_to([0.0, 0.0, 1.0], f.shape))
    e = embed_rows(model.network, ids([3, 4, 5, 3, 6, UNK, 7]))
    up, down = (
        float(model.network.embedding_outputs(e, Nudged(entry, by))[0, 2]) for by in (step, -step)
    )
    assert result.gradient[entry] == pytest.approx((up - down) / (2 * step), rel=1e-4)
    (plain,) = model.attention(model_input)
    assert np.isnan(plain.gradient).all()
    np.testing.assert_allclose(plain.alpha, result.alpha)


def differences(model, target, step=1e-5):
    """Oracle: move every number of every embedded token by a little, both ways."""
    module = model.network
    e = embed_rows(module, ids([3, 4, 5, 3, 6, UNK, 7]))

    def value(moved):
        f = module.embedding_outputs(moved)[0].numpy()
        return (np.array([-f[0], f[0]]) if len(f) == 1 else f)[target]

    gradient = np.zeros(e.shape[1:])
    for t, axis in np.ndindex(gradient.shape):
        moved = torch.zeros_like(e)
        moved[0, t, axis] = step
        gradient[t, axis] = (value(e + moved) - value(e - moved)) / (2 * step)
    return gradient, e[0].numpy()


OF_WORD = np.array([-1, 0, 1, 2, 0, 3, 4, 5, *[-1] * 5])[:, None] == np.arange(6)


@pytest.mark.parametrize(("outputs", "target"), [(1, 1), (1, 0), (3, 2)])
def test_gradients_agree_with_differences(outputs, target):
    model = make_trained_network(outputs=outputs)
    g_l1, gxi = (limelight.explain(model, TEXT, m, target=target).scores for m in ("g-l1", "gxi"))
    gradient, e = differences(model, target)
    np.testing.assert_allclose(g_l1, np.abs(gradient).sum(axis=1) @ OF_WORD, rtol=1e-6)
    np.testing.assert_allclose(gxi, (gradient * e).sum(axis=1) @ OF_WORD, rtol=1e-6, atol=1e-9)


def test_the_comparison_with_differences_can_fail():
    model = make_trained_network(outputs=3)
    gradient, _ = differences(model, 1)
    g_l1 = limelight.explain(model, TEXT, "g-l1", target=2).scores
    assert not np.allclose(g_l1, np.abs(gradient).sum(axis=1) @ OF_WORD, rtol=1e-3)


def test_weights_may_be_given_as_numbers_or_as_a_function_of_the_outputs():
    model = make_trained_network(outputs=3)
    model_input = model.read(TEXT)
    points = np.stack([model.embed(model_input), 2 * model.embed(model_input)])
    weights = np.array([[1.0, 0.0, -2.0], [0.0, 3.0, 0.0]])
    arguments = model.gradients(model_input, points, weights)
    request = model.gradients(model_input, points, lambda f: weights[: len(f)])
    np.testing.assert_array_equal(arguments.gradient, request.gradient)
    np.testing.assert_allclose(arguments.outputs[0], model.outputs([model_input])[0], rtol=1e-6)
    swapped = model.gradients(model_input, points, weights[::-1].copy())
    assert np.abs(swapped.gradient - arguments.gradient).max() > 1e-3


def test_integrated_gradients_lead_from_unk_to_the_text():
    model = make_trained_network(outputs=3)
    e = limelight.explain(model, TEXT, "ig", target=2, tolerance=1e-6)
    empty = model.outputs([model.read("UNKNOWN " * 7)])[0, 2]
    full = model.outputs([model.read(TEXT)])[0, 2]
    assert e.base_value == pytest.approx(empty, rel=1e-5)
    assert e.scores.sum() == pytest.approx(full - empty, rel=1e-4)
    with pytest.raises(limelight.InputError, match="Use replacement 'unk'"):
        limelight.explain(model, TEXT, "ig", replacement="delete")


# ----------------------------------------------------------------------- LIME


def lime_from_all_texts(model, text, target, *, delete, samples):
    """Oracle: write every shortened text as a string, read it anew, and fit all of them.

    Sizes are uniform on 1..d, sets of a size alike, the weight is LIME's kernel at 0.25; beside
    them the untouched text with weight 1/n, and a penalty 1/n, as n samples have it.
    """
    tokens = token_strings(text)
    words = list(dict.fromkeys(tokens))
    d, keep = len(words), enumerate_masks(len(words))
    shortened = []
    for row in keep:
        kept_words = {word for word, stays in zip(words, row, strict=True) if stays}
        remaining = [
            t if t in kept_words else "UNKNOWN" for t in tokens if not delete or t in kept_words
        ]
        shortened.append(model.read(" ".join(remaining)))
    f = model.outputs(shortened)[:, target]
    removed = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - removed / d)) ** 2) / (2 * 0.25**2))
    weight = np.where(removed > 0, psi / (d * np.bincount(removed)[removed]), 1 / samples)
    Z = np.column_stack([np.ones(len(keep)), keep])
    penalty = np.diag([0.0, *[1 / samples] * d])
    return np.linalg.solve((Z.T * weight) @ Z + penalty, (Z.T * weight) @ f)[1:]


@pytest.mark.parametrize("delete", [True, False], ids=["deleted", "replaced"])
@pytest.mark.parametrize("text", [TEXT, "w1 w2 w3 w4 w5 w6 w7 w8"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_lime_approaches_the_fit_of_all_subsets(text, delete, outputs):
    model, samples = make_trained_network(1, outputs=outputs), 6000
    target = int(model.outputs([model.read(text)])[0].argmax())
    assert target == 0  # the only output, or the predicted class, which is not the last
    fit = sampled_lime(
        model,
        text,
        samples=samples,
        replacement="delete" if delete else "unk",
        rng=np.random.default_rng(5),
    )
    exact, other = (
        lime_from_all_texts(model, text, target, delete=how, samples=samples)
        for how in (delete, not delete)
    )
    assert (np.abs(fit.scores[0] - exact) < 5 * fit.stderr[0]).all()
    assert (np.abs(fit.scores[0] - other) > 5 * fit.stderr[0]).any()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("replacement", ["unk", "delete"])
def test_lime_of_an_experiment_is_that_of_explain_but_for_its_stream(outputs, replacement):
    model = make_trained_network(1, outputs=outputs)
    e = limelight.explain(model, TEXT, "lime-sampled", samples=200, replacement=replacement, seed=3)
    own_value, other = (
        sampled_lime(model, TEXT, samples=200, replacement=replacement, rng=rng)
        for rng in (text_rng(3, TEXT), np.random.default_rng(3))
    )
    np.testing.assert_allclose(own_value.scores[0], e.scores, rtol=1e-12)
    assert own_value.r2[0] == pytest.approx(e.diagnostics["r2"])
    assert np.abs(other.scores[0] - e.scores).max() > 1e-6
