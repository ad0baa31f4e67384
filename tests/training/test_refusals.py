import numpy as np
import pytest
import torch
from toy import toy_data, toy_recipe

from limelight.data import LabeledTexts
from limelight.errors import InputError
from limelight.models.attention import load_folder
from limelight.training import train


def refusal(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        train(*args, **{"recipe": toy_recipe(), "device": "cpu", **kwargs})
    return str(caught.value)


def test_an_output_that_is_a_file(tmp_path):
    path = tmp_path / "taken"
    path.write_text("mine")
    assert refusal(toy_data(), output=path) == (
        f"'{path}' cannot be written (file exists). Choose another output folder."
    )
    assert path.read_text() == "mine"


def test_an_output_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert refusal(toy_data(), output=tmp_path) == (
        f"the output folder '{tmp_path}' contains other files ('thesis.tex'). Choose a "
        "new or empty folder."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_finished_model_is_not_overwritten(tmp_path):
    recipe = toy_recipe(epochs=1)
    train(toy_data(), recipe=recipe, output=tmp_path, device="cpu")
    assert refusal(toy_data(), output=tmp_path) == (
        f"the output folder '{tmp_path}' already contains a trained model. Choose "
        "another, or start over with --fresh."
    )
    train(toy_data(), recipe=recipe, output=tmp_path, device="cpu", resume=False, seed=2)
    assert load_folder(tmp_path).record["training"]["seed"] == 2


def test_a_loss_that_is_not_a_number(tmp_path):
    sentence = refusal(toy_data(), output=tmp_path, recipe=toy_recipe(learning_rate=1e38))
    assert sentence == "the loss became nan in epoch 1, by step 20. Lower the learning rate."


def test_a_single_class_cannot_be_learned():
    data = LabeledTexts(["w1", "w2"], np.array([1, 1]), ("bad", "good"), "d.csv")
    assert refusal(data) == (
        "all rows of d.csv have the label 'good', but training needs at least two classes."
    )


def test_a_text_without_words_names_its_row():
    data = LabeledTexts(["w1", ";;"], np.array([0, 1]), None, "d.csv")
    assert refusal(data) == "row 2 of d.csv has a text without words. Remove the row."


def test_a_share_that_leaves_nothing():
    data = LabeledTexts(["w1", "w2"], np.array([0, 1]), None, "d.csv")
    assert refusal(data, validation=0.1) == (
        "a share of 0.1 of 2 rows leaves no row to train or none to validate on. Change "
        "validation, or give more rows."
    )


def test_validation_data_of_other_classes():
    contained = toy_data(classes=3, seed=1)
    assert refusal(toy_data(), validation=contained).startswith(
        "row 3 of 'toy.csv': the label 'odd' matches no class of the model ('bad', "
        "'good'). Set labels"
    )
    numbers = LabeledTexts(contained.texts, contained.labels, None, "numbers.csv")
    assert "'0', '1', '2' match no class" in refusal(toy_data(), validation=numbers)


def test_devices_that_are_not_there(monkeypatch):
    assert refusal(toy_data(), device="cda") == (
        "unknown device: 'cda'. Did you mean 'cuda'? Choose from: cpu, cuda."
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refusal(toy_data(), device="cuda") == (
        "torch finds no CUDA device. Leave --device out, or use --device cpu."
    )


def test_a_seed_below_zero(tmp_path):
    assert refusal(toy_data(), seed=-1, output=tmp_path / "m") == (
        "seed must be at least 0, not -1."
    )
    assert not (tmp_path / "m").exists()
