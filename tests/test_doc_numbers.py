"""Numbers that are written by hand are those that were measured and stored.

The result pages are generated, and `benchmarks/tables.py --check` compares them. The tests of the
reproduction compare the numbers of the paper's experiments.
"""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def values(result):
    """Return the stored values of a benchmark by their ids."""
    text = (ROOT / f"benchmarks/results/{result}.json").read_text("utf-8")
    return {measure["id"]: measure["value"] for measure in json.loads(text)["measures"]}


@pytest.mark.parametrize("method", ["gxi", "lrp", "shapley, pairs=25"])
def test_a_warning_about_gradients_quotes_the_shares_that_were_measured(method):
    text = (ROOT / "src/limelight/explainers/gradients.py").read_text("utf-8").replace("−", "-")
    assert f"{values('judging_cuda_every')[method]:.2f}" in text


def test_the_speeds_of_the_readme_are_rows_of_the_results_page():
    results = (ROOT / "docs/reference/results.md").read_text("utf-8").splitlines()
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = [line for line in readme.splitlines() if line.startswith("| ") and " ms" in line]
    assert set(rows) <= set(results)
