"""Image classifiers of transformers by patches: against the bare network and autograd."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from all_subsets import lime_by_subsets, shapley_by_subsets
from transformers import (
    BeitConfig,
    BeitForImageClassification,
    ConvNextConfig,
    ConvNextForImageClassification,
    DeiTConfig,
    DeiTForImageClassification,
    SwinConfig,
    SwinForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import limelight
from limelight.errors import InputError
from limelight.models import has, reason_missing
from limelight.text import build_features, read_image
from limelight.text.images import blur

from tiny_models import tiny_model

VIT = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "vit-mini-fashion"
FASHION = VIT.parents[1] / "data" / "fashion_mnist" / "test.parquet"
_SMALL = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "num_labels": 3}
_PLAIN = {"image_size": 12, "patch_size": 4, "intermediate_size": 24, "initializer_range": 0.12}
_STAGES = {"hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2, "num_labels": 3}
FAMILIES = {
    "vit": lambda: ViTForImageClassification(ViTConfig(**_SMALL, **_PLAIN)),
    "deit": lambda: DeiTForImageClassification(DeiTConfig(**_SMALL, **_PLAIN)),
    "beit": lambda: BeitForImageClassification(BeitConfig(**_SMALL, **_PLAIN)),
    "swin": lambda: SwinForImageClassification(
        SwinConfig(
            image_size=16, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2],
            window_size=4, num_labels=3, initializer_range=0.5,
        )
    ),
    "convnext": lambda: ConvNextForImageClassification(
        ConvNextConfig(**_STAGES, initializer_range=0.5)
    ),
}  # fmt: skip
TRANSFORMERS = ("vit", "deit", "beit")


def processor(size):
    half = [0.5, 0.4, 0.3]
    return ViTImageProcessorPil(
        size={"height": size, "width": size}, image_mean=half, image_std=half[::-1]
    )


@cache
def tiny_images(family):
    torch.manual_seed(3)
    network = FAMILIES[family]().eval()
    with torch.no_grad():  # biases and positions begin at zero, where layer norms have no slope
        for name, weight in network.named_parameters():
            if weight.dim() == 1 or "token" in name or "position" in name:
                weight += 0.3 * torch.randn_like(weight)
    side = {"swin": 16, "convnext": 14}.get(family, 12)
    return limelight.wrap(network, processor=processor(side))


def photo(height=24, width=24, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def network_logits(model, pixels, keep, rows, gone=0.0):
    """Return the logits of the bare network, patches that do not stay set to ``gone`` by hand."""
    values = model.tokenizer(pixels, return_tensors="pt", input_data_format="channels_last")
    values = values["pixel_values"].clone()
    gone = torch.as_tensor(gone) * torch.ones_like(values)
    edges = [-(-k * values.shape[2] // rows) for k in range(rows + 1)]
    for i, (top, bottom) in enumerate(pairwise(edges)):
        for j, (remaining, right) in enumerate(pairwise(edges)):
            if not keep[i * rows + j]:
                values[:, :, top:bottom, remaining:right] = gone[:, :, top:bottom, remaining:right]
    with torch.no_grad():
        return model.network(values.to(model.network.dtype)).logits[0].double().numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_removing_patches_is_replacing_pixels_by_hand(family):
    model, pixels = tiny_images(family), photo()
    model_input = model.read(pixels)
    rows = 3 if family in TRANSFORMERS else 7
    assert len(model_input.tokens) == rows * rows
    game = limelight.game(model, pixels)
    masks = np.random.default_rng(1).random((5, rows * rows)) < 0.5
    masks[0] = True
    expected = [network_logits(model, pixels, keep, rows) for keep in masks]
    assert np.abs(game(masks) - expected).max() < 1e-5
    assert np.abs(model.outputs([model_input]) - expected[0]).max() < 1e-5
    black = model.tokenizer(0 * pixels, return_tensors="np", input_data_format="channels_last")
    soft = model.tokenizer(blur(pixels), return_tensors="np", input_data_format="channels_last")
    for name, gone in (("black", black), ("blurred", soft)):
        result = limelight.game(model, pixels, replacement=name)(masks[1:])
        value = [network_logits(model, pixels, k, rows, gone["pixel_values"]) for k in masks[1:]]
        assert np.abs(result - value).max() < 1e-5


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_gradients_and_attention_are_those_of_the_bare_network(family):
    model, pixels = tiny_images(family), photo()
    assert all(has(model, value) for value in ("attention", "gradients", "lrp"))
    model_input, network = model.read(pixels), model.network
    values = torch.as_tensor(model_input.encoding.values[None])
    special = {"deit": 2}.get(family, 1)
    assert model.token_positions(model_input).tolist() == [-1] * special + list(range(9))

    keep = {}

    def hold(_module, _given, rows):
        keep["rows"] = rows.detach().requires_grad_()
        return keep["rows"] * 1

    handle = network.get_input_embeddings().register_forward_hook(hold)
    try:
        logits = network(values).logits
        (gradient,) = torch.autograd.grad(logits[0, 1], keep["rows"])
    finally:
        handle.remove()
    e = limelight.explain(model, pixels, "gxi", target=1)
    by_autograd = (gradient[0] * keep["rows"].detach()[0]).sum(-1).double().numpy()
    assert np.abs(e.scores - by_autograd).max() < 1e-5 * np.abs(by_autograd).max()

    ig = limelight.explain(model, pixels, "ig", target=1, steps=200)
    gap = model.outputs([model_input])[0, 1] - ig.base_value - ig.scores.sum()
    assert abs(gap) < 2e-3 * abs(ig.scores).sum()
    base = network_logits(model, pixels, np.zeros(9, bool), 3)
    assert abs(ig.base_value - base[1]) < 1e-5

    usual = network.config._attn_implementation
    network.set_attn_implementation("eager")
    alpha = network(values, output_attentions=True).attentions
    network.set_attn_implementation(usual)
    (output,) = model.attention(model_input)
    assert output.alpha.shape == (3, 2, 9 + special, 9 + special)
    assert np.abs(output.alpha - torch.stack(alpha)[:, 0].detach().numpy()).max() < 1e-6


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_frozen_weights_share_out_what_the_patches_do(family):
    model, pixels = tiny_images(family), photo()
    model_input = model.read(pixels)
    index = model.embed(model_input)
    first = np.eye(3)[1:2]
    full = model.frozen_gradient(model_input, index[None], first)
    assert np.abs(full.outputs - model.outputs([model_input])).max() < 1e-4
    e = limelight.explain(model, pixels, "lrp", target=1)
    product = (full.gradient[0] * index).sum(axis=-1)[-9:]
    assert np.abs(e.scores - product).max() < 1e-5 * np.abs(product).max()


def test_a_network_without_patches_has_reasons_for_missing_capabilities():
    for family, message in (
        ("swin", "more than vectors"),
        ("convnext", "does not return an embedding"),
    ):
        model = tiny_images(family)
        for value in ("attention", "attention_only", "gradients", "lrp"):
            assert message in reason_missing(model, value)
        assert "does not return a hidden state for every token and layer" in reason_missing(
            model, "hidden_states"
        )
        with pytest.raises(InputError, match=message):
            limelight.explain(model, photo(), "gxi")
        for method in ("shapley", "lime", "loo", "banzhaf"):
            e = limelight.explain(model, photo(), method, grid=2)
            assert e.feature_kind == "2 × 2 patches"
            assert len(e) == 4


def test_the_values_of_a_small_game_are_those_of_all_subsets_by_hand():
    model, pixels = tiny_images("vit"), photo()
    masks = (np.arange(16)[:, None] >> np.arange(4)) % 2 == 1
    # Patches of a 3 × 3 grid belong to the cell of a 2 × 2 grid that holds their middle.
    place = build_features(model.read(pixels), "2 × 2 patches").feature_index
    values = np.array([network_logits(model, pixels, keep[place], 3)[1] for keep in masks])
    exact = np.zeros(4)
    for j in range(4):
        for s in range(16):
            if not masks[s, j]:
                size = masks[s].sum()
                weight = 1 / (4 * [1, 3, 3, 1][size])
                exact[j] += weight * (values[s | 1 << j] - values[s])
    e = limelight.explain(model, pixels, "shapley", grid=2, target=1, pairs=3000, seed=0)
    assert np.abs(e.scores - exact).max() < 5 * (
        1e-4 if e.stderr is None else max(e.stderr.max(), 1e-4)
    )
    assert abs(e.scores.sum() - (values[15] - values[0])) < 1e-5


def halves(pixels):
    return np.broadcast_to(np.arange(pixels.shape[1]) >= pixels.shape[1] // 2, pixels.shape[:2]) * 1


def test_segments_are_removed_pixel_by_pixel_and_pool_what_lies_in_them():
    model, pixels = tiny_images("vit"), photo()
    e = limelight.explain(model, pixels, "loo", features=halves, target=1)
    assert e.image.regions is not None
    assert e.features == ("segment 1", "segment 2")
    values = torch.as_tensor(model.read(pixels).encoding.values[None])
    full = model.network(values).logits[0, 1].item()
    values[:, :, :, :6] = 0
    without = model.network(values).logits[0, 1].item()
    assert abs(e.scores[0] - (full - without)) < 1e-5
    gxi = limelight.explain(model, pixels, "gxi", features=halves, target=1)
    value = limelight.explain(model, pixels, "gxi", target=1).scores.reshape(3, 3)
    # The middle column of patches has its middle in the second half.
    assert np.allclose(gxi.scores, [value[:, :1].sum(), value[:, 1:].sum()], atol=1e-5)


def test_a_processor_that_cuts_shows_where_its_patches_are():
    torch.manual_seed(0)
    network = FAMILIES["convnext"]().eval()
    cutting = ConvNextImageProcessorPil(size={"shortest_edge": 28}, crop_pct=0.875)
    model = limelight.wrap(network, processor=cutting)
    model_input = model.read(photo(64, 128))
    boxes = np.array(model_input.image.boxes)
    # To 32 × 64, of which the middle 28 × 28 are seen: 56 × 56 pixels from (36, 4) on.
    assert (
        np.abs(np.array([*boxes[:, :2].min(0), *boxes[:, 2:].max(0)]) - [36, 4, 92, 60]).max() <= 1
    )
    assert any("cuts a part of" in warning for warning in model_input.warnings)
    assert model.read(photo(28, 28)).warnings != ()
    full = tiny_images("vit").read(photo(50, 30))
    assert full.warnings == ()
    assert np.array(full.image.boxes).max(0).tolist() == [20, 33, 30, 50]


def test_a_processor_may_leave_size_and_scale_as_they_are():
    network = tiny_images("vit").network
    as_it_is = ViTImageProcessorPil(do_resize=False, do_rescale=False, do_normalize=False)
    model, pixels = limelight.wrap(network, processor=as_it_is), photo(12, 12)
    values = torch.as_tensor(pixels).permute(2, 0, 1)[None].float()
    with torch.inference_mode():
        full, gone = network(values).logits, network(torch.full_like(values, 127.5)).logits
    result = limelight.game(model, pixels)(np.array([[True] * 9, [False] * 9]))
    assert np.allclose(result, torch.cat([full, gone]).numpy(), atol=1e-5)


def test_gray_and_colors_are_turned_into_each_other():
    gray = photo(channels=1)
    model = tiny_images("vit")
    same = np.repeat(gray, 3, axis=2)
    assert np.array_equal(model.outputs([model.read(gray)]), model.outputs([model.read(same)]))
    torch.manual_seed(0)
    config = ViTConfig(**_SMALL, **_PLAIN, num_channels=1)
    value = limelight.wrap(
        ViTForImageClassification(config).eval(),
        processor=ViTImageProcessorPil(
            size={"height": 12, "width": 12}, image_mean=[0.3], image_std=[0.3]
        ),
    )
    model_input = value.read(photo())
    assert any("colors of this image were removed" in warning for warning in model_input.warnings)
    with pytest.raises(InputError, match="images must have 1 or 3 channels"):
        limelight.wrap(
            ViTForImageClassification(ViTConfig(**_SMALL, **_PLAIN, num_channels=4)),
            processor=processor(12),
        )


def test_another_object_and_a_model_of_texts_raise_an_error(tmp_path):
    model, text_model = tiny_images("vit"), tiny_model()
    for arguments, message in (
        ("a film", "'a film' is no file"),
        (tmp_path, "must be the path of a file"),
        (photo(1, 1), "at least 2 × 2 pixels"),
        (photo() / 100, "float pixels must be between 0 and 1"),
        (photo(channels=2), "1, 3 or 4 channels"),
        (("a", "b"), "this model reads single images"),
    ):
        with pytest.raises(InputError, match=message):
            limelight.explain(model, arguments)
    for arguments in (photo(), read_image(photo()), b"PNG", tmp_path / "a.png"):
        with pytest.raises(InputError, match=r"an image .* needs a model that reads images, but"):
            limelight.explain(text_model, arguments)
    for request, message in (
        ({"grid": 4}, r"a grid of 4 × 4 is too fine"),
        ({"grid": 0}, "grid must be a positive whole number, not 0"),
        (
            {"grid": 2, "features": "segments"},
            "grid needs features='patches', not features='segments'",
        ),
        (
            {"features": "words"},
            "'words' are parts of a text, but this is an image. Choose from: patches",
        ),
        ({"features": "tokens"}, "an image has no subword tokens"),
        ({"at": "x"}, "classifies whole images"),
        ({"replacement": "mask"}, "mean"),
        ({"protect": ["row 1, column 1"]}, "pass groups of patches as features"),
        ({"method": "owen"}, "'sentences' are parts of a text, but this is an image"),
    ):
        with pytest.raises(InputError, match=message):
            limelight.explain(model, photo(), **request)
    with pytest.raises(InputError, match="'patches' are parts of an image, but this is a text"):
        limelight.explain(text_model, "a film", features="patches")
    with pytest.raises(InputError, match="its processor"):
        limelight.wrap(model.network)


def test_verbs_take_images_of_all_kinds_and_tell_them_apart(tmp_path):
    from PIL import Image

    model = tiny_images("vit")
    file = tmp_path / "shirt.png"
    Image.fromarray(photo()).save(file)
    values = [photo(), file, str(file), Image.open(file), read_image(file)]
    explanation = limelight.explain(model, values, "loo")
    assert all(np.array_equal(e.scores, explanation[0].scores) for e in explanation)
    assert explanation[1].text == f"shirt.png (24 × 24, {read_image(file).digest})"
    stacked = limelight.explain(model, [photo(), photo(seed=1)], "loo")
    with pytest.raises(InputError, match="Pass several images as a list"):
        limelight.explain(model, np.stack([photo(), photo(seed=1)]), "loo")
    assert stacked[0].text != stacked[1].text
    by_class = limelight.explain_classes(model, file, "loo")
    assert set(by_class) == set(model.classes)
    assert limelight.predict(model, file)["text"] == explanation[1].text
    c = limelight.compare(model, file, methods=["loo", "lrp", "alpha-avg", "rollout"])
    assert [len(e) for e in c] == [9] * 4
    assert any(
        "of the attention goes to the patches" in warning for warning in c["rollout"].warnings
    )
    assert limelight.compare(model, file, methods=["loo"]).to_json()
    e = limelight.explain(model, file, "shapley", replacement="blurred")
    assert e.settings["replacement"] == "blurred"
    assert model.fingerprint == tiny_images("vit").fingerprint
    assert model.fingerprint != tiny_images("deit").fingerprint


@pytest.mark.slow  # 552 direct calls
@pytest.mark.skipif(not VIT.exists(), reason="the shared ViT is not here")
def test_the_shared_vit_says_what_direct_calls_of_it_say():
    import pyarrow.parquet as pq

    model = limelight.load(VIT)
    row = pq.read_table(FASHION).slice(3, 1).to_pylist()[0]
    pixels = read_image(row["image"]).pixels
    masks = np.random.default_rng(0).random((40, 49)) < 0.5
    game = limelight.game(model, row["image"])
    by_calls = np.array([network_logits(model, pixels, keep, 7) for keep in masks])
    assert np.abs(game(masks) - by_calls).max() < 1e-4

    # Nine parts of the image, of which direct calls tell all 512 subsets.
    masks = (np.arange(512)[:, None] >> np.arange(9)) % 2 == 1
    place = build_features(model.read(row["image"]), "3 × 3 patches").feature_index
    by_calls = np.array([network_logits(model, pixels, keep[place], 7) for keep in masks])
    e = limelight.explain(model, row["image"], "shapley", grid=3, pairs=400)
    assert e.target == model.classes[int(by_calls[-1].argmax())]
    values = by_calls[:, model.classes.index(e.target)]
    spread = 1e-4 if e.stderr is None else 5 * e.stderr + 1e-4
    assert (np.abs(e.scores - shapley_by_subsets(masks, values)) < spread).all()
    lime = limelight.explain(model, row["image"], "lime", grid=3, samples=4000)
    spread = 1e-4 if lime.stderr is None else 5 * lime.stderr + 1e-4
    assert (np.abs(lime.scores - lime_by_subsets(masks, values)[1:]) < spread).all()
