"""Training on images: patches in the place of words, by the same loop and the same command."""

import io
from dataclasses import replace

import numpy as np
import pytest

import limelight
from limelight import InputError, LabeledTexts, load
from limelight.text import read_image
from limelight.training import RECIPES, prepare, train
from limelight.training.images import PatchModule
from limelight.training.state import make_initial_module

QUICK = replace(RECIPES["images"], epochs=4, grid=3, heads=4, d_e=16, hidden=8, batch=32)


def bars(count, seed=0, side=9, channels=1):
    """Images with a bright bar at the top, in the middle or at the bottom, and noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 3
    x = rng.integers(0, 80, (count, side, side, channels), dtype=np.uint8)
    for value, label in zip(x, y, strict=True):
        third = side // 3
        value[label * third : (label + 1) * third] += 150
    return x, y


def label_texts(count, seed=0, **shape):
    x, y = bars(count, seed, **shape)
    return LabeledTexts([read_image(value) for value in x], y, ("top", "middle", "bottom"))


def test_a_model_of_patches_is_trained_stored_and_explained(tmp_path):
    model = train(label_texts(300), recipe=QUICK, output=tmp_path / "m")
    x, y = bars(60, seed=1)
    assert (model.logits(list(x)).argmax(axis=1) == y).mean() > 0.9
    again = load(tmp_path / "m")
    assert again.fingerprint == model.fingerprint
    np.testing.assert_allclose(
        model.patch_mean, label_texts(300).texts[0].pixels.mean() / 255, atol=0.05
    )
    (result,) = limelight.explain(again, [read_image(x[0])], "shapley")
    assert result.target == "top"
    assert set(np.argsort(-result.scores)[:3]) & {0, 1, 2}


@pytest.mark.parametrize("learned", [True, False])
def test_the_module_computes_what_the_classifier_does(learned):
    recipe = replace(QUICK, learned_positions=learned, biases=True, skip="mean")
    data = label_texts(12, channels=3)
    prepared = prepare(data, recipe, validation=label_texts(4, seed=5, side=18))
    module = make_initial_module(prepared, recipe, 3)
    assert isinstance(module, PatchModule)
    model = module.to_classifier(prepared.vocabulary, prepared.classes)
    import torch

    for encoded, texts in (
        (prepared.training, data.texts),
        (prepared.validation, label_texts(4, seed=5, side=18).texts),
    ):
        f = module(torch.from_numpy(encoded.ids)).detach().numpy()
        np.testing.assert_allclose(f, model.logits(texts), atol=1e-4)
    lost = prepared.training.ids.copy()
    lost[:, 1:] = 1
    gone = module(torch.from_numpy(lost)).detach().numpy()[0]
    model_input = model.read(data.texts[0])
    game = model.game(model_input, limelight.text.build_features(model_input, "patches"), "mean")
    np.testing.assert_allclose(gone, game(np.zeros((1, 9), bool))[0], atol=1e-4)


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path):
    class StopError(Exception):
        pass

    def stop_training(at):
        if at.epoch_ended and at.epoch == 2:
            raise StopError

    recipe, data = replace(QUICK, batch=8), label_texts(240)
    with pytest.raises(StopError):
        train(
            data,
            recipe=recipe,
            output=tmp_path / "m",
            progress=stop_training,
            checkpoint_minutes=0.0,
        )
    assert (tmp_path / "m/checkpoint.safetensors").exists()
    went_on = train(data, recipe=recipe, output=tmp_path / "m")
    assert went_on.fingerprint == train(data, recipe=recipe).fingerprint


def test_the_command_learns_from_each_form_of_images(tmp_path, limelight):
    from PIL import Image

    x, y = bars(90)
    np.savez(tmp_path / "bars.npz", images=x, labels=y)
    for i, (value, label) in enumerate(zip(x, y, strict=True)):
        folder = tmp_path / "folders" / "abc"[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(value[:, :, 0]).save(folder / f"{i}.png")
    import pyarrow as pa
    import pyarrow.parquet as pq

    def content(one):
        file = io.BytesIO()
        Image.fromarray(one[:, :, 0]).save(file, "PNG")
        return {"bytes": file.getvalue(), "path": None}

    rows = {"image": [content(element) for element in x], "label": y.tolist()}
    pq.write_table(pa.table(rows), tmp_path / "bars.parquet")
    less = [f"--set={name}" for name in ("grid=3", "heads=2", "d_e=8", "hidden=4", "batch=32")]
    for name in ("bars.npz", "folders", "bars.parquet"):
        done = limelight(
            "train",
            "--images",
            tmp_path / name,
            "-o",
            tmp_path / "m",
            "--epochs",
            "1",
            *less,
            "--fresh",
        )
        assert done.code == 0, done.err
        assert "epoch 1 kept, validation accuracy" in done.out
        assert load(tmp_path / "m").grid == (3, 3)


def test_unusable_training_data_raises_an_error(limelight, tmp_path):
    done = limelight("train", "-o", tmp_path / "m")
    assert done.code == 2
    assert "either a file of texts or --images FOLDER" in done.err
    mixed = LabeledTexts([read_image(bars(1)[0][0]), "a text"], np.arange(2), ("a", "b"))
    with pytest.raises(InputError, match="row 2 of memory is a text among images"):
        train(mixed, recipe=QUICK)
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "small.npz", images=np.zeros((9, 5, 9), np.uint8), labels=np.arange(9) % 3)
    for arguments, message in (
        (["--images", tmp_path / "empty"], "has no images"),
        (["--images", tmp_path / "small.npz"], "an image has 9 × 5. Set a smaller grid"),
        ([tmp_path / "small.npz"], "contains images. Give it with --images"),
    ):
        done = limelight("train", *arguments, "-o", tmp_path / "m")
        assert done.code == 2
        assert message in done.err
