import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from toy import MARKS, toy_data, toy_recipe

from limelight.data import LabeledTexts, evaluate
from limelight.errors import InputError
from limelight.models.attention import load_folder
from limelight.training import Checkpoint, fit, prepare, train

from hidden_files import assert_hidden_files_are_kept, write_hidden_files

HERE = Path(__file__).parent


def refusal(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        train(*args, **{"recipe": toy_recipe(), "device": "cpu", **kwargs})
    return str(caught.value)


@pytest.mark.parametrize(
    ("classes", "single", "outputs"), [(2, True, 1), (2, False, 2), (3, True, 3)]
)
def test_a_model_learns_and_its_folder_says_how(tmp_path, classes, single, outputs):
    data = toy_data(classes=classes)
    recipe = toy_recipe(epochs=6, single_output=single)
    model = train(data, recipe=recipe, output=tmp_path / "m", device="cpu")
    assert evaluate(model, data).accuracy > 0.95
    assert model.sizes["C"] == outputs
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "config.json", "history.json", "model.safetensors", "vocab.txt",
    ]  # fmt: skip
    stored = load_folder(tmp_path / "m")
    assert stored.fingerprint == model.fingerprint
    assert stored.classes == MARKS[:classes]
    record = stored.record["training"]
    assert record["recipe"] == "shipped"
    assert record["changed"]["batch"] == record["settings"]["batch"] == 4
    assert "weight_decay" not in record["changed"]
    assert (record["data"], record["training_rows"], record["validation_rows"]) == (
        "toy.csv", 168, 42,
    )  # fmt: skip
    assert record["torch"] == torch.__version__
    history = json.loads((tmp_path / "m" / "history.json").read_text())
    scores = [entry["accuracy"] for entry in history]
    assert scores == record["validation_accuracy"]
    assert record["kept_epoch"] == 1 + scores.index(max(scores))
    assert history[-1]["loss"] < history[0]["loss"]


def test_the_validation_accuracy_is_that_of_the_numpy_model():
    data, contained = toy_data(), toy_data(101, seed=9)
    model = train(data, recipe=toy_recipe(), validation=contained, device="cpu")
    record = model.record["training"]
    assert record["training_rows"] == 210
    best = record["validation_accuracy"][record["kept_epoch"] - 1]
    assert evaluate(model, contained).accuracy == best


def test_the_same_seed_gives_the_same_model_and_another_another():
    models = [train(toy_data(), recipe=toy_recipe(), seed=s, device="cpu") for s in (3, 3, 4)]
    assert models[0].fingerprint == models[1].fingerprint
    assert models[0].fingerprint != models[2].fingerprint


def test_training_leaves_the_settings_of_the_process_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()
    train(toy_data(), recipe=toy_recipe(epochs=1), device="cpu")
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    assert torch.get_num_threads() == before[2]
    assert float(torch.tensor(1e-40) * 0.5) > 0, "subnormal numbers are still flushed to zero"


def test_without_validation_all_rows_are_fitted_and_the_last_epoch_kept():
    model = train(toy_data(), recipe=toy_recipe(), validation=0, device="cpu")
    record = model.record["training"]
    assert (record["training_rows"], record["validation_rows"]) == (210, 0)
    assert (record["kept_epoch"], record["validation_accuracy"]) == (3, [None] * 3)
    prepared = prepare(toy_data(), toy_recipe(validation=0.0))
    state = fit(prepared, toy_recipe(validation=0.0))
    np.testing.assert_array_equal(model.W_v, state.average["W_v"].numpy())


def test_the_paper_keeps_the_weights_not_their_average():
    recipe = toy_recipe(average=0.0)
    state = fit(prepare(toy_data(), replace(recipe, validation=0.0)), recipe)
    assert state.average is None
    np.testing.assert_array_equal(state.best["W_v"], state.module.W_v.detach())


def test_patience_ends_a_run_that_no_longer_improves():
    recipe = toy_recipe(epochs=40, patience=2)
    history = fit(prepare(toy_data(), recipe), recipe).history
    best = max(history, key=lambda entry: entry["accuracy"])["epoch"]
    assert len(history) == best + 2 < 40


def test_patience_waits_for_the_least_steps():
    recipe = toy_recipe(epochs=40, patience=2, least_steps=421)  # 42 steps an epoch
    assert len(fit(prepare(toy_data(), recipe), recipe).history) == 11


def test_a_fitted_window_is_as_long_as_the_longest_text():
    data = toy_data()
    longest = max(len(text.split()) for text in data.texts)
    wide = toy_recipe(T_max=50, fitted_window=True, epochs=1)
    model = train(data, recipe=wide, device="cpu")
    assert model.T_max == longest + 1
    assert model.read(max(data.texts, key=len)).cutoff is None
    assert train(data, recipe=replace(wide, T_max=7), device="cpu").T_max == 7
    assert train(data, recipe=replace(wide, fitted_window=False), device="cpu").T_max == 50


def test_epochs_of_a_step_or_two_are_not_all_saved(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(
        Checkpoint, "save", lambda _self, _tensors, notes: saved.append(notes["step"])
    )
    train(toy_data(10), recipe=toy_recipe(epochs=50), output=tmp_path, device="cpu")
    assert saved == [20, 40, 60, 80, 100]


def test_training_into_a_folder_keeps_hidden_files_of_the_user(tmp_path, monkeypatch):
    write_hidden_files(tmp_path)
    (tmp_path / ".vocab.txt.limelight-abcdefgh.part").write_text("of a killed process")
    monkeypatch.chdir(tmp_path)
    train(toy_data(), recipe=toy_recipe(epochs=1), output=".", device="cpu")
    assert_hidden_files_are_kept(tmp_path)
    assert not [*tmp_path.glob(".*.limelight-*")]


def run_killed(output, step):
    return subprocess.run(
        [sys.executable, str(HERE / "killed_run.py"), str(output), str(step)],
        cwd=HERE, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
def test_a_killed_run_continues_and_ends_with_the_same_bits(tmp_path):
    full = train(toy_data(), recipe=toy_recipe(), device="cpu")
    output = tmp_path / "killed"
    # 42 steps an epoch: once in the middle of the first epoch, once in the second.
    for step in (40, 84):
        killed = run_killed(output, step)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (output / "checkpoint.safetensors").exists()
        assert not (output / "model.safetensors").exists()
    steps = []
    model = train(
        toy_data(), recipe=toy_recipe(), output=output, device="cpu",
        progress=lambda at: steps.append(at.step),
    )  # fmt: skip
    assert min(steps) > 60, "the run started over instead of continuing"
    assert model.fingerprint == full.fingerprint
    assert load_folder(output).fingerprint == full.fingerprint
    assert not (output / "checkpoint.safetensors").exists()


class InterruptedRunError(Exception):
    pass


def leave_checkpoint(output, step=42, **kwargs):
    """Leave the checkpoint of a run that ended at ``step``."""

    def stop(at):
        if at.step >= step and at.epoch_ended:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(toy_data(), recipe=toy_recipe(), output=output, device="cpu", progress=stop, **kwargs)


def test_other_arguments_do_not_continue_a_run(tmp_path):
    leave_checkpoint(tmp_path)
    sentence = refusal(toy_data(), output=tmp_path, seed=1, recipe=toy_recipe(epochs=5))
    assert sentence == (
        f"the run in '{tmp_path}' was started with other arguments (epochs was 3, now 5, "
        "seed was 0, now 1). Give the same to continue it, or start over with --fresh."
    )
    model = train(
        toy_data(), recipe=toy_recipe(), seed=1, output=tmp_path, device="cpu", resume=False
    )
    assert model.record["training"]["seed"] == 1


WAITS = """
import sys, time
from toy import toy_data, toy_recipe
from limelight.training import train
def wait(at):
    print("inside", flush=True)
    time.sleep(60)
train(toy_data(), recipe=toy_recipe(), output=sys.argv[1], device="cpu", progress=wait)
"""


@pytest.mark.slow
def test_a_folder_has_one_writer_at_a_time(tmp_path):
    command = [sys.executable, "-c", WAITS, str(tmp_path)]
    with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "inside\n"
        assert refusal(toy_data(), output=tmp_path) == (
            f"another training is writing to the output folder '{tmp_path}'. Wait until it ends, "
            "or choose another folder."
        )
        other.kill()
    # A dead process holds nothing, and its lock left nothing behind.
    model = train(toy_data(), recipe=toy_recipe(), output=tmp_path, device="cpu")
    assert load_folder(tmp_path).fingerprint == model.fingerprint


def test_other_data_do_not_continue_a_run(tmp_path):
    leave_checkpoint(tmp_path)
    assert "(data_sha256 was " in refusal(toy_data(seed=5), output=tmp_path)


def test_a_damaged_checkpoint_raises_an_error(tmp_path):
    leave_checkpoint(tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    sentence = refusal(toy_data(), output=tmp_path)
    assert sentence.startswith(f"the checkpoint '{path}' is damaged (")
    assert sentence.endswith("). Start over with --fresh.")


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    full_text = train(toy_data(), recipe=toy_recipe(), device="cpu")
    sync, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 2:  # the trial write, then the first epoch
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "checkpoint.safetensors"
    assert refusal(toy_data(), output=tmp_path) == (
        f"'{path}' cannot be written (no space left on device). Free some space, and run "
        "the same command again to continue from the last checkpoint."
    )
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    again = train(toy_data(), recipe=toy_recipe(), output=tmp_path, device="cpu")
    assert again.fingerprint == full_text.fingerprint


def test_a_disk_that_fills_at_the_end_keeps_the_checkpoint(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("limelight.training.train_classifier.write_files", full)
    assert refusal(toy_data(), output=tmp_path) == (
        f"'{tmp_path}' cannot be written (no space left on device). Free some space, and "
        "run the same command again to continue from the last checkpoint."
    )
    monkeypatch.undo()
    train(toy_data(), recipe=toy_recipe(), output=tmp_path, device="cpu", progress=pytest.fail)
    assert load_folder(tmp_path).classes == ("bad", "good")


def test_the_vocabulary_counts_all_words_of_the_file_and_keeps_the_frequent():
    texts = ["b a a", "b c a d"]
    data = LabeledTexts(texts * 5, np.array([0, 1] * 5))
    assert prepare(data, toy_recipe()).vocabulary.words == ("[cls]", "UNK", "a", "b", "c", "d")
    subset = prepare(data, toy_recipe(vocabulary_size=4)).vocabulary
    assert subset.words == ("[cls]", "UNK", "a", "b")
    assert prepare(data, toy_recipe(min_count=6)).vocabulary.words == subset.words


def test_encoded_rows_are_those_the_classifier_reads():
    from limelight.models.attention import encode_text, padded_ids
    from limelight.training.texts import encode_texts

    data = toy_data()
    recipe = toy_recipe(validation=0.0, vocabulary_size=30, T_max=7)  # too small for some
    prepared = prepare(data, replace(recipe, tails=False))
    vocabulary = prepared.vocabulary
    inputs = [encode_text(text, vocabulary, T_max=7) for text in data.texts]
    rows = padded_ids([model_input.encoding.ids for model_input in inputs], T_max=7)
    np.testing.assert_array_equal(prepared.training.ids, rows)
    np.testing.assert_array_equal(encode_texts(data, vocabulary, T_max=7).ids, rows)
