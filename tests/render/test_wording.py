import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.render.wording import bound_in_words, outcomes, percent, precision_sentence

from render_samples import explanation


@pytest.mark.parametrize(
    ("probability", "said"),
    [
        (1.0, "100.0%"),
        (0.9991, ">99.9%"),
        (0.999, "99.9%"),
        (0.5, "50.0%"),
        (0.001, "0.1%"),
        (0.0009, "<0.1%"),
        (0.0, "0.0%"),
    ],
)
def test_a_percentage_never_rounds_to_certainty(probability, said):
    assert percent(probability) == said


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_bound_that_is_told_holds_and_is_not_much_wider(bound):
    told = float(bound_in_words(bound))
    assert bound <= told <= bound * 1.11


def test_a_bound_is_rounded_up_in_the_sentence_that_calls_it_proven():
    assert "within 1.3e-06 of" in precision_sentence(explanation("good bad", bound=1.24e-6))


@pytest.mark.parametrize(("logit", "chosen"), [(1e-9, "positive"), (0.0, "negative")])
def test_one_logit_chooses_the_second_class_only_above_zero(logit, chosen):
    said = outcomes(explanation(prediction={"positive": logit}))
    assert [outcome.name for outcome in said if outcome.chosen] == [chosen]
