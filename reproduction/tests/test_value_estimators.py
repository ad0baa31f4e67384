"""Estimators of Shapley values that are compared reach the exact values and keep their budgets."""

import sys
from pathlib import Path

import numpy as np
import pytest

from limelight.theory.enumeration import enumerate_masks, shapley_matrix

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages that are compared


@pytest.fixture(scope="module")
def estimators():
    folders = [str(ROOT / "reproduction" / "studies"), str(ROOT / "benchmarks")]
    sys.path[:0] = folders
    try:
        import value_estimators
    finally:
        del sys.path[: len(folders)]
    return value_estimators


@pytest.fixture(scope="module")
def table():
    keep = enumerate_masks(5)
    weights = np.random.default_rng(0).normal(size=5)
    return np.tanh(keep @ weights) + keep[:, 0] * keep[:, 1]


def relative_error(values, table):
    truth = shapley_matrix(5).T @ table
    return np.linalg.norm(values - truth) / np.linalg.norm(truth)


NAMES = ["default", "orders", "regression", "leverage", "odd", "shapiq_kernel", "shap_kernel"]
SAMPLED = ["shapiq_orders", "shap_orders", "captum_kernel", "captum_orders"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES + SAMPLED)
def test_an_estimator_reaches_the_exact_values(estimators, table, name):
    estimator = estimators.ESTIMATORS[name]
    if estimator.package in estimators.missing_packages():
        pytest.skip(f"{estimator.package} is not installed")
    calls = 4000 if name in SAMPLED else 40
    values = estimator.estimate(estimators.TabulatedGame(table), calls, 0)
    assert relative_error(values, table) < (0.1 if name in SAMPLED else 1e-5)
    assert relative_error(np.roll(values, 1), table) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES + SAMPLED)
@pytest.mark.parametrize("calls", [20, 25])
def test_an_estimator_keeps_its_budget(estimators, table, name, calls):
    estimator = estimators.ESTIMATORS[name]
    if estimator.package in estimators.missing_packages():
        pytest.skip(f"{estimator.package} is not installed")
    game = estimators.TabulatedGame(table, budget=calls)
    estimator.estimate(game, calls, 0)
    assert 0 < game.calls <= calls


def test_a_game_stops_an_estimator_that_exceeds_its_budget(estimators, table):
    game = estimators.TabulatedGame(table, budget=3)
    game(enumerate_masks(5)[:3])
    with pytest.raises(estimators.OverBudgetError, match="4 calls exceed the budget of 3"):
        game(enumerate_masks(5)[:1])
