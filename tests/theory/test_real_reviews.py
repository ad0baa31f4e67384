"""The two roads to LIME on real reviews."""

from dataclasses import replace

import numpy as np
import pytest

from limelight.explainers import read
from limelight.theory.lime import lime
from limelight.theory.lime_recurrence import lime_by_recurrence
from limelight.theory.per_document import of_documents, sizes_of
from limelight.theory.ratio_game import denominator_range

REVIEWS, BATCH = 200, 25


@pytest.fixture(scope="module")
def games(shared, shipped):
    """The games of 200 reviews spread over the IMDB test set, shortest first, in padded batches."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(shared / "data" / "imdb" / "test.parquet", columns=["text"])
    texts = table["text"].to_pylist()[:: table.num_rows // REVIEWS][:REVIEWS]
    texts.sort(key=len)
    return [read(shipped, texts[i : i + BATCH]).ratio_game for i in range(0, REVIEWS, BATCH)]


def assert_agree(batch):
    fast = lime(batch)
    scores, bound, intercept, intercept_bound = lime_by_recurrence(batch, tolerance=1e-7)
    off = np.abs(fast.scores - scores).max(axis=-1)
    assert (off <= fast.bound + bound).all()
    assert (np.abs(fast.intercept - intercept) <= fast.intercept_bound + intercept_bound).all()
    assert (off.max(axis=-1) < 1e-5 * np.abs(scores).max(axis=(-2, -1))).all()


@pytest.mark.slow
def test_the_two_routes_agree_on_two_hundred_real_reviews(games):
    sizes = [d for batch in games for d in sizes_of(batch)]
    assert len(sizes) == REVIEWS
    assert max(sizes) > 150
    for batch in games:
        assert_agree(batch)


@pytest.mark.slow
def test_they_agree_where_attention_is_far_more_uneven_than_the_shipped_models(games):
    few = of_documents(games[4], [0, 7, 19])
    # the eighth power of every word's weight, values as they were, and little beside the words
    sharp = {"D0": 1e-4 * few.D0, "N0": 1e-4 * few.N0, "a": few.a**8, "b": few.b**8}
    sharp |= {"A": few.A * few.a[:, None] ** 7, "B": few.B * few.b[:, None] ** 7}
    uneven = replace(few, **sharp)
    low, high = denominator_range(uneven)
    assert (high / low).max() > 1e4
    assert_agree(uneven)


@pytest.mark.slow
def test_another_bandwidth_would_be_noticed(games):
    few = of_documents(games[0], [0, 7])
    fast = lime(few, bandwidth=0.25)
    scores, bound, _, _ = lime_by_recurrence(few, bandwidth=0.251)
    assert (np.abs(fast.scores - scores).max(axis=-1) > fast.bound + bound).all()
