"""Files written by version 0.1 are still read, and written again without loss.

They were made by 0.1 itself: ``explain(load(), …).to_json()`` and the like, one for each kind of
thing that a file can hold.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from limelight import Comparison, Explanation

FILES = Path(__file__).parent / "written_by_0_1"
SINGLE = sorted(path for path in FILES.glob("*.json") if path.stem != "comparison")


def without_new_keys(record):
    """What 0.1 wrote: found things stood among the settings, and no explained value."""
    record.pop("explained_value", None)
    found = record.pop("diagnostics", {})
    record["settings"] = record["settings"] | found
    return record


@pytest.mark.parametrize("path", SINGLE, ids=lambda path: path.stem)
def test_an_explanation_is_read_and_written_again_without_loss(path):
    old = json.loads(path.read_text("utf-8"))
    e = Explanation.from_json(path.read_bytes())
    new = without_new_keys(json.loads(e.to_json()))
    assert new.pop("settings") == {"link": "softmax"} | old.pop("settings")
    assert new == old
    assert Explanation.from_json(e.to_json()) == e


def test_facts_have_fields_of_their_own():
    e = Explanation.from_json((FILES / "probability.json").read_bytes())
    assert (e.label, e.signed, e.scale, e.link) == ("G×I", True, "probability", "softmax")
    assert e.classes == ("negative", "positive")
    assert (e.version, len(e.model), e.cut) == ("0.1.0", 64, None)
    assert e.settings["protect"] == ["the"]
    assert not set(e.settings) & {"label", "signed", "output", "classes", "model", "version"}


def test_what_was_found_is_kept_apart_from_what_was_asked():
    fit = Explanation.from_json((FILES / "lime-fit.json").read_bytes())
    assert set(fit.diagnostics) == {"r2", "r2_bound"}
    assert fit.settings["bandwidth"] == np.inf
    windows = Explanation.from_json((FILES / "windows.json").read_bytes())
    assert windows.settings["window"] == 7
    assert len(windows.diagnostics["windows"]) > 1
    assert Explanation.from_json((FILES / "score.json").read_bytes()).link == "none"


def test_a_comparison_is_read_too():
    old = json.loads((FILES / "comparison.json").read_text("utf-8"))
    c = Comparison.from_json((FILES / "comparison.json").read_bytes())
    assert [e.method for e in c] == ["lime", "alpha-avg"]
    assert [e.signed for e in c] == [True, False]
    assert json.loads(c.to_json())["agreement"] == old["agreement"]
    assert Comparison.from_json(c.to_json()) == c
