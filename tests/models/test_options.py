"""Biases, skip connections, own embeddings, additive attention: against autograd and all sets."""

import json
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import limelight
from limelight.errors import InputError
from limelight.explainers import prepare_batch
from limelight.models.attention.inputs import padded_ids
from limelight.text import UNK, build_features
from limelight.theory import path_quadrature
from limelight.theory.enumeration import lime_by_enumeration, shapley_by_enumeration
from limelight.theory.ratio_game import extract_document, value
from limelight.verification import verify
from option_models import KINDS, make_model

from tiny_models import SIZES, update_digests

TEXT = "w1 w5 never w5 w8 w2"
kinds = pytest.mark.parametrize("kind", KINDS)


def torch_outputs(model, ids, *, gradient_of=None):
    """Oracle: the model as its definition says; its outputs, or a gradient at the window."""
    weights = {
        name: None if (w := getattr(model, name)) is None else torch.tensor(w.astype(np.float64))
        for name in ("embedding", "W_q", "W_k", "W_v", "W_l", "b_q", "b_k", "b_v", "W_s", "w_a")
    }
    K, d_att, d_e = weights["W_q"].shape
    places = np.arange(model.T_max)[:, None] / 10000 ** (np.arange(0, d_e, 2) / d_e)
    wave = np.zeros((model.T_max, d_e))
    wave[:, 0::2], wave[:, 1::2] = np.sin(places), np.cos(places)[:, : d_e // 2]
    copies = K if model.head_embeddings else 1
    e = weights["embedding"][torch.tensor(ids, dtype=torch.long)]
    e = (e + torch.tensor(np.tile(wave, copies))).requires_grad_(True)
    heads = []
    for i in range(K):
        own_value = e[:, i * d_e : (i + 1) * d_e] if model.head_embeddings else e

        def read(name, bias, own=own_value, i=i):
            x = own @ weights[name][i].T
            return x if weights[bias] is None else x + weights[bias][i]

        q, k, v = read("W_q", "b_q"), read("W_k", "b_k"), read("W_v", "b_v")
        logit = q @ k.T / d_att**0.5
        if model.attention == "additive":
            logit = torch.tanh(q[:, None] + k[None]) @ weights["w_a"][i]
        mixed = torch.softmax(logit, dim=-1) @ v
        heads.append(weights["W_l"][i] @ mixed[0])
    f = sum(heads) / K
    if model.skip is not None:
        f = f + weights["W_s"] @ (e[0] if model.skip == "cls" else e.mean(dim=0))
    if gradient_of is None:
        return f.detach().numpy()
    return torch.autograd.grad(f[gradient_of], e)[0].numpy(), e.detach().numpy()


def window(model, text):
    return padded_ids([model.read(text).encoding.ids], T_max=model.T_max)[0]


@kinds
def test_outputs_are_those_of_the_definition(kind):
    model = make_model(kind)
    np.testing.assert_allclose(
        model.logits([TEXT])[0], torch_outputs(model, window(model, TEXT)), rtol=1e-10
    )


@kinds
def test_gradients_are_those_of_autograd_at_every_position(kind):
    model = make_model(kind)
    batch = prepare_batch(model, [TEXT], target=1, scale="score")
    G, e = torch_outputs(model, window(model, TEXT), gradient_of=1)
    weights = batch.target_gradient
    np.testing.assert_allclose(
        batch.collapsed_inputs.gradient(weights)[0], G, rtol=1e-9, atol=1e-12
    )
    heads = batch.collapsed_inputs.head_gradients(weights)[0]
    np.testing.assert_allclose(heads.mean(axis=0), G, rtol=1e-9, atol=1e-12)
    request = {"target": 1, "scale": "score", "features": "positions"}
    scores = limelight.explain(model, TEXT, "gxi", **request).scores
    np.testing.assert_allclose(scores, (G * e).sum(axis=1)[1 : 1 + len(scores)], rtol=1e-9)


@kinds
def test_the_game_is_the_model_on_all_sets_of_words(kind):
    model = make_model(kind)
    batch = prepare_batch(model, [TEXT], target=1)
    game = extract_document(batch.ratio_game, 0)
    ids, feature_index = window(model, TEXT), batch.features[0].feature_index
    keeps = np.array(list(product([True, False], repeat=game.d)))
    for keep in keeps:
        masked = ids.copy()
        for t, j in enumerate(feature_index):
            if not keep[j]:
                masked[1 + t] = UNK
        no, yes = torch_outputs(model, masked)
        np.testing.assert_allclose(value(game, keep[None])[0, 0], yes - no, rtol=1e-9, atol=1e-11)


@kinds
def test_deletion_is_the_prediction_of_the_shortened_text(kind):
    model, words = make_model(kind), ["w1", "w5", "never", "w8", "w2"]
    model_input = model.read(" ".join(words))
    keep = np.array(list(product([True, False], repeat=len(words))))
    result = model.game(model_input, build_features(model_input), "delete")(keep)
    remaining = [[w for w, stays in zip(words, row, strict=True) if stays] for row in keep]
    wanted = model.logits_of_ids([model.vocabulary.encode(row) for row in remaining])
    np.testing.assert_allclose(result, wanted, rtol=1e-10)
    assert np.ptp(wanted[:, 0]) > 1e-3


@kinds
def test_exact_methods_keep_their_bounds(kind):
    model = make_model(kind)
    game = extract_document(prepare_batch(model, [TEXT], target=1).ratio_game, 0)
    for method, oracle in (
        ("shapley", shapley_by_enumeration(game)),
        ("lime", lime_by_enumeration(game).scores),
    ):
        e = limelight.explain(model, TEXT, method, target=1, tolerance=1e-8)
        assert np.abs(e.scores - oracle[0]).max() <= e.bound < 1e-5


def test_too_few_panels_for_hidden_units_give_a_warning(monkeypatch):
    model = make_model("additive, all")
    steep = replace(model, w_a=40 * model.w_a)
    proven = limelight.explain(steep, TEXT, "ig")
    assert proven.warnings == limelight.explain(steep, TEXT, "loo").warnings
    monkeypatch.setattr(path_quadrature, "MAX_PANELS", 2)
    cut = limelight.explain(steep, TEXT, "ig")
    (warning,) = [warning for warning in cut.warnings if "proven error" in warning]
    (error,) = re.findall(r"is (\S+), above the tolerance", warning)
    assert float(error) >= (1 - 1e-6) * cut.bound  # rounded up; the bound has rounding
    assert 1e-9 < np.abs(cut.scores - proven.scores).max() <= cut.bound + proven.bound


# What has all options at once is looked at always, what has one of them in .ci/run.
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind.endswith("all") else pytest.mark.slow) for kind in KINDS],
)
def test_every_check_of_verify_passes(kind):
    checks = list(verify(make_model(kind), "w1 w5. never w5 w8 w9 w2 w3 w4 w7"))
    assert [check for check in checks if not check.passed] == []


def test_verify_would_warning_a_forgotten_bias(monkeypatch):
    model = make_model("biases")
    tables = model.tables
    wrong = type(tables)(
        tables.word_logit,
        tables.word_value,
        tables.position_logit,
        tables.position_value + np.arange(2)[:, None],
    )
    monkeypatch.setitem(model.__dict__, "tables", wrong)
    failed = {check.method for check in verify(model, TEXT) if not check.passed}
    assert "alpha-grad" in failed


@kinds
def test_attention_is_that_of_the_heads_alone(kind):
    model = make_model(kind)
    e = limelight.explain(model, TEXT, "alpha-avg", features="positions")
    rows = model.attention_matrices(model.read(TEXT))
    assert rows.shape[0] == SIZES["K"] == len(e.heads)
    np.testing.assert_allclose(e.scores, rows[:, 0, 1:].mean(axis=0), rtol=1e-9)


@kinds
def test_a_folder_brings_the_model_back(kind, tmp_path):
    model = make_model(kind)
    limelight.save_folder(model, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    again = limelight.load(tmp_path / "m")
    assert again.fingerprint == model.fingerprint
    np.testing.assert_array_equal(again.logits([TEXT]), model.logits([TEXT]))
    assert (again.skip, again.head_embeddings) == (model.skip, model.head_embeddings)
    assert again.attention == model.attention == config["attention"]


def test_options_change_the_fingerprint():
    prints = {make_model(kind).fingerprint for kind in KINDS}
    assert len(prints) == len(KINDS)


@pytest.mark.parametrize(
    ("name", "bad"), [("skip", "sum"), ("head_embeddings", 1), ("attention", ["additive"])]
)
def test_a_folder_with_unusable_options_raises_an_error(name, bad, tmp_path):
    limelight.save_folder(make_model("skip of the mean"), tmp_path / "m")
    place = tmp_path / "m" / "config.json"
    config = json.loads(place.read_text()) | {name: bad}
    place.write_text(json.dumps(config))
    with pytest.raises(InputError, match=f"unusable '{name}'"):
        limelight.load(tmp_path / "m")


@pytest.mark.parametrize("lost", ["attention", "w_a"])
def test_a_folder_that_lost_half_of_additive_attention_raises_an_error(lost, tmp_path):
    """Read as dot products, it would be another model."""
    folder = tmp_path / "m"
    limelight.save_folder(make_model("additive"), folder)
    if lost == "w_a":
        tensors = load_file(folder / "model.safetensors")
        del tensors["w_a"]
        save_file(tensors, folder / "model.safetensors")
        update_digests(folder)
    else:
        config = json.loads((folder / "config.json").read_text())
        del config["attention"]
        (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError) as caught:
        limelight.load(folder)
    assert str(caught.value) == (
        f"the model folder '{folder}' cannot be used: additive attention needs both its name "
        "(attention) and the weights of its hidden units (w_a)."
    )


@pytest.mark.parametrize("kind", ["all", "additive, all"])
def test_a_device_gives_the_same_numbers(kind):
    model = make_model(kind)
    np.testing.assert_allclose(
        model.to_device("cpu").logits([TEXT]), model.logits([TEXT]), rtol=1e-12
    )
    index, target = (
        limelight.explain(m, [TEXT], "shapley")[0] for m in (model, model.to_device("cpu"))
    )
    np.testing.assert_allclose(target.scores, index.scores, atol=1e-9)
    index, target = (limelight.explain(m, TEXT, "ig") for m in (model, model.to_device("cpu")))
    np.testing.assert_allclose(target.scores, index.scores, atol=1e-12)


@kinds
@pytest.mark.parametrize("repeat", [1, 9], ids=["few tokens", "many tokens"])
def test_the_module_that_is_trained_computes_the_same(kind, repeat):
    from limelight.training import AttentionModule

    model = make_model(kind)
    ids = torch.tensor(np.tile(window(model, TEXT), (repeat, 1)), dtype=torch.long)
    module = AttentionModule.from_classifier(model, dtype=torch.float64)
    f = module(ids)
    np.testing.assert_allclose(f[0].detach().numpy(), model.logits([TEXT])[0], rtol=1e-10)
    (f * torch.arange(1, 3)).sum().backward()
    still = {name for name, p in module.named_parameters() if p.grad is None or not p.grad.any()}
    assert still <= (set() if model.attention == "additive" else {"b_k"})  # no dot product warnings
    again = module.to_classifier(model.vocabulary, model.classes)
    np.testing.assert_allclose(again.logits([TEXT]), model.logits([TEXT]), rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        ("biases=true", "skip=mean"),
        ("skip=cls", "head_embeddings=true"),
        ("biases=true",),
        ("attention=additive",),
    ],
    ids=str,
)
def test_the_command_trains_models_with_options(limelight, tmp_path, options):
    from limelight.models.attention import load_folder

    data = tmp_path / "reviews.jsonl"
    rows = [{"text": f"{w} film {i}", "label": w} for i in range(20) for w in ("good", "bad")]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = ["d_e=7", "heads=3", "d_att=5", "d_out=11", "T_max=13", "batch=4", "learning_rate=0.03"]
    settings = [part for pair in (*small, *options) for part in ("--set", pair)]
    run = limelight("train", data, "--output", tmp_path / "m", "--epochs", 3, *settings)
    assert run.code == 0, run.err
    model = load_folder(tmp_path / "m")
    assert (model.b_v is not None) == ("biases=true" in options)
    assert (model.w_a is not None) == ("attention=additive" in options)
    assert model.skip == next((o[5:] for o in options if o.startswith("skip=")), None)
    assert [c.method for c in verify(model, "good film 3 bad") if not c.passed] == []


def test_a_recipe_with_an_unknown_skip_raises_an_error():
    from limelight.training import Recipe

    with pytest.raises(InputError, match=r"unknown skip: 'sum'\. Choose from: mean, cls"):
        Recipe(skip="sum")
    assert (Recipe(skip="cls").skip, Recipe(skip=None).skip) == ("cls", None)
