"""Numbers in the documentation are those that the experiments measured and the package carries."""

import importlib.util
import json
from pathlib import Path

import pytest

from limelight_reproduction.registry import EXPERIMENTS
from limelight_reproduction.report import build_rows
from limelight_reproduction.results import STORED, load_stored_results

ROOT = Path(__file__).resolve().parents[2]  # of the checkout, whose pages these are
RESULTS = json.loads(STORED.read_text("utf-8"))


def numbers(experiment, part):
    return RESULTS["experiments"][experiment][part]["numbers"]


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
            value = RESULTS["experiments"][experiment.name][part.name]
            assert not value["quick"], (experiment.name, part.name)
            assert value["version"] == part.version, (experiment.name, part.name)


def test_the_page_says_what_is_stored(maker, rows):
    assert maker.PAGE.read_text("utf-8") == maker.page(rows)


def test_another_number_would_be_noticed(maker, rows):
    (name, value) = "accuracy", numbers("accuracy", "shipped")["accuracy"][0]
    text = maker.page(rows)
    assert f"{value:.2%}" in text
    parts = {**load_stored_results()[name]}
    element = parts["shipped"]
    parts["shipped"] = type(element)(
        **element.to_dict() | {"numbers": element.numbers | {"accuracy": [value + 0.01]}}
    )
    (other,) = build_rows({name: parts}, None)
    assert maker.page([other if row.experiment.name == name else row for row in rows]) != text


def test_figures_of_the_page_are_there(rows, maker):
    for row in rows:
        for name in row.figures:
            assert (maker.HERE / maker.IMAGES / f"{name}.png").exists(), name


def test_the_accuracy_of_the_model_card_is_the_stored_one():
    shipped = 100 * numbers("accuracy", "shipped")["accuracy"][0]
    card = "src/limelight/shipped/imdb/MODEL_CARD.md"
    assert f"{shipped:.2f} %" in (ROOT / card).read_text("utf-8")


def test_figures_are_named_for_their_experiments(rows):
    names = [(row.experiment.name, name) for row in rows for name in row.figures]
    assert all(figure.startswith(experiment) for experiment, figure in names)
    assert len({figure for _, figure in names}) == len(names)


def test_the_page_of_questions_quotes_what_is_stored():
    text = (ROOT / "docs/research/questions.md").read_text("utf-8")
    kinds = numbers("last-layer", "seeds")["kinds"]
    share = {kind: sum(kinds[kind]["alpha-avg"]) / 7 for kind in kinds}
    lost = (sum(kinds["free"]["accuracy"]) - sum(kinds["removed"]["accuracy"])) / 7
    lime = sum(kinds["removed"]["lime"]) / 7
    signs = {
        part: numbers("refilling", part)["methods"]["shapley"]["signs"][0]
        for part in ("paper", "shipped")
    }
    units = numbers("units", "minilm")["units"]
    heads = numbers("heads", "probe")["relations"]
    for phrase in (
        f"rises from {share['free']:.2f} to {share['removed']:.2f}",
        f"falls by {100 * lost:.1f} points. LIME has {lime:.2f}",
        f"[{signs['paper']:.0%} of the signs]",
        f"on the shipped model {signs['shipped']:.0%}",
        f"({units['subwords']['rank'][0]:.2f})",
        f"({units['characters']['rank'][0]:.2f})",
        f"only {units['characters']['intact'][0]:.0%} of the words stay intact, against "
        f"{units['words']['intact'][0]:.0%}",
        f"from {numbers('heads', 'minilm')['alpha-avg share'][0]:.2f} to "
        f"{numbers('heads', 'minilm')['effective-attention share'][0]:.2f}",
        *(f"{relation['MiniLM']['accuracy'][0]:.0%}" for relation in heads.values()),
        *(f"{relation['shuffled']['accuracy'][0]:.0%}" for relation in heads.values()),
    ):
        assert phrase.replace("-", "−") in text, phrase
