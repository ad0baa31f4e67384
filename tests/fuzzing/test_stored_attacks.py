"""Damaged folders of learned methods and of runs: one sentence each, never a traceback.

LIMELIGHT_FUZZ=20 runs twenty times as many cases.
"""

import os

import pytest

pytest.importorskip("torch", reason="methods are learned with torch (extra train)")
pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import stored_attacks
from attacks import CASES

TIMES = int(os.environ.get("LIMELIGHT_FUZZ", "1"))
COUNTS = {"learned": 150, "runs": 25}  # of a run, each is used in five ways


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in folders")
@pytest.mark.parametrize("kind", COUNTS)
def test_damaged_folders_end_in_an_error_message(kind, monkeypatch):
    from limelight.training import fitting

    monkeypatch.setattr(fitting, "_EPOCHS", 4)  # what is learned does not matter here
    seen = set()
    for case, code, message in CASES[kind](COUNTS[kind] * TIMES, seed=0):
        assert stored_attacks.is_right(code, message), (case, code, message)
        seen.add(code)
    assert seen == {0, 2}  # else the attacks attack nothing, or nothing undamaged is left
