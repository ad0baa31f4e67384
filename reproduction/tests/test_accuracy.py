"""Accuracy over seeds: models are trained once, evaluated, and summed up."""

import numpy as np
import pytest

from limelight import evaluate, save_folder
from limelight_reproduction.one_layer import accuracy
from limelight_reproduction.setting import PAPER_SEEDS

SHIPPED = {"seeds": [0], "accuracy": [0.875], "validation": [[None]], "test_texts": 1000}
PAPER = {
    "seeds": [0, 1, 2],
    "accuracy": [0.79, 0.80, 0.81],
    "validation": [[0.7, 0.8]] * 3,
    "test_texts": 1000,
}


def test_the_models_of_earlier_seeds_are_used_again(toy_setting, toy_model):
    for seed in PAPER_SEEDS:
        save_folder(toy_model(seed), toy_setting.models / f"paper-{seed}")
    numbers = accuracy.evaluate_recipe_seeds(toy_setting)
    texts = toy_setting.texts("imdb", "test")
    assert numbers["seeds"] == list(PAPER_SEEDS)
    assert numbers["test_texts"] == len(texts) == 30
    expected = [evaluate(toy_model(seed), texts).accuracy for seed in PAPER_SEEDS]
    assert numbers["accuracy"] == pytest.approx(expected, rel=1e-4)
    assert len(set(numbers["accuracy"])) > 1
    assert numbers["validation"] == [[0.5, 0.75]] * len(PAPER_SEEDS)


def test_a_seed_that_was_not_trained_is_trained_with_the_papers_recipe(
    toy_setting, toy_model, monkeypatch
):
    import limelight.training

    calls = []

    def train(texts, *, recipe, seed, output, **_):
        calls.append((recipe, seed, len(texts)))
        save_folder(toy_model(seed), output)

    monkeypatch.setattr(limelight.training, "train", train)
    imdb = toy_setting.data / "imdb"
    (imdb / "train.jsonl").write_text((imdb / "test.jsonl").read_text())
    numbers = accuracy.evaluate_recipe_seeds(toy_setting)
    assert calls == [("paper", seed, 30) for seed in PAPER_SEEDS]
    assert numbers["seeds"] == list(PAPER_SEEDS)


def test_the_findings_are_those_of_the_numbers(stored):
    findings = accuracy.findings(stored({"shipped": SHIPPED, "carried": SHIPPED, "paper": PAPER}))
    assert "80.00% on 1,000 test reviews, mean of 3 seeds" in findings.measured[0]
    assert "standard deviation 1.00%, from 79.00% to 81.00%" in findings.measured[0]
    assert "lies 0.2 standard deviations above" in findings.measured[0]
    assert "collapsed to float16, reaches 87.50%." in findings.measured[1]
    assert "87.50% (95 % interval" in findings.measured[2]
    assert "6.5 points" in findings.meaning
    assert all(len(row) == len(findings.table.columns) for row in findings.table.rows)


def test_a_model_that_was_given_is_not_called_the_one_that_travels(toy_setting):
    numbers = accuracy.evaluate_recipe_model(toy_setting)
    findings = accuracy.findings({"shipped": SHIPPED, "carried": numbers, "paper": PAPER})
    assert findings.measured[1] == (
        f"The model that was given in its place, 'paper', reaches {numbers['accuracy'][0]:.2%}."
    )
    assert findings.verdicts[0].parts == ("paper",)


def test_a_far_off_recipe_is_not_called_typical():
    low_accuracies = PAPER | {"accuracy": [0.60, 0.61, 0.62]}
    near, far = (
        accuracy.findings({"shipped": SHIPPED, "carried": SHIPPED, "paper": numbers})
        for numbers in (PAPER, low_accuracies)
    )
    assert "is what the paper's recipe gives" in near.meaning
    assert "is not typical" in far.meaning


def test_every_seed_is_a_dot(stored):
    ((_, _, figure),) = accuracy.figures(
        stored({"shipped": SHIPPED, "carried": SHIPPED, "paper": PAPER})
    )
    lines = figure.axes[0].lines
    dots = np.concatenate([line.get_xdata() for line in lines if line.get_marker() == "o"])
    assert sorted(dots) == pytest.approx([79, 80, 81, 87.5])
