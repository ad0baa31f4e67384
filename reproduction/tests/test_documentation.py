"""Numbers in the documentation are those that the experiments measured and the package carries."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

from limelight_reproduction.registry import EXPERIMENTS
from limelight_reproduction.report import build_rows
from limelight_reproduction.results import STORED, load_stored_results

ROOT = Path(__file__).resolve().parents[2]  # of the checkout, whose pages these are
RESULTS = json.loads(STORED.read_text("utf-8"))


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
    return list(build_rows(load_stored_results(), None))


def test_every_part_of_every_experiment_is_stored_in_full():
    for experiment in EXPERIMENTS:
        for part in experiment.parts:
            one = RESULTS["experiments"][experiment.name][part.name]
            assert not one["quick"], (experiment.name, part.name)
            assert one["version"] == part.version, (experiment.name, part.name)


def test_the_page_says_what_is_stored(maker, rows):
    assert maker.PAGE.read_text("utf-8") == maker.page(rows)


def test_the_page_of_the_theorem_has_the_table_that_is_stored(maker):
    assert maker.THEOREM.read_text("utf-8") == maker.theorem()
    assert f"{numbers('repairs', 'paper')['far']['eq19'][0]:.3f} ± " in maker.theorem()
    low, _, high = numbers("repairs", "shipped")["fitting"]
    assert f"between {low:.2f} and {high:.2f} on the shipped" in maker.theorem()
    low, _, high = numbers("repairs", "paper")["fitting"]
    assert f"between {low:.2f} and {high:.2f} with the paper's" in maker.theorem()


@pytest.mark.parametrize("page", ["docs/theorems/mean-field.md", "docs/methods/lime-mean-field.md"])
def test_how_far_the_mean_field_is_stands_on_two_pages(page):
    text = (ROOT / page).read_text("utf-8")
    for part, forms in (("shipped", ("mean_field", "first_order")), ("paper", ("mean_field",))):
        of = numbers("repairs", part)
        assert f" {of['norm'][0]:.2f}" in text, part
        for form in forms:
            assert f" {of['far'][form][0]:.3f}" in text, (part, form)


def test_another_number_would_be_noticed(maker, rows):
    (name, value) = "accuracy", numbers("accuracy", "shipped")["accuracy"][0]
    text = maker.page(rows)
    assert f"{value:.2%}" in text
    parts = {**load_stored_results()[name]}
    one = parts["shipped"]
    parts["shipped"] = type(one)(
        **one.to_dict() | {"numbers": one.numbers | {"accuracy": [value + 0.01]}}
    )
    (other,) = build_rows({name: parts}, None)
    assert maker.page([other if row.experiment.name == name else row for row in rows]) != text


def test_figures_of_the_page_are_there(rows, maker):
    for row in rows:
        for name in row.figures:
            assert (maker.HERE / maker.IMAGES / f"{name}.png").exists(), name


def test_accuracies_elsewhere_are_the_stored_ones():
    shipped = 100 * numbers("accuracy", "shipped")["accuracy"][0]
    assert (
        written("docs/reference/limits.md", r"right on ([\d.]+) % of the IMDB") == f"{shipped:.1f}"
    )
    assert written("CHANGELOG.md", r"package: ([\d.]+) %") == f"{shipped:.2f}"
    assert written("docs/how-to/train.md", r"\| `shipped`.*?\| 0 \| ([\d.]+) %") == f"{shipped:.2f}"
    card = "src/limelight/shipped/imdb/MODEL_CARD.md"
    assert f"{shipped:.2f} %" in (ROOT / card).read_text("utf-8")


def test_the_seeds_of_the_paper_recipe_are_the_stored_ones():
    right = numbers("accuracy", "paper")["accuracy"]
    listed = written("docs/how-to/train.md", r"\| `paper` \|.*?\| ([\d., ]+) %")
    assert listed == ", ".join(f"{100 * value:.2f}" for value in right)
    mean, sd = 100 * np.mean(right), 100 * np.std(right, ddof=1)
    told = written("docs/how-to/train.md", r"has mean ([\d.]+) % and standard deviation ([\d.]+)")
    assert told == (f"{mean:.1f}", f"{sd:.2f}")
    apart = 100 * (max(right) - min(right))
    assert written("docs/how-to/train.md", r"differ by\s+([\d.]+) points") == f"{apart:.1f}"


def test_the_tutorial_on_pairs_says_what_is_stored():
    words = numbers("pairs", "words")
    page = "docs/how-to/pairs.md"
    listed = written(page, r"There (`lime` comes to 0\.71[^.]*(?:\.\d\d[^.]*)*)\.")
    told = dict(re.findall(r"`([a-z0-9-]+)`(?: comes)? to (−?\d\.\d\d)", listed))
    assert {name: f"{words['faithful'][name][0]:.2f}".replace("-", "−") for name in told} == told
    assert len(told) == 7
    across = words["variation"]["all"]["across"][0]
    assert written(page, r"And (\d+) % of what the answer varies by") == f"{100 * across:.0f}"
    assert written(page, r"(\d+) test pairs of at most") == str(words["pairs"])
    by_class = {name: of["alpha-avg"][0] for name, of in words["faithful_by"].items()}
    assert 0.45 < by_class["neutral"] < 0.55  # half the way
    assert max(by_class["contradiction"], by_class["entailment"]) < 0.1  # hardly any
    assert numbers("pairs", "hidden")["becomes"]["exchanged"][0][0] == 0


def test_figures_are_named_for_their_experiments(rows):
    names = [(row.experiment.name, name) for row in rows for name in row.figures]
    assert all(figure.startswith(experiment) for experiment, figure in names)
    assert len({figure for _, figure in names}) == len(names)
