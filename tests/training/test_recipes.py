from dataclasses import replace

import pytest

from limelight.training import RECIPES, Recipe
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
