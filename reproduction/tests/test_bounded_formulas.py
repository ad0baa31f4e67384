"""Formulas for LIME and Shapley values that say how near they are: first order and mean field."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight import DomainError
from limelight.pages.wording import precision_sentence, rounded_up

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
TEXT = "w1 w5. never w5 w8! w9"


@pytest.mark.parametrize("method", ["lime-first-order", "lime-theorem"])
def test_the_first_order_says_how_near_lime_is(method):
    e = limelight.explain(MODEL, TEXT, method, bandwidth=1.0, target=0)
    exact = limelight.explain(MODEL, TEXT, "lime", bandwidth=1.0, target=0)
    assert np.abs(e.scores - exact.scores).max() <= e.bound
    assert e.notices[-1].endswith("to the limit of LIME at bandwidth 1 and penalty 0.")
    assert f"within {rounded_up(e.bound)} of" in precision_sentence(e)
    shrunk = limelight.explain(MODEL, TEXT, method, penalty=0.1, target=0)
    exact = limelight.explain(MODEL, TEXT, "lime", penalty=0.1, target=0)
    assert np.abs(shrunk.scores - exact.scores).max() <= shrunk.bound
    assert "of LIME at bandwidth 0.25 and penalty 0.1." in shrunk.notices[-1]
    with pytest.raises(DomainError, match="at least 2 words"):
        limelight.explain(MODEL, [TEXT, "w1"], method, target=0)


@pytest.mark.parametrize(
    ("method", "of", "settings", "said"),
    [
        ("lime-mean-field", "lime", {"bandwidth": 1.0}, "to the limit of LIME at bandwidth 1."),
        ("shapley-mean-field", "shapley", {}, "to the Shapley value."),
    ],
)
def test_the_mean_field_says_how_near_it_is(method, of, settings, said):
    e = limelight.explain(MODEL, TEXT, method, target=0, **settings)
    exact = limelight.explain(MODEL, TEXT, of, target=0, **settings)
    assert 1e-9 < np.abs(e.scores - exact.scores).max() <= e.bound < 1
    assert said in e.notices[-1]


@given(st.floats(1e-12, 1e6))
def test_a_bound_in_words_is_no_less_than_it_is(bound):
    assert bound <= float(rounded_up(bound)) <= 1.1 * bound
