"""A model that refuses a text without words can be explained: it has no base value."""

from math import factorial

import numpy as np
import pytest

import limelight
from limelight.errors import DomainError, InputError
from limelight.explainers import METHODS
from limelight.theory.enumeration import all_keeps

TEXT = "a superb film , but long"
NO_BASE = "The model refuses the text without its words, so there is no base value"


def refusing():
    """Our own classifier as a function: it refuses the empty text."""
    return limelight.wrap(limelight.load().predict_proba, classes=["negative", "positive"])


@pytest.mark.parametrize(
    "method", [name for name, row in METHODS.items() if row.ways[-1].needs is None]
)
def test_every_method_that_a_function_allows_explains_it(method):
    e = limelight.explain(refusing(), TEXT, method)
    assert np.isfinite(e.scores).all()
    assert np.abs(e.scores).max() > 0
    assert e.base_value is None
    (notice,) = [notice for notice in e.notices if NO_BASE in notice] or [None]
    assert notice is not None or method == "anchors"


def test_what_stands_in_is_said_only_where_it_stands_in():
    loo, shapley = (limelight.explain(refusing(), TEXT, name) for name in ("loo", "shapley"))
    assert f"{NO_BASE}." in loo.notices
    assert any(notice.endswith("each word alone stands in for it.") for notice in shapley.notices)


def test_shapley_values_are_those_of_the_game_with_the_stand_in():
    """Oracle: the definition over all subsets, with the mean of single words for the empty set."""
    model, d = refusing(), 6
    e = limelight.explain(model, TEXT, "shapley", target="positive")
    words = TEXT.split()

    def value(kept):
        p = limelight.load().predict_proba(
            [" ".join(w for w, k in zip(words, kept, strict=True) if k)]
        )
        return np.log(p[0, 1] / p[0, 0])

    keeps = all_keeps(d)
    values = {tuple(keep): value(keep) for keep in keeps if keep.any()}
    values[(False,) * d] = np.mean([values[tuple(row)] for row in np.eye(d, dtype=bool)])
    expected = np.zeros(d)
    for keep in keeps:
        for j in np.flatnonzero(~keep):
            size, other = int(keep.sum()), keep.copy()
            other[j] = True
            weight = factorial(size) * factorial(d - size - 1) / factorial(d)
            expected[j] += weight * (values[tuple(other)] - values[tuple(keep)])
    np.testing.assert_allclose(e.scores, expected, rtol=1e-6, atol=1e-7)


def test_a_model_that_does_not_refuse_has_its_base_value_and_no_notice():
    model = limelight.wrap(lambda texts: np.full((len(texts), 2), 0.5), classes=["a", "b"])
    e = limelight.explain(model, TEXT, "shapley")
    assert e.base_value == 0.0
    assert not any(NO_BASE in notice for notice in e.notices)


def test_protected_words_leave_nothing_empty():
    e = limelight.explain(refusing(), TEXT, "shapley", protect=["film"])
    assert e.base_value is not None
    assert not any(NO_BASE in notice for notice in e.notices)


def test_a_single_word_says_why_it_cannot_be_explained():
    with pytest.raises(DomainError, match="refuses a text without words, and this text has a sing"):
        limelight.explain(refusing(), "superb", "loo")


def test_an_error_about_other_texts_is_not_taken_for_a_refusal():
    def broken(texts):
        if any("superb" not in text for text in texts):
            raise RuntimeError("no superb, no answer")
        return np.full((len(texts), 2), 0.5)

    model = limelight.wrap(broken, classes=["a", "b"])
    with pytest.raises(InputError, match="RuntimeError: no superb, no answer"):
        limelight.explain(model, TEXT, "loo")


def test_json_and_pages_do_without_a_base_value():
    e = limelight.explain(refusing(), TEXT, "shapley")
    assert limelight.Explanation.from_json(e.to_json()) == e
    assert "With every word removed" not in e.as_html()
