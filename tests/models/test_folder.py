import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from limelight.errors import InputError
from limelight.files import atomic_folder, write_atomically
from limelight.models.attention import load_folder, save_folder
from limelight.models.attention.folder import is_incomplete_folder
from limelight.text import Vocabulary

from tiny_models import random_texts, tiny_model, update_digests


@pytest.fixture
def folder(tmp_path):
    save_folder(tiny_model(outputs=3), tmp_path / "model")
    return tmp_path / "model"


def complaint(folder):
    with pytest.raises(InputError) as error:
        load_folder(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_model_comes_back_as_it_was(folder):
    model, again = tiny_model(outputs=3), load_folder(folder)
    assert again.fingerprint == model.fingerprint
    assert again.config == model.config
    np.testing.assert_array_equal(model.logits(random_texts(5)), again.logits(random_texts(5)))


def test_what_training_recorded_comes_back(tmp_path):
    model = replace(tiny_model(), record={"training": {"seed": 3}})
    save_folder(model, tmp_path / "m")
    assert load_folder(tmp_path / "m").record == {"training": {"seed": 3}}


def test_half_precision_is_stored_on_request(tmp_path):
    save_folder(tiny_model().with_precision("float16"), tmp_path / "m")
    assert load_folder(tmp_path / "m").W_q.dtype == np.float16


def test_saving_again_replaces_the_folder_and_leaves_nothing_else(folder):
    save_folder(tiny_model(7), folder)
    assert load_folder(folder).fingerprint == tiny_model(7).fingerprint
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_missing_folder_is_named(tmp_path):
    assert complaint(tmp_path / "no") == (
        f"there is no model folder at '{tmp_path / 'no'}'. Check the path."
    )


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert complaint(folder) == f"the model folder '{folder}' cannot be used: {name} is missing."


def test_truncated_weights_raise_an_error(folder):
    path = folder / "model.safetensors"
    for content in (path.read_bytes()[:-9], b"\x80\x04pickle"):
        path.write_bytes(content)
        update_digests(folder)
        assert "is damaged" in complaint(folder)


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_folder_with_files_of_two_models_raises_an_error(folder, tmp_path, name):
    """Weights of one training beside the configuration of another would load and predict."""
    other = tmp_path / "other"
    save_folder(replace(tiny_model(7, outputs=3), vocabulary=other_words()), other)
    (folder / name).write_bytes((other / name).read_bytes())
    assert "was changed, or belongs to another config.json" in complaint(folder)
    assert is_incomplete_folder(folder)
    assert not is_incomplete_folder(other)


def other_words():
    words = tiny_model().vocabulary.words
    return Vocabulary((*words[:-1], "another"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "config.json is not valid JSON (Expecting value: line 1"),
        ("[]", "must have the format 'limelight.attention/3'"),
        ('{"architectures": ["BertForSequenceClassification"]}', "not None"),
        ('{"format": "limelight.attention/2"}', "not 'limelight.attention/2'"),
        ('{"format": "limelight.attention/9"}', "not 'limelight.attention/9'"),
        ('{"format": "limelight.attention/3"}', "must have the SHA-256"),
    ],
)
def test_a_foreign_folder_raises_an_error(folder, content, message):
    (folder / "config.json").write_text(content)
    assert message in complaint(folder)


def test_wrong_types_in_the_configuration_raise_an_error(folder):
    config = json.loads((folder / "config.json").read_text())
    for name, value in [("T_max", "256"), ("T_max", True), ("classes", [1, 2]), ("tokenizer", 5)]:
        (folder / "config.json").write_text(json.dumps(config | {name: value}))
        assert "config.json" in complaint(folder)


def change(folder, name, array):
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {name: array}, folder / "model.safetensors")
    update_digests(folder)


def test_wrong_shapes_raise_an_error(folder):
    change(folder, "W_k", np.zeros((3, 5, 8)))
    assert complaint(folder).endswith("W_k has shape (3, 5, 8), but its axis d_e must be 7.")
    change(folder, "W_k", np.zeros((3, 5)))
    assert complaint(folder).endswith("W_k must have the axes (K d_att d_e), not the shape (3, 5).")


def test_weights_that_are_not_numbers_raise_an_error(folder):
    bad = tiny_model().W_q.copy()
    bad[1, 2, 3] = np.nan
    change(folder, "W_q", bad)
    assert complaint(folder).endswith(
        "W_q contains NaN or infinite values. Train or export it again."
    )
    change(folder, "W_q", np.ones((3, 5, 7), dtype=np.int64))
    assert "floating-point" in complaint(folder)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_atomically(path, "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    with atomic_folder(tmp_path / "f") as part:
        (part / "a").write_text("old")

    def raise_interrupt():
        with atomic_folder(tmp_path / "f") as part:
            (part / "a").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        raise_interrupt()
    assert (tmp_path / "f" / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_saving_never_deletes_files_that_are_not_a_models(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError) as error:
        save_folder(tiny_model(), tmp_path)
    assert str(error.value) == (
        f"the folder '{tmp_path}' contains other files ('thesis.txt'). Choose a new or "
        "empty folder."
    )
    with pytest.raises(InputError, match=r"is a file, not a folder. Choose another name"):
        save_folder(tiny_model(), tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


SAVE_WHILE_WAITING = """
import sys
from limelight.models.attention import folder, save_folder
from tiny_models import tiny_model
write = folder.write_files
def wait(model, path):
    print("saving", flush=True)
    sys.stdin.read()
    write(model, path)
folder.write_files = wait
save_folder(tiny_model(), sys.argv[1])
"""


def test_saving_into_a_folder_raises_an_error_while_another_process_saves(tmp_path):
    folder = tmp_path / "model"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", SAVE_WHILE_WAITING, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as first:
        assert first.stdout.readline() == "saving\n"
        other = tiny_model(outputs=3)
        with pytest.raises(InputError, match=r"another process is saving a model to '.*model'"):
            save_folder(other, folder)
        first.communicate()
        assert first.returncode == 0
    assert load_folder(folder).classes == tiny_model().classes
    save_folder(other, folder)
    assert load_folder(folder).classes == other.classes


def test_a_failed_save_leaves_no_new_folder_and_the_old_model(tmp_path, monkeypatch):
    save_folder(tiny_model(), tmp_path / "old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    for place in ("old", "new", "parent/new"):
        with pytest.raises(OSError, match="No space left"):
            save_folder(tiny_model(outputs=3), tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


def test_saving_into_a_folder_deletes_no_hidden_files_of_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(".env.old").write_text("secret")
    Path(".venv.old").mkdir()
    Path(".x.part").write_text("of the user")
    with pytest.raises(InputError, match="contains other files"):
        save_folder(tiny_model(), ".")
    assert {path.name for path in tmp_path.iterdir()} == {".env.old", ".venv.old", ".x.part"}


def test_what_a_killed_process_left_in_a_folder_is_removed_by_the_next_save(tmp_path):
    (tmp_path / ".vocab.txt.limelight-abcdefgh.part").write_text("left")
    save_folder(tiny_model(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json", "vocab.txt", "model.safetensors"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["position_base", "position_scale"])
def test_positions_must_be_finite(folder, name):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {name: float("nan")}))
    assert "and position_scale finite" in complaint(folder)


def test_a_model_survives_pickling():
    model = replace(tiny_model(), record={"training": {"seed": 3}})
    assert pickle.loads(pickle.dumps(model)).fingerprint == model.fingerprint
