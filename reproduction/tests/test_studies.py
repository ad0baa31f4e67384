"""Studies run on tiny inputs, and the page of the studies has the numbers of their results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "reproduction" / "studies"
LONG = ("surrogate_rivals",)
RESULTS = sorted((STUDIES / "results").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "options", "ids"),
    [
        ("surrogate", [], {"r2_linear_100", "error_surrogate_100", "fit_seconds_100"}),
        ("surrogate", ["--coverage"], {"surrogate_300_lime_rare"}),
        ("surrogate_rivals", [], {"r2_reviews_mask_60_slalom"}),
        ("ceilings", None, {"shipped_best", "shipped_above", "random_6_worst", "random_1_chance"}),
        ("lime_law", None, {"sentence_200_held_penalised", "uneven_200_scatter"}),
        ("shapley_baselines", None, {"shipped_default_20", "shipped_error_better"}),
        ("beam_search_ceilings", None, {"paper_short_best", "random_6_long_beam_50"}),
        ("stabilized_lime", None, {"shipped_slime_agreement", "paper_plan_samples"}),
    ],
)
def test_a_tiny_run_writes_its_measures(program, options, ids, tmp_path):
    """Options of None: the study needs no model."""
    if program in LONG and os.environ.get("BENCHMARKS") != "all":
        pytest.skip("takes 15 seconds: set BENCHMARKS=all")
    output = tmp_path / "result.json"
    command = [sys.executable, STUDIES / f"{program}.py", "--smoke", "--output", output]
    if options is not None:
        pytest.importorskip("transformers")
        pytest.importorskip("sklearn")
        from tiny_transformers import tiny

        for part in tiny("bert", labels=2):
            part.save_pretrained(tmp_path / "model")
        command += [*options, "--model", tmp_path / "model"]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")},
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text("utf-8"))
    assert result["stamp"].keys() == {"limelight", "commit"}
    values = {measure["id"]: measure["value"] for measure in result["measures"]}
    assert ids <= values.keys()
    bounds = {"shipped_above": 1e-9, "random_2_above": 1e-9, "random_6_chance": 1e-6}
    bounds |= {"paper_short_above": 1e-9, "random_6_short_one": 1e-9, "control_all": 1e-9}
    assert [id for id, bound in bounds.items() if values.get(id, 0) > bound] == []


@pytest.mark.slow
def test_every_study_finds_what_it_imports():
    for package in ("torch", "transformers", "sklearn", "pyarrow"):
        pytest.importorskip(package)
    folders = [str(STUDIES), str(ROOT / "benchmarks")]
    programs = [str(path) for path in sorted(STUDIES.glob("*.py"))]
    code = (
        f"import runpy, sys; sys.path[:0] = {folders!r}\n"
        f"for program in {programs!r}: runpy.run_path(program, run_name='imported')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_stored_result_is_of_a_whole_run_and_has_its_stamp(path):
    result = json.loads(path.read_text("utf-8"))
    assert result["benchmark"] == path.stem
    assert result["smoke"] is False
    assert result["stamp"].keys() == {"limelight", "commit"}


def measure_values(name):
    result = json.loads((STUDIES / "results" / f"{name}.json").read_text("utf-8"))
    return {measure["id"]: measure["value"] for measure in result["measures"]}


@pytest.mark.parametrize("kind", ["reviews", "sentences"])
def test_the_page_has_the_measured_fit_of_local_models(kind):
    value = measure_values("surrogate_rivals_cuda")
    names = ("line", "pairs", "boosting", "slalom", "ratio_game")
    cells = (f"{value[f'r2_{kind}_mask_1000_{name}']:.2f}" for name in names)
    assert f"| {kind} | {' | '.join(cells)} |" in (STUDIES / "README.md").read_text("utf-8")


@pytest.mark.parametrize("calls", [200, 500, 1000])
def test_the_page_has_the_measured_fit_of_ratio_games(calls):
    value = measure_values("surrogate_cuda")
    names = [f"r2_{name}" for name in ("linear", "one_head", "three_heads", "chosen")]
    names += ["error_surrogate", "error_permutations"]
    cells = (f"{value[f'{name}_{calls}']:.2f}" for name in names)
    assert f"| {calls:,} | {' | '.join(cells)} |" in (STUDIES / "README.md").read_text("utf-8")
