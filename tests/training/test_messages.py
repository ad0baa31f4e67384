"""Wrong calls of training, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import toy_data, toy_recipe

import limelight
from limelight.data import LabeledTexts
from limelight.errors import InputError
from limelight.training import RECIPES, Recipe, find_recipe
from limelight.training import train as train_model
from messages import exactly, wrong_calls
from shape_checks import no_type_checks

TEXTS = [f"w{number} w{number + 1}" for number in range(40)]
FUNCTION = limelight.wrap(lambda texts: [[0.2, 0.8] for _ in texts], classes=["a", "b"])


def train(data, **options):
    return train_model(data, **{"recipe": toy_recipe(), "device": "cpu", **options})


def labeled(*rows):
    """Return labeled texts of a file."""
    texts, labels = zip(*rows, strict=True)
    return LabeledTexts(list(texts), np.array(labels), ("bad", "good"), "d.csv")


def train_without_cuda():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        train(toy_data(), device="cuda")


def change_recipe(**changes):
    return replace(RECIPES["paper"], **changes)


INPUT_ERRORS = {
    "train(toy_data(), recipe=toy_recipe(learning_rate=1e38))": exactly(
        "the loss became nan in epoch 1, by step 20. Lower the learning rate."
    ),
    "train(labeled(('w1', 1), ('w2', 1)))": exactly(
        "all rows of d.csv have the label 'good', but training needs at least two classes."
    ),
    "train(labeled(('w1', 0), (';;', 1)))": exactly(
        "row 2 of d.csv has a text without words. Remove the row."
    ),
    "train(labeled(('w1', 0), ('w2', 1)), validation=0.1)": exactly(
        "a share of 0.1 of 2 rows leaves no row to train or none to validate on. Change "
        "validation, or give more rows."
    ),
    "train(toy_data(), validation=toy_data(classes=3, seed=1))": (
        r"^row 3 of 'toy\.csv': the label 'odd' matches no class of the model \('bad', "
        r"'good'\)\. Set labels"
    ),
    "train(toy_data(), validation=replace(toy_data(classes=3, seed=1), classes=None))": (
        "'0', '1', '2' match no class"
    ),
    "train(toy_data(), device='cda')": exactly(
        "unknown device: 'cda'. Did you mean 'cuda'? Choose from: cpu, cuda."
    ),
    "train_without_cuda()": exactly(
        "torch finds no CUDA device. Leave --device out, or use --device cpu."
    ),
    "find_recipe('papr')": exactly(
        "unknown recipe: 'papr'. Did you mean 'paper'? "
        "Choose from: default, paper, shipped, images."
    ),
    "Recipe(heads=2.5)": exactly("the setting 'heads' must be a whole number, not 2.5."),
    "Recipe(schedule='foo')": exactly("unknown schedule: 'foo'. Choose from: constant, one-cycle."),
    "Recipe(skip='sum')": exactly("unknown skip: 'sum'. Choose from: mean, cls."),
    "Recipe(learning_rate=None)": exactly(
        "the setting 'learning_rate' must be a number, not None."
    ),
    "Recipe(learning_rate=float('nan'))": exactly(
        "learning_rate must be finite and positive, not nan."
    ),
    "Recipe(weight_decay=float('inf'))": exactly(
        "weight_decay must be finite and at least 0, not inf."
    ),
    "Recipe(tails=1)": exactly("the setting 'tails' must be true or false, not 1."),
    "Recipe(epochs=True)": exactly("the setting 'epochs' must be a whole number, not True."),
    "Recipe(vocabulary_size=1.5)": exactly(
        "the setting 'vocabulary_size' must be a whole number, not 1.5."
    ),
    "Recipe(patience=0)": exactly("patience must be at least 1, not 0."),
    "change_recipe(epochs=0)": exactly("epochs must be at least 1, not 0."),
    "change_recipe(dropout=1.0)": exactly("dropout must be in [0, 1), not 1.0."),
    "change_recipe(learning_rate=0.0)": exactly(
        "learning_rate must be finite and positive, not 0.0."
    ),
    "change_recipe(weight_decay=-0.1)": exactly(
        "weight_decay must be finite and at least 0, not -0.1."
    ),
    "change_recipe(T_max=1)": exactly("T_max must be at least 2, not 1."),
    "change_recipe(validation=1.5)": exactly("validation must be in [0, 1), not 1.5."),
    "change_recipe(warmup=0.0)": r"warmup must be between 0 and 1, not 0\.0\.",
    "limelight.learn(FUNCTION, TEXTS)": "no word of these texts changes the output",
    "limelight.learn(limelight.load(), TEXTS)": "exact and take milliseconds",
    "limelight.learn(FUNCTION, TEXTS[:1] * 30)": "at least 20 different texts, not 1",
    "limelight.explain(FUNCTION, 'w1 w2', 'learned')": (
        r"must first be fitted with limelight\.learn"
    ),
}


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call)
