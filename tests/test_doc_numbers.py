"""Numbers in the documentation are those that were measured and stored."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

from limelight.experiments.registry import EXPERIMENTS
from limelight.experiments.report import rows_of
from limelight.experiments.results import stored

ROOT = Path(__file__).resolve().parents[1]
RESULTS = json.loads((ROOT / "src/limelight/experiments/results.json").read_text("utf-8"))


def numbers(experiment, part):
    return RESULTS["experiments"][experiment][part]["numbers"]


def written(page, pattern):
    """What a page says at the only place that ``pattern`` matches."""
    (found,) = re.findall(pattern, (ROOT / page).read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def maker():
    place = ROOT / "docs" / "reproduction.py"
    spec = importlib.util.spec_from_file_location("reproduction_page", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows():
    return list(rows_of(stored(), None))


def test_every_part_of_every_experiment_is_stored_in_full():
    for experiment in EXPERIMENTS:
        for part in experiment.parts:
            one = RESULTS["experiments"][experiment.name][part.name]
            assert not one["quick"], (experiment.name, part.name)


def test_the_page_says_what_is_stored(maker, rows):
    assert maker.PAGE.read_text("utf-8") == maker.page(rows)


def test_the_readme_says_what_is_stored(maker, rows):
    assert maker.README.read_text("utf-8") == maker.readme(rows)
    assert maker.MARKS.search(maker.README.read_text("utf-8"))


def test_another_number_would_be_noticed(maker, rows):
    (name, value) = "accuracy", numbers("accuracy", "shipped")["accuracy"][0]
    text = maker.page(rows)
    assert f"{value:.2%}" in text
    changed = stored() | {name: {**stored()[name]}}
    one = changed[name]["shipped"]
    changed[name]["shipped"] = type(one)(
        **one.plain() | {"numbers": one.numbers | {"accuracy": [value + 0.01]}}
    )
    assert maker.page(list(rows_of(changed, None))) != text


def test_figures_of_the_page_are_there(rows, maker):
    for row in rows:
        for name in row.figures:
            assert (maker.HERE / maker.IMAGES / f"{name}.png").exists(), name


def test_accuracies_elsewhere_are_the_stored_ones():
    shipped = 100 * numbers("accuracy", "shipped")["accuracy"][0]
    assert written("README.md", r"small one \(([\d.]+) %") == f"{shipped:.1f}"
    assert written("CHANGELOG.md", r"package: ([\d.]+) %") == f"{shipped:.2f}"
    assert written("docs/training.md", r"\| `default`.*?\| 0 \| ([\d.]+) %") == f"{shipped:.2f}"
    card = "src/limelight/shipped/imdb/MODEL_CARD.md"
    assert f"{shipped:.2f} %" in (ROOT / card).read_text("utf-8")


def test_the_seeds_of_the_paper_recipe_are_the_stored_ones():
    right = numbers("accuracy", "paper")["accuracy"]
    listed = written("docs/training.md", r"\| `paper` \|.*?\| ([\d., ]+) %")
    assert listed == ", ".join(f"{100 * value:.2f}" for value in right)
    mean, sd = 100 * np.mean(right), 100 * np.std(right, ddof=1)
    told = written("docs/training.md", r"has mean ([\d.]+) % and standard deviation ([\d.]+)")
    assert told == (f"{mean:.1f}", f"{sd:.2f}")
    apart = 100 * (max(right) - min(right))
    assert written("docs/training.md", r"differ by\s+([\d.]+) points") == f"{apart:.1f}"


SPEED = (
    "| {lime_words:.1f} ms, error at most",
    "our fast predictions: {lime_package_s:.1f} s, error {lime_package_error:.3f} | "
    "{lime_speedup_package_words:,.0f} |",
    "as a torch module: {lime_torch_s:.0f} s | {lime_speedup_torch_words:,.0f} |",
    "| {shapley_positions:.1f} ms, error at most {shapley_bound:.0e} |",
    "our fast predictions: {shapley_package_s:.2f} s, error {shapley_package_error:.2f} | "
    "{shapley_speedup:.0f} |",
    "| {ig_ours:.1f} ms | `captum`, 50 steps, torch module: {ig_captum_full_s:.2f} s | "
    "{ig_speedup_full:.0f} |",
    "| {gl1_ours:.2f} ms | `captum` Saliency, torch module: {gl1_captum_full:.1f} ms | "
    "{gl1_speedup_full:.0f} |",
    "| {gxi_ours:.2f} ms | `captum` InputXGradient, torch module: {gxi_captum_full:.1f} ms | "
    "{gxi_speedup_full:.0f} |",
    "| {documents_ours:,.0f} documents/s | the model as a torch module: "
    "{documents_float32:.0f} documents/s | {prediction_speedup_float32:.0f} |",
    "A cold `limelight compare` takes {cold_compare_default_s:.2f} s",
    "exact LIME in {corpus_seconds:.0f} s on two cores and in {corpus_seconds_1e06:.1f} s",
)


@pytest.mark.parametrize("line", SPEED)
def test_speeds_in_the_readme_are_those_of_the_benchmarks(line):
    value = {}
    for name in ("prediction", "gradients", "perturbation", "corpus", "corpus_cuda"):
        found = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text("utf-8"))
        for measure in found["measures"]:
            key = measure["id"].replace("-", "")
            value |= {key: measure["value"], f"{key}_s": measure["value"] / 1000}
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert line.format(**value) in text


def test_figures_are_named_for_their_experiments(rows):
    names = [(row.experiment.name, name) for row in rows for name in row.figures]
    assert all(figure.startswith(experiment) for experiment, figure in names)
    assert len({figure for _, figure in names}) == len(names)
