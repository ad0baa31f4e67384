import pytest

from limelight.pages.wording import outcomes, percent

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


@pytest.mark.parametrize(("logit", "chosen"), [(1e-9, "positive"), (0.0, "negative")])
def test_one_logit_chooses_the_second_class_only_above_zero(logit, chosen):
    said = outcomes(explanation(prediction={"positive": logit}))
    assert [outcome.name for outcome in said if outcome.chosen] == [chosen]
