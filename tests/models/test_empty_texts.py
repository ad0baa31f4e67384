"""A model that rejects a text without words can be explained, without a base value."""

from math import factorial

import numpy as np
import pytest

import limelight
from limelight.errors import DomainError, InputError
from limelight.explainers import METHODS
from limelight.theory.enumeration import enumerate_masks

TEXT = "a superb film , but long"
NO_BASE_VALUE = "The model rejects the text without words, so there is no base value"


def rejecting_model():
    """Return the shipped classifier as a function, which rejects the empty text."""
    return limelight.wrap(limelight.load().predict_proba, classes=["negative", "positive"])


@pytest.mark.parametrize(
    "method",
    [n for n, row in METHODS.items() if row.implementations[-1].needs is None],
)
def test_every_method_that_a_function_allows_explains_it(method):
    for text in (TEXT, "A great film: really good", 'it is "great" fun; truly'):
        e = limelight.explain(rejecting_model(), text, method)
        assert np.isfinite(e.scores).all()
        assert np.abs(e.scores).max() > 0
        assert e.base_value is None
        assert [warning for warning in e.warnings if warning.startswith(NO_BASE_VALUE)] != []


def test_a_replaced_base_value_has_a_warning():
    loo, shapley = (limelight.explain(rejecting_model(), TEXT, name) for name in ("loo", "shapley"))
    assert f"{NO_BASE_VALUE}." in loo.warnings
    assert any(
        warning.endswith("The mean output for single words replaces it.")
        for warning in shapley.warnings
    )


def test_shapley_values_are_those_of_the_game_with_the_stand_in():
    """Oracle: the definition over all subsets, with the mean of single words for the empty set."""
    model, d = rejecting_model(), 6
    e = limelight.explain(model, TEXT, "shapley", target="positive")
    words = TEXT.split()

    def value(kept):
        p = limelight.load().predict_proba(
            [" ".join(w for w, k in zip(words, kept, strict=True) if k)]
        )
        return np.log(p[0, 1] / p[0, 0])

    keeps = enumerate_masks(d)
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


def test_a_model_of_the_empty_text_has_its_base_value_and_no_warning():
    model = limelight.wrap(lambda texts: np.full((len(texts), 2), 0.5), classes=["a", "b"])
    e = limelight.explain(model, TEXT, "shapley")
    assert e.base_value == 0.0
    assert not any(NO_BASE_VALUE in warning for warning in e.warnings)


def test_protected_words_leave_nothing_empty():
    e = limelight.explain(rejecting_model(), TEXT, "shapley", protect=["film"])
    assert e.base_value is not None
    assert not any(NO_BASE_VALUE in warning for warning in e.warnings)


def test_a_single_word_raises_an_error():
    with pytest.raises(
        DomainError, match=r"rejects the text without words, .* Give a longer text\."
    ):
        limelight.explain(rejecting_model(), "superb", "loo")


def test_an_error_about_other_texts_is_no_rejection_of_the_empty_text():
    def broken(texts):
        if any("superb" not in text for text in texts):
            raise RuntimeError("no superb, no answer")
        return np.full((len(texts), 2), 0.5)

    model = limelight.wrap(broken, classes=["a", "b"])
    with pytest.raises(InputError, match="RuntimeError: no superb, no answer"):
        limelight.explain(model, TEXT, "loo")


def test_json_and_pages_do_without_a_base_value():
    e = limelight.explain(rejecting_model(), TEXT, "shapley")
    assert limelight.Explanation.from_json(e.to_json()) == e
    assert "With every word removed" not in e.as_html()


def test_the_base_value_is_that_of_the_replacement_that_was_used():
    model = limelight.wrap(
        limelight.load().predict_proba, classes=["negative", "positive"], mask="the"
    )
    masked = limelight.explain(model, TEXT, "loo")
    deleted = limelight.explain(model, TEXT, "loo", replacement="delete")
    assert masked.base_value is not None
    assert deleted.base_value is None
    assert [NO_BASE_VALUE in "".join(e.warnings) for e in (masked, deleted)] == [False, True]


def test_a_model_that_rejects_the_empty_text_is_not_called_twice():
    request = []

    def count_call(texts):
        request.extend(texts)
        return limelight.load().predict_proba(texts)

    model = limelight.wrap(count_call, classes=["negative", "positive"])
    limelight.explain(model, "one two three four five six seven", "lime")
    # The text, all masks but the empty one, and the empty text twice, once beside the whole.
    assert len(request) == 1 + (2**7 - 1) + 3


@pytest.mark.parametrize("fault", [ConnectionError("timeout"), MemoryError("out of memory")])
def test_an_error_of_the_machine_is_no_rejection(fault):
    def flaky(texts):
        if "" in texts:
            raise fault
        return np.full((len(texts), 2), 0.5)

    model = limelight.wrap(flaky, classes=["a", "b"])
    with pytest.raises((InputError, MemoryError), match=str(fault)):
        limelight.explain(model, TEXT, "shapley")


def test_a_temporary_rejection_does_not_count():
    messages = []

    def once(texts):
        if "" in texts and not messages:
            messages.append("no")
            raise ValueError("not yet")
        return np.full((len(texts), 2), 0.5)

    e = limelight.explain(limelight.wrap(once, classes=["a", "b"]), TEXT, "shapley")
    assert e.base_value == 0.0


def test_methods_that_need_no_base_value_have_no_warning():
    comparison = limelight.compare(rejecting_model(), TEXT, methods=["shapley", "loo"])
    assert f"{NO_BASE_VALUE}." in comparison["loo"].warnings
    assert f"{NO_BASE_VALUE}." not in comparison["shapley"].warnings


def test_no_masks_have_no_answers():
    for model in (rejecting_model(), limelight.load()):
        game = limelight.game(model, TEXT)
        assert game(np.zeros((0, len(game)), bool)).shape == (0, game(np.ones((1, len(game)))
            .astype(bool)).shape[1])  # fmt: skip
