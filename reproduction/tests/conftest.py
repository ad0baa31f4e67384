import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from limelight_reproduction import registry, report, reproduction
from limelight_reproduction.setting import Setting
from limelight.models.attention import save_folder

import tiny_models


def named(model, **record):
    """A toy model with the classes of IMDB and what training records."""
    return replace(
        model,
        classes=("negative", "positive"),
        record={"training": {"seed": 3, "validation_accuracy": [0.5, 0.75], **record}},
    )


@pytest.fixture
def toy_model():
    """Random two-output models with sentiment classes; the argument is a seed."""
    return lambda seed=0, **changes: named(
        tiny_models.tiny_model(seed, **{"outputs": 2, **changes}), seed=seed
    )


@pytest.fixture
def toy_setting(tmp_path, toy_model):
    """A quick run on thirty toy reviews, with a toy model in place of the paper's."""
    data = tmp_path / "data" / "imdb"
    data.mkdir(parents=True)
    rng = np.random.default_rng(1)
    rows = [
        {"text": " ".join(rng.choice(models.WORDS, 11, replace=False)), "label": int(i % 3 == 0)}
        for i in range(30)
    ]
    (data / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    save_folder(toy_model(3), tmp_path / "paper")
    return Setting(
        data=Path(data.parent),
        models=tmp_path / "models",
        quick=True,
        paper_model=tmp_path / "paper",
    )


@pytest.fixture
def stored():
    """What comes back when numbers are written to a file and read again."""
    return lambda numbers: json.loads(json.dumps(numbers, allow_nan=False))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run given experiments in place of the real ones: ``run(one, other, quick=True)``."""
    (tmp_path / "data").mkdir()

    def reproduce(*experiments, carried=None, **settings):
        for module in (registry, report, reproduction):
            monkeypatch.setattr(module, "EXPERIMENTS", experiments)
        monkeypatch.setattr(reproduction, "stored", lambda: carried or {})
        settings = {"device": "cpu", **settings}
        return reproduction.reproduce(tmp_path / "data", tmp_path / "out", **settings)

    reproduce.output = tmp_path / "out"
    return reproduce
