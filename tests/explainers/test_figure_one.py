"""Figure 1 of the paper, on the shipped model: which of its statements hold for our weights."""

import numpy as np
import pytest

import limelight

SENTENCE = "attention based explanations are popular but questionable"


@pytest.fixture(scope="module")
def figure(shipped):
    return limelight.compare(shipped, SENTENCE)


def score(e, word):
    return e.scores[e.features.index(word)]


def test_attention_and_norms_of_gradients_never_go_below_zero(figure):
    for method in ("alpha-avg", "alpha-max", "g-l1", "g-l2"):
        assert (figure[method].scores >= 0).all()


def test_lime_and_gradient_times_input_see_a_negative_contribution_of_questionable(figure):
    for method in ("lime", "gxi", "shapley"):
        assert score(figure[method], "questionable") < 0


def test_all_methods_but_one_find_questionable_highly_significant(figure):
    """The paper says all; with our weights G-avg, the mean over arbitrary axes, does not."""
    for e in figure:
        rank = np.argsort(-np.abs(e.scores)).tolist().index(e.features.index("questionable"))
        assert (rank < 2) == (e.method != "g-avg")


def test_attention_does_not_put_popular_first_here(figure):
    """In the paper α-avg and α-max find "popular" most important; with our weights they do not."""
    for method in ("alpha-avg", "alpha-max"):
        assert figure[method].top(1)[0][0] != "popular"


def test_methods_with_a_sign_disagree_about_it(figure):
    signs = {e.method: np.sign(e.scores) for e in figure if e.signed}
    assert (signs["g-avg"] != signs["lime"]).any()
    assert (signs["shapley"] == signs["lime"]).all()
