"""The release check: each of its parts fails if what it guards has changed."""

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("mpmath")

import limelight

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def release(monkeypatch):
    """The program ``benchmarks/release.py``, with modules that no other test gets."""
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    for name in names & sys.modules.keys():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield import_module("release")
    for name in names & sys.modules.keys():
        del sys.modules[name]


def test_a_sampler_that_changed_since_its_measurement_is_named(release, monkeypatch):
    cells = release.stored_cells("coverage")
    few = {id: cell for id, cell in cells.items() if id.startswith("banzhaf_300_")}
    monkeypatch.setattr(release, "stored_cells", lambda _: few)
    (measure,) = release.stale_cells(("coverage",))
    assert (measure.value, measure.met) == (0, True)
    explain = limelight.explain

    def change_errors(*arguments, **settings):
        e = explain(*arguments, **settings)
        return replace(e, stderr=1.1 * e.stderr)

    monkeypatch.setattr(limelight, "explain", change_errors)
    (measure,) = release.stale_cells(("coverage",))
    assert (measure.value, measure.met) == (len(few), False)
    assert set(measure.note.split()) == set(few)


def test_errors_that_are_too_small_miss_the_coverage(release, monkeypatch):
    methods = [method for method in release.METHODS if method.id == "shapley_25"]
    (measure,) = release.new_coverage(methods, 2)
    assert measure.met
    explain = limelight.explain

    def halve_errors(*arguments, **settings):
        e = explain(*arguments, **settings)
        return replace(e, stderr=0.5 * e.stderr)

    monkeypatch.setattr(limelight, "explain", halve_errors)
    (measure,) = release.new_coverage(methods, 2)
    assert not measure.met


@pytest.mark.slow
def test_a_wrong_score_is_outside_of_what_is_allowed(release, monkeypatch):
    verify = limelight.verify

    def add_error(model, text):
        for check in verify(model, text):
            yield replace(check, error=1.0) if check.method == "lime" else check

    monkeypatch.setattr(limelight, "verify", add_error)
    met = {measure.id: measure.met for measure in release.exactness(release.TEXTS[:1])}
    assert [id for id, is_met in met.items() if not is_met] == [
        "exact_attention_lime",
        "exact_TF-IDF_lime",
    ]


def test_a_page_with_another_number_is_a_fault(release, tmp_path):
    test = tmp_path / "test_number.py"
    test.write_text("def test_number():\n    assert 1 == 2\n")
    tables, numbers = release.page_faults((str(test),))
    assert tables.met
    assert (numbers.value, numbers.met) == (1, False)
    assert "test_number" in numbers.note
