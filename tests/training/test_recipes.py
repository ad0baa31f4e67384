from dataclasses import replace

import pytest

from limelight.errors import InputError
from limelight.training import RECIPES, Recipe, find_recipe
from limelight.training.loop import learning_rate


def test_the_paper_recipe_is_the_papers():
    assert RECIPES["paper"] == Recipe(
        heads=6, d_e=128, d_att=64, d_out=64, T_max=256, position_base=10000.0, position_scale=1.0,
        single_output=False, vocabulary_size=None, min_count=1, embedding_std=1.0, weight_bound=0.1,
        dropout=0.0, word_dropout=0.0, label_smoothing=0.0, weight_decay=0.01, batch=16, epochs=10,
        learning_rate=1e-4, schedule="constant", average=0.0, validation=0.2, patience=None,
        fitted_window=False, least_steps=0,
    )  # fmt: skip


def test_the_default_recipe_has_the_same_architecture_and_a_small_vocabulary():
    paper, default = RECIPES["paper"], RECIPES["default"]
    for name in ("heads", "d_e", "d_att", "d_out", "T_max", "position_base"):
        assert getattr(paper, name) == getattr(default, name)
    assert default.vocabulary_size is not None
    assert default.vocabulary_size <= 30_000


def test_an_unknown_recipe_gets_a_guess():
    with pytest.raises(InputError) as caught:
        find_recipe("papr")
    assert str(caught.value) == (
        "unknown recipe: 'papr'. Did you mean 'paper'? "
        "Choose from: default, paper, shipped, images."
    )


@pytest.mark.parametrize(
    ("name", "value", "requirement"),
    [
        ("epochs", 0, "at least 1"),
        ("dropout", 1.0, "in [0, 1)"),
        ("learning_rate", 0.0, "finite and positive"),
        ("weight_decay", -0.1, "finite and at least 0"),
        ("T_max", 1, "at least 2"),
        ("validation", 1.5, "in [0, 1)"),
    ],
)
def test_settings_out_of_range_raise_an_error(name, value, requirement):
    with pytest.raises(InputError) as caught:
        replace(RECIPES["paper"], **{name: value})
    assert str(caught.value) == f"{name} must be {requirement}, not {value}."
    with pytest.raises(InputError, match=r"warmup must be between 0 and 1, not 0\.0\."):
        replace(RECIPES["paper"], warmup=0.0)


def test_the_cycle_rises_to_its_peak_and_falls_to_nothing():
    recipe = replace(RECIPES["default"], learning_rate=2.0, schedule="one-cycle", warmup=0.3)
    rates = [learning_rate(recipe, step, 1000) for step in range(1000)]
    peak = rates.index(max(rates))
    assert peak in (299, 300)
    assert max(rates) == pytest.approx(2.0, rel=1e-4)
    assert rates[0] == pytest.approx(2.0 / 25, rel=1e-3)
    assert rates[-1] < 1e-4
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert learning_rate(RECIPES["paper"], 77, 1000) == 1e-4


# The messages of invalid recipes.
INVALID = {
    "heads=2.5": "the setting 'heads' must be a whole number, not 2.5.",
    "schedule='foo'": "unknown schedule: 'foo'. Choose from: constant, one-cycle.",
    "skip='sum'": "unknown skip: 'sum'. Choose from: mean, cls.",
    "learning_rate=None": "the setting 'learning_rate' must be a number, not None.",
    "learning_rate=float('nan')": "learning_rate must be finite and positive, not nan.",
    "weight_decay=float('inf')": "weight_decay must be finite and at least 0, not inf.",
    "tails=1": "the setting 'tails' must be true or false, not 1.",
    "epochs=True": "the setting 'epochs' must be a whole number, not True.",
    "vocabulary_size=1.5": "the setting 'vocabulary_size' must be a whole number, not 1.5.",
    "patience=0": "patience must be at least 1, not 0.",
}


def test_a_setting_of_the_wrong_type_raises_an_error():
    replace(RECIPES["paper"])  # the checks of types in tests look at the first call alone
    for change, message in INVALID.items():
        with pytest.raises(InputError) as caught:
            eval(f"Recipe({change})")
        assert str(caught.value) == message
