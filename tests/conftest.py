import gc
import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

import shape_checks

from browsing import browser, chromium  # noqa: F401  (fixtures)

# Modules of limelight are imported by the fixtures that need them: what stands here is imported by
# the process that only hands out the tests, too, while no other has begun.

# A slow machine is no failure, and the same commit must fail or pass the same way twice.
_EXAMPLES = int(os.environ.get("EXAMPLES", "40"))
settings.register_profile("limelight", deadline=None, derandomize=True, max_examples=_EXAMPLES)
settings.load_profile("limelight")
os.environ["LIMELIGHT_CACHE"] = "off"  # each test checks its networks itself


def pytest_collection_modifyitems(items):
    """Run the slow tests first: one that begins last would run alone, the other worker idle."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish():
    """Look no more for garbage in all that was imported: it stays."""
    gc.freeze()


def pytest_runtest_setup(item):
    """Check shapes anew in every test."""
    shape_checks.begin_test(item.path)


# A shell that runs the tests in the background has them ignore interrupts, and so would the
# programs that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared():
    """The folder of real data and models beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the development data in {folder}")
    return folder


@pytest.fixture
def tiny_model():
    """Random models with distinct prime sizes; see ``tiny_models.tiny_model``."""
    from tiny_models import tiny_model

    return tiny_model


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def limelight(capsys):
    """Run the command line in this process: ``limelight("predict", "a text")``."""
    from limelight.cli import main

    def run(*arguments) -> Outcome:
        with pytest.raises(SystemExit) as remaining:
            main([str(argument) for argument in arguments])
        code = remaining.value.code or 0
        assert isinstance(code, int)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def restored_methods(monkeypatch):
    """Forget the methods that a test registers."""
    from limelight.explainers import METHODS

    # Modules register their methods when they are imported, which happens only once. A method that
    # the test imports first would be missing afterwards.
    assert list(METHODS)
    for attribute in ("_methods", "_methods_by_settings"):
        monkeypatch.setattr(METHODS, attribute, dict(getattr(METHODS, attribute)))


@pytest.fixture(scope="session")
def shipped():
    """The model inside the package."""
    from limelight import load

    return load()


@pytest.fixture
def short_texts_are_sampled(monkeypatch):
    """Draw masks of short texts too, where all of them would be asked otherwise."""
    monkeypatch.setattr("limelight.sampling.all_masks._CHEAP_MASKS", 0)


@pytest.fixture
def briefly(monkeypatch):
    """Fit learned methods for a moment, where nothing hangs on how much they learn."""
    from limelight.training import fitting

    monkeypatch.setattr(fitting, "_EPOCHS", 3)
