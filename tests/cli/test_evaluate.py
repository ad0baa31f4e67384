import json
import resource
import subprocess
import sys
import time

import pytest

from limelight.model import save_folder

from models import random_texts, tiny_model


@pytest.fixture
def model(tmp_path):
    save_folder(tiny_model(), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def data(tmp_path):
    """Texts with the classes that the model gives them, but for the first."""
    texts = random_texts(101)
    labels = tiny_model().predict_proba(texts).argmax(axis=1)
    labels[0] = 1 - labels[0]
    path = tmp_path / "data.jsonl"
    rows = ({"text": t, "label": f"class {b}"} for t, b in zip(texts, labels, strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_table_for_people(limelight, model, data):
    run = limelight("evaluate", "--model", model, "--data", data)
    assert (run.code, run.err) == (0, "")
    first, speed, _, head, *rows = run.out.splitlines()
    assert first == "accuracy 99.01%, 95 % interval 94.60% to 99.83%, 101 texts"
    assert speed.endswith("texts per second")
    assert head.split("  ")[0] == "class"
    assert [row.split()[:2] for row in rows] == [["class", "0"], ["class", "1"]]


def test_json_for_programs(limelight, model, data):
    run = limelight("evaluate", "--model", model, "--data", data, "--format", "json")
    told = json.loads(run.out)
    assert told["accuracy"] == pytest.approx(100 / 101)
    assert told["model"] == tiny_model().fingerprint
    assert sum(map(sum, told["confusion"])) == told["texts"] == 101
    assert told["data"] == "data.jsonl"


def test_errors_are_one_sentence(limelight, model, data):
    data.write_text('{"text": "w1", "label": "meh"}\n')
    assert limelight("evaluate", "--model", model, "--data", data) == (
        2,
        "",
        f"Error: row 1 of '{data}' has the unknown label 'meh'; "
        "the classes are class 0, class 1.\n",
    )
    gone = data.with_name("gone.csv")
    assert limelight("evaluate", "--model", model, "--data", gone) == (
        2,
        "",
        f"Error: there is no data at '{gone}'; check the path.\n",
    )


@pytest.mark.slow
def test_25_000_reviews_in_time_and_memory(shared, tmp_path):
    """Under 15 s on one core and 1 GB, with a vocabulary of real size."""
    from limelight.datasets import read_labelled
    from limelight.model import AttentionClassifier
    from limelight.training.encoding import training_vocabulary

    data = shared / "data" / "imdb" / "train.parquet"
    texts = read_labelled(data, ["negative", "positive"])
    vocabulary, _ = training_vocabulary(texts, T_max=256, size=30_000, min_count=1)
    sized = tiny_model(V=30_000, d_e=128, K=6, d_att=64, d_out=64, T_max=256, scale=0.1)
    weights = {n: getattr(sized, n) for n in ("embedding", "W_q", "W_k", "W_v", "W_l")}
    model = AttentionClassifier(
        **weights, vocabulary=vocabulary, classes=("negative", "positive"), position_base=10000.0
    )
    save_folder(model, tmp_path / "model", dtype="float16")
    command = [sys.executable, "-m", "limelight", "evaluate", "--model", str(tmp_path / "model"),
               "--data", str(data), "--format", "json"]  # fmt: skip
    start = time.monotonic()
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120,
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    wall, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(run.stdout)["texts"] == 25_000
    # Processor time: the wall clock of a shared machine measures its other users too.
    assert min(wall, used.ru_utime + used.ru_stime) < 15
    assert used.ru_maxrss < 1_000_000  # kilobytes
