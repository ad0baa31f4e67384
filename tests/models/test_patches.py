"""The classifier over patches against its formula, written out anew, over all sets of patches."""

import json
import os
import pickle
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import limelight
from limelight import InputError, load
from limelight.explainers import prepare_batch
from limelight.models.attention import PatchClassifier, save_folder
from limelight.text import Vocabulary, read_image
from limelight.theory.lime_weights import size_weight

METHODS = ("lime", "shapley", "banzhaf", "interactions", "loo")
EXACT = {name: {} if name == "loo" else {"tolerance": 1e-12} for name in METHODS}


def image_model(
    seed, grid=(2, 3), size=(2, 3), channels=1, K=2, C=3, d_e=5, scale=1.0, learned=True, **rest
):
    """A classifier with random weights."""
    rng = np.random.default_rng([seed, 29])
    T, p, d_h = grid[0] * grid[1], size[0] * size[1] * channels, 7

    def normal(*shape):
        return rng.standard_normal(shape) * scale

    return PatchClassifier(
        embedding=normal(2, d_e),
        W_q=normal(K, 4, d_e) / 2,
        W_k=normal(K, 4, d_e) / 2,
        W_v=normal(K, 3, d_e),
        W_l=normal(K, C, 3),
        vocabulary=Vocabulary(("[cls]", "UNK")),
        classes=tuple("abcdef"[: max(C, 2)]),
        T_max=1 + T,
        patch_mean=rng.random(p),
        patch_in=normal(d_h, p),
        patch_bias=normal(d_h),
        patch_out=normal(d_e, d_h),
        position_table=normal(1 + T, d_e) if learned else None,
        patch_size=size,
        grid=grid,
        channels=channels,
        **rest,
    )


def random_image(model, seed=0):
    width, height = model.image_size
    rng = np.random.default_rng([seed, 92])
    return read_image(rng.integers(0, 256, (height, width, model.channels), dtype=np.uint8))


def all_masks(d):
    return np.array(list(product((False, True), repeat=d)))


def forward(model, pixels, real=np.longdouble):
    """The formula of an image, patch by patch, in the precision asked for: (n, H, W, C) → (n, C).

    Numbers from 0 to 1; shares nothing with the library but the names of the weights.
    """
    m, W_i, b, W_o = (
        np.asarray(x, real)
        for x in (model.patch_mean, model.patch_in, model.patch_bias, model.patch_out)
    )
    h, w = model.patch_size
    rows = [np.broadcast_to(np.asarray(model.embedding[0], real), (len(pixels), W_o.shape[0]))]
    for i, j in product(range(model.grid[0]), range(model.grid[1])):
        x = pixels[:, i * h : (i + 1) * h, j * w : (j + 1) * w].reshape(len(pixels), -1) - m
        hidden = np.maximum(x @ W_i.T + b, 0) - np.maximum(b, 0)
        rows.append(np.asarray(model.embedding[1], real) + hidden @ W_o.T)
    e = np.stack(rows, axis=1) + np.asarray(model.position_table, real)
    f = 0
    for W_q, W_k, W_v, W_l in zip(model.W_q, model.W_k, model.W_v, model.W_l, strict=True):
        q = np.asarray(W_q, real) @ e[0, 0]
        logit = (e @ np.asarray(W_k, real).T) @ q / np.sqrt(real(len(q)))
        g = np.exp(logit - logit.max(axis=1, keepdims=True))
        alpha = g / g.sum(axis=1, keepdims=True)
        f = f + (alpha[:, :, None] * (e @ np.asarray(W_v, real).T @ np.asarray(W_l, real).T)).sum(1)
    return f / len(model.W_q)


def removed_patches(model, pixels, removal):
    """What stands for each removed patch, as an image in numbers from 0 to 1."""
    h, w = model.patch_size
    if removal == "mean":
        value = np.asarray(model.patch_mean, np.longdouble).reshape(h, w, -1)
        return np.tile(value, (*model.grid, 1))
    if removal == "black":
        return np.zeros(pixels.shape, np.longdouble)
    blurred = np.rint(gaussian_filter(pixels.astype(float), (h / 2, w / 2, 0)))
    return blurred.astype(np.longdouble) / 255


def outputs_of_all(model, image, removal="mean"):
    """All masks, and f of each class for each of them."""
    masks = all_masks(model.grid[0] * model.grid[1])
    h, w = model.patch_size
    full = image.pixels.astype(np.longdouble) / 255
    keep = masks.reshape(-1, *model.grid).repeat(h, axis=1).repeat(w, axis=2)[..., None]
    gone = removed_patches(model, image.pixels, removal)
    return masks, forward(model, np.where(keep, full, gone))


def values_from_definition(masks, f, method):
    """Scores of all patches from the table of f."""
    d = masks.shape[1]
    weights = 1 << np.arange(d)[::-1]
    at, keep = (lambda rows: f[rows @ weights]), masks.sum(axis=1)
    if method == "lime":
        removed = d - keep
        weight = size_weight(d, 0.25)[removed] / [comb(d, int(s)) for s in removed]
        weight = np.sqrt(np.where(removed > 0, weight, 0.0))
        design = np.column_stack([np.ones(len(masks)), masks]) * weight[:, None]
        return np.linalg.lstsq(design, (f * weight).astype(float), rcond=None)[0][1:]
    if method == "interactions":
        return mean_pairs(masks, f)
    scores = []
    for j in range(d):
        without = masks[~masks[:, j]]
        with_j = without.copy()
        with_j[:, j] = True
        if method == "loo":
            scores.append(f[-1] - at(masks[-1:] & (np.arange(d) != j))[0])
            continue
        k = without.sum(axis=1)
        share = (
            [1 / (d * comb(d - 1, int(s))) for s in k] if method == "shapley" else 0.5 ** (d - 1)
        )
        scores.append(((at(with_j) - at(without)) * share).sum())
    return np.array(scores)


def mean_pairs(masks, f):
    """The mean size of each patch's interactions."""
    d = masks.shape[1]
    at = lambda rows: f[rows @ (1 << np.arange(d)[::-1])]  # noqa: E731
    pairs = np.zeros((d, d), np.longdouble)
    for i, j in combinations(range(d), 2):
        none = masks[~masks[:, i] & ~masks[:, j]]
        share = np.array([1 / ((d - 1) * comb(d - 2, int(s))) for s in none.sum(axis=1)])
        first, second = (none | (np.arange(d) == value) for value in (i, j))
        pairs[i, j] = pairs[j, i] = (
            (at(first | second) - at(first) - at(second) + at(none)) * share
        ).sum()
    return np.abs(pairs).sum(axis=1) / (d - 1)


@pytest.mark.parametrize("removal", ["mean", "black", "blurred"])
def test_exact_methods_are_what_all_sets_of_twelve_patches_say(removal):
    model = image_model(3, grid=(3, 4), channels=3, K=2, removal=removal)
    image = random_image(model)
    masks, f = outputs_of_all(model, image, removal)
    target = model.classes.index(limelight.explain(model, [image], "loo")[0].target)
    np.testing.assert_allclose(model.logits([image])[0], f[-1].astype(float), atol=1e-12)
    for method in METHODS:
        (result,) = limelight.explain(model, [image], method, **EXACT[method])
        expected = values_from_definition(masks, f[:, target], method)
        assert np.abs(result.scores - expected).max() < 1e-9, method
        assert np.abs(result.scores - expected).max() <= result.bound + 1e-12, method


def test_the_game_of_each_replacement_is_the_formula():
    model = image_model(5, grid=(2, 4))
    image = random_image(model, 1)
    model_input = model.read(image)
    features = limelight.text.build_features(model_input, "patches")
    for removal in model.replacements:
        masks, f = outputs_of_all(model, image, removal)
        game = model.game(model_input, features, removal)
        np.testing.assert_allclose(game(masks), f.astype(float), atol=1e-12)
        (sampled,) = limelight.explain(
            model, [image], "lime-sampled", replacement=removal, samples=20_000
        )
        (exact,) = limelight.explain(model.with_removal(removal), [image], "lime")
        assert np.all(np.abs(sampled.scores - exact.scores) < 6 * sampled.stderr + 1e-3)


def test_gradient_is_that_of_autograd_and_integrated_gradients_add_up():
    import torch

    model = image_model(11)
    image = random_image(model, 2)
    batch = prepare_batch(model, [image], features="patches")
    seen = batch.collapsed_inputs
    e = torch.tensor(seen.embeddings[0], requires_grad=True)
    q = torch.einsum("kad,d->ka", torch.tensor(model.W_q), e[0])
    logit = torch.einsum("ka,kad,td->kt", q, torch.tensor(model.W_k), e) / model.W_q.shape[1] ** 0.5
    u = torch.einsum("kco,kod,td->kct", torch.tensor(model.W_l), torch.tensor(model.W_v), e)
    f = (torch.softmax(logit, -1)[:, None] * u).sum(-1).mean(0)
    weights = batch.target_gradient
    (f * torch.tensor(weights[0])).sum().backward()
    np.testing.assert_allclose(seen.gradient(weights)[0], e.grad.numpy(), atol=1e-12)
    (ig,) = limelight.explain(model, [image], "ig")
    _, outputs = outputs_of_all(model, image)
    target = model.classes.index(ig.target)
    assert ig.scores.sum() == pytest.approx(
        float(outputs[-1, target] - outputs[0, target]), abs=1e-7
    )


def broken_bounds(seeds):
    """Models and methods whose scores lie further from all subsets than their bound allows."""
    broken = []
    for seed in seeds:
        rng = np.random.default_rng([seed, 7])
        model = image_model(
            seed,
            grid=(int(rng.integers(1, 4)), int(rng.integers(2, 4))),
            channels=int(rng.choice([1, 3])),
            K=int(rng.integers(1, 4)),
            C=int(rng.integers(2, 5)),
            scale=float(np.exp(rng.uniform(-1.5, 0.4))),
            removal=str(rng.choice(["mean", "black", "blurred"])),
        )
        image = random_image(model, seed)
        masks, f = outputs_of_all(model, image, model.removal)
        tolerance = float(rng.choice([1e-3, 1e-6, 1e-12]))
        for method in METHODS:
            arguments = {} if method == "loo" else {"tolerance": tolerance}
            (result,) = limelight.explain(model, [image], method, **arguments)
            index = model.classes.index(result.target)
            # Of two classes the logit is the output less the other's.
            logit = f[:, index] - (f[:, 1 - index] if len(model.classes) == 2 else 0.0)
            expected = values_from_definition(masks, logit, method)
            # The least squares of the definition are in double precision and have no bound.
            room = 1e-13 * float(np.abs(f).max()) if method == "lime" else 0.0
            if not np.abs(result.scores - expected).max() <= result.bound + room:
                broken.append((seed, method))
    return broken


def test_bounds_hold_on_random_models():
    """IMAGE_MODELS=2000 tries two thousand, in a minute and a half."""
    assert broken_bounds(range(int(os.environ.get("IMAGE_MODELS", "60")))) == []


@pytest.mark.parametrize("removal", ["mean", "black"])
def test_a_device_knows_the_errors_of_what_stands_for_removed_patches(removal):
    pytest.importorskip("torch")
    model = image_model(3, removal=removal)
    images = [random_image(model, seed) for seed in range(2)]
    index, target = (
        prepare_batch(value, images).collapsed_inputs.game
        for value in (model, model.to_device("cpu"))
    )
    np.testing.assert_allclose(target.error.numpy(), index.error, rtol=1e-9)


def test_a_folder_restores_the_same_model_and_a_damaged_one_raises_an_error(tmp_path):
    for learned in (True, False):
        model = image_model(1, learned=learned, record={"note": 1}, removal="black")
        save_folder(model, tmp_path / "m")
        again = load(tmp_path / "m")
        assert isinstance(again, PatchClassifier)
        assert again.fingerprint == model.fingerprint != model.with_removal("mean").fingerprint
        assert again.config == model.config
        assert pickle.loads(pickle.dumps(model)).fingerprint == model.fingerprint
    config = json.loads((tmp_path / "m/config.json").read_text())
    for patches, message in (
        ({"size": [2, 3]}, "unusable 'patches'"),
        (config["patches"] | {"grid": [3, 3]}, "a matching T_max and patch_mean"),
        (config["patches"] | {"grid": [2, 3.0]}, "whole numbers"),
        (config["patches"] | {"channels": 2}, "with 1 or 3 channels"),
        (config["patches"] | {"removal": "gray"}, "no removal 'gray'|removal"),
        (None, "the tokenizer must be 'basic_english'"),
    ):
        (tmp_path / "m/config.json").write_text(json.dumps(config | {"patches": patches}))
        with pytest.raises(InputError, match=message):
            load(tmp_path / "m")


def test_images_of_other_sizes_and_colors_are_brought_to_those_of_the_model():
    gray, colors = image_model(1), image_model(1, channels=3)
    flat = read_image(np.full((40, 90, 3), 77, np.uint8))
    for model in (gray, colors):
        model_input = model.read(flat)
        assert model_input.encoding.shape == (4, 9, model.channels)
        assert (model_input.encoding == 77).all()
        assert model_input.warnings == ("The image has 90 × 40 pixels and is read at 9 × 4.",)
        assert model_input.image.boxes[-1] == (60, 20, 90, 40)
    own_value = read_image(np.full((4, 9), 77, np.uint8))
    assert gray.read(own_value).warnings == ()
    assert gray.logits([own_value]) == pytest.approx(gray.logits([flat]))


def test_an_unsupported_request_raises_an_error():
    model = image_model(1)
    image = random_image(model)
    with pytest.raises(InputError, match="can only remove whole patches"):
        limelight.explain(
            model, [image], "loo", features=lambda pixels: np.zeros(pixels.shape[:2], int)
        )
    (joined,) = limelight.explain(model, [image], "shapley", features="1 × 3 patches")
    assert len(joined.scores) == 3
    assert joined.image.boxes[0] == (0, 0, 3, 4)


def test_lime_with_another_replacement_than_the_mean_patch_calls_the_model():
    model = image_model(1)
    image = random_image(model)
    (exact,) = limelight.explain(model, [image], "lime")
    (calls,) = limelight.explain(model, [image], "lime", replacement="black", samples=40)
    assert exact.bound is not None
    assert calls.bound is None
    assert calls.diagnostics["masks"] == 2**6  # so few that all of them are evaluated


def test_shuffled_weights_leave_the_mean_patch():
    model = image_model(1)
    other = model.shuffle_weights(0)
    assert np.array_equal(other.patch_mean, model.patch_mean)
    assert not np.array_equal(other.patch_in, model.patch_in)
