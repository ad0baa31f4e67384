"""Budgets that are too small for standard errors of each feature."""

import numpy as np
import pytest

import limelight
from limelight.explainers.registry import METHODS
from limelight.sampling.all_masks import (
    banzhaf_values_from_all_masks,
    shapley_values_from_all_masks,
)
from limelight.sampling.neighbors import banzhaf_values_from_neighbors
from limelight.sampling.orders import shapley_values_from_orders, shapley_values_from_single_order
from limelight.sampling.spread import pooled_error

D = 12
WORDS = [f"w{i}" for i in range(40)]
TEXT = " ".join(WORDS)


class CountingModel:
    """A model of 40 words, with and without an interaction of three, that counts its calls."""

    def __init__(self, *, interaction=2.0):
        self.calls, self.interaction = 0, interaction
        self.weights = np.linspace(-1, 1, 40)
        self.wrapped = limelight.wrap(self.predict, classes=["no", "yes"], scale="logit")

    def predict(self, texts):
        self.calls += len(texts)
        keep = np.array([[word in text.split() for word in WORDS] for text in texts], float)
        z = keep @ self.weights + self.interaction * keep[:, [0, 3, 7]].prod(axis=1)
        return np.stack([-z / 2, z / 2], axis=1)

    def explain(self, method, calls, **settings):
        self.calls = 0
        return limelight.explain(
            self.wrapped, TEXT, method, target="yes", budget=f"{calls} calls", **settings
        )


@pytest.mark.parametrize(
    ("method", "calls", "setting", "has_error"),
    [
        ("shapley", 42, {"orders": 1}, False),
        ("shapley", 80, {"orders": 1}, False),
        ("shapley", 81, {"orders": 2}, True),
        ("shapley", 158, {"orders": 2, "spare": 77}, True),
        ("banzhaf", 12, {"few_calls": 11}, False),
        ("banzhaf", 45, {"few_calls": 44}, False),
        ("banzhaf", 147, {"few_calls": 146}, False),
    ],
)
def test_a_small_budget_returns_what_it_allows(method, calls, setting, has_error):
    model = CountingModel()
    e = model.explain(method, calls)
    assert model.calls <= calls
    assert setting.items() <= e.settings.items()
    assert "For standard errors of each word, use a budget of" in e.warnings[0]
    if has_error:
        assert len(set(e.stderr.tolist())) == 1
        assert e.stderr[0] > 0
        assert e.certain_tops == ()
    else:
        assert e.stderr is None
        assert e.certain_tops is None
        assert "errors are unknown" in e.warnings[0]
    again = model.explain(method, calls)
    np.testing.assert_array_equal(again.scores, e.scores)


@pytest.mark.parametrize(("method", "calls"), [("shapley", 159), ("banzhaf", 148)])
def test_a_budget_for_errors_of_each_word_is_spent_as_before(method, calls):
    e = CountingModel().explain(method, calls)
    assert not {"orders", "few_calls"} & e.settings.keys()
    assert e.stderr is not None
    implementation = METHODS[method].implementations[-1]
    below = implementation.cost.fit(METHODS[method].settings(), 40, 60)
    assert (getattr(below, "orders", None) or getattr(below, "few_calls", None)) in (1, 60)


def test_until_a_top_set_is_certain_a_small_budget_says_that_it_is_not():
    e = CountingModel().explain("shapley", 81, until="top 3")
    assert any("top 3 are not certain" in warning for warning in e.warnings)


@pytest.mark.parametrize("method", ["shapley", "banzhaf"])
def test_scores_of_additive_models_are_exact_with_the_smallest_budget(method):
    model = CountingModel(interaction=0.0)
    np.testing.assert_allclose(model.explain(method, 45).scores, model.weights, atol=1e-9)


@pytest.mark.parametrize("text", ["w1", "w1 w2"])
def test_all_orders_of_a_short_text_have_no_error(text):
    model = CountingModel()
    calls = 2 * len(text.split()) + 1
    e = limelight.explain(model.wrapped, text, "shapley", target="yes", budget=f"{calls} calls")
    np.testing.assert_allclose(e.scores, model.weights[1 : 1 + len(e)], atol=1e-9)
    assert e.stderr is None or not e.stderr.any()
    assert "orders" not in "".join(e.warnings)


def draw_games(rng):
    """Return games of ten kinds of 12 features."""
    weights, inner = rng.normal(size=D), rng.normal(size=(D, 30))
    outer, mixed = rng.normal(size=30), rng.normal(size=(30, 30)) / 4
    joint = rng.normal(size=(D, D)) * (rng.random((D, D)) < 0.3)
    triples = [rng.choice(D, 3, replace=False) for _ in range(20)]
    subset, sparse = rng.choice(D, 5, replace=False), weights * (rng.random(D) < 0.3)
    sparse[0] = 3.0
    return {
        "additive": lambda k: k @ weights,
        "pairs": lambda k: k @ weights + ((k @ joint) * k).sum(axis=1),
        "triples": lambda k: sum(
            s * k[:, t].all(axis=1) for s, t in zip(outer[:20], triples, strict=True)
        ),
        "sigmoid": lambda k: 1 / (1 + np.exp(-2 * (k @ weights))),
        "tanh": lambda k: np.tanh(k @ inner / 3) @ outer,
        "network": lambda k: np.tanh(2 * np.tanh(k @ inner / 3) @ mixed) @ outer,
        "attention": lambda k: (
            (k @ (np.exp(inner[:, 0]) * weights)) / (k @ np.exp(inner[:, 0]) + 1)
        ),
        "and": lambda k: 0.05 * k @ weights + k[:, subset].all(axis=1),
        "maximum": lambda k: np.where(k > 0, weights, -3).max(axis=1),
        "sparse": lambda k: np.tanh(k @ sparse),
    }


def coverage(kind, estimate, *, games=20, draws=20):
    """Return how many of the exact values lie within ±2 pooled errors."""
    contained = []
    for seed in range(games):
        function = draw_games(np.random.default_rng(seed))[kind]

        def game(keep, function=function):
            return np.asarray(function(keep.astype(float)), float)[:, None]

        exact = shapley_values_from_all_masks(game, D)[0]
        for number in range(draws):
            values = estimate(game, np.random.default_rng([seed, number]))
            errors = pooled_error(values, known_range=1.0)
            contained.append(np.abs(values - exact) <= 2 * errors + 1e-9)
    return np.mean(contained)


def estimate_by_pair(game, rng):
    return shapley_values_from_orders(game, D, rng, pairs=1).values[0]


def estimate_by_pair_and_part(game, rng):
    return shapley_values_from_orders(game, D, rng, pairs=1, spare_calls=D).values[0]


@pytest.mark.parametrize("estimate", [estimate_by_pair, estimate_by_pair_and_part])
@pytest.mark.parametrize("kind", draw_games(np.random.default_rng(0)))
def test_the_error_of_a_pair_of_orders_holds(kind, estimate):
    assert coverage(kind, estimate) >= 0.93


def test_the_error_of_a_single_order_would_not_hold():
    def estimate(game, rng):
        return shapley_values_from_single_order(game, D, rng)[0]

    assert coverage("maximum", estimate) < 0.93


@pytest.mark.parametrize("masks", [1, 2, 3])
def test_few_masks_have_the_banzhaf_value_as_their_expectation(masks):
    function = draw_games(np.random.default_rng(3))["network"]

    def game(keep):
        return function(keep.astype(float))[:, None]

    exact = banzhaf_values_from_all_masks(game, D)[0]
    rng = np.random.default_rng(0)
    draws = np.array(
        [banzhaf_values_from_neighbors(game, D, rng, masks=masks)[0] for _ in range(2000)]
    )
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - exact) < 5 * error).all()
    # The negative control: Shapley values are other numbers.
    other = shapley_values_from_all_masks(game, D)[0]
    assert (np.abs(draws.mean(axis=0) - other) > 5 * error).any()


def test_few_calls_for_many_words_find_the_strongest_ones():
    model = CountingModel(interaction=0.0)
    model.weights[:] = 0.0
    model.weights[[3, 20]] = 4.0, -3.0
    e = model.explain("banzhaf", 32)
    assert model.calls <= 32 < len(e.scores)
    assert [feature for feature, _ in e.top(2)] == [WORDS[3], WORDS[20]]
    np.testing.assert_allclose(e.scores[[3, 20]], [4.0, -3.0], atol=0.5)


def test_a_single_order_has_the_shapley_value_as_its_expectation():
    function = draw_games(np.random.default_rng(3))["network"]

    def game(keep):
        return function(keep.astype(float))[:, None]

    exact = shapley_values_from_all_masks(game, D)[0]
    rng = np.random.default_rng(0)
    draws = np.array([shapley_values_from_single_order(game, D, rng)[0] for _ in range(2000)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - exact) < 5 * error).all()
    total = game(np.ones((1, D), bool)) - game(np.zeros((1, D), bool))
    np.testing.assert_allclose(draws.sum(axis=1), total[0, 0], rtol=1e-9, atol=1e-9)
