import json
import subprocess
import sys

import numpy as np
import pytest

from limelight.errors import InputError
from limelight.models.attention import load_folder
from limelight.text import Vocabulary
from limelight.training.loop import Training
from limelight.training.texts import EncodedTexts, PreparedData
from limelight.training.train_classifier import no_learning_warning

SMALL = ("--set", "d_e=7", "--set", "heads=3", "--set", "d_att=5", "--set", "d_out=11",
         "--set", "T_max=13", "--set", "batch=4", "--set", "least_steps=100",
         "--set", "learning_rate=0.03", "--set", "embedding_std=0.5")  # fmt: skip


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "reviews.jsonl"
    rows = [{"text": f"{w} film {i}", "label": w} for i in range(30) for w in ("good", "bad")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def train(limelight, data, tmp_path):
    def run(*arguments):
        return limelight("train", data, "--output", tmp_path / "model", *SMALL, *arguments)

    return run


def test_training_writes_a_model_and_says_where(train, tmp_path):
    run = train("--epochs", "2", "--seed", "3", "--device", "cpu")
    assert run.code == 0, run.err
    model = load_folder(tmp_path / "model")
    assert model.classes == ("bad", "good")
    record = model.record["training"]
    assert (record["seed"], record["settings"]["epochs"], record["settings"]["d_e"]) == (3, 2, 7)
    keep = record["kept_epoch"]
    score = record["validation_accuracy"][keep - 1]
    assert run.out == (
        f"{tmp_path / 'model'}: epoch {keep} kept, validation accuracy {score:.2%}\n"
    )
    first, second = run.err.splitlines()[:2]
    assert first.startswith("epoch 1/2, loss 0.")
    assert second.startswith("epoch 2/2, loss 0.")


def test_by_default_the_held_out_texts_say_when_to_stop(train, tmp_path):
    run = train()
    assert run.code == 0, run.err
    record = load_folder(tmp_path / "model").record["training"]
    assert (record["recipe"], record["training_rows"], record["validation_rows"]) == (
        "default", 54, 6,
    )  # fmt: skip
    output = run.err.splitlines()
    scores = record["validation_accuracy"]
    assert max(scores) == 1.0
    # 14 steps an epoch: 100 steps are 8 epochs, and the best was found long before.
    assert len(output) == len(scores) == 8
    assert output[0].startswith("epoch 1, loss 0.")


def test_a_model_that_learned_nothing_brings_a_warning(train, data, tmp_path):
    rows = [{"text": f"a film {i}", "label": "ab"[i % 3 == 0]} for i in range(60)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = train("--epochs", "1", "--set", "learning_rate=1e-9")
    assert run.code == 0
    record = load_folder(tmp_path / "model").record["training"]
    assert run.err.splitlines()[-1] == f"Warning: {record['warning']}"
    assert record["warning"].startswith("THE MODEL HAS LEARNED NOTHING: it gets ")
    assert "of the 6 held-out texts right, and always predicting 'a' gets " in record["warning"]
    run = train("--epochs", "1", "--set", "learning_rate=1e-9", "--validation", "0", "--fresh")
    assert "of the 60 training texts right, and always predicting 'a' gets 66.7%." in run.err


@pytest.mark.parametrize(
    ("right", "verdict"),
    [
        (10, "HAS LEARNED NOTHING"),
        (11, "HAS LEARNED NOTHING"),
        (14, "HAS NOT SHOWN THAT IT LEARNED ANYTHING"),
        (16, ""),
    ],
)
def test_an_accuracy_that_luck_explains_is_not_called_nothing(right, verdict):
    """Of 20 held-out texts 11 are of one class."""
    contained = EncodedTexts(np.zeros((20, 1), np.int64), np.array([0] * 9 + [1] * 11))
    prepared = PreparedData(Vocabulary(("[cls]", "UNK")), ("no", "yes"), contained, contained, {})
    training = Training.__new__(Training)
    training.history = [{"epoch": 1, "accuracy": right / 20}]
    message = (no_learning_warning(prepared, training) or "").partition(" Check")[0]
    assert message == (
        verdict
        and f"THE MODEL {verdict}: it gets {right / 20:.1%} of the 20 held-out texts right, and "
        "always predicting 'yes' gets 55.0%."
    )


def test_a_model_that_learned_says_nothing_of_the_kind(train, tmp_path):
    assert "LEARNED" not in train().err
    assert "warning" not in load_folder(tmp_path / "model").record["training"]


def test_a_file_that_is_sorted_by_label_is_judged_by_all_of_it(train, data, tmp_path):
    """Of 4,200 rows the first 3,000 are of one class."""
    rows = [{"text": f"{w} film", "label": w} for w in ["bad"] * 3000 + ["good"] * 1200]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = train("--epochs", "1", "--validation", "0", "--set", "batch=128")
    assert run.code == 0
    assert "warning" not in load_folder(tmp_path / "model").record["training"]


def test_without_held_out_texts_the_epochs_must_be_set(train):
    assert train("--validation", "0") == (
        2,
        "",
        "Error: without held-out texts, training needs a number of epochs. Set epochs, "
        "or hold texts out.\n",
    )


def test_validation_is_a_file_a_share_or_nothing(train, data, tmp_path):
    assert train("--epochs", "1", "--validation", data).code == 0
    record = load_folder(tmp_path / "model").record["training"]
    assert (record["training_rows"], record["validation_rows"]) == (60, 60)
    assert train("--epochs", "1", "--validation", "0.5", "--fresh").code == 0
    record = load_folder(tmp_path / "model").record["training"]
    assert (record["training_rows"], record["validation_rows"]) == (30, 30)
    run = train("--epochs", "1", "--validation", "0", "--fresh")
    assert run.out == f"{tmp_path / 'model'}: epoch 1 kept\n"


def test_classes_are_named_in_order(train, tmp_path):
    assert train("--epochs", "1", "--classes", "good, bad").code == 0
    assert load_folder(tmp_path / "model").classes == ("good", "bad")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--recipe", "papr"),
            "unknown recipe: 'papr'. Did you mean 'paper'? Choose from: default, paper, shipped, "
            "images.",
        ),
        (("--set", "dropout"), "a setting must be written as name=value, not 'dropout'."),
        (("--set", "dropout=much"), "the setting 'dropout' must be a number, not 'much'."),
        (("--set", "dropout=2"), "dropout must be in [0, 1), not 2.0."),
        (("--epochs", "0"), "epochs must be at least 1, not 0."),
        (("--validation", "gone.csv"), "there is no data at 'gone.csv'. Check the path."),
    ],
)
def test_a_wrong_option_is_an_error_without_a_model(train, tmp_path, arguments, message):
    assert train(*arguments) == (2, "", f"Error: {message}\n")
    assert not (tmp_path / "model").exists()


def test_an_unknown_setting_lists_all(train):
    run = train("--set", "droput=0.1")
    assert run.code == 2
    assert run.err.startswith(
        "Error: unknown setting: 'droput'. Did you mean 'dropout'? Choose from"
    )
    assert "patience" in run.err


def test_a_finished_model_is_not_overwritten(train, tmp_path):
    assert train("--epochs", "1").code == 0
    assert train("--epochs", "1") == (
        2,
        "",
        f"Error: the output folder '{tmp_path / 'model'}' already contains a trained "
        "model. Choose another, or start over with --fresh.\n",
    )


def test_labels_of_one_class_only(train, data, tmp_path):
    data.write_text('{"text": "a", "label": "x"}\n' * 5)
    assert train() == (
        2,
        "",
        "Error: all rows of reviews.jsonl have the label 'x', but training needs at "
        "least two classes.\n",
    )


def test_labels_that_become_one_class_bring_a_warning_before_training(train, data, tmp_path):
    data.write_text("".join(f'{{"text": "w{i}", "label": "{"abc"[i % 3]}"}}\n' for i in range(30)))
    run = train("--labels", "a=x,b=y,c=y", "--epochs", "1")
    assert run.code == 0
    warning = "labels (--labels) merges the labels 'b', 'c' into one class, 'y'."
    assert run.err.startswith(warning)
    assert load_folder(tmp_path / "model").record["training"]["labels"] == [warning]


def test_without_torch_the_extra_is_named(limelight, data, tmp_path, monkeypatch):
    for name in [*sys.modules]:
        if name.startswith("limelight.training"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("limelight.training", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    run = limelight("train", data, "--output", tmp_path / "model")
    assert run[:2] == (2, "")
    assert run[2].startswith(
        'Error: limelight.train needs torch. In a checkout of limelight, run: pip install ".[train]'
    )


def test_help_does_not_need_torch():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from limelight.cli import main; main(['train', '--help'])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert "--validation" in run.stdout


def test_learn_takes_answers_from_a_column(limelight, tmp_path, monkeypatch):
    """An empty cell is an answer that the model writes, as it is to explain and judge."""
    output = []

    def learn(_model, texts, **given):
        output.append((texts, given["answer"]))
        raise InputError("that is enough.")

    monkeypatch.setattr("limelight.training.learn", learn)
    file = tmp_path / "asked.csv"
    file.write_text("text,said\none film,good\nanother film,\nthird film,bad\n", "utf-8")
    texts = ["one film", "another film", "third film"]
    for column in (("--answer-column", "said"), ()):
        run = limelight("learn", "--data", file, *column, "--output", tmp_path / "method")
        assert (run.code, "that is enough" in run.err) == (2, True)
    assert output == [(texts, ["good", None, "bad"]), (texts, None)]
