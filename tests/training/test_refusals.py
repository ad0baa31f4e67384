import pytest
from toy import toy_data, toy_recipe

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


def test_a_seed_below_zero(tmp_path):
    assert refusal(toy_data(), seed=-1, output=tmp_path / "m") == (
        "seed must be at least 0, not -1."
    )
    assert not (tmp_path / "m").exists()
