"""Real reviews: the two roads to LIME, and how near the formulas come that have a bound."""

from dataclasses import replace

import numpy as np
import pytest

from limelight.explainers import prepare_batch
from limelight.theory.lime import lime
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.ratio_game import denominator_range, select_documents, word_counts
from limelight.theory.shapley import shapley
from limelight_reproduction.theory.lime_first_order import lime_first_order
from limelight_reproduction.theory.mean_field import lime_mean_field, shapley_mean_field
from limelight_reproduction.theory.paper import lime_theorem
from limelight_reproduction.theory.second_order import (
    distance_bound,
    lime_distance_bound,
    lime_second_order,
    shapley_second_order,
)

REVIEWS, BATCH = 40, 10


@pytest.fixture(scope="module")
def games(shared, shipped):
    """The games of 40 reviews spread over the IMDB test set, shortest first, in padded batches."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(shared / "data" / "imdb" / "test.parquet", columns=["text"])
    texts = table["text"].to_pylist()[:: table.num_rows // REVIEWS][:REVIEWS]
    texts.sort(key=len)
    return [
        prepare_batch(shipped, texts[i : i + BATCH]).ratio_game for i in range(0, REVIEWS, BATCH)
    ]


def assert_agree(batch):
    fast = lime(batch)
    scores, bound, intercept, intercept_bound = lime_by_recurrence(batch, tolerance=1e-7)
    off = np.abs(fast.scores - scores).max(axis=-1)
    assert (off <= fast.bound + bound).all()
    assert (np.abs(fast.intercept - intercept) <= fast.intercept_bound + intercept_bound).all()
    assert (off.max(axis=-1) < 1e-5 * np.abs(scores).max(axis=(-2, -1))).all()


@pytest.mark.slow
def test_the_two_routes_agree_on_forty_real_reviews(games):
    sizes = [d for batch in games for d in word_counts(batch)]
    assert len(sizes) == REVIEWS
    assert max(sizes) > 150
    for batch in games:
        assert_agree(batch)


@pytest.mark.slow
def test_they_agree_where_attention_is_far_more_uneven_than_the_shipped_models(games):
    subset = select_documents(games[2], [0, 3, 8])
    # the eighth power of every word's weight, values as they were, and little beside the words
    sharp = {"D0": 1e-4 * subset.D0, "N0": 1e-4 * subset.N0, "a": subset.a**8, "b": subset.b**8}
    sharp |= {"A": subset.A * subset.a[:, None] ** 7, "B": subset.B * subset.b[:, None] ** 7}
    uneven = replace(subset, **sharp)
    low, high = denominator_range(uneven)
    assert (high / low).max() > 1e4
    assert_agree(uneven)


@pytest.mark.slow
def test_another_bandwidth_would_be_noticed(games):
    subset = select_documents(games[0], [0, 7])
    fast = lime(subset, bandwidth=0.25)
    scores, bound, _, _ = lime_by_recurrence(subset, bandwidth=0.251)
    assert (np.abs(fast.scores - scores).max(axis=-1) > fast.bound + bound).all()


def test_no_formula_passes_its_bound(shared, shipped):
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = parquet.read_table(shared / "data" / "imdb" / "test.parquet")["text"].to_pylist()
    subset = np.random.default_rng(0).choice(len(texts), 40, replace=False)
    game = prepare_batch(shipped, [texts[i] for i in subset]).ratio_game
    limit, values = lime(game, tolerance=1e-6).scores, shapley(game, tolerance=1e-6).scores
    second, of_values = lime_second_order(game), shapley_second_order(game)
    formulas = {
        "LIME, Eq. 19": lime_theorem,
        "LIME, first order": lime_first_order,
        "LIME, mean field": lime_mean_field,
    }
    fields = shapley_mean_field(game)
    result = {
        name: (scores := formula(game), limit, lime_distance_bound(scores, game))
        for name, formula in formulas.items()
    } | {
        "LIME, second order": (second.scores, limit, second.bound),
        "Shapley, mean field": (fields, values, distance_bound(fields, of_values)),
        "Shapley, second order": (of_values.scores, values, of_values.bound),
    }
    for name, (scores, exact, bound) in result.items():
        assert (np.abs(scores - exact).max(axis=-1) <= bound + 1e-5).all(), name
