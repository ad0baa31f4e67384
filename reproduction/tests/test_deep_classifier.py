"""The deep networks and their scores against other roads: torch's own attention, differences,
all subsets.
"""

import numpy as np
import pytest
import torch
from deep_toys import SHAPE, network, trained

from limelight_reproduction.deep import scores
from limelight.text import CLS, UNK, token_strings
from limelight.theory.enumeration import all_keeps

TEXT = "w1 w2 w3 w1 w4 never w5"


def ids(*rows, T_max=SHAPE.T_max):
    found = np.full((len(rows), T_max), UNK)
    found[:, 0] = CLS
    for row, words in zip(found, rows, strict=True):
        row[1 : 1 + len(words)] = words
    return torch.from_numpy(found)


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


def embedded(module, rows):
    return torch.nn.functional.embedding(rows, module.embedding) + module.positions


def test_attention_is_that_of_torch_in_every_layer_and_head():
    module, rows = network(), ids([2, 3, 4], [5, 6, 7, 8, 5, 9])
    found = module.attention(rows)
    assert found.shape == (2, 2, 3, 13)  # layers, texts, heads, positions
    e = embedded(module, rows)
    for layer, block in enumerate(module.layers):
        weights, _ = attention_by_torch(module, e, layer)
        torch.testing.assert_close(found[layer], weights[:, :, 0], rtol=1e-4, atol=1e-6)
        e = block(e)


def test_attention_of_another_layer_is_another():
    module, rows = network(), ids([2, 3, 4])
    weights, _ = attention_by_torch(module, embedded(module, rows), 1)
    assert (module.attention(rows)[0] - weights[:, :, 0]).abs().max() > 1e-2


def test_a_layer_pools_as_torch_does():
    module, rows = network(), ids([2, 3, 4], [5, 6, 7, 8, 5, 9])
    e, block = embedded(module, rows), module.layers[0]
    _, pooled = attention_by_torch(module, e, 0)
    with torch.no_grad():
        e = e + pooled @ block.mixed.weight.T + block.mixed.bias
        hidden = torch.nn.functional.gelu(block.hidden(block.norm_hidden(e)))
        expected = e + hidden @ block.back.weight.T + block.back.bias
        torch.testing.assert_close(block(embedded(module, rows)), expected, rtol=1e-3, atol=1e-3)


def test_on_the_cpu_training_computes_in_full_precision():
    module, rows = network(), ids([2, 3, 4], [5, 6])
    plain = module(rows)
    assert plain.dtype == torch.float32
    noisy = module(rows, dropout=0.0, rng=np.random.default_rng(0))
    torch.testing.assert_close(noisy, plain, rtol=0, atol=0)
    torch.testing.assert_close(plain, module.of_embedded(embedded(module, rows)), rtol=0, atol=0)
    with torch.autocast("cpu", torch.bfloat16):
        lossy = module.of_embedded(embedded(module, rows))
    assert (lossy.float() - plain).abs().max() > 1e-4  # what half precision would do


def test_dropout_needs_random_numbers_and_then_changes_the_outputs():
    module, rows = network(), ids([2, 3, 4])
    same, other = (module(rows, dropout=0.5, rng=np.random.default_rng(seed)) for seed in (1, 2))
    assert not torch.equal(same, other)
    torch.testing.assert_close(module(rows, dropout=0.5), module(rows))


# ---------------------------------------------------------------- what it sees


def test_repeated_words_are_one_feature():
    read = scores.seen(trained(), TEXT)
    assert read.words == ("w1", "w2", "w3", "w4", "never", "w5")
    assert read.of_token.tolist() == [0, 1, 2, 0, 3, 4, 5]
    assert read.window[0].tolist() == [CLS, 3, 4, 5, 3, 6, UNK, 7, *[UNK] * 5]
    assert read.of_position.tolist() == [-1, 0, 1, 2, 0, 3, 4, 5, *[-1] * 5]
    x = np.arange(13.0)
    assert read.summed(x).tolist() == [1 + 4, 2, 3, 5, 6, 7]


def test_words_beyond_the_window_are_no_features_unless_they_were_there_before():
    words = [f"w{i}" for i in range(14)]  # T_max is 13 with [cls]
    read = scores.seen(trained(), " ".join([*words, "w3"]))
    assert read.words == tuple(words[:12])
    assert read.of_token.tolist() == [*range(12), -1, -1, 3]
    assert read.window[0].tolist() == [CLS, *range(2, 14)]
    assert read.of_position.tolist() == [-1, *range(12)]


def test_what_moves_into_the_window_is_read_under_deletion():
    model = trained()
    read = scores.seen(model, " ".join(f"w{i}" for i in range(14)))
    asked = []
    module = model.network.forward

    def heard(rows, **kwargs):
        asked.append(rows.numpy().copy())
        return module(rows, **kwargs)

    model.network.forward = heard
    scores.lime_scores(model, read, 1, samples=40, delete=True, rng=np.random.default_rng(0))
    everything = np.concatenate(asked)
    assert 14 in everything  # w12, which the whole text's window lacks
    assert 14 not in read.window


def test_a_text_without_words_has_no_features():
    read = scores.seen(trained(), "")
    assert read.words == ()
    assert read.window[0].tolist() == [CLS, *[UNK] * 12]
    assert read.summed(np.ones(13)).shape == (0,)


# ------------------------------------------------------------------- the scores


def test_one_output_speaks_for_the_second_class():
    single, several = trained(), trained(outputs=3)
    rows = scores.seen(single, TEXT).window
    f = single.network(torch.from_numpy(rows)).numpy()[0, 0]
    assert scores.outputs(single, rows)[0] == pytest.approx([-f, f])
    assert scores.outputs(several, rows)[0] == pytest.approx(
        several.network(torch.from_numpy(rows)).numpy()[0]
    )


def test_outputs_do_not_depend_on_how_many_are_asked_at_once(monkeypatch):
    model = trained()
    rows = ids(*[[2 + i, 3 + i] for i in range(7)]).numpy()
    whole = scores.outputs(model, rows)
    monkeypatch.setattr(scores, "_CHUNK", 3)
    np.testing.assert_allclose(scores.outputs(model, rows), whole, rtol=1e-6)


def test_attention_scores_are_summed_over_places_and_lack_what_padding_takes():
    model = trained()
    read = scores.seen(model, TEXT)
    found = scores.attention_scores(model, read)
    alpha = model.network.attention(torch.from_numpy(read.window))[:, 0].mean(dim=1).numpy()
    assert found.shape == (2, 6)
    np.testing.assert_allclose(found[:, 0], alpha[:, 1] + alpha[:, 4])
    np.testing.assert_allclose(found[:, 4], alpha[:, 6])
    np.testing.assert_allclose(found.sum(axis=1), 1 - alpha[:, 0] - alpha[:, 8:].sum(axis=1))


def differences(model, read, target, step=1e-5):
    """Oracle: move every number of every embedded token by a little, both ways."""
    module = model.network
    e = embedded(module, torch.from_numpy(read.window))

    def value(moved):
        f = module.of_embedded(moved)[0].numpy()
        return (np.array([-f[0], f[0]]) if len(f) == 1 else f)[target]

    gradient = np.zeros(e.shape[1:])
    for t, axis in np.ndindex(gradient.shape):
        moved = torch.zeros_like(e)
        moved[0, t, axis] = step
        gradient[t, axis] = (value(e + moved) - value(e - moved)) / (2 * step)
    return gradient, e[0].numpy()


@pytest.mark.parametrize(("outputs", "target"), [(1, 1), (1, 0), (3, 2)])
def test_gradients_agree_with_differences(outputs, target):
    model = trained(outputs=outputs)
    read = scores.seen(model, TEXT)
    g_l1, gxi = scores.gradient_scores(model, read, target)
    gradient, e = differences(model, read, target)
    of_word = read.of_position[:, None] == np.arange(len(read.words))
    np.testing.assert_allclose(g_l1, np.abs(gradient).sum(axis=1) @ of_word, rtol=1e-6)
    np.testing.assert_allclose(gxi, (gradient * e).sum(axis=1) @ of_word, rtol=1e-6, atol=1e-9)


def test_the_comparison_with_differences_can_fail():
    model = trained(outputs=3)
    read = scores.seen(model, TEXT)
    gradient, _ = differences(model, read, 1)
    of_word = read.of_position[:, None] == np.arange(len(read.words))
    g_l1, _ = scores.gradient_scores(model, read, 2)
    assert not np.allclose(g_l1, np.abs(gradient).sum(axis=1) @ of_word, rtol=1e-3)


def by_enumeration(model, text, target, *, delete, samples):
    """Oracle: write every shortened text as a string, read it anew, and fit all of them.

    Sizes are uniform on 1..d, sets of a size alike, the weight is LIME's kernel at 0.25; beside
    them the untouched text with weight 1/n, and a penalty 1/n, as n samples have it.
    """
    tokens = token_strings(text)
    words = list(dict.fromkeys(tokens))
    d, keep = len(words), all_keeps(len(words))
    f = []
    for row in keep:
        kept = {word for word, stays in zip(words, row, strict=True) if stays}
        left = [t if t in kept else "UNKNOWN" for t in tokens if not delete or t in kept]
        f.append(scores.outputs(model, scores.seen(model, " ".join(left)).window)[0, target])
    removed = d - keep.sum(axis=1)
    psi = np.exp(-((1 - np.sqrt(1 - removed / d)) ** 2) / (2 * 0.25**2))
    weight = np.where(removed > 0, psi / (d * np.bincount(removed)[removed]), 1 / samples)
    Z = np.column_stack([np.ones(len(keep)), keep])
    penalty = np.diag([0.0, *[1 / samples] * d])
    return np.linalg.solve((Z.T * weight) @ Z + penalty, (Z.T * weight) @ np.array(f))[1:]


@pytest.mark.parametrize("delete", [True, False], ids=["deleted", "replaced"])
@pytest.mark.parametrize("text", [TEXT, "w1 w2 w3 w4 w5 w6 w7 w8"])
def test_lime_approaches_the_fit_of_all_subsets(text, delete):
    model, samples = trained(outputs=3), 6000
    fit = scores.lime_scores(
        model,
        scores.seen(model, text),
        2,
        samples=samples,
        delete=delete,
        rng=np.random.default_rng(5),
    )
    exact, other = (
        by_enumeration(model, text, 2, delete=how, samples=samples) for how in (delete, not delete)
    )
    assert (np.abs(fit.scores[0] - exact) < 5 * fit.stderr[0]).all()
    assert (np.abs(fit.scores[0] - other) > 5 * fit.stderr[0]).any()
