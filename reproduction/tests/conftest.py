import gc
import json
import os
import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import shape_checks
from hypothesis import settings

# Modules of limelight are imported by the fixtures that need them, as in the library's conftest.

ROOT = Path(__file__).resolve().parents[1]

# A slow machine is no failure, and the same commit must fail or pass the same way twice.
_EXAMPLES = int(os.environ.get("EXAMPLES", "40"))
settings.register_profile("limelight", deadline=None, derandomize=True, max_examples=_EXAMPLES)
settings.load_profile("limelight")


def pytest_collection_finish():
    """Look no more for garbage in all that was imported: it stays."""
    gc.freeze()


def pytest_runtest_setup(item):
    """Check shapes anew in every test."""
    shape_checks.begin_test(item.path)


@pytest.fixture(scope="session")
def shared():
    """The folder of real data and models beside the checkout."""
    folder = ROOT.parents[1] / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the development data in {folder}")
    return folder


@pytest.fixture(scope="session")
def shipped():
    """The model inside the library."""
    from limelight import load

    return load()


@pytest.fixture
def declared(monkeypatch):
    """The commands that pyproject.toml declares, found as if this checkout were installed."""
    from limelight.cli import app, plugins

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    results = [
        EntryPoint(name=name, value=value, group=group)
        for group, named in project["entry-points"].items()
        for name, value in named.items()
    ]
    monkeypatch.setattr(
        plugins, "entry_points", lambda *, group: [e for e in results if e.group == group]
    )
    monkeypatch.setattr(app, "_commands", dict(app._commands))
    return results


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def limelight(capsys, declared):
    """Run the command line in this process: ``limelight("reproduce", "--help")``."""
    from limelight.cli import main

    def run(*arguments) -> Outcome:
        with pytest.raises(SystemExit) as remaining:
            main([str(argument) for argument in arguments])
        code = remaining.value.code or 0
        assert isinstance(code, int)
        return Outcome(code, *capsys.readouterr())

    return run


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
    from tiny_models import tiny_model

    return lambda seed=0, **changes: named(tiny_model(seed, **{"outputs": 2, **changes}), seed=seed)


@pytest.fixture
def toy_setting(tmp_path, toy_model):
    """A quick run on thirty toy reviews, with a toy model in place of the paper's."""
    from limelight import save_folder
    from limelight_reproduction.setting import Setting

    from tiny_models import WORDS

    data = tmp_path / "data" / "imdb"
    data.mkdir(parents=True)
    rng = np.random.default_rng(1)
    rows = [
        {"text": " ".join(rng.choice(WORDS, 11, replace=False)), "label": int(i % 3 == 0)}
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
    from limelight_reproduction import registry, report, runner

    (tmp_path / "data").mkdir()

    def reproduce(*experiments, carried=None, **settings):
        for module in (registry, report, runner):
            monkeypatch.setattr(module, "EXPERIMENTS", experiments)
        monkeypatch.setattr(runner, "load_stored_results", lambda: carried or {})
        settings = {"device": "cpu", **settings}
        return runner.reproduce(tmp_path / "data", tmp_path / "out", **settings)

    reproduce.output = tmp_path / "out"
    return reproduce
